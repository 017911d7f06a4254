//! What waits to leave: a short, fair queue per flow, `FQ-CoDel`.
//!
//! Stands between [`crate::send::segment`] and [`crate::send::schedule`]. Flows are hashed onto [`QUEUES`] queues, each of which holds one
//! flow as long as one of its set is free (as in CAKE's set-associative hash). Queues take turns of a few cells, on fast links of a superframe; one
//! that has just begun to send goes before those that have sent for a while, so what is sparse (a keystroke, an ACK, a
//! ping) never waits behind what is bulky. A flow whose frames wait too long is told so by one of them
//! ([`crate::send::codel`], [`crate::send::ecn_mark`]).
//!
//! Many queues share one of few lanes, which order what is on its way. A lane is a stream of records, so a turn that ends
//! within a record is continued before another queue of that lane sends.
//!
//! What may wait altogether is bounded by the ring. When it is nearly full, the flow of which most waits loses its oldest
//! frame. Superframes of TCP are spared: when it is they that incast the ring, reading stops, the device fills, and the
//! kernel tells the sender, who then slows down without having lost anything. Those that stand still for much longer than
//! others wait, because their link or peer is slow, are not spared: reading goes on for the others.
//!
//! Invariants: a queue with cells is in exactly one of the lists; the cells of a record follow each other in its lane.
//! Source: RFC 8290, 4.1 and 4.2; deficit round robin: Shreedhar and Varghese, SIGCOMM 1995; sets of queues: CAKE, Hoeiland-
//! Joergensen et al. 2018, 3.2. Unlike in the RFC, a turn counts cells, not whole packets, so that a superframe of 64 KB does
//! not keep everyone waiting.

use crate::outputs::counters::Counters;
use crate::policy::gate;
use crate::send::chain::{Chain, Record};
use crate::send::codel::{Codel, Limits};
use crate::send::ecn_mark::{self, Signalled};
use crate::send::ring::{Cell, Ring, Slots};
use crate::session::peers::ByPeer;
use crate::time::Instant;
use crate::wire::cell::{HEADER, LANES};
use crate::wire::numbered::Numbered;
use crate::wire::record::PREFIX;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// Bytes of a turn, at least: four cells for Ethernet's 1,500 bytes, so that turns cost few iovecs.
const QUANTUM_LEAST: i32 = 6_000;
/// Bytes of a turn, at most: a superframe, so that a batch holds cells of one flow, which may be bound to a link.
const QUANTUM_MOST: i32 = 66_000;
/// Queues, as many as RFC 8290 recommends.
const QUEUES: usize = 1_024;
/// Queues that a flow may have. With eight, 100 flows find one of their own but for one time in a million.
const WAYS: usize = 8;

/// Cells that a flow may have before its gate is closed, however many flows there are.
const SHARE_MIN: usize = 4;
/// What stands still for less hinders nobody.
const STUCK_AFTER: Duration = Duration::from_millis(100);
/// Waits of cells that leave, of which one that stands still may wait for so many.
const STUCK_WAITS: u32 = 8;
/// A cell's wait counts so much in their mean: about two turns of all links.
const WAIT_SHARE: u32 = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    chain: Chain,
    /// A hash of the flow and its peer.
    flow: u64,
    /// Bytes that it may still send in this turn; what it took beyond is missing in the next ones.
    deficit: i32,
    is_listed: bool,
    /// What waits is not of that flow alone.
    is_shared: bool,
    codel: Codel,
    /// A superframe of TCP has come since it was empty: its sender is told by a gate, or when the device is full.
    has_superframes: bool,
    /// The flow's gate at the device, and whether it is closed.
    gate: Option<u16>,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// A hash of what makes the flow.
    pub(crate) hash: u64,
    /// Its gate at the device, if it has one.
    pub(crate) gate: Option<u16>,
    /// The frame is a superframe of TCP.
    pub(crate) is_superframe: bool,
}

/// Where a flow's frames wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) flow: Flow,
    queue: usize,
    /// A hash of the flow and its peer.
    hash: u64,
}

/// What the queues know of a lane of a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// The queue that holds the rest of a record whose beginning has left.
    begun: Option<usize>,
    /// Cells of it that have left the queue stand still: it gets no turn.
    is_paused: bool,
}

/// Where cells go that leave the queues, and what they meet there.
pub(crate) struct Turn<'a> {
    pub(crate) now: Instant,
    /// As many slots as `out` may hold.
    pub(crate) most: usize,
    pub(crate) ring: &'a mut Ring,
    pub(crate) counters: &'a mut Counters,
    /// Slots in the order in which they leave.
    pub(crate) out: &'a mut VecDeque<u64>,
}

