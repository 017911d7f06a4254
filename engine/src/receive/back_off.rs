//! Back-off: for how long the worker does not spin after others had the processor.
//!
//! Part of [`super`]. A program that computes has the processor again at each poll, so that a sleeper, whom the kernel wakes
//! ahead of others, is sooner there. An interruption now and then, which any machine has, is no reason to sleep. The frames
//! that spinning caught in between tell one from the other.

use core::time::Duration;
use tabane_proto::time::Instant;

/// How long at least and at most: twice as long as the time before, and half as long for each [`PAID_BY`] frames that were
/// caught since.
const LENGTH_MIN: Duration = Duration::from_millis(1);
const LENGTH_MAX: Duration = Duration::from_millis(640);
/// A scheduler lets others go on for 3 ms. A frame that is caught saves a sleep, which costs some 20 us; so many make up
/// for it.
const PAID_BY: u64 = 128;

/// The back-off that is, or was the last.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    until: Instant,
    length: Duration,
    /// How many frames had ever been caught when it began.
    caught: u64,
}

impl BackOff {
    /// None yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { until: now, length: Duration::ZERO, caught: 0 }
    }

    /// Others had the processor for long until `now`; so many frames have been caught ever.
    pub(super) fn begin(&mut self, now: Instant, caught: u64) {
        let paid = (caught - self.caught) / PAID_BY;
        let halved = 2_u32.saturating_pow(u32::try_from(paid).unwrap_or(u32::MAX));
        self.length = (2 * self.length / halved).clamp(LENGTH_MIN, LENGTH_MAX);
        (self.until, self.caught) = (now + self.length, caught);
    }

    /// Whether the worker backs off.
    pub(super) fn holds(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Whether others are likely to want the processor still: only a poll could show it, so they are taken to go on for as
    /// long again.
    pub(super) fn echoes(&self, now: Instant) -> bool {
        now < self.until + self.length
    }
}
