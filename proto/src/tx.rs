//! The way of a frame from the device to the links: classify, look up, pack, queue, schedule, number.
//!
//! The I/O reads frames into [`Bundle::read_space`] while [`Bundle::wants_frames`], says so by
//! [`Bundle::handle_frame`], and sends what [`Bundle::poll_batch`] gives, until there is nothing more. Frames are read
//! whether or not the links take more, so that they wait where flows are told apart. When the links take everything,
//! what is read in a turn passes the queue in the same turn.
//! Invariant: a cell keeps its place in its lane whatever link it takes, and however often it is sent.

use crate::arena::Cell;
use crate::bundle::Bundle;
use crate::class::Treatment;
use crate::classify::{self, Headers};
use crate::health::{HEARTBEAT_BUSY, Signal};
use crate::outbound::Outbound;
use crate::policy::{Choice, Share, Waiting};
use crate::port::bytes_in;
use crate::time::Instant;
use crate::wire::cell::{HEADER, Header, Kind, wire_seq};
use crate::wire::record::{ETHERNET, FRAME_MAX, PREFIX, VNET};
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

/// Segments of one batch: `UDP_MAX_SEGMENTS` of older kernels (newer ones take 128).
pub const BATCH_CELLS: usize = 64;
/// Bytes of one batch: the largest UDP payload over IPv4.
const BATCH_BYTES: usize = 65_507;
/// Frames that may be read between two batches, even when none of them becomes a cell (no link is up): bounds a turn.
const FRAMES_BETWEEN: u16 = 256;
/// Frames up to this length are copied behind others that wait; longer ones stay where they were read.
const COPY_MAX: usize = 4_096;
/// What leaves the queue at once lasts so long on all ports together: a sparse flow waits no longer behind it.
const COMMIT_FOR: Duration = Duration::from_millis(1);
/// Cells that leave the queue at once: the batches of two superframes.
const COMMIT_CELLS: usize = 2 * BATCH_CELLS;

/// Cells for one link, neighbours in memory as far as possible, all of `segment` bytes but the last.
pub struct Batch<'a> {
    /// The port to send through.
    pub port: u8,
    /// The peer's endpoint.
    pub to: SocketAddr,
    /// Bytes of each cell but the last.
    pub segment: usize,
    bundle: &'a Bundle,
    cells: usize,
}

impl Batch<'_> {
    /// The bytes, in order: one slice for each run of full cells that are neighbours in memory.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut slots = &self.bundle.run[..self.cells];
        core::iter::from_fn(move || {
            let (bytes, covered) = self.bundle.arena.run(slots)?;
            slots = &slots[covered..];
            Some(bytes)
        })
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel took it.
    Sent,
    /// The port's queue is full: try again after [`Bundle::handle_writable`].
    Full,
    /// The kernel refuses to send on this port.
    Refused,
}

/// Where the cells of a batch waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the arena, to be sent for the first time.
    New,
    /// In `resend`.
    Again,
    /// In `copies`, for this port.
    Copies(u8),
}

/// The batch that the I/O is sending.
pub(crate) struct Flight {
    peer: u16,
    port: u8,
    cells: usize,
    bytes: usize,
    source: Source,
    treatment: Treatment,
}

impl Bundle {
    /// Whether another frame is to be read before the next batch is asked for.
    #[must_use]
    pub fn wants_frames(&self) -> bool {
        let few = self.cells_between < BATCH_CELLS as u64 && self.frames_between < FRAMES_BETWEEN;
        few && !self.cells_shrink && self.takes_frames()
    }

    /// Whether frames are taken at all: not while as much waits as may.
    #[must_use]
    pub fn takes_frames(&self) -> bool {
        !self.arena.is_crowded() && self.arena.has_past()
    }

