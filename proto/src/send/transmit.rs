//! Cells leave: batches for the links, numbered on the way, and what became of them.
//!
//! The I/O sends what [`Bundle::poll_batch`](crate::Bundle::poll_batch) gives until there is nothing more, and says by [`Bundle::handle_sent`](crate::Bundle::handle_sent) how
//! it went. When the links take everything, what is read in a turn passes the queue in the same turn.

use crate::link::Links;
use crate::link::outbound::Outbound;
use crate::outputs::Outputs;
use crate::outputs::event::Signal;
use crate::policy::class::Treatment;
use crate::send::schedule::Source;
use crate::send::{Around, Sender};
use crate::session::Sessions;
use crate::time::Instant;
use crate::wire::cell::{HEADER, Header, Kind, wire_seq};
use core::net::SocketAddr;

/// Segments of one batch: `UDP_MAX_SEGMENTS` of older kernels (newer ones take 128).
pub const BATCH_CELLS: usize = 64;

/// Cells for one link, neighbours in memory as far as possible, all of `segment` bytes but the last.
pub struct Batch<'a> {
    /// The link to send through.
    pub link: u8,
    /// The peer's endpoint.
    pub to: SocketAddr,
    /// Bytes of each cell but the last.
    pub segment: usize,
    sender: &'a Sender,
    cells: usize,
    sealed: Option<&'a [u8]>,
}

