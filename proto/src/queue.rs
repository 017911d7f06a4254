//! What waits to leave: a short, fair queue per flow, `FQ-CoDel`.
//!
//! Stands between [`crate::pack`] and [`crate::schedule`]. A flow here is a lane of a peer: flows are hashed onto lanes
//! already. Flows take turns of [`QUANTUM`] bytes; one that has just begun to send goes before those that have sent for a
//! while, so what is sparse (a keystroke, an ACK, a ping) never waits behind what is bulky. A flow whose frames wait too
//! long is told so by one of them ([`crate::codel`], [`crate::mark`]).
//!
//! What may wait altogether is bounded by the arena. When it is crowded, the flow of which most waits loses its oldest
//! frame. Superframes of TCP are spared: when it is they that crowd the arena, reading stops, the device fills, and the
//! kernel tells the sender, who then slows down without having lost anything.
//!
//! Invariant: a flow with cells is in exactly one of the lists.
//! Source: RFC 8290, 4.1 and 4.2; deficit round robin: Shreedhar and Varghese, SIGCOMM 1995. Unlike there, a turn counts
//! cells, not whole packets, so that a superframe of 64 KB does not keep everyone waiting.

use crate::arena::Arena;
use crate::chain::Chain;
use crate::codel::{Codel, Limits};
use crate::counters::Counters;
use crate::mark::{self, Told};
use crate::time::Instant;
use crate::wire::cell::{HEADER, LANES};
use crate::wire::record::PREFIX;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

/// Bytes of a turn: four cells for Ethernet's 1,500 bytes, so that turns cost few iovecs.
const QUANTUM: i32 = 6_000;

/// One flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    chain: Chain,
    /// Bytes that it may still send in this turn; what it took beyond is missing in the next ones.
    deficit: i32,
    is_listed: bool,
    /// Cells of it that have left the queue stand still: it gets no turn.
    is_paused: bool,
    codel: Codel,
}

/// All flows with what waits of them.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// By peer, by lane.
    flows: Vec<Flow>,
    /// Flows that have just begun, and all others that wait; both hold indices of `flows`.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// Flows that are paused; in neither list.
    paused: Vec<usize>,
}

impl FairQueue {
    /// The last cell of a lane that waits, which takes further records.
    pub(crate) fn open(&self, peer: u16, lane: u8) -> Option<u64> {
        self.flows.get(index(peer, lane))?.chain.last()
    }

    /// Slots that have just been filled wait at the end of their lane.
    pub(crate) fn push(&mut self, arena: &mut Arena, peer: u16, lane: u8, slots: Range<u64>) {
        let index = index(peer, lane);
        if index >= self.flows.len() {
            self.flows.resize_with((usize::from(peer) + 1) * LANES, Flow::default);
        }
        let flow = &mut self.flows[index];
        flow.chain.push(arena, slots);
        if !flow.is_listed && flow.chain.cells() > 0 {
            flow.is_listed = true;
            flow.deficit = QUANTUM;
            self.new.push_back(index);
        }
    }

    /// Moves cells of one lane to `out`, until its turn is over or `out` holds `most`; a lane that is alone goes on.
    /// `limits` tells what is too long a wait on the way to a peer. Returns whether there were any cells.
    pub(crate) fn take_turn(
        &mut self,
        now: Instant,
        limits: impl Fn(u16) -> Limits,
        most: usize,
        arena: &mut Arena,
        counters: &mut Counters,
        out: &mut VecDeque<u64>,
    ) -> bool {
        let before = out.len();
        // Each round gives a flow its quantum, or takes one off a list that has run empty.
        while let Some((index, is_new)) = self.next() {
            if self.flows[index].is_paused {
                self.paused.push(index);
                continue;
            }
            let is_alone = self.new.is_empty() && self.old.is_empty();
            let flow = &mut self.flows[index];
            if is_alone {
                flow.deficit = i32::MAX;
            } else if flow.deficit <= 0 {
                flow.deficit += QUANTUM;
                self.old.push_back(index);
                continue;
            }
            flow.send(now, limits(peer_of(index)), most, arena, counters, out);
            flow.deficit = flow.deficit.min(QUANTUM);
            if flow.chain.cells() > 0 {
                self.put_first(index, is_new);
            } else if is_new {
                // It must not come first again by running empty and beginning anew.
                self.old.push_back(index);
            } else {
                flow.is_listed = false;
            }
            if out.len() > before {
                return true;
            }
        }
        false
    }

