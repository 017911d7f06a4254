//! A device in a memory slot between two hosts, as slow to write and to read as P3's, whose hardware had a bug.
//!
//! Each host has a window of its own; in that window's other slot sits the device, which passes on what it finds there.
//! A host's processor writes and reads such a device unit by unit and does nothing else meanwhile, so a message takes
//! the time of its writing at one host and of its reading at the other, and each host does one thing at a time. That
//! time passes here, in a thread: the hosts' own processors are free, as those of P3's were not.
//!
//! ```text
//!   host 0 ── window 0 ── device: write, then read ── window 1 ── host 1        and the same back
//!    slot 0      slot 1                       slot 0     slot 1
//! ```
//!
//! What costs are a unit's figures in `crate::device::exchange`, so that this and the simulation are the same device.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nix::sys::prctl::set_timerslack;
use tabane_io::{Link, MemLink, MemSpec, ReceiveBuffer, Sent};
use tabane_shm_ring::{MESSAGE_MAX, Shape};

use crate::device::SlotSettings;
use crate::prelude::*;

/// Bytes of a ring: what daemons take unless told otherwise.
pub const RING: usize = 2 << 20;
/// Slots of each window: a host's and the device's.
const SLOTS: u16 = 2;
/// The port that the addresses of slots have; daemons have the same.
const PORT: u16 = 7420;
/// How often the windows are looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_micros(20);
/// Most messages under way in each direction: more wait in the window, where their sender sees them.
const UNDER_WAY_MAX: usize = 2;

