//! Send by the packet socket: a run by as few `sendmmsg` as it takes, a frame per cell.

use std::io::{self, ErrorKind, IoSlice};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_uint, mmsghdr};

use super::RUN_MAX;
use super::address::Mac;
use super::frame::head;
use super::socket::{CellSocket, length_of, link_layer};
use crate::cut::Run;
use crate::link::Sent;

/// Most frames per `sendmmsg`.
const BATCH: usize = 32;
/// Most pieces per `sendmmsg`: the head, the header of a cell, and one or two pieces of its payload.
const PIECES: usize = 160;
/// Most cells of a run.
const CELLS_MAX: usize = 128;
/// Room for one run of small cells, each of which takes up to a page.
const RUN_ROOM: usize = CELLS_MAX * 4096 + 2 * RUN_MAX;

/// Where a run goes.
pub(super) struct Way {
    /// Index of the NIC.
    pub(super) index: i32,
    /// The NIC at the other end.
    pub(super) to: Mac,
    pub(super) port: u16,
}

/// Whether a run of `total` bytes is within the limits.
pub(super) fn is_run(total: usize, segment: usize) -> bool {
    segment > 0 && total <= RUN_MAX && total.div_ceil(segment) <= CELLS_MAX
}

/// Sends the run, whole or not at all: once the first frame has left, the others get the room that they need.
pub(super) fn send_run(socket: &CellSocket, way: &Way, slices: &[IoSlice<'_>], segment: usize) -> Sent {
    let (mut run, mut raised, mut left) = (Run::new(slices), None, 0);
    let sent = loop {
        if run.is_empty() {
            break Sent::Done;
        }
        match send_batch(socket.as_fd(), way, &mut run, segment) {
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
        let _ = socket.set_send_buffer(bytes);
    }
    sent
}

/// Makes room for one run; gives the size before.
fn raise_send_buffer(socket: &CellSocket) -> io::Result<usize> {
    let before = socket.send_buffer()?;
    socket.set_send_buffer(before + RUN_ROOM)?;
    Ok(before)
}

/// What the queueing discipline drops comes back as `ENOBUFS`. See the same for UDP: out of memory is no reason to wait.
pub(super) fn dropped(error: io::Error) -> Sent {
    match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EMSGSIZE) => Sent::Lost(error),
        _ => Sent::Refused(error),
    }
}

/// Sends cells off the front of the run by one `sendmmsg` and says how many left. An error means that none did.
fn send_batch(socket: BorrowedFd<'_>, way: &Way, run: &mut Run<'_>, segment: usize) -> io::Result<usize> {
    let address = link_layer(way.index, way.to);
    let bytes = run.bytes();
    let length =
        |bytes: usize| u16::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE));
    let full = head(way.port, length(segment.min(bytes))?);
    let last = head(way.port, length(bytes % segment)?);
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let mut ends = [0; BATCH];
    let (mut rest, mut used, mut count) = (*run, 0, 0);
    while count < BATCH && used < PIECES && !rest.is_empty() {
        let is_full = bytes >= (count + 1) * segment || count == 0 && bytes <= segment;
        let Some(cut) = rest.cut(segment, &mut pieces[used + 1..]) else { break };
        pieces[used] = IoSlice::new(if is_full { &full } else { &last });
        used += 1 + cut;
        ends[count] = used;
        count += 1;
    }
    if count == 0 {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    // SAFETY: all zeroes are a valid mmsghdr.
    let mut messages: [mmsghdr; BATCH] = unsafe { mem::zeroed() };
    let mut start = 0;
    for (message, end) in messages.iter_mut().zip(ends).take(count) {
        let header = &mut message.msg_hdr;
        header.msg_name = (&raw const address).cast_mut().cast();
        header.msg_namelen = length_of::<libc::sockaddr_ll>();
        // An IoSlice has the layout of an iovec, as its documentation guarantees.
        header.msg_iov = pieces[start..end].as_ptr().cast_mut().cast();
        header.msg_iovlen = end - start;
        start = end;
    }
    // SAFETY: the first `count` headers point to the address and to pieces that live until the call returns, with their
    // true lengths; the kernel only reads those.
    let sent = unsafe {
        let count = c_uint::try_from(count).unwrap_or(0);
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
    };
    let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
    run.skip(sent * segment);
    Ok(sent)
}
