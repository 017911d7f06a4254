//! The reorder timeout: how long a receiver waits for a gap, from the skew that the links had lately.
//!
//! Beside [`crate::receive::reorder`]. Each gap that a late cell closed, and each heartbeat, measures the skew between links.
//! The timeout is twice the largest skew of the last second or two, so links without skew get the shortest. With repair a
//! cell that is sent again may close the gap: then the timeout also covers [`NOTICE`] and two round trips.
//!
//! Invariant: the timeout lies between [`SHORTEST`] and [`LONGEST`]; where heartbeats show that a link is so much further away, by so
//! much beyond.
//!
//! Source: P2 (reordering comes from receive-interrupt coalescing, so its size is that of the coalescing);
//! a decaying maximum, for the timeout must cover the tail of the skew, not its mean (compare RFC 6298).

use crate::link::paths::FAR;
use crate::time::Instant;
use core::time::Duration;

/// The shortest wait: one scheduling delay of the receiving process.
const SHORTEST: Duration = Duration::from_micros(500);
/// The longest wait for what is not further away than other cells: after it TCP repairs the loss by itself.
pub(crate) const LONGEST: Duration = Duration::from_millis(100);
/// The largest skew of a period of this length is remembered for one more.
const PERIOD: Duration = Duration::from_secs(1);
/// With repair: the time to notice that a link under load is dead (see [`crate::link::health`]), with a margin.
const NOTICE: Duration = Duration::from_millis(12);

/// How far away links are is forgotten sooner: what a fault held up is not further away.
const PERIOD_OF_WAYS: Duration = Duration::from_millis(300);

/// The largest of a period and of the one before.
struct Largest {
    began: Instant,
    period: Duration,
    values: [Duration; 2],
}

impl Largest {
    fn note(&mut self, now: Instant, value: Duration) {
        self.roll(now);
        self.values[0] = self.values[0].max(value);
    }

    fn roll(&mut self, now: Instant) {
        let periods = now.since(self.began).as_nanos() / self.period.as_nanos();
        if periods > 0 {
            let last = if periods == 1 { self.values[0] } else { Duration::ZERO };
            (self.began, self.values) = (now, [Duration::ZERO, last]);
        }
    }

    fn get(&self) -> Duration {
        self.values[0].max(self.values[1])
    }
}

/// The reorder timeout of a peer's lanes, and the skew that it follows.
pub(crate) struct ReorderTimeout {
    skew: Largest,
    /// That of heartbeats alone, which nobody sends again. One that is further away than [`FAR`] shares no flow and is not waited for.
    ways: Largest,
}

impl ReorderTimeout {
    /// Before anything is measured the links may be far apart.
    pub(crate) fn new(now: Instant) -> Self {
        let skew = Largest { began: now, period: PERIOD, values: [Duration::from_millis(5); 2] };
        Self { skew, ways: Largest { began: now, period: PERIOD_OF_WAYS, values: [Duration::ZERO; 2] } }
    }

    /// A late cell closed a gap after this time.
    pub(crate) fn saw_gap(&mut self, now: Instant, waited: Duration) {
        self.skew.note(now, waited);
    }

    /// A heartbeat was so much later than on the fastest link.
    pub(crate) fn saw_skew(&mut self, now: Instant, skew: Duration) {
        self.skew.note(now, skew);
        self.ways.note(now, skew.min(FAR));
    }

    /// The timeout now. `round_trip`: with repair, to the peer and back.
    pub(crate) fn wait(&mut self, now: Instant, round_trip: Option<Duration>) -> Duration {
        self.skew.roll(now);
        self.ways.roll(now);
        self.latest(round_trip)
    }

    /// The timeout as it was when something was measured or asked for last.
    pub(crate) fn latest(&self, round_trip: Option<Duration>) -> Duration {
        let repair = round_trip.map_or(Duration::ZERO, |round_trip| NOTICE + 2 * round_trip);
        (2 * self.skew.get() + repair).clamp(SHORTEST, LONGEST + self.ways.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_the_skew_and_forgets_it() {
        let start = Instant::from_nanos(0);
        let mut timeout = ReorderTimeout::new(start);
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(timeout.wait(at(0), None), Duration::from_millis(10), "before anything is known");
        assert_eq!(timeout.wait(at(2_000), None), SHORTEST, "no gap for two periods");
        timeout.saw_skew(at(2_100), Duration::from_millis(3));
        assert_eq!(timeout.wait(at(2_100), None), Duration::from_millis(6));
        assert_eq!(timeout.latest(None), Duration::from_millis(6), "what is shown is what was waited");
        assert_eq!(timeout.wait(at(3_100), None), Duration::from_millis(6));
        assert_eq!(timeout.wait(at(4_200), None), SHORTEST);
        timeout.saw_gap(at(4_200), Duration::from_secs(9));
        assert_eq!(timeout.wait(at(4_200), None), LONGEST);
        timeout.saw_skew(at(4_200), Duration::from_millis(80));
        assert_eq!(timeout.wait(at(4_200), None), LONGEST + Duration::from_millis(80));
        timeout.saw_skew(at(4_200), Duration::from_secs(9));
        assert_eq!(timeout.wait(at(4_200), None), LONGEST + FAR);
    }

    #[test]
    fn with_repair_the_wait_covers_noticing_and_a_round_trip() {
        let mut timeout = ReorderTimeout::new(Instant::from_nanos(0));
        let later = Instant::from_nanos(5_000_000_000);
        let round_trip = Some(Duration::from_millis(1));
        assert_eq!(timeout.wait(later, round_trip), Duration::from_millis(14));
        timeout.saw_skew(later, Duration::from_millis(5));
        assert_eq!(
            timeout.wait(later, round_trip),
            Duration::from_millis(24),
            "a dead link is noticed later"
        );
    }
}
