//! The black-hole detector: cells that have left one end of a path and have not arrived at the other. P2 calls it burst skew;
//! either end can see it.
//!
//! Beside [`crate::link::health`] (the receiver's view) and [`crate::link::outbound`] (the sender's). Cells are always under way, so
//! what is missing has a date: the detector notes which cells had left and not arrived, and when. Once these have arrived, it
//! notes the next ones with a new date.
//!
//! Invariant: the cells of a path that works, however late they are, are never missing for longer than they travel.

use crate::link::health::HEARTBEAT_BUSY;
use crate::time::Instant;
use core::time::Duration;

/// A path on which [`BURST`] cells or more are missing for longer than this, beyond its skew, is dead. One whose delay varies
/// by more is given up now and then, until [`crate::link::adaptive_timeout`] allows for it.
pub const OVERDUE_AFTER: Duration = Duration::from_millis(2);
/// The delay of a path varies by one part in so many of its round trip, and it is not dead for that.
pub(crate) const JITTER_PARTS: u32 = 16;
/// Fewer cells than this are no burst: the few may wait in a queue of the receiver, which gets [`FEW_OVERDUE_AFTER`] to run. Of as many,
/// one is a heartbeat, for one follows 16 cells of data and what they left with, and it may be the last of them: so a way that has begun
/// to drop long packets alone ([`crate::link::path_mtu`]) never lacks as many for long.
pub(crate) const BURST: u64 = 20;
/// A path that brings something, and before it lacks so many cells, is no black hole: it drops long packets, or a queue on it is full.
const SKIPPED_LEAST: u64 = BURST / 2;
/// A path on which fewer cells than [`BURST`] are missing for longer than this, beyond its skew, is dead: longer than heartbeats are
/// apart.
pub(crate) const FEW_OVERDUE_AFTER: Duration = Duration::from_millis(15);

/// Cells that leave within this are as good as at once, for a fast path has a heartbeat each millisecond, which comes with the next
/// of them.
const TOGETHER: Duration = HEARTBEAT_BUSY.saturating_add(Duration::from_micros(500));

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Detector(Option<Missing>);

#[derive(Clone, Copy, Debug)]
struct Missing {
    /// The number after the last that was missing at `since`.
    first: u64,
    /// The number after the last that is missing now.
    all: u64,
    since: Instant,
    /// When they became a burst; if they left together, when the first of them was missing.
    burst: Option<Instant>,
}

impl Detector {
    /// Cells up to `departed` have left the sender, those up to `next` were received.
    pub(crate) fn note(&mut self, now: Instant, departed: u64, next: u64) {
        let noted = self.0.filter(|missing| next < missing.first).or_else(|| {
            (departed > next).then_some(Missing { first: departed, all: departed, since: now, burst: None })
        });
        self.0 = noted.map(|missing| {
            let all = missing.all.max(departed);
            let begins = if now.since(missing.since) <= TOGETHER { missing.since } else { now };
            let burst = (all - next >= BURST).then(|| missing.burst.unwrap_or(begins));
            Missing { all, burst, ..missing }
        });
    }

    /// What came last shows that `missing` cells before it are lost; returns how much longer others may be missing.
    pub(crate) fn extra_after_loss(missing: u64) -> Duration {
        if missing >= SKIPPED_LEAST { FEW_OVERDUE_AFTER - OVERDUE_AFTER } else { Duration::ZERO }
    }

    /// How many cells are overdue and for how long, if that is longer than a path may that is `late` by nature; cells up
    /// to `next` were received. `beside`: what was sent on the way of those that are missing and is no cell, counted in cells.
    pub(crate) fn overdue(
        &self,
        now: Instant,
        next: u64,
        late: Duration,
        beside: u64,
    ) -> Option<(u64, Duration)> {
        let missing = self.0.filter(|_| self.due(next, late, beside).is_some_and(|due| now >= due))?;
        Some((missing.all - next, now.since(missing.since)))
    }

