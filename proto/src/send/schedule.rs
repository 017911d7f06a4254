//! Which cells leave next, and over which link.
//!
//! What a frame became in [`crate::send::segment`] leaves the queue here, in turns that are fair among lanes, and gets its lane's
//! numbers; the policy then chooses the link. Repairs come first, copies for further links before new cells.
//! Invariant: a cell keeps its place in its lane whatever link it takes, and however often it is sent.

use crate::link::congestion::delays;
use crate::link::nic::{Link, bytes_in};
use crate::link::outbound::{Outbound, Standing};
use crate::link::paths::{NEAR, Paths, Reach};
use crate::policy::{Choice, Share, Waiting};
use crate::send::codel::Limits;
use crate::send::park::Parked;
use crate::send::queue::Turn;
use crate::send::repair::Repair;
use crate::send::replicate::Replicas;
use crate::send::ring::{Cell, Ring};
use crate::send::transmit::BATCH_CELLS;
use crate::send::{Around, Sender};
use crate::session::Sessions;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// Bytes of one batch: the largest UDP payload over IPv4.
const BATCH_BYTES: usize = 65_507;
/// What leaves the queue at once lasts so long on all links together: a sparse flow waits no longer behind it.
const COMMIT_FOR: Duration = Duration::from_millis(1);
/// A flow's turn lasts so long on all links together.
const TURN_FOR: Duration = Duration::from_micros(100);
/// What is to wait in the queue lasts so long, as far as senders can be told by their gates: less than what a queue that
/// stays has to pay for ([`crate::send::codel`]). On longer paths it is a round trip and a half: a gate that shuts takes three tenths
/// off CUBIC's window, and what waits has to bridge the time until it has grown again.
const WAIT_FOR: Duration = Duration::from_millis(4);
/// What is to wait is no more than one part in so many of what may, also while rates are not known: each flow adds a superframe
/// before its gate is closed.
const WANTED_SHARE: usize = 4;
/// Cells that leave the queue at once: the batches of two superframes.
const COMMIT_CELLS: usize = 2 * BATCH_CELLS;

/// Where the cells of a batch waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In the ring, to be sent for the first time.
    New,
    /// Among those to be sent again.
    Again,
    /// Among the copies for this link.
    Copies(u8),
}

/// What has left the queue, or is to leave again, and waits for its links.
#[derive(Default)]
pub(super) struct Departing {
    /// Slots that have numbers, to be sent in this order.
    pub(super) new: VecDeque<u64>,
    /// Slots to be sent again, before anything new.
    pub(super) again: VecDeque<Repair>,
    /// Copies of cells for further links.
    pub(super) copies: Replicas,
    /// What steps aside until its links take more.
    pub(super) parked: Parked,
}

impl Departing {
    fn get(&self, source: Source, index: usize) -> Option<u64> {
        match source {
            Source::New => self.new.get(index).copied(),
            Source::Again => self.again.get(index).map(|repair| repair.slot),
            Source::Copies(link) => self.copies.waiting(link).get(index).copied(),
        }
    }

