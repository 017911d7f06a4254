//! A socket with its frames and rings at queue 0 of a NIC, in the best way that the driver has.
//!
//! Zero-copy is requested first, and by its flag: left to the kernel, a socket whose
//! packets may lie in several frames falls back to copying where the driver supports one frame only, without a sign.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use std::{io, thread};

use memmap2::{MmapOptions, MmapRaw};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags as Flags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::program::Place;
use super::rings::{CompletionRing, FillRing, ReceiveRing, Ring, TransmitRing};
use super::{ETHERNET, FRAMES, RECEIVE_FRAMES, SEND_FRAMES};

/// Places in the fill ring. The kernel shows a packet before it shows that its frame's place is free (`xsk_flush`), so
/// a ring of no more places than frames can be full when a frame is given back.
const FILL_ENTRIES: u32 = 2 * RECEIVE_FRAMES;
/// Bytes of a frame, and of the larger kind for NICs with longer packets.
const FRAME: usize = 2048;
const FRAME_LARGE: usize = 4096;
/// Bytes before a packet in the kernel's frames (`XDP_PACKET_HEADROOM`), and a VLAN tag.
const BEFORE: usize = 256;
const VLAN: usize = 4;
/// NICs may count the room of a frame in units of this many bytes and drop packets that need the rest, as an emulated
/// igb seems to.
const ROOM_UNIT: usize = 1024;

/// How long a queue may stay busy after another socket was closed.
const BUSY_FOR: Duration = Duration::from_millis(500);

/// What failed, and how.
type Failure = (&'static str, io::Error);

pub(super) struct Bound {
    pub(super) socket: OwnedFd,
    pub(super) fill: FillRing,
    pub(super) completion: CompletionRing,
    pub(super) receive: ReceiveRing,
    pub(super) transmit: TransmitRing,
    pub(super) umem: Umem,
    /// Whether packets may lie in several frames.
    pub(super) long: bool,
    pub(super) zero_copy: bool,
}

impl Bound {
    /// Binds a socket to the NIC at whose `place` the program is.
    pub(super) fn best(nic: u32, mtu: usize, place: Place) -> Result<Self, Failure> {
        let packet = ETHERNET + VLAN + mtu;
        let flags = Flags::XDP_USE_NEED_WAKEUP;
        let zero_copy = || Self::new(nic, packet, ROOM_UNIT, flags | Flags::XDP_ZEROCOPY);
        match place {
            Place::Driver => zero_copy().or_else(|_| Self::new(nic, packet, 1, flags)),
            Place::Generic => Self::new(nic, packet, 1, flags | Flags::XDP_COPY),
        }
    }

    /// Binds a socket whose frames have room for a whole packet if frames can, counted in units of `room_unit` bytes;
    /// packets may lie in several, unless the driver (or Linux before 6.6) does without and none needs to.
    fn new(nic: u32, packet: usize, room_unit: usize, flags: Flags) -> Result<Self, Failure> {
        let failed = |step| move |source: io::Error| (step, source);
        let socket_flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, socket_flags, None);
        let socket = socket.map_err(io::Error::from).map_err(failed("opening a socket"))?;
        let is_whole = |frame: usize| packet <= (frame - BEFORE) / room_unit * room_unit;
        let frame = if is_whole(FRAME) { FRAME } else { FRAME_LARGE };
        let umem = Umem::new(FRAMES, frame);
        let umem = umem.map_err(failed("making room for frames"))?;
        let (fill, completion, receive, transmit) = rings(&socket, &umem).map_err(failed("making rings"))?;
        let bind_with = |flags| bind_in_time(&socket, &SocketAddrXdp::new(flags, nic, 0));
        let long = match bind_with(flags | Flags::XDP_USE_SG) {
            Ok(()) => Ok(true),
            Err(_) if is_whole(frame) => bind_with(flags).map(|()| false),
            Err(error) => Err(error),
        };
        let long = long.map_err(io::Error::from).map_err(failed("binding a socket"))?;
        let options = sockopt::xdp_options(&socket);
        let zero_copy = options.is_ok_and(|is| is.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY));
        Ok(Self { socket, fill, completion, receive, transmit, umem, long, zero_copy })
    }
}

/// Binds a socket. The kernel gives the queue of a socket that was closed back some time later, as of a daemon that was
/// killed and is started again at once.
fn bind_in_time(socket: &OwnedFd, address: &SocketAddrXdp) -> rustix::io::Result<()> {
    let until = Instant::now() + BUSY_FOR;
    loop {
        match bind(socket, address) {
            Err(Errno::BUSY) if Instant::now() < until => thread::sleep(BUSY_FOR / 50),
            bound => return bound,
        }
    }
}

