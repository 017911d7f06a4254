//! The way of a link frame from the links to the device: parse, count, reorder, unpack, deliver.
//!
//! The I/O fills buffers from [`Bundle::lend`], hands them over with [`Bundle::handle_datagrams`], and writes what
//! [`Bundle::poll_frame`] gives to the device, until there is nothing more.
//! Invariant: a frame is delivered at most once, whole, and in the order of its lane.

use crate::bundle::Bundle;
use crate::link::health::LATELY;
use crate::policy::classify;
use crate::receive::pool::{BUFFER, Buffer, Piece, Pool};
use crate::receive::reassemble::ethernet_head;
use crate::receive::reorder::{Arrived, Placed};
use crate::time::Instant;
use crate::wire::Malformed;
use crate::wire::cell::{HEADER, Header, Kind, unwrap_seq};
use crate::wire::heartbeat::Heartbeat;
use crate::wire::hello::Hello;
use crate::wire::record::VNET;
use crate::wire::repair::Request;
use core::net::SocketAddr;

/// Arrivals shorter than this share a buffer, so that held cells do not occupy 64 KB each.
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
}

/// Where a cell came in.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) port: u8,
    pub(crate) from: SocketAddr,
}

impl Bundle {
    /// A buffer to receive into, or `None` when all hold cells that wait.
    pub fn lend(&mut self) -> Option<Buffer> {
        self.relieve_if_stuck();
        self.pool.lend()
    }

    /// The I/O has read every port from `now` on until nothing was left, but for those in `behind` (a bit each). To be said
    /// before [`Self::handle_timeout`]: a link does not owe what lies in its port's socket.
    pub fn handle_read(&mut self, now: Instant, behind: u16) {
        for (number, port) in (0..).zip(&mut self.ports) {
            port.handle_read(now, behind & 1 << number != 0);
        }
    }

    /// Datagrams came in on a port: `length` bytes of the buffer, one each `segment` bytes.
    pub fn handle_datagrams(
        &mut self,
        now: Instant,
        port: u8,
        from: SocketAddr,
        buffer: Buffer,
        length: usize,
        segment: usize,
    ) {
        let length = length.min(buffer.len());
        let is_short = self.pool.usable() < self.pool.size() / 2;
        let train = if length < if is_short { SPARSE_IF_SHORT } else { SPARSE } {
            self.pool.gather(buffer, length)
        } else {
            let whole = self.pool.take_back(buffer);
            Some(Piece { buffer: whole, start: 0, length: u16::try_from(length).unwrap_or(u16::MAX) })
        };
        let Some(train) = train else {
            self.counters.drop_no_buffer += length.div_ceil(segment.max(1)) as u64;
            return;
        };
        let origin = Origin { port, from };
        let segment = u16::try_from(segment).unwrap_or(u16::MAX).max(1);
        for start in (0..train.length).step_by(usize::from(segment)) {
            let length = segment.min(train.length - start);
            self.handle_cell(now, origin, Piece { buffer: train.buffer, start: train.start + start, length });
        }
        self.pool.release(train.buffer);
        self.relieve_if_low();
    }

    fn handle_cell(&mut self, now: Instant, origin: Origin, cell: Piece) {
        self.counters.cells_heard += 1;
        if self.parse_cell(now, origin, cell).is_err() {
            self.counters.drop_malformed += 1;
        }
    }

