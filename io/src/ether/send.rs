//! Send by the packet socket: a run by as few calls of `sendmmsg` as possible, a frame per cell.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::SockAddr;

use super::frame::Mac;
use super::frame::{ETHER_TYPE, head};
use super::socket::CellSocket;
use crate::link::{RUN_MAX, SEGMENTS_MAX, Sent};
use crate::run::Run;
use crate::sockets::{self, BATCH, link_layer, send_messages};

/// Most pieces per `sendmmsg`: the head, the header of a cell, and one or two pieces of its payload.
const PIECES: usize = 160;

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
    segment > 0 && total <= RUN_MAX && total.div_ceil(segment) <= SEGMENTS_MAX
}

/// Sends the run, whole or not at all.
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