/// Registers the memory and maps the four rings.
fn rings(socket: &OwnedFd, umem: &Umem) -> io::Result<(FillRing, CompletionRing, ReceiveRing, TransmitRing)> {
    sockopt::set_xdp_umem_reg(socket, umem.registration())?;
    sockopt::set_xdp_umem_fill_ring_size(socket, FILL_ENTRIES)?;
    sockopt::set_xdp_umem_completion_ring_size(socket, SEND_FRAMES)?;
    sockopt::set_xdp_rx_ring_size(socket, RECEIVE_FRAMES)?;
    sockopt::set_xdp_tx_ring_size(socket, SEND_FRAMES)?;
    let at = sockopt::xdp_mmap_offsets(socket)?;
    let fill = Ring::map(socket, XDP_UMEM_PGOFF_FILL_RING, at.fr, FILL_ENTRIES)?;
    let completion = Ring::map(socket, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, SEND_FRAMES)?;
    let receive = Ring::map(socket, XDP_PGOFF_RX_RING, at.rx, RECEIVE_FRAMES)?;
    let transmit = Ring::map(socket, XDP_PGOFF_TX_RING, at.tx, SEND_FRAMES)?;
    Ok((FillRing(fill), CompletionRing(completion), ReceiveRing(receive), TransmitRing(transmit)))
}

// The memory of the packets: frames of one size, some to receive into and some to send from.
//
// Each frame belongs to one side at a time. The kernel has those in the fill ring or taken from it, and those in the
// transmit ring up to their completion; this side has all others. The side that has a frame may write it; the rings
// pass it on.

/// The frames, in a mapping of their own.
#[derive(Debug)]
pub(super) struct Umem {
    memory: MmapRaw,
    frames: usize,
    /// Bytes of a frame, a power of two.
    frame: usize,
}

impl Umem {
    /// So many frames of `frame` bytes: 2,048, or a page.
    pub(super) fn new(frames: usize, frame: usize) -> io::Result<Self> {
        let memory = MmapOptions::new().len(frames * frame).populate().map_anon()?.into();
        Ok(Self { memory, frames, frame })
    }

    pub(super) fn registration(&self) -> XdpUmemReg {
        XdpUmemReg {
            addr: self.memory.as_ptr().addr() as u64,
            len: self.memory.len() as u64,
            chunk_size: u32::try_from(self.frame).unwrap_or_default(),
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        }
    }

    pub(super) fn frame(&self) -> usize {
        self.frame
    }

    /// Where a frame begins.
    pub(super) fn place(&self, frame: usize) -> u64 {
        (frame * self.frame) as u64
    }

    /// The frame that a place lies in, if it lies in any.
    pub(super) fn frame_at(&self, place: u64) -> Option<usize> {
        let frame = usize::try_from(place).ok()? / self.frame;
        (frame < self.frames).then_some(frame)
    }

    /// Bytes in one of the frames that this side has; `None`: they do not lie within one.
    pub(super) fn bytes_at(&self, place: u64, length: usize) -> Option<&[u8]> {
        let at = self.within(place, length)?;
        // SAFETY: `within` has checked that the bytes lie inside the memory, which lives as long as `self`; the frame
        // is this side's, so the kernel does not write there.
        Some(unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at), length) })
    }

    /// The same, to be written.
    pub(super) fn bytes_at_mut(&mut self, place: u64, length: usize) -> Option<&mut [u8]> {
        let at = self.within(place, length)?;
        // SAFETY: as above; `&mut self` makes it the only way there.
        Some(unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().add(at), length) })
    }

    fn within(&self, place: u64, length: usize) -> Option<usize> {
        let at = usize::try_from(place).ok()?;
        let fits = length <= self.frame - at % self.frame;
        (self.frame_at(place).is_some() && fits).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_within_one_frame() {
        let mut umem = Umem::new(4, 2048).expect("memory");
        umem.bytes_at_mut(4096 + 256, 3).expect("inside").copy_from_slice(b"abc");
        assert_eq!(umem.bytes_at(4096 + 256, 3), Some(&b"abc"[..]));
        assert_eq!((umem.frame_at(4096 + 256), umem.place(2)), (Some(2), 4096));
        for (place, length) in [(0, 2049), (2047, 2), (8192, 0), (u64::MAX, 1), (8191, 2)] {
            assert!(umem.bytes_at(place, length).is_none(), "{length} at {place}");
        }
        assert!(umem.bytes_at(8191, 1).is_some());
    }
}
