//! From a lane's stream of cells back to records, and so to frames.
//!
//! Stands between [`crate::receive::reorder`] and delivery. A record in several cells becomes a list of pieces; no byte is
//! copied. After cells that were given up, `block_offset` shows where the next record begins (RFC 9347, 2.2).
//!
//! Invariants: a frame comes out whole or not at all; each piece in the queue owns a reference to its buffer.

use crate::outputs::counters::Counters;
use crate::receive::pool::{Piece, Pool};
use crate::receive::reorder::Arrived;
use crate::session::table::NOBODY;
use crate::wire::cell::NO_RECORD;
use crate::wire::record::{self, PREFIX, Start, VNET};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Pieces of one record at most: the longest one in the smallest cells that a sender makes (548 bytes, 516 of them payload
/// where they are sealed). The device takes no more in one write.
pub(crate) const PIECES_MAX: usize = 128;

/// Where a frame came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) peer: u16,
    /// The peer's link over which the last cell of its lane came.
    pub(crate) link: u8,
}

/// Frames that are ready to be handed to the device.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// The pieces of all frames, one after the other.
    pieces: VecDeque<Piece>,
    /// For each frame: where it came from, and how many pieces it has.
    frames: VecDeque<(Arrival, usize)>,
}

impl Ready {
    /// Moves the pieces of the next frame to `pieces`; returns where it came from.
    pub(crate) fn pop(&mut self, pieces: &mut Vec<Piece>) -> Option<Arrival> {
        let (from, count) = self.frames.pop_front()?;
        pieces.extend(self.pieces.drain(..count));
        Some(from)
    }

    /// A peer is gone, and its index may be another peer's when its frames are delivered.
    pub(crate) fn disown(&mut self, gone: u16) {
        for (from, _) in self.frames.iter_mut().filter(|(from, _)| from.peer == gone) {
            from.peer = NOBODY;
        }
    }

    pub(crate) fn buffers(&self) -> impl Iterator<Item = u16> {
        self.pieces.iter().map(|piece| piece.buffer)
    }

    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    fn push(&mut self, from: Arrival, pieces: impl ExactSizeIterator<Item = Piece>) {
        self.frames.push_back((from, pieces.len()));
        self.pieces.extend(pieces);
    }
}

/// A lane's place in its stream.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    /// The pieces of a record whose end has not come yet.
    begun: Vec<Piece>,
    /// Bytes that this record still lacks; 0: none is begun.
    lacking: usize,
    /// A cell was given up: the reassembler skips to where a record begins.
    lost: bool,
    /// The peer's link over which the lane's last cell came.
    pub(super) link: u8,
}

impl Reassembler {
    /// Bytes that it has on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.begun.capacity() * size_of::<Piece>()
    }

    /// The buffers in which the begun record lies.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = u16> {
        self.begun.iter().map(|piece| piece.buffer)
    }

    /// Whether a record has begun whose end has not come.
    pub(crate) fn is_begun(&self) -> bool {
        self.lacking > 0
    }

    /// Takes the next cell of the lane, whose reference it takes over, and hands complete frames to `ready`.
    pub(crate) fn cell(
        &mut self,
        cell: Arrived,
        peer: u16,
        pool: &mut Pool,
        ready: &mut Ready,
        counters: &mut Counters,
    ) {
        let length = usize::from(cell.payload.length);
        let continues = self.lacking.min(length);
        let begins = (cell.first_record != NO_RECORD).then_some(usize::from(cell.first_record).min(length));
        if !self.lost && begins.is_some_and(|begins| begins != continues) {
            counters.records_malformed += 1;
            self.discard(pool);
            self.lost = true;
        }
        let at = if self.lost {
            self.lost = begins.is_none();
            begins.unwrap_or(length)
        } else {
            if continues > 0 {
                self.go_on(part(cell.payload, 0, continues), peer, pool, ready, counters);
            }
            continues
        };
        self.records(cell.payload, at, peer, pool, ready, counters);
        pool.release(cell.payload.buffer);
    }

    /// Cells of the lane were given up: the record that is begun is spoiled.
    pub(crate) fn gap(&mut self, pool: &mut Pool, counters: &mut Counters) {
        if self.lacking > 0 {
            counters.records_spoiled += 1;
        }
        self.discard(pool);
        self.lost = true;
    }

    /// Forgets the record that is begun.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        self.lacking = 0;
        for piece in self.begun.drain(..) {
            pool.release(piece.buffer);
        }
    }

    /// Takes the next bytes of the record that is begun. A record in more pieces than [`PIECES_MAX`] is spoiled.
    fn go_on(
        &mut self,
        piece: Piece,
        peer: u16,
        pool: &mut Pool,
        ready: &mut Ready,
        counters: &mut Counters,
    ) {
        if self.begun.len() == PIECES_MAX {
            counters.records_malformed += 1;
            self.discard(pool);
            self.lost = true;
            return;
        }
        pool.retain(piece.buffer);
        self.begun.push(piece);
        self.lacking -= usize::from(piece.length);
        if self.lacking == 0 {
            ready.push(Arrival { peer, link: self.link }, self.begun.drain(..));
        }
    }

    /// Takes the records that begin in a cell, from `at` on.
    fn records(
        &mut self,
        payload: Piece,
        mut at: usize,
        peer: u16,
        pool: &mut Pool,
        ready: &mut Ready,
        counters: &mut Counters,
    ) {
        let length = usize::from(payload.length);
        while at < length {
            match record::parse(&pool.bytes(payload)[at..]) {
                Ok(Start::Padding) => return,
                Ok(Start::Frame(bytes)) => {
                    at += PREFIX;
                    let here = bytes.min(length - at);
                    self.lacking = bytes;
                    self.lost = false;
                    self.go_on(part(payload, at, here), peer, pool, ready, counters);
                    at += here;
                }
                Err(_) => {
                    counters.records_malformed += 1;
                    self.lost = true;
                    return;
                }
            }
        }
    }
}

fn part(payload: Piece, at: usize, length: usize) -> Piece {
    #[expect(clippy::cast_possible_truncation, reason = "within a piece, whose length is 16 bits")]
    let (at, length) = (at as u16, length as u16);
    Piece { buffer: payload.buffer, start: payload.start + at, length }
}

/// The frame in the pieces of a record: after the virtio header, which lies whole in the first piece.
pub(crate) fn ethernet_head(first_piece: &[u8]) -> &[u8] {
    first_piece.get(VNET..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
