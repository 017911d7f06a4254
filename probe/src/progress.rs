//! The progress of a long measurement: a bar on a terminal, nothing elsewhere.
//!
//! A thread of its own draws the bar now and then: the measurement only stores a number.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Pause between two drawings.
const REDRAW: Duration = Duration::from_millis(500);
/// Drawings per second at most.
const RATE: u8 = 2;

/// A bar that is erased when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar named `what` that is full after `count` steps.
    pub(crate) fn of(what: String, count: usize) -> Progress {
        let target = ProgressDrawTarget::stderr_with_hz(RATE);
        let bar = ProgressBar::with_draw_target(u64::try_from(count).ok(), target);
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}, {eta} to go") {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.enable_steady_tick(REDRAW);
        Progress { bar }
    }

    /// Notes that `count` steps are done.
    pub(crate) fn reached(&self, count: usize) {
        self.bar.set_position(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