/// All queues with what waits in them.
pub(crate) struct FairQueue {
    queues: Box<[Queue]>,
    lanes: ByPeer<Numbered<[Lane; LANES]>>,
    /// Queues that have just begun, and all others that wait.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// Queues whose lane is paused, in neither list, and whether they have just begun.
    paused: Vec<(usize, bool)>,
    /// How long cells have waited that left lately.
    wait: Duration,
    /// Cells that are to wait altogether.
    wanted: usize,
    /// Bytes of a turn.
    quantum: i32,
    pub(super) gates: gate::Changes,
}

impl Default for FairQueue {
    fn default() -> Self {
        let list = || VecDeque::with_capacity(QUEUES);
        Self {
            queues: vec![Queue::default(); QUEUES].into_boxed_slice(),
            lanes: ByPeer::default(),
            new: list(),
            old: list(),
            paused: Vec::with_capacity(QUEUES),
            wait: Duration::ZERO,
            wanted: usize::MAX,
            quantum: QUANTUM_LEAST,
            gates: gate::Changes::default(),
        }
    }
}

impl FairQueue {
    /// Where the frames of a flow to a peer wait: in its own queue, else in a free one, else with others. Those that wait with
    /// others are followed by the next ones of their flow, although a queue is free by then.
    pub(crate) fn place(&self, peer: u16, flow: Flow) -> Place {
        // Any odd constant spreads the peers.
        let hash = flow.hash ^ u64::from(peer).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let upper = usize::try_from(hash >> 32).unwrap_or_default();
        let first = upper % (QUEUES / WAYS) * WAYS;
        let mut ways = first..first + WAYS;
        let own = ways.clone().find(|way| self.queues[*way].flow == hash);
        let shared = Some(first).filter(|first| self.queues[*first].is_shared);
        let queue = own.or(shared).or_else(|| ways.find(|way| !self.queues[*way].is_listed));
        Place { flow, queue: queue.unwrap_or(first), hash }
    }

    /// The last cell that waits there, which takes further records of its lane.
    pub(crate) fn open(&self, place: Place) -> Option<u64> {
        self.queues[place.queue].chain.last()
    }

    /// Slots that have just been filled for a peer wait there.
    pub(crate) fn push(&mut self, ring: &mut Ring, peer: u16, place: Place, slots: Slots) {
        self.lanes.of(peer);
        let queue = &mut self.queues[place.queue];
        queue.is_shared |= queue.is_listed && queue.flow != place.hash;
        queue.chain.push(ring, slots);
        if !queue.is_listed && queue.chain.cells() > 0 {
            if queue.flow != place.hash {
                (queue.flow, queue.codel) = (place.hash, Codel::default());
            }
            queue.gate = place.flow.gate;
            queue.has_superframes = false;
            queue.is_listed = true;
            queue.deficit = self.quantum;
            self.new.push_back(place.queue);
        }
        queue.has_superframes |= place.flow.is_superframe;
        self.watch_gate(place.queue);
    }

    /// So many cells are to wait altogether, as far as their senders can be told.
    pub(crate) fn set_wanted(&mut self, cells: usize) {
        self.wanted = cells;
    }

    /// A turn is to last as long as so many bytes, within bounds.
    pub(crate) fn set_turn(&mut self, bytes: usize) {
        let most = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.quantum = most.clamp(QUANTUM_LEAST, QUANTUM_MOST);
    }

    /// Closes the gate of a flow that has more than its share of what is to wait, and opens it when enough has left.
    fn watch_gate(&mut self, index: usize) {
        let flows = self.new.len() + self.old.len() + self.paused.len();
        let share = (self.wanted / flows.max(1)).max(SHARE_MIN);
        let queue = &mut self.queues[index];
        let Some(gate) = queue.gate else { return };
        let is_closed = queue.chain.cells() > if queue.is_closed { share / 2 } else { share };
        if is_closed != queue.is_closed {
            queue.is_closed = is_closed;
            self.gates.push(gate::Change { gate, is_closed });
        }
    }

