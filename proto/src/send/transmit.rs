//! Cells leave: batches for the links, numbered on the way, and what became of them.
//!
//! The I/O sends what [`Bundle::poll_batch`] gives until there is nothing more, and says by [`Bundle::handle_sent`] how
//! it went. When the links take everything, what is read in a turn passes the queue in the same turn.

use crate::bundle::Bundle;
use crate::link::health::Signal;
use crate::link::heartbeat_pacing::earned;
use crate::link::outbound::Outbound;
use crate::policy::class::Treatment;
use crate::send::schedule::Source;
use crate::time::Instant;
use crate::wire::cell::{HEADER, Header, Kind, wire_seq};
use core::net::SocketAddr;

/// Segments of one batch: `UDP_MAX_SEGMENTS` of older kernels (newer ones take 128).
pub const BATCH_CELLS: usize = 64;

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
    /// Bytes of the batch when it is sealed.
    sealed: Option<usize>,
}

impl Batch<'_> {
    /// The bytes, in order: one slice when they are sealed, else one for each run of full cells that are neighbours in
    /// memory.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let sealed = self.sealed.map(|bytes| &self.bundle.sealed[..bytes]);
        let mut slots = if sealed.is_some() { &[] } else { &self.bundle.run[..self.cells] };
        sealed.into_iter().chain(core::iter::from_fn(move || {
            let (bytes, covered) = self.bundle.arena.run(slots)?;
            slots = &slots[covered..];
            Some(bytes)
        }))
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel took it.
    Sent,
    /// The port's queue is full: try again after [`Bundle::handle_writable`].
    Full,
    /// The kernel dropped it, for want of memory or because the NIC now takes only smaller cells; perhaps some have left.
    /// As if lost on the way: the port is sound, and repair is told by the peer.
    Lost,
    /// The kernel refuses to send on this port.
    Refused,
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
    /// Whether cells wait to leave.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.arena.has_waiting() || !self.resend.is_empty() || !self.stalled.repairs.is_empty()
    }

    /// The next cells to be sent and where to; [`Self::handle_sent`] says what became of them.
    pub fn poll_batch(&mut self, now: Instant) -> Option<Batch<'_>> {
        debug_assert!(self.flight.is_none(), "handle_sent comes between two batches");
        (self.frames_between, self.cells_between) = (0, 0);
        let (index, source, share) = loop {
            if self.wants_commit() {
                self.commit(now);
            }
            let Some((index, source)) = self.gather_run() else {
                // What stands still may be all that can be read.
                self.queue.relieve(now, &mut self.arena, &mut self.counters);
                return None;
            };
            if self.may_be_filled(source) {
                return None;
            }
            match self.share(index, source) {
                Some(share) => break (index, source, share),
                None if self.step_aside(source) => {}
                None => return None,
            }
        };
        let segment = self.sealed_bytes(self.run[0]);
        let treatment = self.arena.cell(self.run[0]).treatment;
        let port = self.choices[share.index].port;
        let room = self.ports[usize::from(port)].batch_limit() / segment as u64;
        let cells = share.cells.min(self.run.len()).min(usize::try_from(room).unwrap_or(usize::MAX).max(1));
        // Known before any number is taken: a batch that is not handed out takes none.
        let to = self.peers.get(index)?.outbound[usize::from(port)].endpoint?;
        let bytes = self.number(index, port, cells) + cells * self.tag();
        self.flight = Some(Flight { peer: index, port, cells, bytes, source, treatment });
        let sealed = self.security.is_some().then_some(bytes);
        Some(Batch { port, to, segment, bundle: self, cells, sealed })
    }

    /// Writes the headers of the first cells of `run`, and seals them; returns how many bytes they are without tags.
    fn number(&mut self, index: u16, port: u8, cells: usize) -> usize {
        let Some(peer) = self.peers.get_mut(index) else { return 0 };
        let epoch = peer.epoch();
        let link = &mut peer.outbound[usize::from(port)];
        let first = link.next_seq();
        let mut bytes = 0;
        for slot in &self.run[..cells] {
            let cell = self.arena.cell_mut(*slot);
            cell.copies += 1;
            let cell = *cell;
            let header = Header {
                kind: Kind::Data,
                epoch,
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
        self.seal_run(index, port, cells, first);
        bytes
    }

    /// What became of the last batch.
    pub fn handle_sent(&mut self, now: Instant, outcome: Outcome) {
        let Some(flight) = self.flight.take() else { return };
        match outcome {
            Outcome::Sent => self.sent(now, &flight),
            Outcome::Full => {
                self.ports[usize::from(flight.port)].full = true;
                self.take_back(&flight, Outbound::return_seqs);
            }
            Outcome::Lost => {
                self.counters.drop_refused += flight.cells as u64;
                // No byte of it says anything about the port's rate.
                self.sent(now, &Flight { bytes: 0, ..flight });
            }
            Outcome::Refused => {
                self.counters.drop_refused += flight.cells as u64;
                self.take_back(&flight, Outbound::void_seqs);
                self.leave_link(now, flight.peer, flight.port, Signal::SendError);
            }
        }
    }

    fn sent(&mut self, now: Instant, flight: &Flight) {
        let port = &mut self.ports[usize::from(flight.port)];
        port.handle_sent(flight.bytes);
        if let Some(peer) = self.peers.get_mut(flight.peer) {
            let heard = peer.cells_heard();
            if flight.source == Source::New {
                peer.repairs.earn(flight.cells);
            }
            let link = &mut peer.outbound[usize::from(flight.port)];
            link.mark(port.sent());
            let due = link.beat.due(now, earned(link.sent(), heard), link.loss.is_suspect());
            peer.heartbeat_at = peer.heartbeat_at.min(due);
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
        self.drop_first(flight.source, flight.cells);
    }

    /// Cells have not left. Their numbers are returned if that is certain: no number seals two cells.
    fn take_back(&mut self, flight: &Flight, numbers: fn(&mut Outbound, usize)) {
        if let Some(peer) = self.peers.get_mut(flight.peer) {
            numbers(&mut peer.outbound[usize::from(flight.port)], flight.cells);
        }
        for slot in &self.run[..flight.cells] {
            self.arena.cell_mut(*slot).copies -= 1;
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

    /// Whether a port is likely to have a queue, so that the next batches depend on it: it was found busy before, or much
    /// was handed over since the kernel was last asked.
    #[must_use]
    pub fn wants_queue(&self, port: u8) -> bool {
        self.ports[usize::from(port)].wants_queue()
    }

    /// How many bytes may wait in a port: what its send buffer is to be set to.
    #[must_use]
    pub fn queue_limit(&self, port: u8) -> u64 {
        self.ports[usize::from(port)].queue_limit()
    }
}
