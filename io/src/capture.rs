//! What passes a NIC or a device, in both directions: a packet socket whose ring the kernel fills.
//!
//! Beside the path, for whoever watches a bundle. The kernel copies the beginning of each packet that the filter
//! accepts into the ring, and wakes the reader for a whole block of them: so a packet costs the one who sends or
//! receives it a copy, and no change of threads. The ring counts to nobody's socket buffer: CAP_NET_RAW is enough for one
//! of any size. A superframe is one packet.
//!
//! Invariant: a block belongs to the kernel or to this process, as its status says, and is read only in between.
//!
//! Source: packet(7), `Documentation/networking/packet_mmap.rst` (TPACKET_V3), `net/packet/af_packet.c` of Linux 6.18.

mod filter;
mod packet;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libc::c_uint;
use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};
use thiserror::Error;

use crate::link::Failure;
use crate::netlink::{self, NetlinkError};
use crate::sockets::{check, length_of, link_layer, set_option};
pub use filter::Wanted;
#[cfg(feature = "lab")]
pub(crate) use packet::vlan_tag;
pub use packet::{Cast, Packet};

/// `TP_STATUS_KERNEL`: the kernel has the block.
const KERNEL: u32 = 0;

/// Why nothing can be captured.
#[derive(Debug, Error)]
pub enum CaptureError {
    #[error(transparent)]
    Nic(#[from] NetlinkError),
    #[error("no permission to see the packets of {0}: run as root or with CAP_NET_RAW")]
    NoPermission(String),
    #[error("the packets of {0} have no Ethernet header")]
    NoEthernet(String),
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// How much is captured at once.
#[derive(Clone, Debug)]
pub struct CaptureSpec {
    /// Bytes of each packet that are kept, at most.
    pub snap: u32,
    pub blocks: u32,
    /// Bytes of a block: a power of two, of 4,096 at least. No more of a packet is kept than a block has.
    pub block_bytes: u32,
    /// How long a packet waits for others in its block; at least 1 ms. Then the block is handed over, and counts as full.
    pub delay: Duration,
    /// Which packets.
    pub wanted: Wanted,
}

/// What a capture has seen since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets that were wanted, those that were lost included.
    pub packets: u64,
    /// Packets that were lost, because the ring was full.
    pub lost: u64,
}

/// A capture at one NIC, from its opening on.
#[derive(Debug)]
pub struct Capture {
    /// Unmapped before the socket is closed.
    ring: MmapRaw,
    socket: Socket,
    spec: CaptureSpec,
    /// The block that comes next.
    next: usize,
    seen: Seen,
    /// Packets that were handed on.
    taken: u64,
}

impl Capture {
    /// Captures at `nic` from now on. Wants CAP_NET_RAW.
    pub fn open(nic: &str, spec: CaptureSpec) -> Result<Self, CaptureError> {
        let found = netlink::nic(nic)?;
        if found.mac.is_none() {
            return Err(CaptureError::NoEthernet(nic.to_owned()));
        }
        // Of protocol 0 it receives nothing until it is bound: else packets of other NICs would come first.
        let failed = |step: &'static str| {
            let nic = nic.to_owned();
            move |source: io::Error| match source.kind() {
                io::ErrorKind::PermissionDenied => CaptureError::NoPermission(nic),
                _ => Failure::new(format!("capturing at {nic}"), step)(source).into(),
            }
        };
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).map_err(failed("opening a socket"))?;
        socket.attach_filter(&spec.wanted.program(spec.snap)).map_err(failed("SO_ATTACH_FILTER"))?;
        let ring = map(&socket, &spec).map_err(failed("making a ring"))?;
        let all = u16::try_from(libc::ETH_P_ALL).unwrap_or_default();
        socket.bind(&link_layer(found.index, all, [0; 6])).map_err(failed("bind"))?;
        Ok(Self { ring, socket, spec, next: 0, seen: Seen::default(), taken: 0 })
    }

    /// Hands each packet of the blocks that are full, or have waited long enough, to `each`, in the order in which they
    /// passed, and goes on until no such block is left or `each` fails.
    /// Errors: those of `each`; the other packets of its block are lost.
    pub fn take(&mut self, mut each: impl FnMut(&Packet<'_>) -> io::Result<()>) -> io::Result<()> {
        // No more than the ring has, so that it ends while packets come faster than they are taken.
        for _ in 0..self.spec.blocks {
            if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return Ok(());
            }
            let mut count = 0;
            let handed = packet::in_block(self.block()).try_for_each(|packet| {
                count += 1;
                each(&packet)
            });
            self.status().store(KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.ring_blocks();
            self.taken += count;
            handed?;
        }
        Ok(())
    }

    /// Captures other packets from now on.
    pub fn want(&mut self, wanted: Wanted) -> io::Result<()> {
        self.socket.attach_filter(&wanted.program(self.spec.snap))?;
        self.spec.wanted = wanted;
        Ok(())
    }

    /// Captures nothing more, and hands what has passed until now to `each`.
    pub fn finish(&mut self, mut each: impl FnMut(&Packet<'_>) -> io::Result<()>) -> io::Result<()> {
        /// For a kernel that is too busy to hand over the last block: its packets are missing then.
        const LAST_WITHIN: Duration = Duration::from_secs(2);
        self.want(Wanted::Nothing)?;
        let seen = self.seen()?;
        let deadline = Instant::now() + self.spec.delay + LAST_WITHIN;
        loop {
            self.take(&mut each)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.taken >= seen.packets - seen.lost || left.is_zero() {
                return Ok(());
            }
            // A block that is not full is handed over after the delay, by a timer of the kernel.
            wait_readable([&self.socket], left)?;
        }
    }

    /// What has passed until now.
    pub fn seen(&mut self) -> io::Result<Seen> {
        // The kernel counts from the last question on.
        let [packets, lost] = packet_statistics(&self.socket)?.map(u64::from);
        self.seen.packets += packets;
        self.seen.lost += lost;
        Ok(self.seen)
    }

    /// What has happened to the NIC since the last call: `ENETDOWN` when it went down, or away.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    fn status(&self) -> &AtomicU32 {
        let at = self.next * self.block_bytes() + packet::STATUS;
        // SAFETY: the word lies in the mapping, which lives as long as `self`, is aligned as its block is, and is only
        // used by single accesses: the kernel's, and those through this reference.
        unsafe { AtomicU32::from_ptr(self.ring.as_mut_ptr().add(at).cast()) }
    }

    /// The next block, which has to be this process's.
    fn block(&self) -> &[u8] {
        let (at, length) = (self.next * self.block_bytes(), self.block_bytes());
        // SAFETY: the bytes lie in the mapping, which lives as long as `self`. The kernel writes to a block of ours only
        // after `take` has given it back, and `take` drops the slice before.
        unsafe { std::slice::from_raw_parts(self.ring.as_ptr().add(at), length) }
    }

    fn block_bytes(&self) -> usize {
        self.ring.len() / self.ring_blocks()
    }

    fn ring_blocks(&self) -> usize {
        usize::try_from(self.spec.blocks).unwrap_or(1).max(1)
    }
}