/// Puts a device with these figures between the windows of two hosts, which it makes; the first has slot 0 of its own, the second
/// slot 1. It leaves both when its value is dropped.
pub fn between(windows: [&Path; 2], settings: SlotSettings) -> Result<Running<()>> {
    let [first, second] = windows;
    // In each window the device has the slot of the other host.
    let hosts = [Host::new(first, 1, settings.unit)?, Host::new(second, 0, settings.unit)?];
    let mut device = Device { settings, hosts, began: Instant::now() };
    Running::start(None, "slot device", move |ended| {
        set_timerslack(1)?;
        while !ended.load(Ordering::Relaxed) {
            device.turn();
            thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(())
    })
}

/// The device: a thread's.
struct Device {
    settings: SlotSettings,
    hosts: [Host; 2],
    began: Instant,
}

/// A host, as the device sees it.
struct Host {
    /// The device's seat in this host's window.
    seat: MemLink,
    /// Where the host is in it, once something has come from there.
    address: Option<SocketAddr>,
    /// Until when its processor is busy with the device.
    busy_until: Instant,
    /// What is under way to it.
    coming: VecDeque<Message>,
    /// Room for a message.
    room: Vec<u8>,
}

/// Cells that the sender has written.
struct Message {
    bytes: Vec<u8>,
    segment: usize,
    /// When the receiver has read them.
    due: Instant,
}

impl Host {
    fn new(window: &Path, slot: u16, unit: usize) -> Result<Host> {
        let spec = MemSpec {
            path: window.to_path_buf(),
            shape: Shape::new(unit, RING, SLOTS, 1)?,
            channel: 0,
            slot: Some(slot),
            port: PORT,
            poll: LOOK_AGAIN_AFTER,
        };
        let seat = MemLink::open(&spec)?;
        let room = vec![0; MESSAGE_MAX];
        Ok(Host { seat, address: None, busy_until: Instant::now(), coming: VecDeque::new(), room })
    }

    /// The next message that the host has written, and the length of its cells.
    fn next(&mut self) -> Option<(Vec<u8>, usize)> {
        let mut buffers = [ReceiveBuffer::new(&mut self.room)];
        let count = self.seat.receive(&mut buffers).ok()?;
        let [ReceiveBuffer { bytes, len, segment, from }] = buffers;
        if count == 0 || len == 0 {
            return None;
        }
        self.address = Some(from);
        Some((bytes[..len].to_vec(), segment))
    }

    /// Hands over what has been read by now.
    fn take(&mut self, now: Instant) {
        let Some(address) = self.address else { return };
        while let Some(message) = self.coming.front().filter(|message| message.due <= now) {
            if let Sent::Full = self.seat.send(&address, &[IoSlice::new(&message.bytes)], message.segment) {
                return;
            }
            self.coming.pop_front();
        }
    }
}

impl Device {
    fn turn(&mut self) {
        let now = Instant::now();
        for host in &mut self.hosts {
            // A daemon that writes nonsense shows in what is measured.
            let _ = host.seat.service(now - self.began);
        }
        for from in [0, 1] {
            self.hosts[1 - from].take(now);
            while self.hosts[1 - from].coming.len() < UNDER_WAY_MAX {
                let Some((bytes, segment)) = self.hosts[from].next() else { break };
                let due = self.pass(from, now, bytes.len());
                self.hosts[1 - from].coming.push_back(Message { bytes, segment, due });
            }
        }
    }

    /// Host `from` writes so many bytes and the other reads them, each when it has time; until when.
    fn pass(&mut self, from: usize, now: Instant, bytes: usize) -> Instant {
        let units = u32::try_from(self.settings.units(bytes)).unwrap_or(u32::MAX);
        let began = self.hosts[from].busy_until.max(now);
        let written = began + self.settings.writing() * units;
        self.hosts[from].busy_until = written;
        // The first unit can be read while the others are being written.
        let reader = &mut self.hosts[1 - from];
        let read = reader.busy_until.max(began + self.settings.writing()) + self.settings.reading() * units;
        reader.busy_until = read.max(written);
        reader.busy_until
    }
}

#[cfg(test)]
mod tests {
    use crate::device::exchange::WITH_BUG;

    use super::*;
    use tabane_kit::bundle::Window;
    use tabane_kit::clock::wait_for;

    /// A host's own seat.
    fn seat(window: &Window, slot: u16) -> MemLink {
        let shape = Shape::new(WITH_BUG.slot.unit, RING, SLOTS, 1).unwrap();
        let path = window.path().to_path_buf();
        let poll = LOOK_AGAIN_AFTER;
        MemLink::open(&MemSpec { path, shape, channel: 0, slot: Some(slot), port: PORT, poll }).unwrap()
    }

    fn received(link: &mut MemLink) -> Option<(Vec<u8>, SocketAddr)> {
        let mut bytes = vec![0; MESSAGE_MAX];
        let mut buffers = [ReceiveBuffer::new(&mut bytes)];
        let came = link.receive(&mut buffers).unwrap();
        let [ReceiveBuffer { len, from, .. }] = buffers;
        (came == 1).then(|| (bytes[..len].to_vec(), from))
    }

    #[test]
    fn what_one_host_writes_the_other_reads_no_sooner_than_the_device_allows() {
        let windows = [Window::new().unwrap(), Window::new().unwrap()];
        let _device = between(windows.each_ref().map(Window::path), WITH_BUG.slot).unwrap();
        let mut hosts = [seat(&windows[0], 0), seat(&windows[1], 1)];
        let (began, within) = (Instant::now(), Duration::from_secs(10));
        let everyone = "[ff12::1]:7420".parse().unwrap();
        // Until something has come from a host, the device knows of nobody there.
        let mut greeted = [false; 2];
        wait_for("greetings both ways", within, || {
            for (host, greeted) in hosts.iter_mut().zip(&mut greeted) {
                let _ = host.service(began.elapsed());
                let _ = host.send(&everyone, &[IoSlice::new(b"here")], 4);
                *greeted |= received(host).is_some();
            }
            Ok(greeted.iter().all(|greeted| *greeted).then_some(()))
        })
        .unwrap();
        let bytes = vec![7; 64_000];
        let sent_at = Instant::now();
        let [one, other] = &mut hosts;
        let sent = one.send(&other.local_addr(), &[IoSlice::new(&bytes)], 1_000);
        assert!(matches!(sent, Sent::Done), "{sent:?}");
        let from = wait_for("the message", within, || {
            let _ = other.service(began.elapsed());
            Ok(received(other).filter(|(came, _)| *came == bytes).map(|(_, from)| from))
        });
        let least = WITH_BUG.slot.reading() * 125;
        assert!(sent_at.elapsed() >= least, "{:?} instead of {least:?}", sent_at.elapsed());
        assert_eq!(from.unwrap(), one.local_addr(), "the other host is known by its own slot");
    }
}
