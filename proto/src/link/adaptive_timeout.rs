//! The adaptive timeout: how much longer than [`crate::link::black_hole`] says cells of a path may be missing, once a path has
//! shown that rule to be wrong.
//!
//! Beside [`crate::link::health`] and [`crate::link::outbound`]. On a busy host cells lie for milliseconds before anyone reads them, and
//! that looks like death. When cells for which a path was given up arrive after all, the path was slow and not dead. Each
//! such error doubles the time that is added, from [`FIRST`] to [`MOST`], and [`STEADY_AFTER`] without one halves it.
//! A path that really is dead brings none of these cells, so nothing is added for it.

use crate::time::Instant;
use core::ops::Range;
use core::time::Duration;

/// What the first error adds.
const FIRST: Duration = Duration::from_millis(2);
/// What errors add at most.
const MOST: Duration = Duration::from_millis(32);
/// What is added halves after this time without an error.
const STEADY_AFTER: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct AdaptiveTimeout {
    added: Duration,
    at: Instant,
    /// The numbers of the cells for which the path was given up last.
    overdue: Range<u64>,
}

impl AdaptiveTimeout {
    pub(crate) fn new(now: Instant) -> Self {
        Self { added: Duration::ZERO, at: now, overdue: 0..0 }
    }

    /// How much longer than the rule says cells may be missing.
    pub(crate) fn extra(&self, now: Instant) -> Duration {
        let halvings = now.since(self.at).as_secs() / STEADY_AFTER.as_secs();
        let left = self.added / (1 << halvings.min(31));
        if left < FIRST { Duration::ZERO } else { left }
    }

    /// The path is given up because these cells were not received.
    pub(crate) fn doubt(&mut self, overdue: Range<u64>) {
        self.overdue = overdue;
    }

    /// A cell with this number was received; returns whether it shows that the path was given up in error.
    pub(crate) fn handle_seq(&mut self, now: Instant, seq: u64) -> bool {
        if !self.overdue.contains(&seq) {
            return false;
        }
        self.overdue = 0..0;
        self.added = (2 * self.extra(now)).clamp(FIRST, MOST);
        self.at = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_add_time_and_steadiness_takes_it() {
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        let mut timeout = AdaptiveTimeout::new(at(0));
        assert!(!timeout.handle_seq(at(0), 5), "nothing was doubted");
        timeout.doubt(5..9);
        assert!(!timeout.handle_seq(at(1), 9), "sent later: the link was dead");
        assert_eq!(timeout.extra(at(1)), Duration::ZERO);
        assert!(timeout.handle_seq(at(1), 8) && !timeout.handle_seq(at(1), 8), "one error");
        assert_eq!(timeout.extra(at(10)), FIRST);
        timeout.doubt(20..30);
        assert!(timeout.handle_seq(at(10), 20));
        assert_eq!((timeout.extra(at(19)), timeout.extra(at(20))), (2 * FIRST, FIRST));
        assert_eq!(timeout.extra(at(30)), Duration::ZERO);
        for error in 0..9 {
            timeout.doubt(error..error + 1);
            assert!(timeout.handle_seq(at(31), error));
        }
        assert_eq!(timeout.extra(at(31)), MOST);
    }
}
