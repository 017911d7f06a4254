//! The sender's memory: a ring of cell slots into which frames are read, in which cells wait, from which they are sent,
//! and in which sent cells stay for repair until the ring comes round.
//!
//! A slot is a cell as it travels: header room, then payload. A frame is read with the header rooms skipped
//! ([`Ring::read_space`]), so it is in cells as soon as it is in memory, and neighbouring slots are one contiguous run
//! of equal segments for `UDP_SEGMENT`. Each byte is copied by the two system calls and nowhere else.
//!
//! Cells leave in the order that [`crate::send::queue`] gives, and few are dropped before; a slot is free again then. New cells
//! are put into the next free slots: a cell that waits for long is passed by, and holds up nobody. Positions count slots
//! since start and never wrap; several positions share a slot, one after the other.
//!
//! Invariant: the slots that the next frame is read into are free, and there are always enough of them.

use crate::policy::class::Treatment;
use crate::session::table::NOBODY;
use crate::time::Instant;
use crate::wire::cell::{HEADER, NO_RECORD};
use crate::wire::record::{PREFIX, RECORD_MAX, RECORD_START_MIN};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;

/// A cell that lacks at most this fraction of its payload is filled up with padding.
const PADDING_SHARE: usize = 8;

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    /// The position under which the slot was filled; written by the ring alone.
    pub(crate) position: u64,
    /// Index of the peer that it is for.
    pub(crate) peer: u16,
    pub(crate) lane: u8,
    /// It has neither been sent nor dropped.
    pub(crate) waits: bool,
    /// Its number in the lane, given when it is taken out of the queue.
    pub(crate) lane_seq: u64,
    /// The slot behind it in its chain, while it waits in one and is not the last.
    pub(crate) next: u64,
    /// When its first byte was read.
    pub(crate) since: Instant,
    /// Bytes of payload.
    pub(crate) length: u16,
    /// Where in the payload the first record begins, or `NO_RECORD`.
    pub(crate) first_record: u16,
    /// It ends in padding, so that nothing can be put behind.
    pub(crate) is_padded: bool,
    /// How its frames are sent.
    pub(crate) treatment: Treatment,
    /// Links that it was put on and that are not known to have lost it.
    pub(crate) copies: u8,
    /// How many cells leave the queue after it until its flow's last one has left, those of other flows included; set when it leaves.
    pub(crate) behind: u32,
}

/// Slots that were filled one after the other, each of which is linked to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    /// The slots at both ends, when `cells` is not 0.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) cells: usize,
}

#[derive(Default)]
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    cells: Box<[Cell]>,
    /// Bytes of a slot.
    stride: usize,
    /// The slots that are filled next, all free: as many as the longest frame can need.
    next: VecDeque<u64>,
    /// The position after the last of `next`.
    reach: u64,
    pub(super) waiting: usize,
    /// The oldest slot that was filled with the present stride.
    floor: u64,
}

impl Ring {
    /// A ring of `slots` cells (a power of two) of at most `cell_max` bytes each.
    pub(crate) fn new(cell_max: u16, slots: usize) -> Self {
        assert!(slots.is_power_of_two(), "a position becomes an index by masking");
        let mut ring = Self { cells: vec![Cell::default(); slots].into_boxed_slice(), ..Self::default() };
        ring.set_cell_max(usize::from(cell_max));
        ring
    }

    /// Changes the size of cells. What was kept for repair is forgotten; nothing may be waiting to be sent.
    pub(crate) fn set_cell_max(&mut self, cell_max: usize) {
        debug_assert!(!self.has_waiting());
        self.stride = cell_max;
        self.bytes = vec![0; self.stride * self.cells.len()].into_boxed_slice();
        assert!(self.cells.len() >= 2 * self.span(), "the ring must hold two frames of the longest kind");
        self.floor = self.head();
        self.reach = self.floor;
        self.next.clear();
        self.next.reserve(self.span());
        self.set_aside();
    }

    /// The slot that is filled next.
    fn head(&self) -> u64 {
        self.next.front().copied().unwrap_or(self.reach)
    }

    /// Finds free slots for the longest frame: from where it looked last, as long as that is less than one round away; else
    /// from the beginning, for slots that were passed by may be free by now.
    fn set_aside(&mut self) {
        let head = self.head();
        while self.next.len() < self.span() {
            if self.reach - head == self.cells.len() as u64 {
                self.next.clear();
                self.reach = head;
            }
            if !self.cell(self.reach).waits {
                self.next.push_back(self.reach);
            }
            self.reach += 1;
        }
    }

