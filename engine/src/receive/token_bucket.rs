//! The token bucket: how much processor time spinning may take.
//!
//! Part of [`super`]. A share of the time that passes fills it, up to a window's worth, and spinning empties it; so no
//! span sees more than its share and one window's. When it is empty, the worker waits for half a window's worth: many
//! short spins, each too short, would gain nothing.

use core::time::Duration;
use tabane_proto::time::{Instant, nanos};

/// The bucket holds at most the share of this time.
pub(super) const WINDOW_NS: u64 = 20_000_000;

/// A balance, in hundredths of nanoseconds so that percents are exact.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    percent: u64,
    left: i64,
    /// When it was computed.
    at: Instant,
    /// Whether it was used up, and is not yet half full.
    is_saving: bool,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(now: Instant, percent: u8) -> Self {
        let percent = u64::from(percent.min(100));
        Self { percent, left: signed(WINDOW_NS * percent), at: now, is_saving: false }
    }

    /// Whether there is something to spend, and it is not being refilled.
    pub(super) fn holds(&mut self, now: Instant) -> bool {
        let full = signed(WINDOW_NS * self.percent);
        let gained = signed(nanos(now.since(self.at)).saturating_mul(self.percent));
        self.left = self.left.saturating_add(gained).min(full);
        self.at = self.at.max(now);
        self.is_saving = if self.is_saving { self.left < full / 2 } else { self.left <= 0 };
        // With a share of 0 there is never anything to spend.
        !self.is_saving && self.left > 0
    }

    /// Takes out what was spent until `now`.
    pub(super) fn spend(&mut self, now: Instant, spent: Duration) {
        self.holds(now);
        self.left = self.left.saturating_sub(signed(nanos(spent).saturating_mul(100)));
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
