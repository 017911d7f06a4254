//! One lane's order, restored: cells go in as they arrive and come out by their number.
//!
//! Stands between the links and [`crate::receive::reassemble`]. A cell that is next comes out at once; a lane without gaps costs
//! nothing. The lane waits for a gap until the reorder timeout ([`crate::receive::reorder_timeout`]). Without repair it does
//! not wait once every link has brought a later cell, for links keep their order (P2: links are FIFO; a late cell comes over
//! another link). The cells of a dead link are repaired one after the other, so each missing cell restarts the wait.
//!
//! Invariants: no number comes out twice; numbers come out in order; at most [`WINDOW`] cells wait.

use crate::receive::pool::Piece;
use crate::time::Instant;
use crate::wire::cell::LINKS;
use crate::wire::numbered::Numbered;
use alloc::collections::VecDeque;
use core::ops::Range;
use core::time::Duration;

/// How far ahead of the next cell another may be. 4,096 cells of 1,452 B are 5.9 MB: 5 ms at 10 Gbit/s.
pub(crate) const WINDOW: u64 = 4_096;

/// Places that an empty lane keeps. A peer can make any lane as long as its window by a single cell;
/// [`crate::receive::relief`] bounds the places of all lanes together beyond these.
const KEPT: usize = 256;

/// Gaps that are remembered after they were given up, to tell late cells from duplicates.
const GIVEN_UP_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) payload: Piece,
    /// Where in it the first record begins, or `NO_RECORD`.
    pub(crate) first_record: u16,
    pub(crate) at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It is the next one and nothing waits behind it: the caller reassembles it at once.
    Next,
    /// It has its place. If it filled a gap: how long cells waited behind the gap.
    Kept(Option<Duration>),
    Duplicate,
    /// It was given up before.
    Late,
}

#[derive(Debug, Default)]
pub(crate) struct Reorder {
    pub(super) next: u64,
    /// Cells `next`, `next + 1`, ... as far as they are here.
    waiting: VecDeque<Option<Arrived>>,
    /// Since when the first cell behind the gap at the front waits.
    pub(super) gap_since: Option<Instant>,
    /// When a missing cell arrived last.
    filled: Instant,
    /// The number after the highest seen on each link.
    highest: Numbered<[u64; LINKS]>,
    /// Numbers that were given up lately, the oldest first.
    given_up: VecDeque<Range<u64>>,
}

impl Reorder {
    /// A lane whose first cell has the number `next`.
    pub(crate) fn new(next: u64) -> Self {
        Self { next, ..Self::default() }
    }

