//! Links through memory: cells as messages in a window that several nodes share.
//!
//! No descriptor reports arrivals, so the worker polls such a link: it calls [`MemLink::service`] first in each turn,
//! then [`Link::receive`] and [`Link::send`] as on any other link. The rings are those of `tabane-shm-ring`, the layout
//! that of `docs/shm-ring.md`; here are the memory, the seat in it, and its address.
//!
//! **Slots as addresses.** The core knows where a peer is by a socket address, which it compares and hands back, and
//! nothing else. So a slot is written as `[100::7461:6261:0:SLOT]:PORT`: a second kind of endpoint in the core, in its
//! tests and in hellos would cost more than a number of 16 bits is worth. The range is that of RFC 6666, whose packets
//! every router throws away, so that no peer on a network has such an address. What goes to a multicast address goes to
//! everyone.

mod mapping;

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::rand::GetRandomFlags;
use tabane_shm_ring::{Faults, Seat, Shape, ShapeError, Unsent};
use thiserror::Error;

use crate::link::{Failure, Link, Polled, ReceiveBuffer, Sent};
use crate::now_ns;
use mapping::Mapping;

/// The window that is wanted, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemSpec {
    /// The file to map, which is created if it is missing, or a device.
    pub path: PathBuf,
    /// How the memory is divided; all nodes say the same.
    pub shape: Shape,
    /// The channel: worker *i* has channel *i*.
    pub channel: u16,
    /// The node's slot; `None`: the first that no process of this machine has.
    pub slot: Option<u16>,
    /// The port of the slots' addresses.
    pub port: u16,
    /// How often the worker is to poll while there is traffic.
    pub poll: Duration,
}

/// Why there is no link. Each reads as one sentence for the user.
#[derive(Debug, Error)]
pub enum MemError {
    #[error("window {path}: {source}", path = path.display())]
    Shape { path: PathBuf, source: ShapeError },
    #[error(
        "window {path} is divided otherwise: units of {} B, rings of {} B, {} slots, {} workers; \
         say the same, or remove it when nobody uses it",
        there.unit(), there.ring(), there.slots(), there.channels(), path = path.display()
    )]
    Other { path: PathBuf, there: Shape },
    #[error("window {path}: {which} taken by another process", path = path.display())]
    Taken { path: PathBuf, which: String },
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A seat in a window of memory.
#[derive(Debug)]
pub struct MemLink {
    file: OwnedFd,
    memory: Mapping,
    spec: MemSpec,
    slot: u16,
    /// The seat, which the first [`Self::service`] takes: until then the process that hands it over may have it.
    seat: Option<Seat<Mapping>>,
    reported: u64,
}

impl MemLink {
    /// Opens the memory, and reserves the slot. Nothing is written there but a missing header until the first
    /// [`Self::service`].
    pub fn open(spec: &MemSpec) -> Result<Self, MemError> {
        let failed = |step| Failure::new(describe(spec), step);
        let file = mapping::open(&spec.path).map_err(failed("opening it"))?;
        mapping::make_room(&file, spec.shape.bytes()).map_err(failed("making room"))?;
        let slot = reserve(&file, spec)?;
        Self::over(file, slot, spec)
    }

    /// The link over a file that another process has opened, whose slot it hands over.
    /// Errors: [`MemError`]; no slot was reserved through this file.
    pub fn adopt(file: OwnedFd, spec: &MemSpec) -> Result<Self, MemError> {
        // A lock of the same open file does not conflict with itself.
        let slot = reserve(&file, spec)?;
        Self::over(file, slot, spec)
    }

    fn over(file: OwnedFd, slot: u16, spec: &MemSpec) -> Result<Self, MemError> {
        let path = || spec.path.clone();
        let memory = Mapping::new(&file, spec.shape.bytes());
        let memory = memory.map_err(Failure::new(describe(spec), "mapping it"))?;
        let there = memory.header_or(spec.shape);
        let there = there.map_err(|source| MemError::Shape { path: path(), source })?;
        if there != spec.shape {
            return Err(MemError::Other { path: path(), there });
        }
        Ok(Self { file, memory, spec: spec.clone(), slot, seat: None, reported: 0 })
    }

    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Bytes of a unit.
    pub fn unit(&self) -> u32 {
        u32::try_from(self.spec.shape.unit()).unwrap_or(u32::MAX)
    }

    /// Takes the seat at first, and sends heartbeats. `now` is read from a clock that only goes forward. To be called
    /// before anything else in each turn. Gives the impossible values that others have written, each time that their
    /// number has doubled.
    pub fn service(&mut self, now: Duration) -> Option<Faults> {
        let Self { memory, spec, slot, seat, reported, .. } = self;
        let take = || Seat::take(memory.clone(), spec.shape, spec.channel, *slot, epoch());
        let seat = seat.get_or_insert_with(take);
        let faults = seat.service(now).then(|| seat.faults()).filter(|faults| faults.total() > 2 * *reported);
        faults.inspect(|faults| *reported = faults.total())
    }

    /// Whether another node is there.
    pub fn has_carrier(&self) -> bool {
        self.seat.as_ref().is_some_and(Seat::has_company)
    }