    /// The number after the last that has been missing for so long; cells up to `next` were received.
    pub(crate) fn missing_for(&self, now: Instant, next: u64, span: Duration) -> Option<u64> {
        let missing = self.0.filter(|missing| next < missing.first && now.since(missing.since) >= span)?;
        Some(missing.first)
    }

    /// When what is missing becomes overdue; arguments as for [`Self::overdue`].
    pub(crate) fn due(&self, next: u64, late: Duration, beside: u64) -> Option<Instant> {
        let missing = self.0.filter(|missing| next < missing.first)?;
        let few = missing.since + FEW_OVERDUE_AFTER;
        let is_burst_with_others = beside > 0 && missing.all - next + beside >= BURST;
        let burst = if is_burst_with_others { Some(missing.since) } else { missing.burst };
        Some(burst.map_or(few, |burst| few.min(burst + OVERDUE_AFTER)) + late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn cells_are_overdue_exactly_after_the_time_and_the_delay_of_their_path() {
        let mut account = Detector::default();
        account.note(at(0), BURST, 0);
        let late = Duration::from_millis(6);
        assert_eq!(account.due(0, late, 0), Some(at(8_000)));
        assert_eq!(account.overdue(at(7_999), 0, late, 0), None);
        assert_eq!(account.overdue(at(8_000), 0, late, 0), Some((BURST, Duration::from_millis(8))));
        assert_eq!(account.overdue(at(8_000), BURST, late, 0), None, "paid");
    }

    #[test]
    fn cells_that_arrive_late_leave_a_younger_date() {
        let mut account = Detector::default();
        for round in 1..100 {
            account.note(at(round * 1_000), round * 10, (round - 1) * 10);
            assert_eq!(account.overdue(at(round * 1_000), (round - 1) * 10, Duration::ZERO, 0), None);
        }
    }

    #[test]
    fn a_few_cells_are_waited_for_longer_until_they_are_a_burst() {
        let mut account = Detector::default();
        account.note(at(0), BURST - 1, 0);
        assert_eq!(account.due(0, Duration::ZERO, 0), Some(at(15_000)));
        account.note(at(5_000), BURST, 0);
        let by = |account: &Detector| account.due(0, Duration::ZERO, 0);
        assert_eq!(by(&account), Some(at(7_000)), "the one that is a heartbeat may have left last");
        account.note(at(6_000), 2 * BURST, 0);
        assert_eq!(by(&account), Some(at(7_000)), "of a longer burst, one is among the first");
        account.note(at(6_000), 2 * BURST, BURST + 1);
        assert_eq!(account.due(BURST + 1, Duration::ZERO, 0), Some(at(21_000)), "few again");
        let mut fast = Detector::default();
        fast.note(at(0), 1, 0);
        fast.note(at(900), BURST, 0);
        assert_eq!(by(&fast), Some(at(2_000)), "there is a heartbeat each millisecond");
    }

    #[test]
    fn a_burst_that_leaves_in_time_for_a_few_is_no_reason_to_wait() {
        let mut account = Detector::default();
        account.note(at(0), 1, 0);
        account.note(at(14_000), BURST, 0);
        assert_eq!(account.due(0, Duration::ZERO, 0), Some(at(15_000)));
    }

    #[test]
    fn what_is_sent_beside_cells_makes_a_burst_of_them() {
        let mut account = Detector::default();
        account.note(at(0), 1, 0);
        assert_eq!(account.due(0, Duration::ZERO, BURST - 2), Some(at(15_000)));
        assert_eq!(account.due(0, Duration::ZERO, BURST - 1), Some(at(2_000)));
        assert_eq!(account.overdue(at(2_000), 0, Duration::ZERO, BURST - 1), Some((1, OVERDUE_AFTER)));
        assert_eq!(account.due(1, Duration::ZERO, BURST), None, "no cell is missing");
    }
}
