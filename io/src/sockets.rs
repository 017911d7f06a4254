//! The common part of UDP and packet sockets: options, buffers, and runs that are sent datagram by datagram.

use std::io::{self, ErrorKind, IoSlice};
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_uint, mmsghdr, msghdr, sockaddr_ll, socklen_t};
use rustix::net::sockopt;
use socket2::{Domain, SockAddr, SockAddrStorage, SockFilter, Socket, Type};

use crate::Notice;
use crate::link::{RUN_MAX, SEGMENTS_MAX, Sent};
use crate::run::Run;

/// Most datagrams per `sendmmsg`.
pub(crate) const BATCH: usize = 32;

/// Sets an option that the kernel reads as a `T`.
pub(crate) fn set_option<T>(socket: impl AsFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `length_of::<T>()` bytes, which are the value's and live until the call returns.
    check(unsafe { libc::setsockopt(fd, level, option, std::ptr::from_ref(value).cast(), length_of::<T>()) })
}

/// A packet socket for what comes in, non-blocking. Of protocol 0 it receives nothing until it is bound: else frames of other NICs
/// would come first.
pub(crate) fn packet_socket(kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, kind, None)?;
    socket.set_nonblocking(true)?;
    let on: c_int = 1;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)?;
    Ok(socket)
}

/// A filter of one question: what is loaded, how it is compared with what, and so many bytes that are kept where the answer is `wanted`.
pub(crate) fn filter(load: u32, (compare, value): (u32, u32), wanted: bool, bytes: u32) -> [SockFilter; 4] {
    let step = |code: u32, ways: [u8; 2], value| {
        SockFilter::new(u16::try_from(code).unwrap_or_default(), ways[0], ways[1], value)
    };
    let ways = [u8::from(!wanted), u8::from(wanted)];
    let end = |bytes| step(libc::BPF_RET | libc::BPF_K, [0, 0], bytes);
    let compare = step(libc::BPF_JMP | libc::BPF_K | compare, ways, value);
    [step(libc::BPF_LD | load, [0, 0], 0), compare, end(bytes), end(0)]
}

/// What a control message of this kind says, which the kernel has written beside what was received.
///
/// # Safety
/// The message names as many control bytes as the kernel has written, which are alive, and such a message holds a `T`.
pub(crate) unsafe fn control<T>(message: &msghdr, level: c_int, kind: c_int) -> Option<T> {
    // SAFETY: by the caller's promise.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a whole header inside the control bytes.
    while let Some(header) = unsafe { next.as_ref() } {
        if (header.cmsg_level, header.cmsg_type) == (level, kind) {
            // SAFETY: by the caller's promise; it may be aligned in any way.
            return Some(unsafe { libc::CMSG_DATA(header).cast::<T>().read_unaligned() });
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

/// A request about the device of this name.
/// Errors: no device can have that name.
pub(crate) fn request_for(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: a request of zeros is a valid one.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}

/// Where a packet socket of this protocol is bound to, or whom it sends to.
pub(crate) fn link_layer(index: u32, protocol: u16, mac: [u8; 6]) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage has room for any address, and all zeroes are one of a packet socket.
    let address: &mut sockaddr_ll = unsafe { storage.view_as() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    address.sll_halen = 6;
    address.sll_addr[..mac.len()].copy_from_slice(&mac);
    // SAFETY: so many bytes of the storage are an address of that family.
    unsafe { SockAddr::new(storage, length_of::<sockaddr_ll>()) }
}

/// The result of a call that gives -1 for an error.
pub(crate) fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Length of an option or address, as the kernel wants it.
pub(crate) fn length_of<T>() -> socklen_t {
    socklen_t::try_from(mem::size_of::<T>()).unwrap_or_default()
}

/// Bytes of kernel memory for packets that have not left; 0 when the kernel does not say.
pub(crate) fn queued_bytes(socket: impl AsFd) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ (TIOCOUTQ by its older name) writes one int, which lives until the call returns.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    check(result).ok().and_then(|()| usize::try_from(bytes).ok()).unwrap_or(0)
}

/// Sets the send buffer in bytes as the kernel accounts them, which is twice the value that it is given. Without
/// `CAP_NET_ADMIN` the kernel limits it to `net.core.wmem_max`, which is no error.
pub(crate) fn set_send_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let socket = socket.as_fd();
    Ok(sockopt::set_socket_send_buffer_size_force(socket, bytes / 2)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes / 2))?)
}

/// Sets the receive buffer, counted in the same way, within `net.core.rmem_max`.
pub(crate) fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let socket = socket.as_fd();
    Ok(sockopt::set_socket_recv_buffer_size_force(socket, bytes / 2)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes / 2))?)
}

