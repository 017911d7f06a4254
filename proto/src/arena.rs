//! The sender's memory: a ring of cell slots into which frames are read, from which cells are sent, and in which sent
//! cells stay for repair until the ring comes round.
//!
//! A slot is a cell as it travels: header room, then payload. A frame is read with the header rooms skipped
//! ([`Arena::read_space`]), so it is in cells as soon as it is in memory, and neighbouring slots are one contiguous run
//! of equal segments for `UDP_SEGMENT`. Each byte is copied by the two system calls and nowhere else.
//!
//! Positions count slots since start and never wrap. Invariant: `unsent <= head <= unsent + capacity - span`, so that
//! a read never overwrites a cell that still has to leave.

use crate::class::Treatment;
use crate::wire::cell::{HEADER, NO_RECORD};
use crate::wire::record::{PREFIX, RECORD_MAX, RECORD_START_MIN};
use alloc::boxed::Box;
use alloc::vec;

/// The peer of a cell whose lane has ended; no peer has this index.
const NOBODY: u16 = u16::MAX;

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    /// Index of the peer that it is for.
    pub(crate) peer: u16,
    pub(crate) lane: u8,
    pub(crate) lane_seq: u64,
    /// Bytes of payload.
    pub(crate) length: u16,
    /// Where in the payload the first record begins, or `NO_RECORD`.
    pub(crate) first_record: u16,
    /// How its frames are sent.
    pub(crate) treatment: Treatment,
    /// Links that it was put on and that are not known to have lost it.
    pub(crate) copies: u8,
}

/// The ring of slots.
pub(crate) struct Arena {
    bytes: Box<[u8]>,
    cells: Box<[Cell]>,
    /// Bytes of a slot.
    stride: usize,
    /// The next slot to fill.
    head: u64,
    /// The next slot to send for the first time.
    unsent: u64,
    /// The oldest slot that was filled with the present stride.
    floor: u64,
}

impl Arena {
    /// A ring of `slots` cells (a power of two) of at most `cell_max` bytes each.
    pub(crate) fn new(cell_max: u16, slots: usize) -> Self {
        assert!(slots.is_power_of_two(), "a position becomes an index by masking");
        let mut arena = Self {
            bytes: Box::default(),
            cells: vec![Cell::default(); slots].into_boxed_slice(),
            stride: 0,
            head: 0,
            unsent: 0,
            floor: 0,
        };
        arena.set_cell_max(cell_max);
        arena
    }

    /// Changes the size of cells. What was kept for repair is forgotten; nothing may be waiting to be sent.
    pub(crate) fn set_cell_max(&mut self, cell_max: u16) {
        debug_assert!(!self.has_unsent());
        self.stride = usize::from(cell_max);
        self.bytes = vec![0; self.stride * self.cells.len()].into_boxed_slice();
        assert!(self.cells.len() >= 2 * self.span(), "the ring must hold two frames of the longest kind");
        self.floor = self.head;
    }

    /// The cells of a peer are nobody's any more: its lanes have ended.
    pub(crate) fn disown(&mut self, peer: u16) {
        for cell in self.cells.iter_mut().filter(|cell| cell.peer == peer) {
            cell.peer = NOBODY;
        }
    }

    /// Bytes of the largest cell.
    pub(crate) fn cell_max(&self) -> usize {
        self.stride
    }

    /// Bytes of payload in the largest cell.
    pub(crate) fn payload_max(&self) -> usize {
        self.stride - HEADER
    }

    /// Cells that the longest frame can need.
    fn span(&self) -> usize {
        RECORD_MAX.div_ceil(self.payload_max())
    }

    /// Whether another frame can be read.
    pub(crate) fn has_room(&self) -> bool {
        let waiting = usize::try_from(self.head - self.unsent).unwrap_or(usize::MAX);
        waiting + 2 * self.span() <= self.cells.len()
    }