    fn parse_cell(&mut self, now: Instant, origin: Origin, cell: Piece) -> Result<(), Malformed> {
        let bytes = self.pool.bytes(cell);
        let header = match Header::parse(bytes) {
            Err(Malformed::Version) => return Err(self.handle_other_version(now, cell)),
            header => header?,
        };
        if self.security.is_some() && header.epoch == 0 {
            return self.handle_unsealed(now, origin, header.kind, cell);
        }
        if header.kind == Kind::Hello && header.epoch == 0 {
            let hello = Hello::parse(&bytes[HEADER..])?;
            self.handle_hello(now, origin, &hello);
            return Ok(());
        }
        let session = self.peers.of_session(header.session);
        let Some(peer) = session.or_else(|| self.confirm(now, &header, cell)) else {
            self.counters.drop_session += 1;
            return Ok(());
        };
        let Some(cell) = self.open(now, peer, &header, cell)? else { return Ok(()) };
        let payload = &self.pool.bytes(cell)[HEADER..];
        match header.kind {
            Kind::Heartbeat => {
                let heartbeat = Heartbeat::parse(payload)?;
                if self.count_on_link(now, origin.port, peer, &header) {
                    self.handle_heartbeat(now, origin.port, peer, header.link, &heartbeat);
                }
            }
            Kind::Repair => {
                let request = Request::parse(payload)?;
                if self.count_on_link(now, origin.port, peer, &header) {
                    self.handle_request(peer, &request);
                }
            }
            Kind::Data => {
                #[expect(clippy::cast_possible_truncation, reason = "HEADER is 16")]
                let payload =
                    Piece { start: cell.start + HEADER as u16, length: cell.length - HEADER as u16, ..cell };
                self.handle_data(now, origin.port, peer, &header, payload);
            }
            Kind::Hello => {
                let hello = Hello::parse(payload)?;
                if self.count_on_link(now, origin.port, peer, &header) && hello.link == header.link {
                    self.handle_sealed_hello(now, origin, peer, &hello);
                }
            }
            Kind::Handshake => return Err(Malformed::Field),
        }
        Ok(())
    }

    /// Enters a cell into the account of its link; `false` when it is of another session.
    fn count_on_link(&mut self, now: Instant, port: u8, index: u16, header: &Header) -> bool {
        // What comes in by a port that leaves, or that is too small for cells, brings no link back.
        let state = &self.ports[usize::from(port)];
        let rises = header.kind == Kind::Heartbeat && state.is_member() && state.takes_cells();
        self.ports[usize::from(port)].crowd.note(now, index);
        let Some(peer) = self.peers.get_mut(index) else { return false };
        let was_up = peer.inbound[usize::from(header.link)].health.is_up();
        let alone = !was_up && peer.links_heard() == 0;
        let link = &mut peer.inbound[usize::from(header.link)];
        let Some(missing) = link.handle_seq(header.link_seq) else {
            self.counters.drop_session += 1;
            return false;
        };
        link.health.handle_late(now, link.next_seq() - 1);
        let was_silent = now.since(link.health.heard()) >= LATELY;
        let change = link.health.handle_cell(now, rises, alone);
        if was_silent {
            peer.end_pause(now);
        }
        if was_up && !missing.is_empty() {
            self.counters.cells_missed += missing.end - missing.start;
            self.miss(now, index, header.link, missing);
        }
        if let Some(change) = change {
            self.judged(now, index, header.link, change);
        }
        true
    }

    /// Puts a cell into its lane, and takes out of the lane what is next.
    fn handle_data(&mut self, now: Instant, port: u8, index: u16, header: &Header, payload: Piece) {
        if !self.count_on_link(now, port, index, header) {
            return;
        }
        self.succession.heard = now;
        let Some(peer) = self.peers.get_mut(index) else { return };
        let lane = &mut peer.lanes_in[usize::from(header.lane)];
        let Some(seq) = unwrap_seq(header.lane_seq, lane.reorder.next_seq()) else {
            self.counters.drop_window += 1;
            return;
        };
        if !lane.reorder.reaches(seq) {
            self.move_window(index, header.lane, seq);
        }
        let Some(peer) = self.peers.get_mut(index) else { return };
        let lane = &mut peer.lanes_in[usize::from(header.lane)];
        let cell = Arrived { payload, first_record: header.block_offset, at: now };
        match lane.reorder.insert(seq, header.link, cell) {
            Placed::Next => {
                self.pool.retain(payload.buffer);
                lane.unpack.cell(cell, index, &mut self.pool, &mut self.ready, &mut self.counters);
            }
            Placed::Kept(closed) => {
                self.pool.retain(payload.buffer);
                if let Some(waited) = closed {
                    peer.hold.saw_skew(now, waited);
                }
                self.advance(index, header.lane);
                self.relieve_if_long();
            }
            Placed::Duplicate => self.counters.drop_duplicate += 1,
            Placed::Late => self.counters.drop_late += 1,
        }
    }

