//! Whether many frames move.
//!
//! Part of [`super`]. It counts frames over spans of time that are long beside a burst of one flow.

use core::time::Duration;
use tabane_proto::time::{Instant, nanos};

/// The shortest span.
pub(super) const SPAN: Duration = Duration::from_millis(10);
/// Frames are many when the time between two is shorter than a wake-up on another processor
/// (`docs/lessons.md`): then the sleeps cost more than the frames.
pub(super) const MANY: Duration = Duration::from_micros(25);

/// The frames of the present span.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    frames: u64,
    since: Instant,
    is_high: bool,
}

impl Rate {
    /// Counts frames that moved until `now`.
    pub(super) fn count(&mut self, now: Instant, frames: u32) {
        self.frames += u64::from(frames);
        let passed = now.since(self.since);
        if passed >= SPAN {
            self.is_high = nanos(passed) < self.frames.saturating_mul(nanos(MANY));
            (self.frames, self.since) = (0, now);
        }
    }

    /// Whether they were many in the last span.
    pub(super) fn is_high(&self) -> bool {
        self.is_high
    }
}