/// Sets both buffers of a socket over the NIC `device`; gives a notice for each that is smaller than wanted.
pub(crate) fn size_buffers(
    socket: impl AsFd,
    device: &str,
    receive: usize,
    send: usize,
) -> impl Iterator<Item = Notice> {
    let socket = socket.as_fd();
    let receive_granted =
        set_receive_buffer(socket, receive).and_then(|()| Ok(sockopt::socket_recv_buffer_size(socket)?));
    let send_granted =
        set_send_buffer(socket, send).and_then(|()| Ok(sockopt::socket_send_buffer_size(socket)?));
    let buffers = [
        (
            "SO_RCVBUFFORCE",
            receive_granted,
            receive,
            "bursts may be lost; raise net.core.rmem_max or run as root",
        ),
        (
            "SO_SNDBUFFORCE",
            send_granted,
            send,
            "the link may run dry; raise net.core.wmem_max or run as root",
        ),
    ];
    buffers.into_iter().filter_map(|(feature, granted, wanted, instead)| {
        let granted = granted.unwrap_or(0);
        let reason = format!("{granted} bytes of {wanted}");
        (granted < wanted / 2 * 2).then(|| Notice { device: device.to_owned(), feature, reason, instead })
    })
}

/// Sends a run by `send_batch`, which takes datagrams off its front, says how many left, and fails only when none did.
/// The run leaves whole or not at all: once the first datagram has left, the send buffer is raised for the others.
pub(crate) fn send_singly<'a>(
    socket: impl AsFd,
    mut run: Run<'a>,
    mut send_batch: impl FnMut(&mut Run<'a>) -> io::Result<usize>,
) -> Sent {
    let socket = socket.as_fd();
    let (mut raised, mut left) = (None, 0);
    let sent = loop {
        if run.is_empty() {
            break Sent::Done;
        }
        match send_batch(&mut run) {
            Ok(count) => left += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock && left == 0 => break Sent::Full,
            Err(error) if error.kind() == ErrorKind::WouldBlock && raised.is_none() => {
                raised = Some(raise_send_buffer(socket));
            }
            Err(error) => break dropped(error),
        }
    };
    if let Some(Ok(bytes)) = raised {
        // A failure leaves the buffer larger than wanted, which the next setting corrects.
        let _ = set_send_buffer(socket, bytes);
    }
    sent
}

/// Makes room for one run of small datagrams, each of which takes up to a page; gives the size before.
fn raise_send_buffer(socket: impl AsFd) -> io::Result<usize> {
    const RUN_ROOM: usize = SEGMENTS_MAX * 4096 + 2 * RUN_MAX;
    let before = sockopt::socket_send_buffer_size(socket.as_fd())?;
    set_send_buffer(socket, before + RUN_ROOM)?;
    Ok(before)
}

/// What an error other than `WouldBlock` means for a run. A queueing discipline reports a drop as `ENOBUFS`. A socket
/// that is out of memory still reports room, so the worker drops the run instead of waiting, which would be spinning.
pub(crate) fn dropped(error: io::Error) -> Sent {
    match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EMSGSIZE) => Sent::Lost(error),
        _ => Sent::Refused(error),
    }
}

/// A message header over borrowed parts; the caller keeps them alive while the kernel reads it.
pub(crate) fn header(address: &SockAddr, pieces: &[IoSlice<'_>]) -> msghdr {
    // SAFETY: all zeroes are a valid msghdr.
    let mut header: msghdr = unsafe { mem::zeroed() };
    header.msg_name = address.as_ptr().cast_mut().cast();
    header.msg_namelen = address.len();
    // An IoSlice has the layout of an iovec, as its documentation guarantees.
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len();
    header
}

/// Sends datagrams to `address` by one `sendmmsg`, and says how many left. The pieces of each datagram end at its
/// number in `ends`, of which there are at most [`BATCH`].
/// Errors: the kernel's; no datagram left.
pub(crate) fn send_messages(
    socket: impl AsFd,
    address: &SockAddr,
    pieces: &[IoSlice<'_>],
    ends: &[usize],
) -> io::Result<usize> {
    // SAFETY: all zeroes are a valid mmsghdr.
    let mut messages: [mmsghdr; BATCH] = unsafe { mem::zeroed() };
    let mut start = 0;
    for (message, end) in messages.iter_mut().zip(ends) {
        message.msg_hdr = header(address, &pieces[start..*end]);
        start = *end;
    }
    let count = c_uint::try_from(ends.len().min(BATCH)).unwrap_or(0);
    // SAFETY: the first `count` headers point to the address and to pieces that live until the call returns, with their
    // true lengths; the kernel only reads those.
    let sent = unsafe {
        libc::sendmmsg(socket.as_fd().as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

// Frames that leave by a device as those of the stack do: through its programs and its queueing discipline.
//
// Source: packet(7), `packet_snd` in `net/packet/af_packet.c` of Linux 6.18.

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A packet socket that receives nothing.
#[derive(Debug)]
pub struct DeviceSocket {
    socket: Socket,
    index: u32,
}

impl DeviceSocket {
    /// Opens a socket for the device of this index. Wants CAP_NET_RAW.
    pub fn open(index: u32) -> io::Result<Self> {
        // Of protocol 0 and not bound, it receives nothing.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, index })
    }

    /// Sends a frame with its Ethernet header.
    /// Errors: `InvalidInput` for one that is shorter, `WouldBlock` where the device's queue is full, others of the
    /// kernel.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let Some([.., high, low]) = frame.get(..ETHERNET) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let protocol = u16::from_be_bytes([*high, *low]);
        self.socket.send_to(frame, &link_layer(self.index, protocol, [0; 6])).map(drop)
    }
}
