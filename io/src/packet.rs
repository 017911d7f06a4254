//! Raw frames of one NIC, superframes whole: a packet socket with the virtio header before each frame.
//!
//! The socket receives what enters through the NIC, not what leaves through it. What it sends goes to the driver past
//! queueing disciplines. A frame that the sender left unsegmented or without checksum comes as such, with a
//! [`HEADER`] that says so, and may be sent on as it came. VLAN tags that stand beside the frame (hardware
//! acceleration) are received by [`PacketSocket::receive_tagged`] alone.
//!
//! Source: packet(7), linux/if_packet.h, `net/packet/af_packet.c` of Linux 6.18.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime};

use libc::c_int;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Socket, Type};

use crate::capture::{packet_statistics, vlan_tag};
use crate::netlink::{self, NetlinkError};
use crate::sockets::{control, link_layer, packet_socket, set_option, set_receive_buffer, set_send_buffer};

/// Length of the virtio header before each frame, in native byte order: flags, kind of superframe, header length,
/// segment size, where the checksum begins, and how far behind that it stands.
pub const HEADER: usize = 10;
/// Room for the header and the longest superframe with its Ethernet and VLAN headers.
pub const FRAME_MAX: usize = HEADER + 18 + 65_536;

/// Wanted buffers of the socket, which the kernel doubles: some dozen superframes, or a thousand frames.
const BUFFER_BYTES: usize = 8 << 20;

/// A packet socket bound to one NIC, non-blocking.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
}

impl PacketSocket {
    /// Opens a socket on `nic`, which needs not be up. Wants CAP_NET_RAW.
    pub fn open(nic: &str) -> Result<Self, NetlinkError> {
        let index = netlink::nic(nic)?.index;
        Self::open_at(index).map_err(|error| NetlinkError::new("open a packet socket", error))
    }

    fn open_at(index: u32) -> io::Result<Self> {
        let opened = Self { socket: packet_socket(Type::RAW)? };
        opened.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR)?;
        opened.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS)?;
        set_receive_buffer(&opened.socket, 2 * BUFFER_BYTES)?;
        set_send_buffer(&opened.socket, 2 * BUFFER_BYTES)?;
        let all = u16::try_from(libc::ETH_P_ALL).unwrap_or_default();
        opened.socket.bind(&link_layer(index, all, [0; 6]))?;
        Ok(opened)
    }

    /// The next frame behind its header; the length of both. A frame longer than `buffer` is truncated.
    /// Errors: `WouldBlock` when there is none, `NetworkDown` once when the NIC goes down, other errors of the kernel.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.socket, buffer, RecvFlags::DONTWAIT)?.0)
    }

    /// As [`Self::receive`], and how long ago the frame came in, if [`Self::stamp`] was called before.
    pub fn receive_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Duration)> {
        let (length, (stamp, _)) = self.receive_beside(buffer)?;
        Ok((length, stamp.map_or(Duration::ZERO, ago)))
    }

    /// As [`Self::receive`], and the VLAN tag that the kernel took off the frame, type first, if [`Self::report_tags`]
    /// was called before. It stood behind the Ethernet addresses.
    pub fn receive_tagged(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<[u8; 4]>)> {
        let (length, (_, tag)) = self.receive_beside(buffer)?;
        Ok((length, tag))
    }

    /// The next frame and the control messages beside it.
    fn receive_beside(&self, buffer: &mut [u8]) -> io::Result<(usize, Beside)> {
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut room = Control([0; CONTROL]);
        // SAFETY: all fields are integers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = room.0.as_mut_ptr().cast();
        message.msg_controllen = room.0.len();
        // SAFETY: the message names the bytes of `buffer` and of `room`, which live until the call returns.
        let length = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        Ok((length.min(buffer.len()), beside(&message)))
    }

    /// Makes the kernel report the VLAN tags that it takes off frames.
    pub fn report_tags(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_AUXDATA)
    }

    /// Makes the kernel note when frames come in.
    pub fn stamp(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
    }

    /// Sends a frame behind its header.
    /// Errors: the kernel's: `WouldBlock` and `ENOBUFS` when there is no room, `NetworkDown` on a NIC that is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        Ok(send(&self.socket, frame, SendFlags::DONTWAIT).map(drop)?)
    }

    /// Frames that were lost since the last call, because the socket was full.
    pub fn take_overruns(&self) -> io::Result<u32> {
        packet_statistics(&self.socket).map(|[_, lost]| lost)
    }

    fn set(&self, level: c_int, option: c_int) -> io::Result<()> {
        let on: c_int = 1;
        set_option(&self.socket, level, option, &on)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for the control messages beside a frame, aligned for their header.
#[repr(align(8))]
struct Control([u8; CONTROL]);

const CONTROL: usize = 128;

/// When a frame came in by the clock of the day, and the VLAN tag that was taken off it.
type Beside = (Option<Duration>, Option<[u8; 4]>);

fn beside(message: &libc::msghdr) -> Beside {
    // SAFETY: the kernel has written whole control messages into the bytes that the message names; those of these kinds hold such structs.
    let (stamp, auxiliary): (Option<libc::timespec>, Option<libc::tpacket_auxdata>) = unsafe {
        (
            control(message, libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS),
            control(message, libc::SOL_PACKET, libc::PACKET_AUXDATA),
        )
    };
    let time = |stamp: libc::timespec| {
        Some(Duration::new(u64::try_from(stamp.tv_sec).ok()?, u32::try_from(stamp.tv_nsec).ok()?))
    };
    let tag =
        |beside: libc::tpacket_auxdata| vlan_tag(beside.tp_status, beside.tp_vlan_tpid, beside.tp_vlan_tci);
    (stamp.and_then(time), auxiliary.and_then(tag))
}

/// How long ago that was; zero when the clock was set back meanwhile.
fn ago(stamp: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_secs(1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(stamp).filter(|ago| *ago < LONGEST).unwrap_or_default()
}
