//! How long a path is silent between two arrivals, by nature: what is silent for as long as lately is not dead.
//!
//! Beside [`crate::link::health`], for which cells arrive, and [`crate::link::outbound`], for which reports show that some have. A
//! modem or radio link sends when it is its turn, each few milliseconds; a busy host reads when it is scheduled. In quiet only
//! heartbeats come, so the first cells of a flow find a path of which nobody knows how it sends.

use crate::link::black_hole::OVERDUE_AFTER;
use crate::time::Instant;
use core::time::Duration;

/// What was seen in the last one to two of these times counts.
const SPAN: Duration = Duration::from_millis(20);
/// The longest silence that counts; also before anything was seen.
const MOST: Duration = Duration::from_millis(15);
/// A silence that comes again in each of these times is the path's way: a NIC gathers what comes, or a modem sends in turns.
const RECURS: Duration = Duration::from_millis(40);
const RECURS_MOST: Duration = Duration::from_millis(40);
/// For so many of these times it does so for long: faults that come and go do not.
const FOR_LONG: usize = 8;
/// Cells of a lump.
const LUMP: u64 = 8;

/// The longest time between two arrivals, lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    last: Instant,
    began: Instant,
    /// Of this period and the one before.
    longest: [Duration; 2],
    /// Of longer periods: what all of them have comes again and again.
    recurs: [Duration; 1 + FOR_LONG],
    recurs_since: Instant,
}

impl Gaps {
    pub(crate) fn new(now: Instant) -> Self {
        Self { longest: [MOST; 2], ..Self::steady(now) }
    }

    /// Of a path that was never silent for long.
    pub(crate) fn steady(now: Instant) -> Self {
        let none = Duration::ZERO;
        Self { last: now, began: now, longest: [none; 2], recurs: [none; 1 + FOR_LONG], recurs_since: now }
    }

    /// Something arrives.
    pub(crate) fn note(&mut self, now: Instant) {
        self.note_cells(now, LUMP);
    }

    /// So many cells arrive. A silence before few of them is no lump's: little was sent.
    pub(crate) fn note_cells(&mut self, now: Instant, cells: u64) {
        let gap = now.since(self.last);
        if now.since(self.recurs_since) >= RECURS {
            self.recurs.rotate_right(1);
            self.recurs[0] = Duration::ZERO;
            self.recurs_since = now;
        }
        if cells >= LUMP {
            self.recurs[0] = self.recurs[0].max(gap.min(RECURS_MOST));
        }
        let gap = gap.min(MOST);
        self.last = now;
        if now.since(self.began) >= SPAN {
            self.longest = [Duration::ZERO, self.longest[0]];
            self.began = now;
        }
        self.longest[0] = self.longest[0].max(gap);
    }

    /// Something else arrived, whose gaps nobody measures: the next one began then at the earliest.
    pub(crate) fn shorten(&mut self, arrived: Instant) {
        self.last = self.last.max(arrived);
    }

    /// How long it was silent in each of the last `times`, if that is longer than a quiet path is.
    fn recurs_in(&self, times: usize) -> Option<Duration> {
        self.recurs[1..=times].iter().copied().min().filter(|recurs| *recurs > MOST)
    }

    /// How long it is silent again and again, for long already.
    pub(crate) fn recurs(&self) -> Option<Duration> {
        self.recurs_in(FOR_LONG)
    }

    /// A path that is silent for so long, while cells are overdue, is dead: a quarter longer than lately.
    pub(crate) fn limit(&self) -> Duration {
        let longest = self.longest[0].max(self.longest[1]).max(self.recurs_in(2).unwrap_or_default());
        OVERDUE_AFTER.max(longest + longest / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_path_that_sends_each_few_milliseconds_may_be_silent_for_longer_than_a_steady_one() {
        let mut gaps = Gaps::new(at(0));
        assert_eq!(gaps.limit(), MOST + MOST / 4, "nobody knows it");
        for millis in 1..100 {
            gaps.note(at(millis * 1_000));
        }
        assert_eq!(gaps.limit(), OVERDUE_AFTER);
        for turn in 0..20 {
            gaps.note(at(100_000 + turn * 4_000));
            gaps.note(at(100_000 + turn * 4_000 + 100));
        }
        assert_eq!(gaps.limit(), Duration::from_micros(3_900 / 4 * 5));
    }

    #[test]
    fn who_gathers_again_and_again_is_not_dead_in_between_and_who_stood_still_once_is() {
        let mut gaps = Gaps::new(at(0));
        let mut now = 0;
        for turn in 0..40 {
            now += if turn == 20 { 30_000 } else { 4_000 };
            gaps.note(at(now));
        }
        assert_eq!((gaps.limit(), gaps.recurs()), (Duration::from_millis(5), None));
        for _ in 0..20 {
            now += 24_000;
            gaps.note_cells(at(now), LUMP);
        }
        assert_eq!(
            (gaps.limit(), gaps.recurs()),
            (Duration::from_millis(30), Some(Duration::from_millis(24)))
        );
        for _ in 0..20 {
            now += 24_000;
            gaps.note_cells(at(now), 1);
        }
        assert_eq!(gaps.recurs(), None, "little was sent");
    }

    #[test]
    fn what_was_quiet_is_known_again_within_two_periods() {
        let mut gaps = Gaps::new(at(0));
        for millis in 1..10 {
            gaps.note(at(millis * 10_000));
        }
        assert_eq!(gaps.limit(), Duration::from_micros(12_500));
        for millis in 0..=40 {
            gaps.note(at(90_000 + millis * 1_000));
        }
        assert_eq!(gaps.limit(), OVERDUE_AFTER);
        gaps.note(at(9_000_000));
        assert_eq!(gaps.limit(), MOST + MOST / 4, "a long pause is no longer than the longest that counts");
    }
}
