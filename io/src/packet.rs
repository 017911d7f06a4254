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
use socket2::{Domain, Socket, Type};
use thiserror::Error;

use crate::netlink::{self, NetlinkError};
use crate::sockets::{check, length_of, link_layer, set_option, set_receive_buffer, set_send_buffer};

/// Length of the virtio header before each frame, in native byte order: flags, kind of superframe, header length,
/// segment size, where the checksum begins, and how far behind that it stands.
pub const HEADER: usize = 10;
/// Room for the header and the longest superframe with its Ethernet and VLAN headers.
pub const FRAME_MAX: usize = HEADER + 18 + 65_536;

/// Wanted buffers of the socket, which the kernel doubles: some dozen superframes, or a thousand frames.
const BUFFER_BYTES: usize = 8 << 20;

/// Why there is no packet socket.
#[derive(Debug, Error)]
pub enum PacketError {
    /// The NIC cannot be asked for, or is not there.
    #[error(transparent)]
    Nic(#[from] NetlinkError),
    /// The kernel refused.
    #[error("packet socket on NIC {nic}: {step} failed: {source}")]
    Failed {
        /// The NIC.
        nic: String,
        /// What was being done.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A packet socket bound to one NIC, non-blocking.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
}

impl PacketSocket {
    /// Opens a socket on `nic`, which needs not be up. Wants CAP_NET_RAW.
    pub fn open(nic: &str) -> Result<Self, PacketError> {
        let index = netlink::nic(nic)?.index;
        let failed = |step| {
            let nic = nic.to_owned();
            move |source| PacketError::Failed { nic, step, source }
        };
        // Of protocol 0 it receives nothing until it is bound: else frames of other NICs would come first.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).map_err(failed("opening a socket"))?;
        let opened = Self { socket };
        opened.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR).map_err(failed("PACKET_VNET_HDR"))?;
        opened
            .set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING)
            .map_err(failed("PACKET_IGNORE_OUTGOING"))?;
        opened.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS).map_err(failed("PACKET_QDISC_BYPASS"))?;
        set_receive_buffer(&opened.socket, 2 * BUFFER_BYTES).map_err(failed("SO_RCVBUF"))?;
        set_send_buffer(&opened.socket, 2 * BUFFER_BYTES).map_err(failed("SO_SNDBUF"))?;
        let index = c_int::try_from(index).map_err(io::Error::other).map_err(failed("bind"))?;
        let all = u16::try_from(libc::ETH_P_ALL).expect("it is 3");
        opened.socket.bind(&link_layer(index, all, [0; 6])).map_err(failed("bind"))?;
        Ok(opened)
    }

    /// The next frame behind its header; the length of both. A frame longer than `buffer` is truncated.
    /// Errors: `WouldBlock` when there is none, `NetworkDown` once when the NIC goes down, other errors of the kernel.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.socket, buffer, RecvFlags::DONTWAIT)?.0)
    }

    /// As [`Self::receive`], and how long ago the frame came in, if [`Self::stamp`] was called before.
    pub fn receive_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Duration)> {
        let (length, beside) = self.receive_beside(buffer)?;
        Ok((length, beside.stamp.map_or(Duration::ZERO, ago)))
    }

    /// As [`Self::receive`], and the VLAN tag that the kernel took off the frame, type first, if [`Self::report_tags`]
    /// was called before. It stood behind the Ethernet addresses.
    pub fn receive_tagged(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<[u8; 4]>)> {
        let (length, beside) = self.receive_beside(buffer)?;
        Ok((length, beside.tag))
    }

    /// The next frame and the control messages beside it.
    fn receive_beside(&self, buffer: &mut [u8]) -> io::Result<(usize, Beside)> {
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = Control([0; CONTROL]);
        // SAFETY: all fields are integers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        // SAFETY: the message names the bytes of `buffer` and of `control`, which live until the call returns.
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
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = length_of::<libc::tpacket_stats>();
        // SAFETY: the kernel writes at most `length` bytes into a struct of that length, whose fields are integers.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        check(result).map(|()| statistics.tp_drops)
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

/// What the control messages beside a frame contain.
#[derive(Default)]
struct Beside {
    /// When it came in, by the clock of the day.
    stamp: Option<Duration>,
    /// The VLAN tag that was taken off.
    tag: Option<[u8; 4]>,
}

fn beside(message: &libc::msghdr) -> Beside {
    let mut beside = Beside::default();
    // SAFETY: the kernel has written whole headers into the control bytes and their length into the message.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: a header that is found lies within the control bytes, which live as long as the message.
    while let Some(header) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let data = unsafe { libc::CMSG_DATA(header) };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: a timestamp of this type stands behind this header, wherever it is aligned.
                beside.stamp = time_of(unsafe { data.cast::<libc::timespec>().read_unaligned() });
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                // SAFETY: a struct of this type stands behind this header, wherever it is aligned.
                beside.tag = tag_of(&unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() });
            }
            _ => {}
        }
        // SAFETY: the header is one of the message.
        next = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    beside
}

fn time_of(stamp: libc::timespec) -> Option<Duration> {
    Some(Duration::new(u64::try_from(stamp.tv_sec).ok()?, u32::try_from(stamp.tv_nsec).ok()?))
}

/// Its type and its control information, as they stood in the frame.
fn tag_of(auxiliary: &libc::tpacket_auxdata) -> Option<[u8; 4]> {
    let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    let (kind, control) = (auxiliary.tp_vlan_tpid.to_be_bytes(), auxiliary.tp_vlan_tci.to_be_bytes());
    (auxiliary.tp_status & valid == valid).then_some([kind[0], kind[1], control[0], control[1]])
}

/// How long ago that was; zero when the clock was set back meanwhile.
fn ago(stamp: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_secs(1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(stamp).filter(|ago| *ago < LONGEST).unwrap_or_default()
}
