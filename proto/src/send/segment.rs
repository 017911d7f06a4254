//! A frame from the device becomes cells that wait: classify, look up, pack, queue.
//!
//! The first half of a frame's way out; [`crate::send::schedule`] is the second. The I/O reads frames into
//! [`Sender::read_space`] while [`Sender::wants_frames`], and says so by [`Sender::handle_frame`]. Frames are read whether
//! or not the links take more, so that they wait where flows are told apart.

use crate::fdb::view::is_group;
use crate::outputs::counters::Counters;
use crate::policy::classify::{self, Headers};
use crate::send::ecn_mark;
use crate::send::queue::{Flow, Place};
use crate::send::ring::{Cell, Slots};
use crate::send::transmit::BATCH_CELLS;
use crate::send::{Around, Sender};
use crate::session::Sessions;
use crate::time::Instant;
use crate::wire::record::{ETHERNET, FRAME_MAX, PREFIX, VNET};

/// Cells that may be filled before the next batch is asked for: what waits in the device is first in, first out, and here what
/// is sparse goes first.
const CELLS_BETWEEN: usize = 8 * BATCH_CELLS;
/// Frames that may be read between two batches, even when none of them becomes a cell (no link is up): bounds a turn.
const FRAMES_BETWEEN: u16 = 256;
/// Frames up to this length are copied behind others that wait; longer ones stay where they were read.
const COPY_MAX: usize = 4_096;

/// What was read since a batch was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) frames: u16,
    /// Cells that they became.
    pub(super) cells: usize,
    /// More frames are read before anything else is done.
    pub(super) goes_on: bool,
}

impl Sender {
    pub(crate) fn wants_frames(&self, sessions: &Sessions) -> bool {
        let Reading { frames, cells, .. } = self.reading;
        cells < CELLS_BETWEEN
            && frames < FRAMES_BETWEEN
            && !self.fit.is_changing
            && self.takes_frames(sessions)
    }

    /// Whether frames are taken at all: not while as much waits as may, or all frames would have to wait for one peer.
    pub(crate) fn takes_frames(&self, sessions: &Sessions) -> bool {
        !self.ring.is_nearly_full() && !self.awaits_successor(sessions)
    }

    /// Whether more frames are read as soon as no batch is left to be sent: one that they might fill waits for them.
    pub(crate) fn expect_frames(&mut self, expected: bool) {
        self.reading.goes_on = expected;
    }

    pub(crate) fn read_space(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.ring.read_space()
    }

    /// A frame was read into [`Self::read_space`]: `length` bytes, virtio header included.
    pub(crate) fn handle_frame(&mut self, now: Instant, length: usize, around: &mut Around<'_>) {
        self.reading.frames += 1;
        if !(VNET + ETHERNET..=VNET + FRAME_MAX).contains(&length) {
            around.counters.drop_frame_length += 1;
            return;
        }
        let head = self.ring.read_head();
        let frame = &head[VNET..length.min(head.len())];
        let headers = Headers::parse(frame);
        let treatment = self.policies.classify(&headers, length - VNET);
        let like = Cell { treatment, ..Cell::default() };
        let gate = headers.packet.and_then(|packet| packet.gate());
        let flow = Flow { hash: headers.flow(), gate, is_superframe: ecn_mark::is_tcp_superframe(head) };
        let destination = classify::destination(frame).unwrap_or_default();
        match self.fdb.look_up(now, destination).or_else(|| around.sessions.table().only()) {
            Some(peer) => {
                let like = self.in_lane(now, Cell { peer, ..like }, flow, length, around);
                self.pack(now, like, flow, length, around);
            }
            None => {
                around.counters.frames_flooded += u64::from(!is_group(destination));
                self.flood(now, like, flow, length, around);
            }
        }
        self.queue.relieve(now, &mut self.ring, around.counters);
    }

    /// Sends the frame that was read to every peer.
    fn flood(&mut self, now: Instant, like: Cell, flow: Flow, length: usize, around: &mut Around<'_>) {
        self.copy_record(length);
        let mut is_alone = true;
        for peer in around.sessions.table().indices() {
            is_alone &= around.sessions.table().get(peer).is_none();
            let like = self.in_lane(now, Cell { peer, ..like }, flow, length, around);
            self.append(now, like, self.queue.place(peer, flow), length, around);
        }
        around.counters.drop_no_peer += u64::from(is_alone);
    }

    /// Cuts the frame that was read into cells of a lane.
    fn pack(&mut self, now: Instant, like: Cell, flow: Flow, length: usize, around: &mut Around<'_>) {
        let place = self.queue.place(like.peer, flow);
        if length <= COPY_MAX && self.open_cell(place, like).is_some()
            || self.is_deferred(like.peer, around.sessions)
        {
            self.copy_record(length);
            return self.append(now, like, place, length, around);
        }
        let Some(cell) = self.next_cell(now, like, length, around) else { return };
        let slots = self.ring.cut_in_place(length, cell);
        self.push(cell, place, slots);
    }

    /// The last cell that waits in a place, if it is of the same lane and holds records that are sent alike.
    fn open_cell(&self, place: Place, like: Cell) -> Option<u64> {
        let slot = self.queue.open(place)?;
        let cell = self.ring.cell(slot);
        let alike = |cell: &Cell| (cell.peer, cell.lane, cell.treatment);
        (alike(cell) == alike(&like)).then_some(slot)
    }

    /// Copies the frame that was read, as a record, to `scratch`.
    fn copy_record(&mut self, length: usize) {
        self.scratch.clear();
        self.scratch.resize(PREFIX, 0);
        crate::wire::record::emit(length, &mut self.scratch);
        self.ring.copy_read(length, &mut self.scratch);
    }

    /// Appends the record in `scratch` to a lane, or to what waits for the peer's successor.
    fn append(&mut self, now: Instant, like: Cell, place: Place, length: usize, around: &mut Around<'_>) {
        if self.is_deferred(like.peer, around.sessions) {
            return self.defer(like, place, around);
        }
        self.append_record(now, like, place, length, around);
    }

    pub(super) fn append_record(
        &mut self,
        now: Instant,
        like: Cell,
        place: Place,
        length: usize,
        around: &mut Around<'_>,
    ) {
        let Some(cell) = self.next_cell(now, like, length, around) else { return };
        let slots = self.ring.append(&self.scratch, self.open_cell(place, like), cell);
        self.push(cell, place, slots);
    }

    /// What the next cell of a lane is like, if the peer can be reached and there is room.
    fn next_cell(&self, now: Instant, like: Cell, length: usize, around: &mut Around<'_>) -> Option<Cell> {
        let counters: &mut Counters = around.counters;
        if !around.links.paths(like.peer)?.is_reachable() {
            counters.drop_no_link += 1;
            return None;
        }
        if !self.ring.has_room() {
            counters.drop_queue_full += 1;
            return None;
        }
        counters.frames_sent += 1;
        counters.frame_bytes_sent += (length - VNET) as u64;
        Some(Cell { since: now, ..like })
    }

    fn push(&mut self, like: Cell, place: Place, slots: Slots) {
        self.reading.cells += slots.cells;
        self.queue.push(&mut self.ring, like.peer, place, slots);
    }
}