    /// Takes the flow whose turn it is off its list; says whether that was the list of those that have just begun.
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

    /// A lane gets no turn until [`Self::resume`].
    pub(crate) fn pause(&mut self, peer: u16, lane: u8) {
        if let Some(flow) = self.flows.get_mut(index(peer, lane)) {
            flow.is_paused = true;
        }
    }

    /// All lanes get turns again; those that were paused come first.
    pub(crate) fn resume(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.is_paused = false);
        self.paused.drain(..).rev().for_each(|index| self.old.push_front(index));
    }

    /// Drops frames while the arena is crowded, unless it is their senders who should wait.
    pub(crate) fn relieve(&mut self, arena: &mut Arena, counters: &mut Counters) {
        while arena.is_crowded() && self.drop_of_fattest(arena) {
            counters.drop_queue_full += 1;
        }
    }

    /// Drops the oldest frame of the flow of which most waits, among those that have more than their share and can be
    /// told in no other way; returns whether there is one.
    fn drop_of_fattest(&mut self, arena: &mut Arena) -> bool {
        let flows = || self.new.iter().chain(&self.old).chain(&self.paused);
        let share = arena.waiting_max() / flows().count().max(1);
        let victim = |index: usize| {
            let chain = &self.flows[index].chain;
            let record = chain.next_record(arena).filter(|_| chain.cells() >= share)?;
            let is_spared = mark::is_tcp_superframe(&arena.filled(record.slot)[record.at + PREFIX..]);
            (!is_spared).then_some((chain.cells(), index, record))
        };
        let victims = flows().filter_map(|index| victim(*index));
        let Some((_, index, record)) = victims.max_by_key(|(cells, ..)| *cells) else { return false };
        self.flows[index].chain.drop_record(arena, record);
        true
    }

    /// A peer's lanes have ended: what waits for it is dropped. Returns how many cells that were.
    pub(crate) fn forget_peer(&mut self, peer: u16, arena: &mut Arena) -> u64 {
        let mut cells = 0;
        let first = index(peer, 0);
        for flow in self.flows.iter_mut().skip(first).take(LANES) {
            while let Some(slot) = flow.chain.pop(arena) {
                arena.release(slot);
                cells += 1;
            }
            flow.codel = Codel::default();
        }
        cells
    }
}

impl Flow {
    /// Sends cells until the turn is over or `out` holds `most`.
    fn send(
        &mut self,
        now: Instant,
        limits: Limits,
        most: usize,
        arena: &mut Arena,
        counters: &mut Counters,
        out: &mut VecDeque<u64>,
    ) {
        while self.deficit > 0 && out.len() < most {
            self.tell(now, limits, arena, counters);
            let Some(slot) = self.chain.pop(arena) else {
                self.codel.handle_empty();
                return;
            };
            self.deficit -= i32::from(arena.cell(slot).length) + HEADER_BYTES;
            out.push_back(slot);
        }
    }

    /// Tells the flow of congestion by the frame that begins in the first cell, if `CoDel` wants it.
    fn tell(&mut self, now: Instant, limits: Limits, arena: &mut Arena, counters: &mut Counters) {
        // Each round drops a record, but for the last.
        while let Some(record) = self.chain.record(arena) {
            let Some(slot) = self.chain.first() else { return };
            let behind =
                self.chain.cells() - (record.at + PREFIX + record.length).div_ceil(arena.payload_max());
            let sojourn = now.since(arena.cell(slot).since);
            if !self.codel.judge(now, limits, sojourn, behind <= 1) {
                return;
            }
            match mark::tell(&mut arena.filled_mut(slot)[record.at + PREFIX..], record.length) {
                Told::Marked => counters.frames_marked += 1,
                Told::Trimmed(bytes) => {
                    counters.frames_trimmed += 1;
                    self.chain.shorten_record(arena, record, bytes);
                }
                Told::Not => {
                    counters.drop_queue_late += 1;
                    self.chain.drop_record(arena, record);
                    continue;
                }
            }
            return;
        }
    }
}

#[expect(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "HEADER is 16")]
const HEADER_BYTES: i32 = HEADER as i32;

fn index(peer: u16, lane: u8) -> usize {
    usize::from(peer) * LANES + usize::from(lane)
}

#[expect(clippy::cast_possible_truncation, reason = "an index is made from a peer's number")]
fn peer_of(index: usize) -> u16 {
    (index / LANES) as u16
}

#[cfg(test)]
mod tests;
