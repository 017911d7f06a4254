//! The window in a queue that others fill: that of a CUBIC flow, so that neither side starves.
//!
//! Beside [`crate::link::congestion`], which asks from time to time whether others still fill it.
//! Source: RFC 9438, sections 4.2 to 4.7, without the Reno-friendly region.

use crate::time::{Instant, nanos};
use core::time::Duration;

/// Bytes of a segment as other flows count them.
const SEGMENT: u64 = 1_448;
/// Segments by which the window exceeds its last peak, for each cubic second after it was reached again: in thousandths. It is
/// three times the RFC's, so that a path which begins in a queue that is already full has its part of it within some seconds.
const C_MILLI: u64 = 1_200;
/// What loss leaves of a window, in parts of ten.
const BETA: u64 = 7;
/// It is asked whose queue it is so often.
const ASK_EVERY: Duration = Duration::from_secs(12);

/// One flow's growth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    /// The window before the last loss, and when it is reached again.
    peak: (u64, Instant),
    /// Cells were lost since it began.
    has_lost: bool,
    ask_at: Instant,
    /// The queue that a small window left the last time.
    left: Duration,
}

impl Cubic {
    /// Begins with a window that loss has not cut. `left`: the queue that a small one has left.
    pub(super) fn new(now: Instant, window: u64, left: Duration) -> Self {
        Self { peak: (window, now), has_lost: false, ask_at: now + ASK_EVERY, left }
    }

    /// Whether cells were lost since it began.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// A small window has left so much of the queue: whether that is the way itself, which is always as long.
    pub(super) fn is_way(&mut self, left: Duration) -> bool {
        let before = core::mem::replace(&mut self.left, left);
        left.abs_diff(before) <= before / 8
    }

    /// Whether it is to be asked whose queue it is; if so, next time after [`ASK_EVERY`].
    pub(super) fn asks(&mut self, now: Instant) -> bool {
        let asks = now >= self.ask_at;
        if asks {
            self.ask_at = now + ASK_EVERY;
        }
        asks
    }

    /// Cells were lost; returns what is left of the window.
    pub(super) fn handle_loss(&mut self, now: Instant, window: u64) -> u64 {
        self.has_lost = true;
        let left = window / 10 * BETA;
        // Who loses before the last peak is reached again makes room for others.
        let is_below = window < self.peak.0;
        let peak = if is_below { window / 20 * (10 + BETA) } else { window };
        // K of the RFC: the cube root of the segments up to the peak, by C.
        let below = (peak - left) / SEGMENT * 1_000 / C_MILLI;
        let millis = cube_root(below.saturating_mul(1_000_000_000));
        self.peak = (peak, now + Duration::from_millis(millis));
        left
    }

    /// The window of the next round; it never falls without loss.
    pub(super) fn window(&self, now: Instant, window: u64) -> u64 {
        let (peak, peaks_at) = self.peak;
        let is_above = now >= peaks_at;
        let span = if is_above { now.since(peaks_at) } else { peaks_at.since(now) };
        let millis = (nanos(span) / 1_000_000).min(100_000);
        let bytes = millis.pow(3) / 1_000_000 * SEGMENT * C_MILLI / 1_000_000;
        let wanted = if is_above { peak + bytes } else { peak.saturating_sub(bytes) };
        wanted.clamp(window, window + window / 2)
    }
}

/// The largest number whose cube is not more.
fn cube_root(value: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..21).rev() {
        let more = root | 1 << bit;
        if more.pow(3) <= value {
            root = more;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_comes_back_along_the_cubic_and_goes_on() {
        let at = |millis: u64| Instant::from_nanos(1_000_000_000 + millis * 1_000_000);
        let full = 1_000 * SEGMENT;
        let mut cubic = Cubic::new(at(0), full, Duration::ZERO);
        let left = cubic.handle_loss(at(0), full);
        assert_eq!(left, 700 * SEGMENT);
        // K = cbrt(300 / 1.2) = 6.30 s.
        let segments = |millis| cubic.window(at(millis), left) / SEGMENT;
        assert_eq!((segments(0), segments(6_290)), (700, 1_000));
        assert!((955..=960).contains(&segments(3_000)), "{}", segments(3_000));
        assert!((1_021..1_026).contains(&segments(9_000)), "{}", segments(9_000));
        assert_eq!(segments(60_000), 1_050, "half more at once, at most");
    }

    #[test]
    fn roots_are_whole() {
        assert_eq!([0, 1, 7, 8, 26, 27, 749, u64::MAX].map(cube_root), [0, 1, 1, 2, 2, 3, 9, 2_097_151]);
    }
}
