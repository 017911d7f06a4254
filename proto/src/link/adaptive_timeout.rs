//! How much longer a link may owe cells than the rule says, once it has shown the rule to be wrong.
//!
//! Beside [`crate::link::health`] and [`crate::link::outbound`]. On a busy host cells lie for milliseconds before anyone looks, and
//! that looks like death. When cells for which a link was given up come after all, the link was slow and not dead: each
//! such error doubles what is waited in addition, from [`FIRST`] to [`MOST`], and [`STEADY_AFTER`] without one halves it.
//! A link that really is dead brings none of them, so it earns no patience.

use crate::time::Instant;
use core::ops::Range;
use core::time::Duration;

/// What the first error earns.
const FIRST: Duration = Duration::from_millis(2);
/// What errors earn at most.
const MOST: Duration = Duration::from_millis(32);
/// Patience halves after this time.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// The patience with one direction of one link.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    earned: Duration,
    /// When it was earned.
    at: Instant,
    /// The numbers of the cells for which the link was given up last.
    owed: Range<u64>,
}

impl Patience {
    pub(crate) fn new(now: Instant) -> Self {
        Self { earned: Duration::ZERO, at: now, owed: 0..0 }
    }

    /// How much longer than the rule says the link may owe cells.
    pub(crate) fn extra(&self, now: Instant) -> Duration {
        let halvings = now.since(self.at).as_secs() / STEADY_AFTER.as_secs();
        let left = self.earned / (1 << halvings.min(31));
        if left < FIRST { Duration::ZERO } else { left }
    }

    /// The link is given up because these cells were not heard.
    pub(crate) fn doubt(&mut self, owed: Range<u64>) {
        self.owed = owed;
    }

    /// A cell with this number was heard; returns whether it shows that the link was given up in error.
    pub(crate) fn handle_seq(&mut self, now: Instant, seq: u64) -> bool {
        if !self.owed.contains(&seq) {
            return false;
        }
        self.owed = 0..0;
        self.earned = (2 * self.extra(now)).clamp(FIRST, MOST);
        self.at = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_earn_patience_and_time_takes_it() {
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        let mut patience = Patience::new(at(0));
        assert!(!patience.handle_seq(at(0), 5), "nothing was doubted");
        patience.doubt(5..9);
        assert!(!patience.handle_seq(at(1), 9), "sent later: the link was dead");
        assert_eq!(patience.extra(at(1)), Duration::ZERO);
        assert!(patience.handle_seq(at(1), 8) && !patience.handle_seq(at(1), 8), "one error");
        assert_eq!(patience.extra(at(10)), FIRST);
        patience.doubt(20..30);
        assert!(patience.handle_seq(at(10), 20));
        assert_eq!((patience.extra(at(19)), patience.extra(at(20))), (2 * FIRST, FIRST));
        assert_eq!(patience.extra(at(30)), Duration::ZERO);
        for error in 0..9 {
            patience.doubt(error..error + 1);
            assert!(patience.handle_seq(at(31), error));
        }
        assert_eq!(patience.extra(at(31)), MOST);
    }
}
