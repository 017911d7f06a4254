//! Receive by the packet socket: one `recvmmsg` for up to 32 frames, which then go on as cells into the caller's
//! buffers.
//!
//! The kernel coalesces nothing here, so cells are coalesced by a copy (`coalesce.rs`), which costs less than a turn of
//! the worker for each.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::{c_uint, iovec, mmsghdr, sockaddr_ll};

use super::coalesce::Coalescer;
use super::frame::address_of;
use super::frame::{HEAD, cell_length};
use super::socket::{CellSocket, mac_in};
use crate::sockets::length_of;

/// Frames per call.
const BATCH: usize = 32;
/// Calls per round, so that a flood of frames for other links does not keep the worker.
const ROUNDS: usize = 8;

/// Frames that came and are not yet cells in buffers.
#[derive(Debug)]
pub(super) struct Stage {
    bytes: Box<[u8]>,
    /// Room of each frame; grows when a longer one has come, which is lost.
    stride: usize,
    frames: [Frame; BATCH],
    /// Frames that wait: from `next` up to `end`.
    next: usize,
    end: usize,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    length: usize,
    from: SocketAddr,
}

impl Stage {
    /// With room for frames of a NIC of this MTU.
    pub(super) fn new(mtu: usize) -> Self {
        let frames = [Frame { length: 0, from: address_of([0; 6], 0) }; BATCH];
        Self { bytes: vec![0; BATCH * mtu].into(), stride: mtu, frames, next: 0, end: 0 }
    }

    /// Whether frames wait here, which the socket no longer reports.
    pub(super) fn holds_frames(&self) -> bool {
        self.next < self.end
    }

    /// Fills buffers with the cells of `port`.
    pub(super) fn receive(
        &mut self,
        socket: &CellSocket,
        port: u16,
        coalescer: &mut Coalescer<'_, '_>,
    ) -> io::Result<()> {
        for _ in 0..ROUNDS {
            if !self.empty_into(port, coalescer) {
                break;
            }
            (self.next, self.end) = (0, self.fill(socket, port)?);
            if self.end < BATCH {
                self.empty_into(port, coalescer);
                break;
            }
        }
        Ok(())
    }

    /// Moves cells to buffers; `false`: there is no more room.
    fn empty_into(&mut self, port: u16, coalescer: &mut Coalescer<'_, '_>) -> bool {
        while self.next < self.end {
            let (frame, at) = (self.frames[self.next], self.next * self.stride);
            let bytes = &self.bytes[at..at + frame.length];
            if let Some((head, rest)) = bytes.split_first_chunk::<HEAD>()
                && let Some(length) = cell_length(*head, port, rest.len())
                && !coalescer.push(frame.from, length, |room| room.copy_from_slice(&rest[..length]))
            {
                return false;
            }
            self.next += 1;
        }
        true
    }

    /// One call; says how many frames came.
    fn fill(&mut self, socket: &CellSocket, port: u16) -> io::Result<usize> {
        // SAFETY: all zeroes are a valid sockaddr_ll.
        let mut addresses: [sockaddr_ll; BATCH] = unsafe { mem::zeroed() };
        let mut pieces = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all zeroes are a valid mmsghdr.
        let mut messages: [mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (slot, room) in self.bytes.chunks_exact_mut(self.stride).take(BATCH).enumerate() {
            pieces[slot] = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            let header = &mut messages[slot].msg_hdr;
            header.msg_name = (&raw mut addresses[slot]).cast();
            header.msg_namelen = length_of::<sockaddr_ll>();
            header.msg_iov = &raw mut pieces[slot];
            header.msg_iovlen = 1;
        }
        let (count, flags) = (c_uint::try_from(BATCH).unwrap_or(0), libc::MSG_DONTWAIT | libc::MSG_TRUNC);
        // SAFETY: the headers point to room and addresses that live until the call returns, with their true lengths; no
        // timeout is passed.
        let came = unsafe {
            let socket = socket.as_fd().as_raw_fd();
            libc::recvmmsg(socket, messages.as_mut_ptr(), count, flags, ptr::null_mut())
        };
        let Ok(came) = usize::try_from(came) else {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing { Ok(0) } else { Err(error) };
        };
        let mut longest = self.stride;
        for ((frame, message), address) in self.frames.iter_mut().zip(&messages).zip(&addresses).take(came) {
            let length = message.msg_len as usize;
            longest = longest.max(length);
            let from = address_of(mac_in(address), port);
            *frame = Frame { length: if length > self.stride { 0 } else { length }, from };
        }
        if longest > self.stride {
            // The NIC has a larger MTU now. Frames that fit are passed on from where they lie.
            self.grow(longest, came);
        }
        Ok(came)
    }

    /// Makes room for longer frames, and keeps the first `came`.
    fn grow(&mut self, stride: usize, came: usize) {
        let mut bytes = vec![0; BATCH * stride];
        for (slot, frame) in self.frames[..came].iter().enumerate() {
            let old = &self.bytes[slot * self.stride..][..frame.length];
            bytes[slot * stride..][..frame.length].copy_from_slice(old);
        }
        (self.bytes, self.stride) = (bytes.into(), stride);
    }
}