    /// Goes on without what is missing in a lane, as far as it takes until the window reaches a cell.
    fn move_window(&mut self, index: u16, lane: u8, seq: u64) {
        while let Some(peer) = self.peers.get_mut(index) {
            let state = &mut peer.lanes_in[usize::from(lane)];
            if state.reorder.reaches(seq) {
                return;
            }
            self.counters.cells_given_up += state.reorder.give_up_for(seq);
            state.unpack.gap(&mut self.pool, &mut self.counters);
            self.advance(index, lane);
        }
    }

    /// Unpacks what is next in a lane.
    fn advance(&mut self, index: u16, lane: u8) {
        let repair = self.settings.repair;
        let Some(peer) = self.peers.get_mut(index) else { return };
        let links = if repair { 0 } else { peer.links_heard() };
        let state = &mut peer.lanes_in[usize::from(lane)];
        loop {
            while let Some(cell) = state.reorder.pop() {
                state.unpack.cell(cell, index, &mut self.pool, &mut self.ready, &mut self.counters);
            }
            if repair || state.reorder.gap_since().is_none() || !state.reorder.overtaken(links) {
                break;
            }
            self.counters.cells_given_up += state.reorder.give_up();
            state.unpack.gap(&mut self.pool, &mut self.counters);
        }
        let bit = 1 << lane;
        peer.gapped =
            if state.reorder.gap_since().is_some() { peer.gapped | bit } else { peer.gapped & !bit };
        let surplus = state.reorder.surplus();
        let had = core::mem::replace(&mut state.surplus, surplus);
        self.peers.count_surplus(had, surplus);
    }

    /// Goes on without what has been waited for long enough.
    pub(crate) fn give_up_gaps(&mut self, now: Instant, overdue: &[u16]) {
        for index in overdue.iter().copied() {
            let repair = self.settings.repair;
            let Some(peer) = self.peers.get_mut(index).filter(|peer| peer.gapped != 0) else { continue };
            let wait = peer.gap_wait(now, repair);
            self.give_up_older(index, Some(now - wait));
        }
    }

    /// Gives up the gaps of a peer that are as old as `limit`, or all.
    pub(crate) fn give_up_older(&mut self, index: u16, limit: Option<Instant>) {
        let Some(lanes) = self.peers.get(index).map(crate::group::peer::Peer::gapped_lanes) else { return };
        for lane in lanes {
            while let Some(peer) = self.peers.get_mut(index) {
                let state = &mut peer.lanes_in[lane];
                let old =
                    state.reorder.waits_since().is_some_and(|since| limit.is_none_or(|limit| since <= limit));
                if !old {
                    break;
                }
                self.counters.cells_given_up += state.reorder.give_up();
                state.unpack.gap(&mut self.pool, &mut self.counters);
                #[expect(clippy::cast_possible_truncation, reason = "below LANES")]
                self.advance(index, lane as u8);
            }
        }
    }

    /// The next frame for the device.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Frame<'_>> {
        for piece in self.delivering.drain(..) {
            self.pool.release(piece.buffer);
        }
        let peer = self.ready.pop(&mut self.delivering)?;
        if let Some(mac) = classify::source(ethernet_head(self.pool.bytes(self.delivering[0]))) {
            self.learned.learn(now, mac, peer);
        }
        let bytes: usize = self.delivering.iter().map(|piece| usize::from(piece.length)).sum();
        self.counters.frames_delivered += 1;
        self.counters.frame_bytes_delivered += (bytes - VNET) as u64;
        Some(Frame { pieces: &self.delivering, pool: &self.pool })
    }
}