/// Readable when there is a block to take.
impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn map(socket: &Socket, spec: &CaptureSpec) -> io::Result<MmapRaw> {
    /// The kernel counts a ring in frames, too, which have no meaning where packets lie one behind the other.
    const FRAME: c_uint = 2_048;
    let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    let request = libc::tpacket_req3 {
        tp_block_size: spec.block_bytes,
        tp_block_nr: spec.blocks,
        tp_frame_size: FRAME,
        tp_frame_nr: spec.block_bytes / FRAME * spec.blocks,
        tp_retire_blk_tov: c_uint::try_from(spec.delay.as_millis()).unwrap_or(c_uint::MAX).max(1),
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    let bytes = u64::from(spec.block_bytes) * u64::from(spec.blocks);
    MmapOptions::new().len(usize::try_from(bytes).map_err(io::Error::other)?).map_raw(socket)
}

/// Packets that a packet socket took, and that it lost, since the last call.
pub(crate) fn packet_statistics(socket: impl AsFd) -> io::Result<[u32; 2]> {
    let mut counted = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut length = length_of::<libc::tpacket_stats_v3>();
    let (fd, into) = (socket.as_fd().as_raw_fd(), (&raw mut counted).cast());
    // SAFETY: the kernel writes at most `length` bytes into a struct of that length, whose fields are integers.
    check(unsafe { libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, into, &raw mut length) })?;
    Ok([counted.tp_packets, counted.tp_drops])
}

/// Waits until one of these can be read, for at most so long; a signal ends it, too.
pub(crate) fn wait_readable<'a>(
    sockets: impl IntoIterator<Item = &'a Socket>,
    limit: Duration,
) -> io::Result<()> {
    let mut fds: Vec<_> = sockets.into_iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
