//! The numbers that cells of a path were given, which slots went out under them, and which of them have left the link.
//!
//! Beside [`crate::link::outbound`]. A repair request names numbers; the log leads from each recent one to the ring's slot. It keeps no
//! bytes.

use alloc::collections::VecDeque;
use core::ops::Range;

/// Numbers that the log remembers: as many as a ring of the default size has slots.
pub(crate) const LOG: usize = 8_192;
/// Departure marks that are kept; older ones are merged.
const MARKS: usize = 256;
/// In the log: nothing to repair (a heartbeat, or sent again already).
const NOTHING: u64 = u64::MAX;
/// In the log, with the slot: the cell left by one call with others.
const TOGETHER: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The first of the session, and the next.
    first: u64,
    next: u64,
    /// What went out under numbers before this one was looked up when the link was left: nothing is to be repaired there.
    looked_up: u64,
    /// Slots of the numbers before `next`.
    log: VecDeque<u64>,
    /// After which number the link had been given how many bytes.
    marks: VecDeque<(u64, u64)>,
    /// The number after the last that has left the link.
    departed: u64,
}

impl Numbers {
    pub(super) fn begin(&mut self, first: u64) {
        (self.first, self.next, self.departed, self.looked_up) = (first, first, first, first);
    }

    /// Another link takes the place of this one, and has been given nothing.
    pub(super) fn withdraw(&mut self) {
        self.marks.clear();
        self.departed = self.next;
    }

    /// Bytes that it has on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.log.capacity() * size_of::<u64>() + self.marks.capacity() * size_of::<(u64, u64)>()
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Cells that were given a number.
    pub(crate) fn sent(&self) -> u64 {
        self.next - self.first
    }

    /// Takes the next number for a data cell, which lies in that slot and leaves by one call with others or alone, or for a cell that is
    /// never repaired (`None`), and leaves alone.
    pub(crate) fn take(&mut self, cell: Option<(u64, bool)>) -> u64 {
        if self.log.len() == LOG {
            self.log.pop_front();
        }
        let entry = |(slot, together)| if together { slot | TOGETHER } else { slot };
        self.log.push_back(cell.map_or(NOTHING, entry));
        self.next += 1;
        self.next - 1
    }

    pub(super) fn give_back(&mut self, count: usize) {
        self.log.truncate(self.log.len() - count);
        self.next -= count as u64;
        self.looked_up = self.looked_up.min(self.next);
        while self.marks.pop_back_if(|(number, _)| *number > self.next).is_some() {}
    }

    /// What the last `count` numbers carried may not have left, or only in part: the numbers are lost, and nothing is to
    /// be repaired under them.
    pub(crate) fn void(&mut self, count: usize) {
        let from = self.log.len() - count;
        self.log.range_mut(from..).for_each(|slot| *slot = NOTHING);
    }

    /// The link had been given so many bytes when the last number went out.
    pub(crate) fn mark(&mut self, given: u64) {
        if self.marks.len() == MARKS {
            self.marks.pop_back();
        }
        self.marks.push_back((self.next, given));
    }

    /// The number after the last that has left, when so many bytes have left the link.
    pub(crate) fn departed(&mut self, bytes: u64) -> u64 {
        while let Some((number, _)) = self.marks.pop_front_if(|(_, given)| *given <= bytes) {
            self.departed = number;
        }
        self.departed
    }

    /// Whether nothing was sent from this number on, or nothing that can be repaired.
    pub(super) fn is_nothing_since(&self, number: u64) -> bool {
        let since = usize::try_from(self.next - number).unwrap_or(usize::MAX);
        self.log.iter().rev().take(since).all(|slot| *slot == NOTHING)
    }

    /// The link is left: the numbers from this one on, each of them once. So a peer that takes a link out and in, over and over, has
    /// what was sent to it looked up once.
    pub(super) fn take_since(&mut self, number: u64) -> Range<u64> {
        let from = number.max(core::mem::replace(&mut self.looked_up, self.next));
        from..self.next
    }

    /// Those of the numbers that the log remembers, at most `most`.
    pub(crate) fn remembered(&self, numbers: Range<u64>, most: u64) -> Range<u64> {
        let start = numbers.start.max(self.next.saturating_sub(self.log.len() as u64));
        start..numbers.end.min(self.next).min(start.saturating_add(most)).max(start)
    }

    /// The slot that went out under a number, once: it is asked for because it did not arrive.
    pub(crate) fn take_for_repair(&mut self, number: u64) -> Option<u64> {
        let back = usize::try_from(self.next.checked_sub(number)?).ok()?;
        let index = self.log.len().checked_sub(back)?;
        let slot = core::mem::replace(self.log.get_mut(index)?, NOTHING);
        (slot != NOTHING).then_some(slot & !TOGETHER)
    }

    /// Whether the data cell under a number that the log remembers left by one call with others.
    pub(super) fn left_together(&self, number: u64) -> bool {
        let back = usize::try_from(self.next - number).unwrap_or(usize::MAX);
        let entry = self.log.len().checked_sub(back).and_then(|index| self.log.get(index));
        entry.is_some_and(|entry| *entry != NOTHING && entry & TOGETHER != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_to_its_slot_once() {
        let mut numbers = Numbers::default();
        assert_eq!([Some((70, false)), None, Some((72, true))].map(|cell| numbers.take(cell)), [0, 1, 2]);
        assert_eq!(numbers.take_for_repair(2), Some(72));
        assert_eq!(numbers.take_for_repair(2), None);
        assert_eq!(numbers.take_for_repair(1), None, "a heartbeat");
        assert_eq!(numbers.take_for_repair(3), None, "not sent yet");
        assert_eq!(numbers.take_for_repair(0), Some(70));
        numbers.give_back(1);
        assert_eq!(numbers.next(), 2);
        numbers.take(Some((73, false)));
        numbers.void(1);
        assert_eq!((numbers.next(), numbers.take_for_repair(2)), (3, None), "it may have left");
    }

    #[test]
    fn what_is_not_received_is_looked_up_once_even_if_its_number_is_given_again() {
        let mut numbers = Numbers::default();
        (0..4).for_each(|slot| _ = numbers.take(Some((slot, false))));
        assert_eq!(numbers.take_since(1), 1..4);
        assert!(numbers.take_since(1).is_empty());
        numbers.give_back(2);
        numbers.take(Some((70, false)));
        assert_eq!(numbers.take_since(1), 2..3);
    }

    #[test]
    fn the_log_forgets_the_oldest() {
        let mut numbers = Numbers::default();
        (0..=LOG as u64).for_each(|slot| _ = numbers.take(Some((slot, false))));
        assert_eq!([0, 1].map(|number| numbers.take_for_repair(number)), [None, Some(1)]);
    }

    #[test]
    fn departure_follows_the_link_and_begins_anew_with_another() {
        let mut numbers = Numbers::default();
        for (slot, given) in [(70, 1_000), (71, 2_000), (72, 3_000)] {
            numbers.take(Some((slot, false)));
            numbers.mark(given);
        }
        assert_eq!([999, 1_999, 2_000].map(|bytes| numbers.departed(bytes)), [0, 1, 2]);
        numbers.withdraw();
        assert_eq!((numbers.departed(0), numbers.next()), (3, 3));
        assert_eq!((numbers.take(Some((73, false))), numbers.take_for_repair(2)), (3, Some(72)));
    }
}