    /// Moves cells of one lane to `turn.out`, until a queue's turn is over or as many are there as may; a queue that is
    /// alone goes on. `limits` tells what is too long a wait for a cell. Returns whether there were any cells.
    pub(crate) fn take_turn(&mut self, turn: &mut Turn<'_>, limits: impl Fn(Cell) -> Limits) -> bool {
        let before = turn.out.len();
        // Each round gives a queue its quantum, ends a record, or takes a queue off a list.
        while let Some((index, is_new)) = self.next() {
            let Some(first) = self.first(index, turn.ring) else {
                self.handle_empty(index, is_new);
                continue;
            };
            let Lane { begun, is_paused } = self.lanes[first.peer][first.lane];
            if is_paused {
                self.paused.push((index, is_new));
                continue;
            }
            let is_alone = self.new.is_empty() && self.old.is_empty();
            let queue = &mut self.queues[index];
            if is_alone {
                queue.deficit = i32::MAX;
            } else if queue.deficit <= 0 {
                queue.deficit += self.quantum;
                self.old.push_back(index);
                continue;
            }
            match begun.filter(|begun| *begun != index) {
                Some(begun) => self.end_record(begun, turn),
                None => self.send(index, turn, limits(first)),
            }
            let queue = &mut self.queues[index];
            queue.deficit = queue.deficit.min(self.quantum);
            if queue.chain.cells() > 0 {
                self.put_first(index, is_new);
            } else {
                self.handle_empty(index, is_new);
            }
            if turn.out.len() > before {
                return true;
            }
        }
        false
    }

    fn first(&self, index: usize, ring: &Ring) -> Option<Cell> {
        self.queues[index].chain.first().map(|slot| *ring.cell(slot))
    }

    /// A queue has run empty in its turn.
    fn handle_empty(&mut self, index: usize, is_new: bool) {
        self.queues[index].codel.handle_empty();
        self.queues[index].is_shared = false;
        if is_new {
            // It must not come first again by running empty and beginning anew.
            self.old.push_back(index);
        } else {
            self.queues[index].is_listed = false;
        }
    }

    /// Takes the queue whose turn it is off its list; says whether that was the list of those that have just begun.
    fn next(&mut self) -> Option<(usize, bool)> {
        let new = self.new.pop_front().map(|index| (index, true));
        new.or_else(|| self.old.pop_front().map(|index| (index, false)))
    }

    fn put_first(&mut self, index: usize, is_new: bool) {
        if is_new {
            self.new.push_front(index);
        } else {
            self.old.push_front(index);
        }
    }

    /// Sends cells of a queue that are for one lane, until its turn is over.
    fn send(&mut self, index: usize, turn: &mut Turn<'_>, limits: Limits) {
        let lane = |cell: &Cell| (cell.peer, cell.lane);
        let Some(first) = self.first(index, turn.ring) else { return };
        while self.queues[index].deficit > 0 && turn.out.len() < turn.most {
            self.queues[index].tell(turn.now, limits, turn.ring, turn.counters);
            self.watch_gate(index);
            match self.first(index, turn.ring) {
                Some(next) if lane(&next) == lane(&first) => self.send_cell(index, turn),
                _ => return,
            }
        }
    }

    /// Sends what remains of a record of which part has left.
    fn end_record(&mut self, index: usize, turn: &mut Turn<'_>) {
        let Some(Cell { peer, lane, .. }) = self.first(index, turn.ring) else { return };
        let begun = |queue: &Self| queue.lanes[peer][lane].begun == Some(index);
        while begun(self) && turn.out.len() < turn.most {
            self.send_cell(index, turn);
        }
    }

    fn send_cell(&mut self, index: usize, turn: &mut Turn<'_>) {
        // It is in no list during its turn.
        let flows = 1 + self.new.len() + self.old.len() + self.paused.len();
        let queue = &mut self.queues[index];
        let Some(slot) = queue.chain.pop(turn.ring) else { return };
        // Flows take turns, so cells of others leave between those of this one.
        let behind = (queue.chain.cells() * flows).min(turn.ring.waiting);
        turn.ring.cell_mut(slot).behind = u32::try_from(behind).unwrap_or(u32::MAX);
        let cell = *turn.ring.cell(slot);
        queue.deficit -= i32::from(cell.length) + HEADER_BYTES;
        turn.out.push_back(slot);
        self.wait = (self.wait * (WAIT_SHARE - 1) + turn.now.since(cell.since)) / WAIT_SHARE;
        let goes_on =
            |next: &Cell| (next.peer, next.lane) == (cell.peer, cell.lane) && next.first_record != 0;
        let begun = self.first(index, turn.ring).filter(goes_on).map(|_| index);
        self.lanes[cell.peer][cell.lane].begun = begun;
        self.watch_gate(index);
    }

    /// Lanes of a peer get no turn until [`Self::resume`]: one, or all.
    pub(crate) fn pause(&mut self, peer: u16, lane: Option<u8>) {
        let Some(lanes) = self.lanes.get_mut(peer) else { return };
        let paused = (0u8..).zip(&mut **lanes).filter(|(number, _)| lane.is_none_or(|lane| lane == *number));
        paused.for_each(|(_, lane)| lane.is_paused = true);
    }