    /// Whether there may be something to receive.
    pub fn has_news(&self) -> bool {
        self.seat.as_ref().is_some_and(Seat::has_news)
    }

    /// Whether a run that found no room should be tried again.
    pub fn has_room_again(&mut self) -> bool {
        self.seat.as_mut().is_none_or(Seat::has_room_again)
    }

    /// Leaves the seat to another process, and writes nothing more.
    pub fn hand_over(&mut self) {
        self.seat = None;
    }

    fn send_to(&mut self, to: u16, slices: &[IoSlice<'_>], segment: usize) -> Sent {
        let Some(seat) = &mut self.seat else { return Sent::Full };
        match seat.send(to, slices, segment) {
            Ok(()) => Sent::Done,
            Err(Unsent::Full) => Sent::Full,
            Err(Unsent::Absent) => Sent::Lost(io::ErrorKind::HostUnreachable.into()),
            Err(Unsent::Misshapen) => Sent::Refused(io::Error::from_raw_os_error(libc::EMSGSIZE)),
        }
    }
}

impl Link for MemLink {
    fn send(&mut self, to: &SocketAddr, slices: &[IoSlice<'_>], segment: usize) -> Sent {
        if to.ip().is_multicast() {
            for slot in 0..self.spec.shape.slots() {
                // A node without room, or not there yet, gets the next greeting; a node does not send to itself.
                let _ = self.send_to(slot, slices, segment);
            }
            return Sent::Done;
        }
        match slot_of(to) {
            Some(slot) => self.send_to(slot, slices, segment),
            None => Sent::Refused(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    fn receive(&mut self, buffers: &mut [ReceiveBuffer<'_>]) -> io::Result<usize> {
        let Some(seat) = &mut self.seat else { return Ok(0) };
        for (filled, buffer) in buffers.iter_mut().enumerate() {
            let Some((message, from)) = seat.receive(buffer.bytes) else { return Ok(filled) };
            (buffer.len, buffer.segment) = (message.length, message.segment);
            buffer.from = address_of(from, self.spec.port);
        }
        Ok(buffers.len())
    }

    fn queued_bytes(&mut self) -> usize {
        self.seat.as_mut().map_or(0, Seat::waiting)
    }

    /// The bytes that wait in each window.
    fn set_send_buffer(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(seat) = &mut self.seat {
            seat.set_limit(bytes);
        }
        Ok(())
    }

    /// That of this node's slot.
    fn local_addr(&self) -> SocketAddr {
        address_of(self.slot, self.spec.port)
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn signals_room(&self) -> bool {
        false
    }

    fn poll_interval(&self) -> Option<Duration> {
        Some(self.spec.poll)
    }

    fn poll(&mut self, now: Duration, room: bool) -> Polled {
        let faults = self.service(now);
        let writable = room && self.has_room_again();
        Polled { readable: self.has_news(), writable, carrier: Some(self.has_carrier()), faults }
    }
}

impl AsFd for MemLink {
    /// The file: for handing over, not for waiting.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for MemLink {
    fn drop(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.leave();
        }
    }
}

fn describe(spec: &MemSpec) -> String {
    format!("window {}", spec.path.display())
}

/// Locks the slot's byte of the file, and returns the slot. The lock belongs to the open file: it ends with the
/// process, and is handed over with the file.
fn reserve(file: &OwnedFd, spec: &MemSpec) -> Result<u16, MemError> {
    let slots = spec.slot.map_or(0..spec.shape.slots(), |slot| slot..slot + 1);
    for slot in slots {
        let byte = u64::from(spec.channel) * u64::from(spec.shape.slots()) + u64::from(slot);
        match mapping::lock(file, byte) {
            Ok(true) => return Ok(slot),
            Ok(false) => {}
            Err(error) => return Err(Failure::new(describe(spec), "locking a slot")(error).into()),
        }
    }
    let which = spec.slot.map_or("all slots are".to_owned(), |slot| format!("slot {slot} is"));
    Err(MemError::Taken { path: spec.path.clone(), which })
}

/// A number for an incarnation of the seat, not 0: random, else the time.
fn epoch() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(4) => u32::from_le_bytes(bytes).max(1),
        _ => u32::try_from(now_ns() >> 20 & u64::from(u32::MAX)).map_or(1, |time| time.max(1)),
    }
}

/// "taba" in the lower half, below the range's prefix.
const PREFIX: [u16; 7] = [0x100, 0, 0, 0, 0x7461, 0x6261, 0];

fn address_of(slot: u16, port: u16) -> SocketAddr {
    let [a, b, c, d, e, f, g] = PREFIX;
    SocketAddr::new(Ipv6Addr::new(a, b, c, d, e, f, g, slot).into(), port)
}

/// The slot of this address; `None`: it is no slot's.
fn slot_of(address: &SocketAddr) -> Option<u16> {
    let IpAddr::V6(ip) = address.ip() else { return None };
    let [prefix @ .., slot] = ip.segments();
    (prefix == PREFIX).then_some(slot)
}

#[cfg(test)]
mod tests;
