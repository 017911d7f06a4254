//! The packet socket of an `ether` link: bound to a NIC and the EtherType, without Ethernet headers (`SOCK_DGRAM`).
//!
//! The kernel writes and strips those. It queues frames as it does for UDP: through the NIC's queueing discipline,
//! and counts them until they have left.
//!
//! Source: packet(7), `net/packet/af_packet.c` of Linux 6.18.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{mem, ptr};

use libc::{c_uint, iovec, mmsghdr, sockaddr_ll};
use socket2::{SockAddr, Socket, Type};

use super::frame::{ETHER_TYPE, GROUP, HEAD, Mac, address_of, cell_length, head};
use crate::link::{RUN_MAX, ReceiveBuffer, SEGMENTS_MAX, Sent};
use crate::run::Run;
use crate::sockets::{self, BATCH, filter, length_of, link_layer, packet_socket, send_messages, set_option};

/// A packet socket, non-blocking.
#[derive(Debug)]
pub(super) struct CellSocket(Socket);

impl CellSocket {
    /// Opens a socket for the cells of `port` on the NIC of this index. Wants CAP_NET_RAW.
    pub(super) fn open(index: u32, port: u16) -> Result<Self, (&'static str, io::Error)> {
        let failed = |step| move |source| (step, source);
        let opened = Self(packet_socket(Type::DGRAM).map_err(failed("opening a socket"))?);
        // All sockets of a NIC see all frames of the EtherType: those of this one begin with the port.
        let cells = filter(libc::BPF_H | libc::BPF_ABS, (libc::BPF_JEQ, port.into()), true, u32::MAX);
        opened.0.attach_filter(&cells).map_err(failed("SO_ATTACH_FILTER"))?;
        opened.0.bind(&link_layer(index, ETHER_TYPE, [0; 6])).map_err(failed("bind"))?;
        opened.join(index).map_err(failed("joining the multicast group"))?;
        Ok(opened)
    }

    pub(super) fn adopt(socket: OwnedFd) -> Self {
        Self(socket.into())
    }

    /// The address of the NIC, as it is now.
    pub(super) fn mac(&self) -> io::Result<Mac> {
        let mut address = self.0.local_addr()?.as_storage();
        // SAFETY: the kernel has written an address of a packet socket; any bytes are one.
        Ok(mac_in(unsafe { address.view_as::<sockaddr_ll>() }))
    }

    /// Lets the NIC receive for the group; that ends with the socket.
    fn join(&self, index: u32) -> io::Result<()> {
        let mut mr_address = [0; 8];
        mr_address[..GROUP.len()].copy_from_slice(&GROUP);
        let request = libc::packet_mreq {
            mr_ifindex: index.cast_signed(),
            mr_type: u16::try_from(libc::PACKET_MR_MULTICAST).unwrap_or_default(),
            mr_alen: 6,
            mr_address,
        };
        set_option(&self.0, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }
}

impl AsFd for CellSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The Ethernet address in an address that the kernel wrote.
pub(super) fn mac_in(address: &sockaddr_ll) -> Mac {
    let [a, b, c, d, e, f, ..] = address.sll_addr;
    [a, b, c, d, e, f]
}

// Send by the packet socket: a run by as few calls of `sendmmsg` as possible, a frame per cell.

/// Most pieces per `sendmmsg`: the head, the header of a cell, and one or two pieces of its payload.
const PIECES: usize = 160;

/// Where a run goes.
pub(super) struct Way {
    pub(super) index: u32,
    /// The NIC at the other end.
    pub(super) to: Mac,
    pub(super) port: u16,
}

/// Whether a run of `total` bytes is within the limits.
pub(super) fn is_run(total: usize, segment: usize) -> bool {
    segment > 0 && total <= RUN_MAX && total.div_ceil(segment) <= SEGMENTS_MAX
}

pub(super) fn send_run(socket: &CellSocket, way: &Way, slices: &[IoSlice<'_>], segment: usize) -> Sent {
    let (socket, to) = (socket.as_fd(), link_layer(way.index, ETHER_TYPE, way.to));
    sockets::send_singly(socket, Run::new(slices), |run| send_batch(socket, &to, way.port, run, segment))
}

/// Sends cells off the front of the run by one `sendmmsg` and says how many left. An error means that none did.
fn send_batch(
    socket: BorrowedFd<'_>,
    to: &SockAddr,
    port: u16,
    run: &mut Run<'_>,
    segment: usize,
) -> io::Result<usize> {
    let bytes = run.bytes();
    let length =
        |bytes: usize| u16::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE));
    let full = head(port, length(segment.min(bytes))?);
    let last = head(port, length(bytes % segment)?);
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let mut ends = [0; BATCH];
    let (mut rest, mut used, mut count) = (*run, 0, 0);
    while count < BATCH && used < PIECES && !rest.is_empty() {
        let is_full = bytes >= (count + 1) * segment || count == 0 && bytes <= segment;
        let Some(taken) = rest.take(segment, &mut pieces[used + 1..]) else { break };
        pieces[used] = IoSlice::new(if is_full { &full } else { &last });
        used += 1 + taken;
        ends[count] = used;
        count += 1;
    }
    if count == 0 {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let sent = send_messages(socket, to, &pieces[..used], &ends[..count])?;
    run.skip(sent * segment);
    Ok(sent)
}

// Receive by the packet socket: one `recvmmsg` for up to 32 frames, which then go on as cells into the caller's
// buffers.
//
// The kernel coalesces nothing here, so cells are coalesced by a copy (`coalesce.rs`), which costs less than a turn of
// the worker for each.

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

// Coalesces cells into receive buffers, as GRO does for UDP: one buffer takes cells of one sender and one length, and
// as the last one perhaps a shorter one.

/// The most cells in one buffer, as with UDP.
const CELLS_MAX: usize = 128;

pub(super) struct Coalescer<'a, 'b> {
    buffers: &'a mut [ReceiveBuffer<'b>],
    /// Buffers in use; the last of them may take more.
    filled: usize,
}