    /// All lanes get turns again; the queues that were paused come first in their lists.
    pub(crate) fn resume(&mut self) {
        self.lanes.values_mut().flat_map(|lanes| lanes.iter_mut()).for_each(|lane| lane.is_paused = false);
        while let Some((index, is_new)) = self.paused.pop() {
            self.put_first(index, is_new);
        }
    }

    /// Drops frames while the ring is nearly full, unless it is their senders who should wait.
    pub(crate) fn relieve(&mut self, now: Instant, ring: &mut Ring, counters: &mut Counters) {
        while ring.is_nearly_full() && self.drop_of_fattest(now, ring) {
            counters.drop_queue_full += 1;
        }
    }

    /// Drops the oldest frame of the queue in which most waits, among those that have more than their share and can be
    /// told in no other way; returns whether there is one.
    fn drop_of_fattest(&mut self, now: Instant, ring: &mut Ring) -> bool {
        let waiting = || self.new.iter().chain(&self.old).map(|index| (*index, false));
        let queues = || waiting().chain(self.paused.iter().map(|(index, _)| (*index, true)));
        let share = ring.waiting_max() / queues().count().max(1);
        let stuck_after = STUCK_AFTER.max(self.wait * STUCK_WAITS);
        let is_stuck = |cell: &Cell| now.since(cell.since) > stuck_after;
        let mut fattest: Option<(usize, usize, Record)> = None;
        for (index, is_paused) in queues() {
            let chain = &self.queues[index].chain;
            let most = fattest.map_or(share, |(cells, ..)| cells + 1);
            let Some(record) = chain.next_record(ring).filter(|_| chain.cells() >= most) else { continue };
            let is_stuck = is_paused && self.first(index, ring).is_some_and(|first| is_stuck(&first));
            if is_stuck || !self.queues[index].has_superframes {
                fattest = Some((chain.cells(), index, record));
            }
        }
        let Some((_, index, record)) = fattest else { return false };
        self.queues[index].chain.drop_record(ring, record);
        self.watch_gate(index);
        true
    }

    /// A peer's lanes have ended: what waits for it is dropped. Returns how many cells that were.
    pub(crate) fn forget_peer(&mut self, peer: u16, ring: &mut Ring) -> u64 {
        if let Some(lanes) = self.lanes.get_mut(peer) {
            *lanes = Default::default();
        }
        let mut forgotten = 0;
        for queue in &mut self.queues {
            for _ in 0..queue.chain.cells() {
                let Some(slot) = queue.chain.pop(ring) else { break };
                if ring.cell(slot).peer == peer {
                    ring.release(slot);
                    forgotten += 1;
                } else {
                    queue.chain.push(ring, Slots { first: slot, last: slot, cells: 1 });
                }
            }
        }
        (0..QUEUES).for_each(|index| self.watch_gate(index));
        forgotten
    }
}

impl Queue {
    /// Tells the flow of congestion by the frame that begins in the first cell, if `CoDel` wants it.
    fn tell(&mut self, now: Instant, limits: Limits, ring: &mut Ring, counters: &mut Counters) {
        // Each round drops a record, but for the last.
        while let Some(record) = self.chain.record(ring) {
            let Some(slot) = self.chain.first() else { return };
            let own = (record.at + PREFIX + record.length).div_ceil(ring.payload_max());
            let behind = self.chain.cells() - own;
            let sojourn = now.since(ring.cell(slot).since);
            // A packet, or a superframe, is the least that its sender can have here (MAXPACKET of RFC 8289), and he is told
            // otherwise before it is many.
            let few = if self.has_superframes { ring.span() } else { own };
            if !self.codel.judge(now, limits, sojourn, behind <= few) {
                return;
            }
            match ecn_mark::tell(&mut ring.filled_mut(slot)[record.at + PREFIX..], record.length) {
                Signalled::Marked => counters.frames_marked += 1,
                Signalled::Trimmed(bytes) => {
                    counters.frames_trimmed += 1;
                    self.chain.shorten_record(ring, record, bytes);
                }
                Signalled::Not => {
                    counters.drop_queue_late += 1;
                    self.chain.drop_record(ring, record);
                    continue;
                }
            }
            return;
        }
    }
}

#[expect(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "HEADER is 16")]
const HEADER_BYTES: i32 = HEADER as i32;

#[cfg(test)]
mod tests;
