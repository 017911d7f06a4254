//! The interface of all link kinds: batches out, batches in.
//!
//! A *run* is what one [`Link::send`] takes: cells that lie one behind the other, each `segment`
//! bytes long, the last one perhaps shorter. A run is taken as a whole or not at all.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tabane_shm_ring::Faults;
use thiserror::Error;

use crate::ether::EtherLink;
use crate::mem::MemLink;
use crate::udp::UdpLink;

/// The receive buffer that a bundle gives a socket: what arrives at 10 Gbit/s while its worker is not scheduled for 5 ms.
pub const RECEIVE_BUFFER: usize = 7 << 20;
/// The most bytes of a run: what one IPv4 packet can carry as UDP.
pub const RUN_MAX: usize = 65_507;
/// The most datagrams of a run (`UDP_MAX_SEGMENTS` of the kernel). Older kernels take 64; there UDP sends a longer run
/// as single datagrams.
pub const SEGMENTS_MAX: usize = 128;

#[derive(Debug)]
#[must_use]
pub enum Sent {
    Done,
    /// The send buffer is full and nothing was taken: send the run again when the link is writable.
    Full,
    /// Dropped (parts of it may have left), because the kernel had no memory or the NIC takes only smaller datagrams
    /// now, and why. The link is sound: as if lost on the way.
    Lost(io::Error),
    /// Dropped (parts of it may have left), and why. Sending it again now would fail again.
    Refused(io::Error),
}

/// One slot of a receive batch: where bytes go, then what came.
#[derive(Debug)]
pub struct ReceiveBuffer<'a> {
    /// Where the bytes go. 64 KB hold all that one UDP GRO buffer can carry; what does not fit is lost whole.
    pub bytes: &'a mut [u8],
    /// Bytes that came; 0 when the message did not fit.
    pub len: usize,
    /// Length of each datagram in `bytes[..len]` but the last, which may be shorter. At least 1;
    /// equal to `len` when a single datagram came.
    pub segment: usize,
    /// Who sent them. Link-local addresses carry the NIC's index as scope.
    pub from: SocketAddr,
}

impl<'a> ReceiveBuffer<'a> {
    /// An empty slot over `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0, segment: 1, from: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0) }
    }

    /// The datagrams that came, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[..self.len].chunks(self.segment)
    }
}

/// What a poll has found that no descriptor reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Polled {
    /// Whether there may be something to receive.
    pub readable: bool,
    /// Whether a run that found no room should be tried again.
    pub writable: bool,
    /// Whether another node is there; `None`: the NIC's carrier says so.
    pub carrier: Option<bool>,
    /// Impossible values that other nodes have written, each time that their number has doubled.
    pub faults: Option<Faults>,
}

