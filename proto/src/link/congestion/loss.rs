//! Whether the loss of a round is the path's own, or that of a queue which is full.
//!
//! Beside [`crate::link::congestion::steady`]. Loss that is usual on the path is its own, as on a radio link, and changes nothing. More
//! than that beside a queue says that the queue is shorter than wanted: half of what it was then is wanted. Heavy loss without a
//! queue tells of a policer, which has none.

use crate::time::Instant;
use core::time::Duration;

/// A queue that is shorter than wanted is wanted half as long as it is, and no shorter than this: beneath it, what is measured is
/// the processors' time rather than a queue's.
const TARGET_LEAST: Duration = Duration::from_micros(1_250);
/// Without loss, twice as long after each of these times.
const TARGET_RISES_AFTER: Duration = Duration::from_secs(10);
/// Parts of a whole in which loss is given.
const WHOLE: u64 = 1_000_000;
/// A round counts one part of so many of what is usual.
const USUAL: u64 = 16;
/// More loss beside a queue is never usual: it is the queue's.
const USUAL_MOST: u64 = WHOLE / 40;
/// Lost cells that are never more than usual.
const CHANCE: u64 = 3;
/// Loss that tells of a policer, which has no queue.
const HEAVY: u64 = WHOLE / 10;
/// After loss beside a queue, other loss says nothing against the path for so long.
pub(super) const OVERFLOW_FOR: Duration = Duration::from_secs(2);

/// What a path loses.
#[derive(Debug)]
pub(super) struct Loss {
    /// The loss of rounds, smoothed, in parts of [`WHOLE`].
    usual: u64,
    /// When cells were lost beside a queue.
    overflowed: Option<Instant>,
    /// The longest queue that is wanted, and that would be without loss.
    target: Duration,
    most: Duration,
}

impl Loss {
    pub(super) fn new(most: Duration) -> Self {
        Self { usual: 0, overflowed: None, target: most, most }
    }

    /// The longest queue that is wanted.
    pub(super) fn target(&self) -> Duration {
        self.target
    }

    /// Whether cells were lost beside a queue lately.
    pub(super) fn has_overflowed(&self, now: Instant) -> bool {
        self.overflowed.is_some_and(|at| now.since(at) < OVERFLOW_FOR)
    }

    /// A round is over in which so many of these numbers were lost, and the queue was so long at most. Returns whether a queue was full, or
    /// a policer cut. `target`: how long the queue was to last.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        (numbers, lost): (u64, u64),
        longest: Duration,
        target: Duration,
    ) -> bool {
        let share = lost * WHOLE / numbers.max(1);
        let usual = numbers * self.usual / WHOLE;
        let is_queue = longest >= target / 2;
        self.usual =
            ((USUAL - 1) * self.usual + share.min(if is_queue { USUAL_MOST } else { HEAVY })) / USUAL;
        // Of a number that chance brings about, four deviations more are chance, too.
        let is_unusual = lost > usual + 4 * usual.isqrt() + CHANCE;
        if is_unusual && (is_queue || share >= HEAVY) {
            self.overflowed = Some(now);
            self.target = (longest / 2).clamp(TARGET_LEAST, target);
            return true;
        }
        if self.overflowed.is_some_and(|at| now.since(at) >= TARGET_RISES_AFTER) {
            self.target = (2 * self.target).min(self.most);
            self.overflowed = (self.target < self.most).then_some(now);
        }
        false
    }
}