    /// Bytes that it has on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Option<Arrived>>()
    }

    /// Places beyond those that an empty lane keeps.
    pub(crate) fn surplus(&self) -> usize {
        self.waiting.capacity().saturating_sub(KEPT)
    }

    pub(crate) fn buffers(&self) -> impl Iterator<Item = u16> {
        self.waiting.iter().flatten().map(|cell| cell.payload.buffer)
    }

    /// Cells that wait behind a gap.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.iter().flatten().count()
    }

    /// Since when the lane waits for the gap at the front, if there is one.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        Some(self.gap_since?.max(self.filled))
    }

    /// Whether a cell with this number may wait, or is too far ahead.
    pub(crate) fn reaches(&self, seq: u64) -> bool {
        seq < self.next + WINDOW
    }

    /// Puts in a cell that arrived over `link`, and that the window reaches.
    pub(crate) fn insert(&mut self, seq: u64, link: u8, cell: Arrived) -> Placed {
        let Some(ahead) = seq.checked_sub(self.next) else { return self.placed_before(seq) };
        debug_assert!(self.reaches(seq));
        let highest = &mut self.highest[link];
        *highest = (*highest).max(seq + 1);
        if ahead == 0 && self.waiting.is_empty() {
            self.next += 1;
            return Placed::Next;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below WINDOW")]
        let index = ahead as usize;
        if self.waiting.len() <= index {
            self.lengthen(index + 1);
        }
        let place = &mut self.waiting[index];
        if place.is_some() {
            return Placed::Duplicate;
        }
        *place = Some(cell);
        if index == 0 {
            self.filled = cell.at;
            return Placed::Kept(self.gap_since.take().map(|since| cell.at.since(since)));
        }
        self.gap_since.get_or_insert(cell.at);
        Placed::Kept(None)
    }

    /// Makes so many places, at most [`WINDOW`], and room for a power of two: the window is one.
    fn lengthen(&mut self, places: usize) {
        if places > self.waiting.capacity() {
            self.waiting.reserve_exact(places.next_power_of_two() - self.waiting.len());
        }
        self.waiting.resize(places, None);
    }

    /// What became of a number that has come out or was given up.
    fn placed_before(&self, seq: u64) -> Placed {
        let late = self.given_up.iter().any(|missing| missing.contains(&seq));
        if late { Placed::Late } else { Placed::Duplicate }
    }

    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        let cell = (*self.waiting.front()?)?;
        self.waiting.pop_front();
        self.next += 1;
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT {
            self.waiting.shrink_to(KEPT);
        }
        if let Some(None) = self.waiting.front() {
            self.gap_since = self.waiting.iter().flatten().next().map(|behind| behind.at);
        }
        Some(cell)
    }

    /// Whether the missing cell cannot arrive any more: each of `links` (bit set) has brought a later one.
    pub(crate) fn overtaken(&self, links: u16) -> bool {
        let passed = |link| self.highest[link] > self.next;
        links != 0 && (0..).take(LINKS).all(|link| links & 1 << link == 0 || passed(link))
    }

    /// Gives up the missing cells before the next one that is here, or, when none is, before `seq`, which is too far ahead;
    /// returns how many they are. A sender that goes on so far without those cells has given them up, too.
    pub(crate) fn give_up_for(&mut self, seq: u64) -> u64 {
        if !self.waiting.is_empty() {
            return self.give_up();
        }
        let missing = seq - self.next;
        self.note_given_up(missing);
        missing
    }

    /// Gives up the missing cells before the next one that is here; returns how many they are.
    pub(crate) fn give_up(&mut self) -> u64 {
        let missing = self.waiting.iter().take_while(|place| place.is_none()).count();
        self.waiting.drain(..missing);
        self.note_given_up(missing as u64);
        self.gap_since = None;
        missing as u64
    }

    fn note_given_up(&mut self, missing: u64) {
        if self.given_up.len() == GIVEN_UP_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back(self.next..self.next + missing);
        self.next += missing;
    }

    /// Takes out all cells that wait, in any order: the lane ends.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Arrived> {
        self.gap_since = None;
        self.waiting.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const T0: Instant = Instant::from_nanos(0);

    fn cell(tag: u16) -> Arrived {
        Arrived { payload: Piece { buffer: tag, start: 0, length: 1 }, first_record: 0, at: T0 }
    }

    fn take_all(lane: &mut Reorder) -> Vec<u16> {
        core::iter::from_fn(|| lane.pop()).map(|cell| cell.payload.buffer).collect()
    }

    #[test]
    fn the_wait_for_a_gap_is_measured() {
        let mut lane = Reorder::default();
        lane.insert(1, 0, cell(1));
        let waited = Duration::from_micros(70);
        assert_eq!(lane.insert(3, 0, Arrived { at: T0 + waited, ..cell(3) }), Placed::Kept(None));
        assert_eq!(lane.insert(0, 1, Arrived { at: T0 + waited, ..cell(0) }), Placed::Kept(Some(waited)));
        assert_eq!(take_all(&mut lane), [0, 1]);
        assert_eq!(lane.gap_since, Some(T0 + waited), "the gap before 3 is as old as 3");
    }

    #[test]
    fn what_is_missing_may_come_one_after_the_other() {
        let mut lane = Reorder::default();
        let at = |micros| T0 + Duration::from_micros(micros);
        lane.insert(1, 0, cell(1));
        lane.insert(3, 0, cell(3));
        assert_eq!((lane.waits_since(), lane.waiting()), (Some(T0), 2));
        lane.insert(0, 1, Arrived { at: at(900), ..cell(0) });
        assert_eq!(take_all(&mut lane), [0, 1]);
        assert_eq!((lane.gap_since, lane.waits_since()), (Some(T0), Some(at(900))), "2 is on its way, too");
        lane.give_up();
        assert_eq!(lane.insert(2, 1, cell(2)), Placed::Late);
        lane.insert(5, 0, Arrived { at: at(950), ..cell(5) });
        assert_eq!(take_all(&mut lane), [3]);
        assert_eq!((lane.waits_since(), lane.waiting()), (Some(at(950)), 1));
    }

    #[test]
    fn a_cell_that_every_link_has_overtaken_is_lost() {
        let mut lane = Reorder::default();
        lane.insert(2, 0, cell(2));
        assert!(!lane.overtaken(0b11), "link 1 may still bring it");
        assert!(lane.overtaken(0b01), "with link 0 alone nothing is left to wait for");
        lane.insert(1, 1, cell(1));
        assert!(lane.overtaken(0b11));
    }

    #[test]
    fn a_lane_is_never_longer_than_its_window_and_keeps_few_places_when_it_is_empty() {
        let mut lane = Reorder::default();
        assert!(lane.reaches(WINDOW - 1) && !lane.reaches(WINDOW));
        for ahead in [1, 300, WINDOW - 2, WINDOW - 1] {
            assert_eq!(lane.insert(ahead, 0, cell(0)), Placed::Kept(None));
        }
        assert_eq!(lane.bytes(), 4_096 * size_of::<Option<Arrived>>());
        assert_eq!(lane.surplus(), 4_096 - KEPT);
        while lane.gap_since.is_some() {
            lane.give_up();
            take_all(&mut lane);
        }
        assert!(lane.bytes() <= 256 * size_of::<Option<Arrived>>(), "{}", lane.bytes());
    }

    #[test]
    fn what_is_too_far_ahead_ends_the_wait_for_what_is_oldest() {
        let mut lane = Reorder::default();
        lane.insert(1, 0, cell(1));
        lane.insert(3, 0, cell(3));
        assert!(!lane.reaches(WINDOW + 1));
        assert_eq!(lane.give_up_for(WINDOW + 1), 1);
        assert_eq!(take_all(&mut lane), [1]);
        assert!(lane.reaches(WINDOW + 1));
        assert_eq!(lane.insert(WINDOW + 1, 0, cell(4)), Placed::Kept(None));
        assert_eq!(lane.insert(2, 1, cell(2)), Placed::Kept(Some(Duration::ZERO)), "it is still waited for");
        assert_eq!(take_all(&mut lane), [2, 3]);
    }

    #[test]
    fn a_lane_that_lost_more_than_its_window_goes_on() {
        let mut lane = Reorder::default();
        lane.insert(0, 0, cell(0));
        let far = 3 * WINDOW;
        assert_eq!(lane.give_up_for(far), far - 1);
        assert_eq!(lane.insert(far, 0, cell(5)), Placed::Next);
        assert_eq!(lane.insert(far - 1, 1, cell(6)), Placed::Late);
    }

    proptest! {
        /// Against a set: whatever the order of arrival, what comes out is the sorted set of what went in.
        #[test]
        fn like_a_sorted_set(arrivals in proptest::collection::vec(0u64..200, 0..300)) {
            let mut lane = Reorder::default();
            let mut seen = BTreeSet::new();
            let mut out = Vec::new();
            for seq in arrivals {
                let tag = u16::try_from(seq).unwrap();
                let new = seen.insert(seq);
                let placed = lane.insert(seq, 0, cell(tag));
                prop_assert_eq!(placed == Placed::Duplicate, !new);
                out.extend((placed == Placed::Next).then_some(tag));
                out.extend(take_all(&mut lane));
                let first_missing = (0..).find(|seq| !seen.contains(seq)).unwrap();
                prop_assert_eq!(out.len() as u64, first_missing);
                prop_assert_eq!(lane.gap_since.is_some(), seen.range(first_missing..).next().is_some());
            }
            while lane.gap_since.is_some() {
                prop_assert!(lane.give_up() > 0);
                out.extend(take_all(&mut lane));
            }
            prop_assert_eq!(out.iter().map(|tag| u64::from(*tag)).collect::<Vec<_>>(), seen.into_iter().collect::<Vec<_>>());
        }
    }
}