/// One link, over a NIC or through memory. Its descriptor is non-blocking, for use with [`crate::Poll`], and for handing over.
pub trait Link: AsFd {
    /// Sends one run to `to`, segmented into datagrams of `segment` bytes.
    fn send(&mut self, to: &SocketAddr, slices: &[IoSlice<'_>], segment: usize) -> Sent;

    /// Fills up to `buffers.len()` slots with what has arrived and says how many; 0 when nothing is there.
    /// Errors: the socket's, such as `ENETDOWN`. The link stays usable.
    fn receive(&mut self, buffers: &mut [ReceiveBuffer<'_>]) -> io::Result<usize>;

    /// Bytes that were sent and are not yet on the wire: in the kernel's memory, or in the window they are taken from.
    fn queued_bytes(&mut self) -> usize;

    /// Limits those bytes; one run may go beyond it.
    /// Errors: the kernel's. Without `CAP_NET_ADMIN` the value is limited to `net.core.wmem_max`, which is no error.
    fn set_send_buffer(&mut self, bytes: usize) -> io::Result<()>;

    /// The address that peers know this end by.
    fn local_addr(&self) -> SocketAddr;

    /// Runs were lost on the way, and single datagrams were not: for a while each datagram leaves by itself.
    fn distrust_runs(&mut self) {}

    /// The next change of what the kernel offers to this link, for the log. Ask after a burst of
    /// work, not per frame.
    fn take_notice(&mut self) -> Option<Notice> {
        None
    }

    /// The descriptor that is ready when there is something to receive, or room; `None`: there is none.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    /// A further descriptor that is ready when there is something to receive.
    fn also_watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether [`Self::watched`] is also ready when there is room.
    fn signals_room(&self) -> bool {
        true
    }

    /// How often to [`Self::poll`] while there is traffic; `None`: descriptors report all.
    fn poll_interval(&self) -> Option<Duration> {
        None
    }

    /// When to [`Self::poll`] at the latest, with or without traffic; `None`: no poll is needed. `room`: a run has
    /// found none.
    fn poll_within(&self, room: bool) -> Option<Duration> {
        let _ = room;
        None
    }

    /// Polls and serves rings and memory. `now` is read from a clock that only goes forward; `room`: a
    /// run has found none.
    fn poll(&mut self, now: Duration, room: bool) -> Polled {
        let _ = (now, room);
        Polled::default()
    }
}

/// One link, of the kind that the user chose.
#[derive(Debug)]
pub enum AnyLink {
    /// Datagrams over a NIC.
    Udp(Box<UdpLink>),
    /// Frames over a NIC.
    Ether(Box<EtherLink>),
    /// Messages in memory. No descriptor reports them, see [`Link::poll`].
    Mem(Box<MemLink>),
}

impl Deref for AnyLink {
    type Target = dyn Link;

    fn deref(&self) -> &(dyn Link + 'static) {
        match self {
            Self::Udp(link) => &**link,
            Self::Ether(link) => &**link,
            Self::Mem(link) => &**link,
        }
    }
}

impl DerefMut for AnyLink {
    fn deref_mut(&mut self) -> &mut (dyn Link + 'static) {
        match self {
            Self::Udp(link) => &mut **link,
            Self::Ether(link) => &mut **link,
            Self::Mem(link) => &mut **link,
        }
    }
}

impl From<UdpLink> for AnyLink {
    fn from(link: UdpLink) -> Self {
        Self::Udp(Box::new(link))
    }
}

impl From<EtherLink> for AnyLink {
    fn from(link: EtherLink) -> Self {
        Self::Ether(Box::new(link))
    }
}

impl From<MemLink> for AnyLink {
    fn from(link: MemLink) -> Self {
        Self::Mem(Box::new(link))
    }
}

/// What the kernel refused. Reads as one sentence for the user.
#[derive(Debug, Error)]
#[error("{what}: {step} failed: {source}")]
pub struct Failure {
    /// What was to be opened, such as `device tb0`.
    pub what: String,
    pub step: &'static str,
    pub source: io::Error,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>, step: &'static str) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self { what, step, source }
    }
}

/// A kernel feature that was asked for and is not available. One log line for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The device it concerns, such as `eth1`.
    pub device: String,
    /// The feature, by the name the kernel gives it, such as `UDP_SEGMENT`.
    pub feature: &'static str,
    /// Why it is not available, usually the kernel's error.
    pub reason: String,
    /// What is done instead.
    pub instead: &'static str,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, feature, reason, instead } = self;
        write!(f, "{device}: {feature} is not available ({reason}); {instead}")
    }
}

#[cfg(test)]
mod tests {
    use super::ReceiveBuffer;

    #[test]
    fn datagrams_end_at_each_segment() {
        let mut bytes = *b"aaabbbc_____";
        let mut buffer = ReceiveBuffer::new(&mut bytes);
        assert_eq!(buffer.datagrams().count(), 0);
        (buffer.len, buffer.segment) = (7, 3);
        let datagrams: Vec<&[u8]> = buffer.datagrams().collect();
        assert_eq!(datagrams, [&b"aaa"[..], b"bbb", b"c"]);
    }
}
