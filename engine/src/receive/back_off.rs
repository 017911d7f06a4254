//! Back-off: how long the worker does not spin after other threads had the processor.
//!
//! Part of [`super`]. A program that computes gets the processor at each poll of a worker that spins. A worker that
//! sleeps finds a frame sooner, as the kernel wakes it before others. A rare interruption, which any machine has, is no
//! reason to sleep. The frames that spinning caught in between distinguish the two cases.

use core::time::Duration;
use tabane_proto::time::Instant;

/// How long at least and at most: twice as long as the time before, and half as long for each [`PAID_BY`] frames that
/// were caught since.
const LENGTH_MIN: Duration = Duration::from_millis(1);
const LENGTH_MAX: Duration = Duration::from_millis(640);
/// A scheduler lets others run for 3 ms. A frame that is caught saves a sleep, which costs some 20 us; so many make up
/// for it.
const PAID_BY: u64 = 128;

/// The present back-off, or the last one.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    until: Instant,
    length: Duration,
    /// How many frames had ever been caught when it began.
    caught: u64,
}

impl BackOff {
    /// Without a back-off yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { until: now, length: Duration::ZERO, caught: 0 }
    }

    /// Begins a back-off: others had the processor for long until `now`. `caught`: frames that spinning has ever
    /// caught.
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

    /// Whether others probably still want the processor. Only a poll could show it, so they are assumed to go on for as
    /// long again.
    pub(super) fn echoes(&self, now: Instant) -> bool {
        now < self.until + self.length
    }
}
