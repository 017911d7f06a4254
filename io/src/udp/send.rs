//! Send: a run by one `sendmsg` with `UDP_SEGMENT`, or, where GSO is refused, by `sendmmsg` of its
//! single datagrams.

use std::io::{self, ErrorKind, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::SockAddr;

use super::UdpLink;
use crate::link::{RUN_MAX, SEGMENTS_MAX, Sent};
use crate::now_ns;
use crate::run::Run;
use crate::sockets::{self, BATCH, dropped, header, send_messages};

/// `UDP_MAX_SEGMENTS` of older kernels.
const SEGMENTS_MAX_OLD: usize = 64;

impl UdpLink {
    /// [`crate::Link::send`].
    pub(super) fn send_run(&mut self, to: &SocketAddr, slices: &[IoSlice<'_>], segment: usize) -> Sent {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let address = SockAddr::from(if self.both_families { super::mapped(*to) } else { *to });
        if total <= segment {
            return outcome(send_message(self.socket.as_fd(), &address, slices, None));
        }
        let Some(segment) = checked_segment(total, segment) else {
            return Sent::Refused(invalid(
                "a run is at most 65507 bytes and 128 segments of at least 1 byte",
            ));
        };
        if !self.gso.usable() {
            return self.send_singly(&address, slices, segment);
        }
        match send_message(self.socket.as_fd(), &address, slices, Some(segment)) {
            Err(error) if refuses_gso(&error) => self.send_refused(&address, slices, segment, &error),
            result => outcome(result),
        }
    }

    /// Sends a run that was refused with GSO as single datagrams. GSO is at fault if they pass and
    /// are not too many: old kernels give `EINVAL` for a segment above the NIC's MTU as well, and for
    /// more than 64 segments.
    fn send_refused(
        &mut self,
        address: &SockAddr,
        slices: &[IoSlice<'_>],
        segment: u16,
        error: &io::Error,
    ) -> Sent {
        let sent = self.send_singly(address, slices, segment);
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if matches!(sent, Sent::Done) && total <= SEGMENTS_MAX_OLD * usize::from(segment) {
            self.gso.refuse();
            self.note("UDP_SEGMENT", error, "datagrams are sent one by one until it is tried again");
        }
        sent
    }

    /// Sends the run as single datagrams. With GSO, too, the kernel admits a run whole when there is any room.
    fn send_singly(&self, address: &SockAddr, slices: &[IoSlice<'_>], segment: u16) -> Sent {
        let socket = self.socket.as_fd();
        sockets::send_singly(socket, Run::new(slices), |run| send_batch(socket, address, run, segment))
    }
}

/// The segment size as the kernel wants it, when the run is within its limits.
fn checked_segment(total: usize, segment: usize) -> Option<u16> {
    let within = segment > 0 && total <= RUN_MAX && total.div_ceil(segment) <= SEGMENTS_MAX;
    u16::try_from(segment).ok().filter(|_| within)
}

/// `EIO`: the NIC sums no checksums (before Linux 6.11) or the packet goes through IPsec.
/// `EINVAL`: checksums are off for this socket, or the run is more than an older kernel takes.
fn refuses_gso(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

fn outcome(result: io::Result<()>) -> Sent {
    match result {
        Ok(()) => Sent::Done,
        Err(error) if error.kind() == ErrorKind::WouldBlock => Sent::Full,
        Err(error) => dropped(error),
    }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text)
}

/// A control message that carries the segment size, laid out as `CMSG_FIRSTHDR` would.
#[repr(C)]
struct SegmentControl {
    header: libc::cmsghdr,
    segment: u16,
    /// Up to the next header's alignment.
    _padding: [u8; 6],
}

impl SegmentControl {
    fn new(segment: u16) -> Self {
        // SAFETY: CMSG_LEN only computes.
        let length = unsafe { libc::CMSG_LEN(2) } as usize;
        // SAFETY: all zeroes are a valid cmsghdr.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        (header.cmsg_len, header.cmsg_level, header.cmsg_type) = (length, libc::SOL_UDP, libc::UDP_SEGMENT);
        Self { header, segment, _padding: [0; 6] }
    }
}

/// One `sendmsg`; with a segment size the kernel segments the bytes into datagrams of it.
fn send_message(
    socket: BorrowedFd<'_>,
    address: &SockAddr,
    slices: &[IoSlice<'_>],
    segment: Option<u16>,
) -> io::Result<()> {
    let control = segment.map(SegmentControl::new);
    let mut message = header(address, slices);
    if let Some(control) = &control {
        message.msg_control = std::ptr::from_ref(control).cast_mut().cast();
        message.msg_controllen = mem::size_of::<SegmentControl>();
    }
    loop {
        // SAFETY: name, slices and control live until the call returns, with their true lengths;
        // the kernel only reads them.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Most pieces per `sendmmsg`: a cell is a header and one or two pieces of payload.
const PIECES: usize = 128;

/// Sends datagrams off the front of the run by one `sendmmsg` and says how many left. An error means
/// that none did.
fn send_batch(
    socket: BorrowedFd<'_>,
    address: &SockAddr,
    run: &mut Run<'_>,
    segment: u16,
) -> io::Result<usize> {
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let mut ends = [0; BATCH];
    let (mut rest, mut used, mut count) = (*run, 0, 0);
    while count < BATCH && !rest.is_empty() {
        let Some(length) = rest.take(segment.into(), &mut pieces[used..]) else { break };
        used += length;
        ends[count] = used;
        count += 1;
    }
    if count == 0 {
        return Err(invalid("a datagram of a run has at most 128 slices"));
    }
    let sent = send_messages(socket, address, &pieces[..used], &ends[..count])?;
    for _ in 0..sent {
        run.take(segment.into(), &mut pieces);
    }
    Ok(sent)
}

// When a UDP link uses `UDP_SEGMENT`: until it is refused, and again after a pause.
//
// A NIC may lose and regain what GSO needs while the link stands (a tunnel re-routed, checksum
// offload switched by `ethtool`), so a refusal counts for a pause only, which doubles each time.

/// State of GSO on one socket.
#[derive(Debug)]
pub(super) enum Gso {
    /// Not wanted, or the kernel lacks it.
    Off,
    /// In use, or to be tried with the next run.
    On {
        /// How long the next refusal counts, ns.
        pause_ns: u64,
    },
    /// Refused lately.
    Refused {
        /// When to try again, as [`now_ns`] counts.
        until_ns: u64,
        pause_ns: u64,
    },
}

impl Gso {
    const PAUSE_MIN_NS: u64 = 10 * 1_000_000_000;
    const PAUSE_MAX_NS: u64 = 600 * 1_000_000_000;

    pub(super) fn off() -> Self {
        Self::Off
    }

    pub(super) fn on() -> Self {
        Self::On { pause_ns: Self::PAUSE_MIN_NS }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(self, Self::On { .. })
    }

    /// Whether to try GSO for the next run. Reads the clock only after a refusal.
    pub(super) fn usable(&mut self) -> bool {
        self.usable_at(now_ns)
    }

    /// The NIC refused a run that it then took as single datagrams, or swallows runs.
    pub(super) fn refuse(&mut self) {
        self.refuse_at(now_ns());
    }

    fn usable_at(&mut self, now: impl FnOnce() -> u64) -> bool {
        if let Self::Refused { until_ns, pause_ns } = *self
            && now() >= until_ns
        {
            *self = Self::On { pause_ns };
        }
        self.is_on()
    }

    fn refuse_at(&mut self, now: u64) {
        if let Self::On { pause_ns } = *self {
            let next = (2 * pause_ns).min(Self::PAUSE_MAX_NS);
            *self = Self::Refused { until_ns: now + pause_ns, pause_ns: next };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gso;

    #[test]
    fn pauses_double_up_to_ten_minutes() {
        const SECOND: u64 = 1_000_000_000;
        let (mut gso, mut now) = (Gso::on(), 0);
        for pause in [10, 20, 40, 80, 160, 320, 600, 600] {
            gso.refuse_at(now);
            assert!(!gso.usable_at(|| now + pause * SECOND - 1), "before {pause} s");
            now += pause * SECOND;
            assert!(gso.usable_at(|| now), "after {pause} s");
        }
    }

    #[test]
    fn off_stays_off() {
        let mut gso = Gso::off();
        gso.refuse_at(0);
        assert!(!gso.usable_at(|| u64::MAX));
    }
}