impl Batch<'_> {
    /// The bytes, in order: one slice when they are sealed, else one for each run of full cells that are neighbours in
    /// memory.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut slots = if self.sealed.is_some() { &[] } else { &self.sender.run[..self.cells] };
        self.sealed.into_iter().chain(core::iter::from_fn(move || {
            let (bytes, covered) = self.sender.ring.run(slots)?;
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
    /// The link's queue is full: try again after [`Bundle::handle_writable`](crate::Bundle::handle_writable).
    Full,
    /// The kernel dropped it, for want of memory or because the NIC now takes only smaller cells; perhaps some have left.
    /// As if lost on the way: the link is sound, and repair is told by the peer.
    Lost,
    /// The kernel refuses to send on this link.
    Refused,
}

/// The batch that the I/O is sending.
pub(super) struct Flight {
    peer: u16,
    link: u8,
    cells: usize,
    bytes: usize,
    source: Source,
    treatment: Treatment,
}

impl Sender {
    /// The next cells to be sent and where to; [`Self::handle_sent`] says what became of them.
    pub(crate) fn poll_batch<'a>(&'a mut self, around: Around<'a>) -> Option<Batch<'a>> {
        let mut around = around;
        debug_assert!(self.flight.is_none(), "handle_sent comes between two batches");
        (self.reading.frames, self.reading.cells) = (0, 0);
        let (index, source, share) = loop {
            if self.wants_commit(around.sessions) {
                self.commit(&mut around);
            }
            let Some((index, source)) = self.gather_run(&mut around) else {
                // What stands still may be all that can be read.
                self.queue.relieve(around.now, &mut self.ring, around.counters);
                return None;
            };
            if self.may_be_filled(source, around.sessions) {
                return None;
            }
            match self.share(index, source, &around) {
                Some(share) => break (index, source, share),
                None => self.wait_for_pace(index, &around),
            }
            if !self.step_aside(source, &around) {
                return None;
            }
        };
        let segment = self.sealed_bytes(self.run[0], around.sessions);
        let treatment = self.ring.cell(self.run[0]).treatment;
        let link = self.choices.links[share.index].link;
        let path = &around.links.paths(index)?.outbound[link];
        let room = around.links[link].queue.batch_limit().min(path.batch_limit(around.now)) / segment as u64;
        let cells = share.cells.min(self.run.len()).min(usize::try_from(room).unwrap_or(usize::MAX).max(1));
        // Known before any number is taken: a batch that is not handed out takes none.
        let to = path.end.endpoint?;
        let bytes = self.number(index, link, cells, &mut around) + cells * around.sessions.tag();
        self.flight = Some(Flight { peer: index, link, cells, bytes, source, treatment });
        let sessions: &Sessions = around.sessions;
        let sealed = sessions.is_sealing().then(|| sessions.sealed(bytes));
        Some(Batch { link: around.links.socket(link), to, segment, sender: self, cells, sealed })
    }

    /// Writes the headers of the first cells of `run`, and seals them; returns how many bytes they are without tags.
    fn number(&mut self, index: u16, link: u8, cells: usize, around: &mut Around<'_>) -> usize {
        let Some(peer) = around.sessions.table().get(index) else { return 0 };
        let (epoch, session) = (peer.epoch(), peer.session_out);
        let Some(paths) = around.links.paths_mut(index) else { return 0 };
        let path = &mut paths.outbound[link];
        let first = path.numbers.next();
        let mut bytes = 0;
        for slot in &self.run[..cells] {
            let cell = self.ring.cell_mut(*slot);
            cell.copies += 1;
            let cell = *cell;
            let header = Header {
                kind: Kind::Data,
                epoch,
                link,
                lane: cell.lane,
                link_seq: wire_seq(path.numbers.take(Some((*slot, cells > 1)))),
                lane_seq: wire_seq(cell.lane_seq),
                block_offset: cell.first_record,
                session,
            };
            header.emit(self.ring.slot_mut(*slot));
            bytes += HEADER + usize::from(cell.length);
        }
        let cells = self.run[..cells].iter().map(|slot| self.ring.sent(*slot));
        around.sessions.seal_run(index, link, first, cells);
        bytes
    }

    /// What became of the last batch.
    pub(crate) fn handle_sent(
        &mut self,
        now: Instant,
        outcome: Outcome,
        links: &mut Links,
        out: &mut Outputs,
    ) {
        let Some(flight) = self.flight.take() else { return };
        match outcome {
            Outcome::Sent => self.sent(now, &flight, links, out),
            Outcome::Full => {
                links[flight.link].full = true;
                self.take_back(&flight, links, Outbound::give_back_numbers);
            }
            Outcome::Lost => {
                out.counters.drop_refused += flight.cells as u64;
                // No byte of it says anything about the link's rate.
                self.sent(now, &Flight { bytes: 0, ..flight }, links, out);
            }
            Outcome::Refused => {
                out.counters.drop_refused += flight.cells as u64;
                self.take_back(&flight, links, |path, cells| path.numbers.void(cells));
                links.leave(now, flight.peer, flight.link, Signal::SendError, out);
            }
        }
    }

    fn sent(&mut self, now: Instant, flight: &Flight, links: &mut Links, out: &mut Outputs) {
        let counters = &mut out.counters;
        links.handle_sent(now, (flight.peer, flight.link), flight.cells, flight.bytes);
        if flight.source == Source::New
            && let Some(peer) = self.peers.get_mut(flight.peer)
        {
            peer.repairs.earn(flight.cells);
            let cell = *self.ring.cell(self.run[0]);
            self.note_sent(now, &cell);
        }
        counters.batches_sent += 1;
        counters.cells_sent += flight.cells as u64;
        match flight.source {
            Source::New if self.policies.of(flight.treatment).replicates() => {
                self.replicate(flight.link, flight.cells, counters);
            }
            Source::New => {}
            Source::Again => counters.cells_repaired += flight.cells as u64,
            Source::Copies(_) => counters.replicas_sent += flight.cells as u64,
        }
        let policy = self.policies.of(flight.treatment);
        policy.handle_sent(flight.treatment.flow, flight.link, flight.bytes as u64);
        self.departing.drop_first(&mut self.ring, flight.source, flight.cells);
    }

    /// Cells have not left. Their numbers are returned if that is certain: no number seals two cells.
    fn take_back(&mut self, flight: &Flight, links: &mut Links, numbers: fn(&mut Outbound, usize)) {
        if let Some(paths) = links.paths_mut(flight.peer) {
            numbers(&mut paths.outbound[flight.link], flight.cells);
        }
        for slot in &self.run[..flight.cells] {
            self.ring.cell_mut(*slot).copies -= 1;
        }
    }
}