    /// Whether a cell waits to be sent for the first time.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent < self.head
    }

    /// The next slots to be sent for the first time.
    pub(crate) fn unsent(&self) -> core::ops::Range<u64> {
        self.unsent..self.head
    }

    /// The first `count` unsent slots have been sent.
    pub(crate) fn advance(&mut self, count: u64) {
        self.unsent += count;
        debug_assert!(self.unsent <= self.head);
    }

    /// Whether `slot` still holds the cell that was put there.
    pub(crate) fn keeps(&self, slot: u64) -> bool {
        let oldest = (self.head + self.span() as u64).saturating_sub(self.cells.len() as u64);
        (oldest.max(self.floor)..self.head).contains(&slot)
    }

    fn index(&self, slot: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the mask keeps the lower bits")]
        let lower = slot as usize;
        lower & (self.cells.len() - 1)
    }

    /// What `slot` holds.
    pub(crate) fn cell(&self, slot: u64) -> &Cell {
        &self.cells[self.index(slot)]
    }

    pub(crate) fn cell_mut(&mut self, slot: u64) -> &mut Cell {
        &mut self.cells[self.index(slot)]
    }

    /// A link has lost the cell in `slot`; returns whether another still carries it.
    pub(crate) fn lose_copy(&mut self, slot: u64) -> bool {
        let cell = self.cell_mut(slot);
        cell.copies = cell.copies.saturating_sub(1);
        cell.copies > 0
    }

    /// The bytes of `slot`, header room included.
    pub(crate) fn slot_mut(&mut self, slot: u64) -> &mut [u8] {
        let start = self.index(slot) * self.stride;
        &mut self.bytes[start..start + self.stride]
    }

    fn payload(&self, slot: u64) -> &[u8] {
        let start = self.index(slot) * self.stride;
        &self.bytes[start + HEADER..start + self.stride]
    }

    /// The cells in the first of `slots` as one piece of memory, as many as are neighbours (all but the last of them
    /// full), and how many they are; `None` when there are no slots.
    pub(crate) fn run(&self, slots: &[u64]) -> Option<(&[u8], usize)> {
        let first = *slots.first()?;
        let index = self.index(first);
        let follows = |pair: &[u64]| pair[1] == pair[0] + 1 && self.cell_bytes(pair[0]) == self.stride;
        let neighbours = 1 + slots.windows(2).take_while(|pair| follows(pair)).count();
        let count = neighbours.min(self.cells.len() - index);
        let bytes = (count - 1) * self.stride + self.cell_bytes(slots[count - 1]);
        Some((&self.bytes[index * self.stride..][..bytes], count))
    }

    /// Bytes of the cell in `slot`, header included.
    pub(crate) fn cell_bytes(&self, slot: u64) -> usize {
        HEADER + usize::from(self.cell(slot).length)
    }

    /// Where the next frame may be read into: first its virtio header, then its bytes.
    pub(crate) fn read_space(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (span, stride) = (self.span(), self.stride);
        let start = self.index(self.head) * stride;
        let (front, back) = self.bytes.split_at_mut(start);
        let slots = back.chunks_exact_mut(stride).chain(front.chunks_exact_mut(stride)).take(span);
        slots.enumerate().map(|(number, slot)| &mut slot[HEADER + if number == 0 { PREFIX } else { 0 }..])
    }

    /// The first bytes that were read: the virtio header and the head of the frame, as far as they lie in one piece.
    pub(crate) fn read_head(&self) -> &[u8] {
        &self.payload(self.head)[PREFIX..]
    }

    /// Copies the first `count` bytes that were read to the end of `target`.
    pub(crate) fn copy_read(&self, count: usize, target: &mut alloc::vec::Vec<u8>) {
        let mut slot = self.head;
        let mut skip = PREFIX;
        let end = target.len() + count;
        while target.len() < end {
            let payload = &self.payload(slot)[skip..];
            target.extend_from_slice(&payload[..payload.len().min(end - target.len())]);
            (slot, skip) = (slot + 1, 0);
        }
    }

    /// Makes the `length` bytes that were read one record, cut into new cells where they lie. `like` names the lane;
    /// its numbers rise from `like.lane_seq`. Returns how many cells it took.
    pub(crate) fn cut_in_place(&mut self, length: usize, like: Cell) -> u64 {
        let total = PREFIX + length;
        let head = self.head;
        crate::wire::record::emit(length, &mut self.slot_mut(head)[HEADER..]);
        let payload_max = self.payload_max();
        let mut taken = 0;
        for start in (0..total).step_by(payload_max) {
            let first_record = if start == 0 { 0 } else { NO_RECORD };
            self.open(Cell { lane_seq: like.lane_seq + taken, first_record, ..like });
            self.cell_mut(head + taken).length = fit(payload_max.min(total - start));
            taken += 1;
        }
        taken
    }

    /// Appends `record` (prefix included) to the cell in slot `open` when it still waits and has room, and goes on in
    /// new cells. Returns how many cells it took.
    pub(crate) fn append(&mut self, record: &[u8], open: Option<u64>, like: Cell) -> u64 {
        let mut rest = record;
        if let Some(slot) = open.filter(|slot| self.unsent().contains(slot)) {
            rest = self.append_to(slot, rest);
        }
        let mut taken = 0;
        while !rest.is_empty() {
            let first_record = if rest.len() == record.len() { 0 } else { NO_RECORD };
            let slot = self.open(Cell { lane_seq: like.lane_seq + taken, first_record, ..like });
            rest = self.fill(slot, rest);
            taken += 1;
        }
        taken
    }

    /// Begins `record` in a cell that has been begun, or pads that cell when too little room is left.
    fn append_to<'a>(&mut self, slot: u64, record: &'a [u8]) -> &'a [u8] {
        let used = usize::from(self.cell(slot).length);
        if used + RECORD_START_MIN > self.payload_max() {
            self.slot_mut(slot)[HEADER + used..].fill(0);
            self.cell_mut(slot).length = fit(self.payload_max());
            return record;
        }
        if self.cell(slot).first_record == NO_RECORD {
            self.cell_mut(slot).first_record = fit(used);
        }
        self.fill(slot, record)
    }

    /// Copies as much of `bytes` as fits behind what `slot` holds; returns the rest.
    fn fill<'a>(&mut self, slot: u64, bytes: &'a [u8]) -> &'a [u8] {
        let used = usize::from(self.cell(slot).length);
        let (now, rest) = bytes.split_at(bytes.len().min(self.payload_max() - used));
        self.slot_mut(slot)[HEADER + used..][..now.len()].copy_from_slice(now);
        self.cell_mut(slot).length = fit(used + now.len());
        rest
    }

    /// Takes the next slot.
    fn open(&mut self, cell: Cell) -> u64 {
        let slot = self.head;
        *self.cell_mut(slot) = Cell { length: 0, ..cell };
        self.head += 1;
        slot
    }

    /// The last slot that was taken.
    pub(crate) fn last(&self) -> u64 {
        self.head - 1
    }
}

