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

/// The longest time between two arrivals, lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    last: Instant,
    began: Instant,
    /// Of this period and the one before.
    longest: [Duration; 2],
}

impl Gaps {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, began: now, longest: [MOST; 2] }
    }

    /// Of a path that was never silent for long.
    #[cfg(test)]
    pub(crate) fn steady(now: Instant) -> Self {
        Self { last: now, began: now, longest: [Duration::ZERO; 2] }
    }

    /// Something arrives.
    pub(crate) fn note(&mut self, now: Instant) {
        let gap = now.since(self.last).min(MOST);
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

    /// A path that is silent for so long, while cells are overdue, is dead: a quarter longer than lately.
    pub(crate) fn limit(&self) -> Duration {
        let longest = self.longest[0].max(self.longest[1]);
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