impl<'a, 'b> Coalescer<'a, 'b> {
    pub(super) fn new(buffers: &'a mut [ReceiveBuffer<'b>]) -> Self {
        Self { buffers, filled: 0 }
    }

    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Takes a cell of `length` bytes, which `copy` writes; `false`: there is no room for it, and nothing was written.
    pub(super) fn push(&mut self, from: SocketAddr, length: usize, copy: impl FnOnce(&mut [u8])) -> bool {
        if let Some(last) = self.filled.checked_sub(1).map(|last| &mut self.buffers[last])
            && takes(last, from, length)
        {
            copy(&mut last.bytes[last.len..last.len + length]);
            last.len += length;
            return true;
        }
        let Some(next) = self.buffers.get_mut(self.filled).filter(|next| next.bytes.len() >= length) else {
            return false;
        };
        copy(&mut next.bytes[..length]);
        (next.len, next.segment, next.from) = (length, length, from);
        self.filled += 1;
        true
    }
}

/// Whether a cell may follow those that are there: none of them is shorter than the first.
fn takes(buffer: &ReceiveBuffer<'_>, from: SocketAddr, length: usize) -> bool {
    let whole = buffer.len.is_multiple_of(buffer.segment);
    let fits = length <= buffer.segment && buffer.len + length <= buffer.bytes.len();
    whole && fits && buffer.from == from && buffer.len / buffer.segment < CELLS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coalesces these cells into `room`; gives the buffers' cells, and whether each was taken.
    fn coalesced(room: &mut [[u8; 10]], cells: &[(u16, &str)]) -> (Vec<Vec<String>>, Vec<bool>) {
        let mut buffers: Vec<ReceiveBuffer<'_>> = room.iter_mut().map(|b| ReceiveBuffer::new(b)).collect();
        let mut coalescer = Coalescer::new(&mut buffers);
        let taken = cells.iter().map(|(port, cell)| {
            let from = SocketAddr::from(([127, 0, 0, 1], *port));
            coalescer.push(from, cell.len(), |bytes| bytes.copy_from_slice(cell.as_bytes()))
        });
        let (taken, filled) = (taken.collect(), coalescer.filled());
        let text = |cell: &[u8]| String::from_utf8_lossy(cell).into_owned();
        (buffers[..filled].iter().map(|b| b.datagrams().map(text).collect()).collect(), taken)
    }

    #[test]
    fn cells_of_one_length_and_sender_share_a_buffer() {
        let cells = [(1, "aaa"), (1, "bbb"), (1, "c"), (1, "ddd"), (2, "eee"), (2, "ffff")];
        let (buffers, taken) = coalesced(&mut [[0; 10]; 4], &cells);
        assert_eq!(buffers, [vec!["aaa", "bbb", "c"], vec!["ddd"], vec!["eee"], vec!["ffff"]]);
        assert_eq!(taken, [true; 6]);
    }

    #[test]
    fn what_finds_no_room_is_left() {
        let (buffers, taken) =
            coalesced(&mut [[0; 10]; 1], &[(1, "aaaa"), (1, "bbbb"), (1, "cccc"), (2, "d")]);
        assert_eq!(buffers, [vec!["aaaa", "bbbb"]]);
        assert_eq!(taken, [true, true, false, false]);
    }
}