fn fit(bytes: usize) -> u16 {
    u16::try_from(bytes).expect("a cell's payload is below 64 KB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn stream(arena: &Arena, slots: core::ops::Range<u64>) -> Vec<u8> {
        slots.flat_map(|slot| arena.payload(slot)[..usize::from(arena.cell(slot).length)].to_vec()).collect()
    }

    fn read(arena: &mut Arena, bytes: &[u8]) {
        let mut rest = bytes;
        for part in arena.read_space() {
            let (now, later) = rest.split_at(rest.len().min(part.len()));
            part[..now.len()].copy_from_slice(now);
            rest = later;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_frame_read_in_place_is_a_stream_of_cells() {
        let mut arena = Arena::new(116, 2048);
        let frame: Vec<u8> = (0..=255).cycle().take(1000).collect();
        read(&mut arena, &frame);
        let taken = arena.cut_in_place(frame.len(), Cell::default());
        assert_eq!(taken, 11, "1004 bytes in cells of 100");
        let bytes = stream(&arena, 0..taken);
        assert_eq!(bytes[..PREFIX], [1, 0, 3, 232]);
        assert_eq!(bytes[PREFIX..], frame);
        assert_eq!(arena.cell(0).first_record, 0);
        assert_eq!(arena.cell(1).first_record, NO_RECORD);
        assert_eq!(arena.cell(10).lane_seq, 10);
    }

    #[test]
    fn small_records_share_a_cell_that_still_waits() {
        let mut arena = Arena::new(116, 2048);
        assert_eq!(arena.append(&[1; 60], None, Cell::default()), 1);
        assert_eq!(
            arena.append(&[2; 60], Some(0), Cell { lane_seq: 1, ..Cell::default() }),
            1,
            "40 here, 20 there"
        );
        assert_eq!(stream(&arena, 0..2), [[1; 60], [2; 60]].concat());
        assert_eq!(arena.cell(0).first_record, 0);
        assert_eq!(arena.cell(1).first_record, NO_RECORD);
        assert_eq!(arena.append(&[3; 60], Some(1), Cell::default()), 0);
        assert_eq!(arena.cell(1).first_record, 20);
        arena.advance(2);
        assert_eq!(arena.append(&[4; 60], Some(1), Cell::default()), 1, "a cell that has left is closed");
    }

    #[test]
    fn a_run_ends_behind_a_short_cell_a_jump_and_the_end_of_the_ring() {
        let mut arena = Arena::new(1452, 128);
        for length in [1436, 1436, 100, 100] {
            arena.append(&alloc::vec![1; length], None, Cell::default());
        }
        let run = |arena: &Arena, slots: &[u64]| arena.run(slots).map(|(bytes, count)| (bytes.len(), count));
        assert_eq!(run(&arena, &[0, 1, 2, 3]), Some((1452 + 1452 + 116, 3)));
        assert_eq!(run(&arena, &[3]), Some((116, 1)));
        assert_eq!(run(&arena, &[1, 0]), Some((1452, 1)));
        assert_eq!(run(&arena, &[]), None);
        arena.advance(4);
        for _ in 4..140 {
            arena.append(&[1; 1436], None, Cell::default());
            arena.advance(1);
        }
        assert_eq!(run(&arena, &[126, 127, 128]), Some((2 * 1452, 2)));
    }

    #[test]
    fn the_ring_keeps_what_was_sent_until_it_comes_round() {
        let mut arena = Arena::new(1452, 128);
        for _ in 0..100 {
            arena.append(&[1; 1000], None, Cell::default());
            arena.advance(1);
        }
        assert!(arena.keeps(99));
        assert!(!arena.keeps(100), "not yet filled");
        assert!(arena.keeps(100 + 46 - 128));
        assert!(!arena.keeps(100 + 46 - 128 - 1), "may be overwritten by the next read");
        arena.set_cell_max(1252);
        assert!(!arena.keeps(99));
    }
}