    /// The first cells that wait no longer do.
    pub(super) fn drop_first(&mut self, ring: &mut Ring, source: Source, cells: usize) {
        match source {
            Source::New => self.new.drain(..cells).for_each(|slot| ring.release(slot)),
            Source::Again => drop(self.again.drain(..cells)),
            Source::Copies(link) => self.copies.drop_first(link, cells),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Choices {
    pub(super) links: Vec<Choice>,
    /// To their peer and back.
    pub(super) round_trip: Duration,
}

impl Choices {
    fn least_skew(&self) -> Duration {
        self.links.iter().map(|choice| choice.skew).min().unwrap_or_default()
    }

    /// How many bytes they carry in a time, if their rates are known.
    fn bytes_in(&self, span: Duration) -> Option<usize> {
        self.bytes_at(span, |choice| choice.rate)
    }

    /// How many they take in a time, if the rate of one of them is known, or the pace at which it starts: others, which may not be used
    /// at all, count as much as the fastest of these.
    fn paced_bytes_in(&self, span: Duration) -> Option<usize> {
        let pace = |choice: &Choice| choice.rate.or(choice.pace);
        let fastest = self.links.iter().filter_map(pace).max();
        self.bytes_at(span, |choice| pace(choice).or(fastest))
    }

    /// A further link whose rate is not known counts as none: it has not been needed.
    fn bytes_at(&self, span: Duration, rate: impl Fn(&Choice) -> Option<u64>) -> Option<usize> {
        let least = self.least_skew();
        let rate = |choice: &Choice| rate(choice).or((choice.skew > least + NEAR).then_some(0));
        let rate = self.links.iter().try_fold(0u64, |sum, choice| Some(sum.saturating_add(rate(choice)?)));
        let bytes = bytes_in(rate.filter(|rate| *rate > 0)?, span);
        Some(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

impl Sender {
    /// Takes the next cells out of the queue and gives them their numbers.
    pub(super) fn commit(&mut self, around: &mut Around<'_>) {
        let now = around.now;
        self.readmit(now, around);
        // Few where the links of the last batch are slow.
        let most =
            self.choices.paced_bytes_in(COMMIT_FOR).map(|bytes| bytes / self.cell_max(around.sessions));
        let most = most.map_or(COMMIT_CELLS, |cells| cells.clamp(1, COMMIT_CELLS));
        let wait = WAIT_FOR.max(self.choices.round_trip * 3 / 2);
        let wanted = self.cells_in(wait, around.sessions).unwrap_or(usize::MAX);
        self.queue.set_wanted(wanted.min(self.ring.waiting_max() / WANTED_SHARE));
        self.queue.set_turn(self.choices.paced_bytes_in(TURN_FOR).unwrap_or(usize::MAX));
        while self.departing.new.len() < most {
            let numbered = self.departing.new.len();
            let Self { queue, ring, departing: Departing { new: out, .. }, .. } = self;
            let (links, counters) = (&*around.links, &mut *around.counters);
            let limits = |cell: Cell| {
                let reach = cell.treatment.reach;
                let of = |paths: &Paths| {
                    let limits = Limits::of(paths.round_trip(reach), paths.spread(reach));
                    if paths.is_starting(reach, now) { limits.of_start() } else { limits }
                };
                links.paths(cell.peer).map_or_else(|| Limits::of(Duration::ZERO, Duration::ZERO), of)
            };
            if !queue.take_turn(&mut Turn { now, most, ring, counters, out }, limits) {
                return;
            }
            let Self { ring, departing: Departing { new, .. }, peers, .. } = self;
            let Cell { peer, lane, .. } = *ring.cell(new[numbered]);
            let Some(peer) = peers.get_mut(peer) else { continue };
            let next_seq = &mut peer.lanes[lane];
            for slot in new.range(numbered..) {
                ring.cell_mut(*slot).lane_seq = *next_seq;
                *next_seq += 1;
            }
        }
    }

    /// Whether cells should leave the queue: when none is left, or, where sending is limited by the processor rather than
    /// by links, when what is left does not fill a batch.
    pub(super) fn wants_commit(&self, sessions: &Sessions) -> bool {
        self.departing.new.is_empty()
            || self.departing.new.len() < BATCH_CELLS && self.commits(sessions).is_none()
    }

    /// How many cells leave the queue at once, if the links of the last batch hold them back.
    fn commits(&self, sessions: &Sessions) -> Option<usize> {
        Some(self.choices.paced_bytes_in(COMMIT_FOR)? / self.cell_max(sessions))
    }

    /// How many cells the links of the last batch carry in a time, if their rates are known.
    fn cells_in(&self, span: Duration, sessions: &Sessions) -> Option<usize> {
        Some(self.choices.bytes_in(span)? / self.cell_max(sessions))
    }

    /// Bytes of the cell in a slot as it leaves.
    pub(super) fn sealed_bytes(&self, slot: u64, sessions: &Sessions) -> usize {
        self.ring.cell_bytes(slot) + sessions.tag()
    }

    /// Which of the choices carries how many cells of `run`.
    pub(super) fn share(&mut self, peer: u16, source: Source, around: &Around<'_>) -> Option<Share> {
        let (cells, cell_bytes) = (self.run.len(), self.sealed_bytes(self.run[0], around.sessions));
        if let Source::Copies(_) = source {
            return Some(Share { index: 0, cells });
        }
        let Cell { treatment, behind, .. } = *self.ring.cell(self.run[0]);
        let (now, flow, round_trip) = (around.now, treatment.flow, self.choices.round_trip);
        // A lane waits for what is sent again, however much of its flow is behind it; and by a far link that would come later still.
        let (reach, backlog) = match source {
            Source::New => (treatment.reach, self.departing.new.len() + behind as usize),
            _ => (Reach::Near, cells),
        };
        if let Some(at) = self.returns_at(now, peer, reach) {
            self.departing.parked.wait_until(at);
            return None;
        }
        let waiting = Waiting { now, peer, flow, reach, cells, cell_bytes, backlog, round_trip };
        let Some(share) = self.policies.of(treatment).share(&self.choices.links, &waiting) else {
            self.note_held_back(now, peer, reach);
            return None;
        };
        Some(Share { cells: share.cells.min(self.together(share.index)), ..share })
    }

    /// How many cells of `run` may go by a link in one batch. A lane waits for a cell that takes a further link, so no cell of another lane goes
    /// with it.
    fn together(&self, index: usize) -> usize {
        if self.choices.links[index].skew <= self.choices.least_skew() + NEAR {
            return self.run.len();
        }
        let lane = |slot: &u64| self.ring.cell(*slot).lane;
        self.run.iter().take_while(|slot| lane(slot) == lane(&self.run[0])).count()
    }

    /// Puts the slots that one batch can carry into `run` and the links that can carry them into `choices`. Returns
    /// the peer, and where they wait.
    pub(super) fn gather_run(&mut self, around: &mut Around<'_>) -> Option<(u16, Source)> {
        if self.departing.again.is_empty()
            && let Some(replicas) = self.gather_replicas(around)
        {
            return Some(replicas);
        }
        loop {
            let again = !self.departing.again.is_empty();
            let source = if again { Source::Again } else { Source::New };
            let slot = self.departing.get(source, 0)?;
            let cell = *self.ring.cell(slot);
            let kept = !again || self.ring.keeps(slot);
            let bytes = self.sealed_bytes(slot, around.sessions);
            self.list_choices(cell.peer, bytes, around);
            if kept && !self.choices.links.is_empty() && !self.fit.gives_up(around.now, bytes) {
                self.list_run(slot, source, around.sessions);
                return Some((cell.peer, source));
            }
            around.counters.drop_no_link += 1;
            self.departing.drop_first(&mut self.ring, source, 1);
        }
    }

    /// Lists the links to a peer that are up and take cells of so many bytes, as far as data avoids none of them more than another;
    /// the doubted ones when none is up.
    pub(super) fn list_choices(&mut self, index: u16, bytes: usize, around: &Around<'_>) {
        self.choices.links.clear();
        let paths = around.links.paths(index).filter(|_| around.sessions.may_send(index));
        let Some(paths) = paths else { return };
        self.choices.round_trip = paths.round_trip(Reach::Near);
        let takes =
            |path: &Outbound, link: &Link| usize::from(path.cell_max(link.settings.cell_max)) >= bytes;
        // A cell that is too long for the only path that is up is not worth waiting for.
        let best = paths.outbound.iter().map(|path| path.standing).max().unwrap_or_default();
        let usable = |path: &Outbound| path.standing == best && best != Standing::Down;
        let ways = paths.outbound.iter().zip(around.links.by_number()).zip(0..);
        let ways = ways.filter(|((path, link), _)| takes(path, link) && usable(path));
        let avoidance = |path: &Outbound, link: &Link| path.avoidance(&link.settings);
        let least = ways.clone().map(|((path, link), _)| avoidance(path, link)).min();
        let chosen = ways.filter(|((path, link), _)| Some(avoidance(path, link)) == least);
        let shortest = delays::shortest(chosen.clone().map(|((path, _), _)| path.congestion.way()));
        self.choices
            .links
            .extend(chosen.map(|((path, link), number)| choice(around.now, number, path, link, shortest)));
        if let Some(peer) = self.peers.get_mut(index) {
            peer.far_links.note_choices(&self.choices.links);
        }
    }

    /// Whether frames that are about to be read might fill the batch in `run`.
    pub(super) fn may_be_filled(&self, source: Source, sessions: &Sessions) -> bool {
        let is_last = source == Source::New && self.run.len() == self.departing.new.len();
        let is_full = || self.run.len() == self.batch_cells(self.run[0], sessions);
        let bytes = |slot| self.ring.cell_bytes(slot);
        let is_closed = || bytes(self.run[self.run.len() - 1]) < bytes(self.run[0]);
        self.reading.goes_on && is_last && !is_full() && !is_closed()
    }

    /// Cells as long as the one in a slot that fit into a batch.
    fn batch_cells(&self, slot: u64, sessions: &Sessions) -> usize {
        BATCH_CELLS.min(BATCH_BYTES / self.sealed_bytes(slot, sessions))
    }

    /// Lists the slots from the first one on that fit into one batch: same peer, sent alike, same length but for the
    /// last.
    pub(super) fn list_run(&mut self, slot: u64, source: Source, sessions: &Sessions) {
        self.run.clear();
        let first = *self.ring.cell(slot);
        let most = self.batch_cells(slot, sessions);
        while self.run.len() < most {
            let next = self.run.len();
            let slot = self.departing.get(source, next);
            let Some(slot) = slot.filter(|slot| self.ring.keeps(*slot)) else { return };
            let cell = self.ring.cell(slot);
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
}

/// What is known of a link with this number and the path over it. `shortest`: the shortest way to the peer, where all know what they carry: then
/// the sender foresees when a cell arrives; what the peer reports is as old as the way is long.
fn choice(now: Instant, number: u8, path: &Outbound, link: &Link, shortest: Option<u32>) -> Choice {
    let way = path.congestion.way();
    let foreseen = way.zip(shortest);
    let measured = |stated: Option<u64>| stated.or(link.load.speed()).map(|bits| bits / 8);
    let opens = || path.opens_in(now).max(link.ceiling.opens_at().since(now));
    Choice {
        link: number,
        wait: link.queue.wait().max(shortest.map_or(Duration::ZERO, |_| path.congestion.wait(now))),
        rate: path.rate(link),
        pace: path.congestion.pace(),
        speed: measured(link.settings.rate),
        receives: measured(link.settings.receives),
        others: link.load.others(),
        received: link.load.received(),
        weight: link.settings.weight,
        skew: foreseen.map_or(path.skew, |(way, shortest)| delays::beyond(way, shortest)),
        is_far: path.is_far,
        round_trip: path.round_trip.unwrap_or_default(),
        full: link.is_full(now) || path.is_full(now),
        opens: way.filter(|_| !link.full).map(|_| opens()),
    }
}
