//! The receiver's steps: an opened cell takes its place in its lane, and whole frames go to the device.
//!
//! Between [`crate::bundle`], which opens cells, and the device. Calls `reorder` and `reassemble`, in this order.

use crate::link::Links;
use crate::link::paths::Paths;
use crate::outputs::counters::Counters;
use crate::receive::lanes::Lanes;
use crate::receive::pool::{BUFFER, Buffer, Piece, Pool};
use crate::receive::reassemble::{Arrival, ethernet_head};
use crate::receive::reorder::{Arrived, Placed};
use crate::receive::{Receiver, round_trip};
use crate::time::Instant;
use crate::wire::cell::{Header, unwrap_seq};
use crate::wire::record::VNET;

/// Arrivals shorter than this share a buffer, so that cells that wait do not occupy 64 KB each.
const SPARSE: usize = 8_192;
/// The same while less than half of the buffers are free: cells of jumbo frames share one, too.
const SPARSE_IF_SHORT: usize = BUFFER / 2;

/// A frame for the device.
pub struct Frame<'a> {
    pieces: &'a [Piece],
    pool: &'a Pool,
}

impl Frame<'_> {
    /// The bytes, in order: the virtio header, then the Ethernet frame.
    pub fn slices(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| self.pool.bytes(*piece))
    }

    /// The Ethernet frame, as far as its first piece goes.
    pub(crate) fn head(&self) -> &[u8] {
        ethernet_head(self.pool.bytes(self.pieces[0]))
    }

    /// Bytes of the Ethernet frame.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| usize::from(piece.length)).sum::<usize>() - VNET
    }
}

impl Receiver {
    /// Takes `length` bytes of a buffer that the I/O has received; `None`: there is no room.
    pub(crate) fn take(&mut self, buffer: Buffer, length: usize) -> Option<Piece> {
        let length = length.min(buffer.len());
        let is_short = self.pool.usable() < self.pool.size() / 2;
        if length < if is_short { SPARSE_IF_SHORT } else { SPARSE } {
            self.pool.gather(buffer, length)
        } else {
            let whole = self.pool.take_back(buffer);
            Some(Piece { buffer: whole, start: 0, length: u16::try_from(length).unwrap_or(u16::MAX) })
        }
    }

    /// All cells of an arrival have been handled.
    pub(crate) fn done(&mut self, taken: Piece, links: &Links, counters: &mut Counters) {
        self.pool.release(taken.buffer);
        self.relieve_if_low(links, counters);
    }

    /// Puts a cell into its lane, and takes the next cells out of the lane.
    pub(crate) fn handle_data(
        &mut self,
        now: Instant,
        index: u16,
        header: &Header,
        payload: Piece,
        links: &Links,
        counters: &mut Counters,
    ) {
        let Some(lanes) = self.peers.get_mut(index) else { return };
        let lane = &mut lanes.lanes[header.lane];
        let Some(seq) = unwrap_seq(header.lane_seq, lane.reorder.next) else {
            counters.drop_window += 1;
            return;
        };
        if !lane.reorder.reaches(seq) {
            self.move_window(index, header.lane, seq, links, counters);
        }
        let Self { pool, ready, peers, .. } = self;
        let Some(lanes) = peers.get_mut(index) else { return };
        let lane = &mut lanes.lanes[header.lane];
        let cell = Arrived { payload, first_record: header.block_offset, at: now };
        lane.reassembler.link = header.link;
        match lane.reorder.insert(seq, header.link, cell) {
            Placed::Next => {
                pool.retain(payload.buffer);
                lane.reassembler.cell(cell, index, pool, ready, counters);
            }
            Placed::Kept(closed) => {
                counters.cells_early += 1;
                pool.retain(payload.buffer);
                if let Some(waited) = closed {
                    lanes.timeout.saw_gap(now, waited);
                }
                self.advance(index, header.lane, links, counters);
                self.relieve_if_long(links, counters);
            }
            Placed::Duplicate => counters.drop_duplicate += 1,
            Placed::Late => counters.drop_late += 1,
        }
    }

    /// Gives up the oldest gaps of a lane until the window reaches a cell.
    fn move_window(&mut self, index: u16, lane: u8, seq: u64, links: &Links, counters: &mut Counters) {
        loop {
            let Self { pool, peers, .. } = &mut *self;
            let Some(lanes) = peers.get_mut(index) else { return };
            let state = &mut lanes.lanes[lane];
            if state.reorder.reaches(seq) {
                return;
            }
            counters.cells_given_up += state.reorder.give_up_for(seq);
            state.reassembler.gap(pool, counters);
            self.advance(index, lane, links, counters);
        }
    }

    /// Reassembles the cells of a lane that are next.
    fn advance(&mut self, index: u16, lane: u8, links: &Links, counters: &mut Counters) {
        let Self { pool, ready, peers, gapped, surplus, repair, .. } = self;
        let Some(lanes) = peers.get_mut(index) else { return };
        let received = if *repair { 0 } else { links.paths(index).map_or(0, Paths::links_receiving) };
        let state = &mut lanes.lanes[lane];
        loop {
            while let Some(cell) = state.reorder.pop() {
                state.reassembler.cell(cell, index, pool, ready, counters);
            }
            if *repair || state.reorder.gap_since.is_none() || !state.reorder.overtaken(received) {
                break;
            }
            counters.cells_given_up += state.reorder.give_up();
            state.reassembler.gap(pool, counters);
        }
        let (had, has) = state.count_surplus();
        *surplus = *surplus - had + has;
        lanes.note_gap(lane);
        if lanes.has_gaps() && !gapped.contains(&index) {
            gapped.push(index);
        }
    }

    /// Gives up gaps that are older than the reorder timeout.
    pub(crate) fn give_up_gaps(
        &mut self,
        now: Instant,
        overdue: &[u16],
        links: &Links,
        counters: &mut Counters,
    ) {
        for index in overdue.iter().copied() {
            let Some(lanes) = self.peers.get_mut(index).filter(|lanes| lanes.has_gaps()) else { continue };
            let limit = now - lanes.gap_wait(now, round_trip(links, index, self.repair));
            self.give_up_while(index, |since| since <= limit, links, counters);
        }
    }

    /// Gives up the first gap of each lane of a peer again and again, as long as `is_over` says so of the time since when the lane waits.
    pub(super) fn give_up_while(
        &mut self,
        index: u16,
        mut is_over: impl FnMut(Instant) -> bool,
        links: &Links,
        counters: &mut Counters,
    ) {
        let Some(gapped) = self.get(index).map(Lanes::gapped) else { return };
        for lane in gapped {
            loop {
                let Self { pool, peers, .. } = &mut *self;
                let Some(lanes) = peers.get_mut(index) else { return };
                let state = &mut lanes.lanes[lane];
                if !state.reorder.waits_since().is_some_and(&mut is_over) {
                    break;
                }
                counters.cells_given_up += state.reorder.give_up();
                state.reassembler.gap(pool, counters);
                self.advance(index, lane, links, counters);
            }
        }
    }

    pub(crate) fn poll_frame(&mut self, counters: &mut Counters) -> Option<(Arrival, Frame<'_>)> {
        for piece in self.delivering.drain(..) {
            self.pool.release(piece.buffer);
        }
        let from = self.ready.pop(&mut self.delivering)?;
        let frame = Frame { pieces: &self.delivering, pool: &self.pool };
        counters.frames_delivered += 1;
        counters.frame_bytes_delivered += frame.bytes() as u64;
        Some((from, frame))
    }
}