    /// Writes to all slots; nothing may be waiting to be sent.
    pub(crate) fn touch(&mut self) {
        debug_assert!(!self.has_waiting());
        self.bytes.fill(1);
    }

    /// The cells of a peer are nobody's any more: its lanes have ended.
    pub(crate) fn disown(&mut self, peer: u16) {
        for cell in self.cells.iter_mut().filter(|cell| cell.peer == peer) {
            cell.peer = NOBODY;
        }
    }

    pub(crate) fn cell_max(&self) -> usize {
        self.stride
    }

    pub(crate) fn payload_max(&self) -> usize {
        self.stride - HEADER
    }

    /// Cells that the longest frame can need.
    pub(crate) fn span(&self) -> usize {
        RECORD_MAX.div_ceil(self.payload_max())
    }

    /// Whether another frame can be held.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting + 2 * self.span() <= self.cells.len()
    }

    pub(crate) fn waiting_max(&self) -> usize {
        (self.cells.len() / 2).min(self.cells.len() - 2 * self.span()).max(1)
    }

    /// Whether as many slots wait as may.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.waiting >= self.waiting_max()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The cell in `slot` has been sent or dropped.
    pub(crate) fn release(&mut self, slot: u64) {
        self.cell_mut(slot).waits = false;
        self.waiting -= 1;
    }

    /// Whether `slot` still holds the cell that was put there.
    pub(crate) fn keeps(&self, slot: u64) -> bool {
        let cell = self.cell(slot);
        // No slot of a cell that waits is among those that are filled next.
        let is_there = slot >= self.floor && cell.position == slot;
        is_there && (cell.waits || !self.may_be_overwritten(slot))
    }

    /// Whether the next frame may be read over what `slot` holds.
    fn may_be_overwritten(&self, slot: u64) -> bool {
        let head = self.head();
        let position = head + (slot.wrapping_sub(head) & (self.cells.len() as u64 - 1));
        self.next.binary_search(&position).is_ok()
    }

    fn index(&self, slot: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the mask keeps the lower bits")]
        let lower = slot as usize;
        lower & (self.cells.len() - 1)
    }

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

    /// The payload of the cell in `slot`, as far as it is filled.
    pub(crate) fn filled(&self, slot: u64) -> &[u8] {
        &self.payload(slot)[..usize::from(self.cell(slot).length)]
    }

    pub(crate) fn filled_mut(&mut self, slot: u64) -> &mut [u8] {
        let length = usize::from(self.cell(slot).length);
        &mut self.slot_mut(slot)[HEADER..HEADER + length]
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

    /// The cell in `slot`, header included.
    pub(crate) fn sent(&self, slot: u64) -> &[u8] {
        let start = self.index(slot) * self.stride;
        &self.bytes[start..start + self.cell_bytes(slot)]
    }

    /// Bytes of the cell in `slot`, header included.
    pub(crate) fn cell_bytes(&self, slot: u64) -> usize {
        HEADER + usize::from(self.cell(slot).length)
    }

    /// Where the next frame may be read into: first its virtio header, then its bytes.
    pub(crate) fn read_space(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (stride, mask) = (self.stride, self.cells.len() as u64 - 1);
        let mut at = self.index(self.head());
        let (front, mut rest) = self.bytes.split_at_mut(at * stride);
        let mut front = Some(front);
        self.next.iter().enumerate().map(move |(number, slot)| {
            #[expect(clippy::cast_possible_truncation, reason = "the mask keeps the lower bits")]
            let index = (slot & mask) as usize;
            if index < at {
                (rest, at) = (front.take().unwrap_or_default(), 0);
            }
            let (_, from) = core::mem::take(&mut rest).split_at_mut((index - at) * stride);
            let (slot, behind) = from.split_at_mut(stride);
            (rest, at) = (behind, index + 1);
            &mut slot[HEADER + if number == 0 { PREFIX } else { 0 }..]
        })
    }

    /// The first bytes that were read: the virtio header and the head of the frame, as far as they lie in one piece.
    pub(crate) fn read_head(&self) -> &[u8] {
        &self.payload(self.head())[PREFIX..]
    }

    /// Copies the first `count` bytes that were read to the end of `target`.
    pub(crate) fn copy_read(&self, count: usize, target: &mut alloc::vec::Vec<u8>) {
        let (mut skip, mut rest) = (PREFIX, count);
        for slot in &self.next {
            let payload = &self.payload(*slot)[skip..];
            let here = &payload[..payload.len().min(rest)];
            target.extend_from_slice(here);
            (skip, rest) = (0, rest - here.len());
            if rest == 0 {
                return;
            }
        }
    }

    /// Makes the `length` bytes that were read one record, cut into new cells where they lie. `like` names the lane and
    /// the time. Returns the slots that it took.
    pub(crate) fn cut_in_place(&mut self, length: usize, like: Cell) -> Slots {
        let total = PREFIX + length;
        crate::wire::record::emit(length, &mut self.slot_mut(self.head())[HEADER..]);
        let payload_max = self.payload_max();
        let mut slots = Slots::default();
        for start in (0..total).step_by(payload_max) {
            let first_record = if start == 0 { 0 } else { NO_RECORD };
            let slot = self.open(&mut slots, Cell { first_record, ..like });
            self.cell_mut(slot).length = fit(payload_max.min(total - start));
        }
        self.pad_nearly_full(slots.last);
        self.set_aside();
        slots
    }

    /// Fills a cell up in which little room is left: a batch ends with a cell that is shorter than the others, and would
    /// otherwise end behind each superframe.
    fn pad_nearly_full(&mut self, slot: u64) {
        let room = self.payload_max() - usize::from(self.cell(slot).length);
        if 0 < room && room <= self.payload_max() / PADDING_SHARE {
            self.pad(slot);
        }
    }

    /// Fills a cell up, so that nothing can be put behind what it holds.
    fn pad(&mut self, slot: u64) {
        let used = usize::from(self.cell(slot).length);
        self.slot_mut(slot)[HEADER + used..].fill(0);
        let length = fit(self.payload_max());
        let cell = self.cell_mut(slot);
        (cell.length, cell.is_padded) = (length, true);
    }

    /// Appends `record` (prefix included) to the last cell of its lane that waits, `open`, as far as that has room, and
    /// goes on in new cells. Returns the slots that it took.
    pub(crate) fn append(&mut self, record: &[u8], open: Option<u64>, like: Cell) -> Slots {
        let mut slots = Slots::default();
        let mut rest = open.map_or(record, |slot| self.append_to(slot, record));
        while !rest.is_empty() {
            let first_record = if rest.len() == record.len() { 0 } else { NO_RECORD };
            let slot = self.open(&mut slots, Cell { first_record, ..like });
            rest = self.fill(slot, rest);
        }
        self.set_aside();
        slots
    }

    /// Begins `record` in a cell that has been begun, or pads that cell when too little room is left.
    fn append_to<'a>(&mut self, slot: u64, record: &'a [u8]) -> &'a [u8] {
        if self.cell(slot).is_padded {
            return record;
        }
        let used = usize::from(self.cell(slot).length);
        if used + RECORD_START_MIN > self.payload_max() {
            self.pad(slot);
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

    /// Takes the next free slot and links it behind `slots`. What was read lies in the slots set aside, so others are
    /// looked for when the whole frame has its cells.
    fn open(&mut self, slots: &mut Slots, cell: Cell) -> u64 {
        let slot = self.head();
        self.next.pop_front();
        debug_assert!(!self.cell(slot).waits);
        *self.cell_mut(slot) = Cell { position: slot, waits: true, next: slot, length: 0, ..cell };
        self.waiting += 1;
        self.link(slots, Slots { first: slot, last: slot, cells: 1 });
        slot
    }

    /// Links `more` behind `slots`.
    pub(crate) fn link(&mut self, slots: &mut Slots, more: Slots) {
        if more.cells == 0 {
            return;
        }
        if slots.cells == 0 {
            slots.first = more.first;
        } else {
            self.cell_mut(slots.last).next = more.first;
        }
        slots.last = more.last;
        slots.cells += more.cells;
    }

    /// Cuts `count` bytes of a record out of a cell, from `at` on; returns whether anything is left in it. When they go
    /// on in the next cell, they reach to the end of this one.
    pub(crate) fn cut_from_cell(&mut self, slot: u64, at: usize, count: usize) -> bool {
        let bytes = self.filled_mut(slot);
        bytes.copy_within(at + count.., at);
        let length = bytes.len() - count;
        let record_follows = at < length && bytes[at] != 0;
        let cell = self.cell_mut(slot);
        cell.length = fit(length);
        cell.first_record = match cell.first_record {
            NO_RECORD => NO_RECORD,
            first if usize::from(first) < at => first,
            _ if record_follows => fit(at),
            _ => NO_RECORD,
        };
        at > 0 || record_follows
    }
}

fn fit(bytes: usize) -> u16 {
    u16::try_from(bytes).expect("a cell's payload is below 64 KB")
}

#[cfg(test)]
mod tests;
