//! The token bucket: how much of a processor spinning may take.
//!
//! Part of [`super`]. A share of the time that passes fills it, up to a window's worth, and spinning empties it; so no span
//! sees more than its share and one window's. When it is empty, the worker waits for half a window's worth: many short
//! spins, each too short, would gain nothing.

use core::time::Duration;
use tabane_proto::time::{Instant, nanos};

/// It holds the share of so long at most.
pub(super) const WINDOW_NS: u64 = 20_000_000;

/// A balance, in hundredths of nanoseconds so that percents are exact.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    percent: u64,
    left: i64,
    /// When it was computed.
    at: Instant,
    /// It was used up, and is not yet half full.
    is_saving: bool,
}

impl TokenBucket {
    /// A full one.
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
        // A share of nothing never holds.
        !self.is_saving && self.left > 0
    }

    /// So much was spent until `now`.
    pub(super) fn spend(&mut self, now: Instant, spent: Duration) {
        self.holds(now);
        self.left = self.left.saturating_sub(signed(nanos(spent).saturating_mul(100)));
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
