//! Receive: one `recvmmsg` for up to 16 messages, each up to 64 KB of coalesced datagrams.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_uint, iovec, mmsghdr};
use socket2::{SockAddr, SockAddrStorage};

use super::RECEIVE_MAX;
use crate::link::ReceiveBuffer;
use crate::sockets::{control, length_of};

/// Room for the one control message that the kernel may write, the GRO segment size.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Fills slots with the datagrams that wait at the socket. All headers for the kernel are on the stack
/// (4 KB); nothing points into it after the return.
pub(super) fn receive(socket: BorrowedFd<'_>, buffers: &mut [ReceiveBuffer<'_>]) -> io::Result<usize> {
    let count = buffers.len().min(RECEIVE_MAX);
    let mut addresses: [_; RECEIVE_MAX] = std::array::from_fn(|_| SockAddrStorage::zeroed());
    let mut controls = [Control([0; 32]); RECEIVE_MAX];
    let mut pieces = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; RECEIVE_MAX];
    // SAFETY: all zeroes are a valid mmsghdr.
    let mut messages: [mmsghdr; RECEIVE_MAX] = unsafe { mem::zeroed() };
    for (slot, buffer) in buffers[..count].iter_mut().enumerate() {
        pieces[slot] = iovec { iov_base: buffer.bytes.as_mut_ptr().cast(), iov_len: buffer.bytes.len() };
        let header = &mut messages[slot].msg_hdr;
        header.msg_name = (&raw mut addresses[slot]).cast();
        header.msg_namelen = length_of::<SockAddrStorage>();
        header.msg_iov = &raw mut pieces[slot];
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut controls[slot]).cast();
        header.msg_controllen = mem::size_of::<Control>();
    }
    // SAFETY: the first `count` headers point to buffers, addresses and control room that live
    // until the call returns, with their true lengths.
    let received = unsafe { receive_messages(socket, &mut messages[..count]) }?;
    for (slot, address) in addresses.into_iter().enumerate().take(received) {
        let header = &messages[slot].msg_hdr;
        let buffer = &mut buffers[slot];
        let truncated = header.msg_flags & libc::MSG_TRUNC != 0;
        buffer.len = if truncated { 0 } else { messages[slot].msg_len as usize };
        // SAFETY: the kernel has written `msg_controllen` bytes of control messages to `controls[slot]`; that of UDP_GRO is one int.
        let segment: Option<c_int> = unsafe { control(header, libc::SOL_UDP, libc::UDP_GRO) };
        let segment = segment.and_then(|segment| usize::try_from(segment).ok());
        // Without one it is a single datagram.
        buffer.segment = segment.unwrap_or(buffer.len).max(1);
        // SAFETY: the kernel has written `msg_namelen` bytes of an address, and zeroes lie behind them.
        let address = unsafe { SockAddr::new(address, header.msg_namelen) };
        if let Some(from) = address.as_socket() {
            buffer.from = from;
        }
    }
    Ok(received)
}

/// # Safety
/// Each header points to live memory of the length it names.
unsafe fn receive_messages(socket: BorrowedFd<'_>, messages: &mut [mmsghdr]) -> io::Result<usize> {
    let count = c_uint::try_from(messages.len()).unwrap_or(0);
    loop {
        // SAFETY: by the caller's promise; no timeout is passed.
        let received = unsafe {
            let flags = libc::MSG_DONTWAIT;
            libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, flags, ptr::null_mut())
        };
        if let Ok(received) = usize::try_from(received) {
            return Ok(received);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}
