//! Whether many frames move.
//!
//! Part of [`super`]. Frames are counted over spans of time that are long beside the burst in which a flow's frames come.

use core::time::Duration;
use tabane_proto::time::{Instant, nanos};

/// Over how long is counted, at least.
pub(super) const SPAN: Duration = Duration::from_millis(10);
/// Frames are many when they move in less time after each other than it takes to be woken for one on another processor
/// (`docs/perf-log.md`): then sleeping for each costs more than they do.
pub(super) const MANY: Duration = Duration::from_micros(25);

/// What moved since a while.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    frames: u64,
    since: Instant,
    is_high: bool,
}

impl Rate {
    /// So many frames moved until `now`.
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