    /// Whether cells wait to leave.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.arena.has_waiting() || !self.resend.is_empty()
    }

    /// Where the next frame is to be read into: its virtio header, then its bytes.
    pub fn read_space(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.arena.read_space()
    }

    /// A frame was read into [`Self::read_space`]: `length` bytes, virtio header included.
    pub fn handle_frame(&mut self, now: Instant, length: usize) {
        self.frames_between += 1;
        if !(VNET + ETHERNET..=VNET + FRAME_MAX).contains(&length) {
            self.counters.drop_frame_length += 1;
            return;
        }
        let head = self.arena.read_head();
        let frame = &head[VNET..length.min(head.len())];
        let headers = Headers::parse(frame);
        let treatment = self.policies.classify(&headers, length - VNET);
        let like = Cell { lane: headers.lane(), treatment, ..Cell::default() };
        let known = classify::destination(frame).and_then(|mac| self.learned.look_up(now, mac));
        match known.or_else(|| self.peers.only()) {
            Some(peer) => self.pack(now, peer, like, length),
            None => self.flood(now, like, length),
        }
        self.queue.relieve(&mut self.arena, &mut self.counters);
    }

    /// Sends the frame that was read to every peer.
    fn flood(&mut self, now: Instant, like: Cell, length: usize) {
        self.copy_record(length);
        let mut is_alone = true;
        for peer in self.peers.indices() {
            is_alone &= self.peers.get(peer).is_none();
            self.append(now, peer, like, length);
        }
        self.counters.drop_no_peer += u64::from(is_alone);
    }

    /// Cuts the frame that was read into cells of a lane.
    fn pack(&mut self, now: Instant, peer: u16, like: Cell, length: usize) {
        if length <= COPY_MAX && self.open_cell(peer, like).is_some() {
            self.copy_record(length);
            return self.append(now, peer, like, length);
        }
        let Some(cell) = self.next_cell(now, peer, like, length) else { return };
        let slots = self.arena.cut_in_place(length, cell);
        self.push(cell, slots);
    }

    /// The last cell of a lane, if it still waits and holds records that are sent alike.
    fn open_cell(&self, peer: u16, like: Cell) -> Option<u64> {
        let slot = self.queue.open(peer, like.lane)?;
        (self.arena.cell(slot).treatment == like.treatment).then_some(slot)
    }

    /// Copies the frame that was read, as a record, to `scratch`.
    fn copy_record(&mut self, length: usize) {
        self.scratch.clear();
        self.scratch.resize(PREFIX, 0);
        crate::wire::record::emit(length, &mut self.scratch);
        self.arena.copy_read(length, &mut self.scratch);
    }

    /// Appends the record in `scratch` to a lane.
    fn append(&mut self, now: Instant, peer: u16, like: Cell, length: usize) {
        let Some(cell) = self.next_cell(now, peer, like, length) else { return };
        let slots = self.arena.append(&self.scratch, self.open_cell(peer, like), cell);
        self.push(cell, slots);
    }

    /// What the next cell of a lane is like, if the peer can be reached and there is room.
    fn next_cell(&mut self, now: Instant, index: u16, like: Cell, length: usize) -> Option<Cell> {
        let peer = self.peers.get(index)?;
        if !peer.is_reachable() {
            self.counters.drop_no_link += 1;
            return None;
        }
        if !self.arena.has_room() {
            self.counters.drop_queue_full += 1;
            return None;
        }
        self.counters.frames_sent += 1;
        self.counters.frame_bytes_sent += (length - VNET) as u64;
        Some(Cell { peer: index, since: now, ..like })
    }

    fn push(&mut self, like: Cell, slots: Range<u64>) {
        self.cells_between += slots.end - slots.start;
        self.queue.push(&mut self.arena, like.peer, like.lane, slots);
    }

    /// Takes the next cells out of the queue and gives them their numbers.
    fn commit(&mut self, now: Instant) {
        let most = self.commit_limit();
        while self.outgoing.len() < most {
            let numbered = self.outgoing.len();
            let Self { queue, arena, counters, outgoing, .. } = self;
            if !queue.take_turn(now, most, arena, counters, outgoing) {
                return;
            }
            let Cell { peer, lane, .. } = *arena.cell(outgoing[numbered]);
            let Some(peer) = self.peers.get_mut(peer) else { continue };
            let next_seq = &mut peer.lanes_out[usize::from(lane)];
            for slot in outgoing.range(numbered..) {
                arena.cell_mut(*slot).lane_seq = *next_seq;
                *next_seq += 1;
            }
        }
    }

    /// How many cells may leave the queue before they can be sent: few where the links of the last batch are slow.
    fn commit_limit(&self) -> usize {
        let rate = self.choices.iter().try_fold(0u64, |sum, choice| Some(sum.saturating_add(choice.rate?)));
        let bytes = rate.filter(|rate| *rate > 0).map_or(u64::MAX, |rate| bytes_in(rate, COMMIT_FOR));
        let cells = usize::try_from(bytes).unwrap_or(usize::MAX) / self.arena.cell_max();
        cells.clamp(1, COMMIT_CELLS)
    }

    /// The next cells to be sent and where to; [`Self::handle_sent`] says what became of them.
    pub fn poll_batch(&mut self, now: Instant) -> Option<Batch<'_>> {
        debug_assert!(self.flight.is_none(), "handle_sent comes between two batches");
        (self.frames_between, self.cells_between) = (0, 0);
        let (index, source, share) = loop {
            if self.outgoing.is_empty() {
                self.commit(now);
            }
            let (index, source) = self.gather_run()?;
            match self.share(index, source) {
                Some(share) => break (index, source, share),
                None if self.step_aside(source) => {}
                None => return None,
            }
        };
        let segment = self.arena.cell_bytes(self.run[0]);
        let treatment = self.arena.cell(self.run[0]).treatment;
        let port = self.choices[share.index].port;
        let room = self.ports[usize::from(port)].queue_limit() / segment as u64;
        let cells = share.cells.min(self.run.len()).min(usize::try_from(room).unwrap_or(usize::MAX).max(1));
        let bytes = self.number(index, port, cells);
        self.flight = Some(Flight { peer: index, port, cells, bytes, source, treatment });
        let to = self.peers.get(index)?.outbound[usize::from(port)].endpoint?;
        Some(Batch { port, to, segment, bundle: self, cells })
    }

    /// Which of the choices carries how many cells of `run`.
    fn share(&mut self, peer: u16, source: Source) -> Option<Share> {
        let (cells, cell_bytes) = (self.run.len(), self.arena.cell_bytes(self.run[0]));
        let treatment = self.arena.cell(self.run[0]).treatment;
        if let Source::Copies(_) = source {
            return Some(Share { index: 0, cells });
        }
        let waiting = Waiting { now: self.polled, peer, flow: treatment.flow, cells, cell_bytes };
        self.policies.of(treatment).share(&self.choices, &waiting)
    }

    /// Puts the slots that one batch can carry into `run` and the links that can carry them into `choices`. Returns
    /// the peer, and where they wait.
    fn gather_run(&mut self) -> Option<(u16, Source)> {
        if self.resend.is_empty()
            && let Some(copies) = self.gather_copies()
        {
            return Some(copies);
        }
        loop {
            let again = !self.resend.is_empty();
            let source = if again { Source::Again } else { Source::New };
            let repair = self.resend.front().map(|repair| repair.slot);
            let slot = repair.or_else(|| self.outgoing.front().copied())?;
            let cell = *self.arena.cell(slot);
            let kept = !again || self.arena.keeps(slot);
            self.list_choices(cell.peer);
            if kept && !self.choices.is_empty() {
                self.list_run(cell, source);
                return Some((cell.peer, source));
            }
            self.counters.drop_no_link += 1;
            self.drop_first(source, 1);
        }
    }

    /// Lists the links to a peer that are up, without the suspect ones unless all are; the doubted ones when none is up.
    pub(crate) fn list_choices(&mut self, index: u16) {
        self.choices.clear();
        let Some(peer) = self.peers.get(index) else { return };
        let any_up = peer.outbound.iter().any(|link| link.up);
        let usable = |link: &Outbound| if any_up { link.up } else { link.doubted };
        let all_suspect = peer.outbound.iter().filter(|link| usable(link)).all(|link| link.loss.is_suspect());
        let chosen = |link: &Outbound| usable(link) && link.loss.is_suspect() == all_suspect;
        let links = peer.outbound.iter().zip(&self.ports).zip(0..);
        self.choices.extend(links.filter(|((link, _), _)| chosen(link)).map(|((link, port), number)| {
            Choice {
                port: number,
                queued: port.queued(),
                rate: port.rate(),
                weight: port.settings.weight,
                skew: link.skew,
                full: port.full,
            }
        }));
    }

    /// Lists the slots from the first one on that fit into one batch: same peer, sent alike, same length but for the
    /// last.
    pub(crate) fn list_run(&mut self, first: Cell, source: Source) {
        self.run.clear();
        let most = BATCH_CELLS.min(BATCH_BYTES / (HEADER + usize::from(first.length)));
        while self.run.len() < most {
            let next = self.run.len();
            let slot = match source {
                Source::New => self.outgoing.get(next).copied(),
                Source::Again => self.resend.get(next).map(|repair| repair.slot),
                Source::Copies(port) => self.copies.waiting(port).get(next).copied(),
            };
            let Some(slot) = slot.filter(|slot| self.arena.keeps(*slot)) else { return };
            let cell = self.arena.cell(slot);
            let alike = cell.peer == first.peer && cell.treatment == first.treatment;
            if !alike || cell.length > first.length {
                return;
            }
            self.run.push(slot);
            if cell.length < first.length {
                return;
            }
        }
    }

    /// Writes the headers of the first cells of `run`; returns how many bytes they are.
    fn number(&mut self, index: u16, port: u8, cells: usize) -> usize {
        let Some(peer) = self.peers.get_mut(index) else { return 0 };
        let link = &mut peer.outbound[usize::from(port)];
        let mut bytes = 0;
        for slot in &self.run[..cells] {
            let cell = self.arena.cell_mut(*slot);
            cell.copies += 1;
            let cell = *cell;
            let header = Header {
                kind: Kind::Data,
                epoch: 0,
                link: port,
                lane: cell.lane,
                link_seq: wire_seq(link.take_seq(Some(*slot))),
                lane_seq: wire_seq(cell.lane_seq),
                block_offset: cell.first_record,
                session: peer.session_out,
            };
            header.emit(self.arena.slot_mut(*slot));
            bytes += HEADER + usize::from(cell.length);
        }
        bytes
    }

    /// What became of the last batch.
    pub fn handle_sent(&mut self, now: Instant, outcome: Outcome) {
        let Some(flight) = self.flight.take() else { return };
        match outcome {
            Outcome::Sent => self.sent(&flight),
            Outcome::Full => {
                self.ports[usize::from(flight.port)].full = true;
                self.return_numbers(&flight);
            }
            Outcome::Refused => {
                self.counters.drop_refused += flight.cells as u64;
                self.return_numbers(&flight);
                self.leave_link(now, flight.peer, flight.port, Signal::SendError);
            }
        }
    }

    fn sent(&mut self, flight: &Flight) {
        let port = &mut self.ports[usize::from(flight.port)];
        port.handle_sent(flight.bytes);
        if let Some(peer) = self.peers.get_mut(flight.peer) {
            peer.outbound[usize::from(flight.port)].mark(port.sent());
            peer.heartbeat_at = peer.heartbeat_at.min(peer.heartbeat_sent + HEARTBEAT_BUSY);
        }
        self.counters.batches_sent += 1;
        self.counters.cells_sent += flight.cells as u64;
        match flight.source {
            Source::New if self.policies.of(flight.treatment).copies() => {
                self.copy_to_others(flight.port, flight.cells);
            }
            Source::New => {}
            Source::Again => self.counters.cells_repaired += flight.cells as u64,
            Source::Copies(_) => self.counters.cells_copied += flight.cells as u64,
        }
        let policy = self.policies.of(flight.treatment);
        policy.handle_sent(flight.treatment.flow, flight.port, flight.bytes as u64);
        self.refill_repair_budget(flight.cells);
        self.drop_first(flight.source, flight.cells);
    }

    fn return_numbers(&mut self, flight: &Flight) {
        if let Some(peer) = self.peers.get_mut(flight.peer) {
            peer.outbound[usize::from(flight.port)].return_seqs(flight.cells);
        }
        for slot in &self.run[..flight.cells] {
            self.arena.cell_mut(*slot).copies -= 1;
        }
    }

    /// The first cells that wait no longer do.
    fn drop_first(&mut self, source: Source, cells: usize) {
        match source {
            Source::New => self.outgoing.drain(..cells).for_each(|slot| self.arena.release(slot)),
            Source::Again => drop(self.resend.drain(..cells)),
            Source::Copies(port) => self.copies.drop_first(port, cells),
        }
    }

    /// A port takes cells again.
    pub fn handle_writable(&mut self, port: u8) {
        self.ports[usize::from(port)].full = false;
        self.step_back();
        self.catch_up(port);
    }

    /// The kernel says that `queued` bytes of a port have not left.
    pub fn handle_queue(&mut self, now: Instant, port: u8, queued: usize) {
        self.ports[usize::from(port)].handle_queue(now, queued);
    }

    /// Whether bytes have ever been found waiting in a port long enough to measure its rate.
    #[must_use]
    pub fn was_busy(&self, port: u8) -> bool {
        self.ports[usize::from(port)].rate().is_some()
    }

    /// How many bytes may wait in a port: what its send buffer is to be set to.
    #[must_use]
    pub fn queue_limit(&self, port: u8) -> u64 {
        self.ports[usize::from(port)].queue_limit()
    }
}
