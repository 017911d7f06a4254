//! A competing flow that shares a router's queue: a bulk transfer by CUBIC, simulated by its window alone, without bytes.
//!
//! Beside [`crate::router`]. It sends whenever its window allows; a segment that leaves the router is acknowledged after the
//! rest of the round trip, a dropped one is missed when the one before it would have been acknowledged.
//!
//! Source: RFC 9438, sections 4.2 to 4.7 and 4.10 (without `HyStart`).

use core::time::Duration;
use tabane_proto::Instant;

/// Bytes of a segment as the router counts them.
pub(crate) const SEGMENT: u64 = 1_500;
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// RFC 6928.
const FIRST_WINDOW: f64 = 10.0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompetitorSettings {
    /// Its round trip without the queue.
    pub round_trip: Duration,
    /// When it begins, since the start of the world.
    pub begins: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Begins,
    Arrived,
    Dropped,
}

#[derive(Debug, Default)]
pub(crate) struct Competitor {
    pub(crate) settings: CompetitorSettings,
    window: f64,
    /// Window before the last loss, and when that was noticed; `None`: slow start.
    peak: Option<(f64, Instant)>,
    /// What the last loss left of the window.
    floor: f64,
    /// What Reno's window would be.
    reno: f64,
    in_flight: f64,
    ended: bool,
    /// Losses until then belong to one congestion event.
    recovers_until: Instant,
    /// Segments that left the router.
    pub(crate) passed: u64,
    /// Segments that the router dropped.
    pub(crate) lost: u64,
}

impl Competitor {
    pub(crate) fn new(settings: CompetitorSettings) -> Self {
        let [window, floor, reno] = [FIRST_WINDOW; 3];
        Self { settings, window, floor, reno, ..Self::default() }
    }

    /// Sends one more segment if the window allows it; returns whether it did.
    pub(crate) fn sends(&mut self) -> bool {
        let sends = !self.ended && self.in_flight + 1.0 <= self.window;
        self.in_flight += f64::from(u8::from(sends));
        sends
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// A segment is acknowledged.
    pub(crate) fn handle_ack(&mut self, now: Instant) {
        self.in_flight -= 1.0;
        let Some((peak, since)) = self.peak else {
            self.window += 1.0;
            return;
        };
        let seconds = (now.since(since) + self.settings.round_trip).as_secs_f64();
        let k = ((peak - self.floor).max(0.0) / C).cbrt();
        let target = (C * (seconds - k).powi(3) + peak).clamp(self.window, 1.5 * self.window);
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        self.window = (self.window + (target - self.window) / self.window).max(self.reno);
    }

    /// A segment is missed. `wait`: what the router's queue adds to the round trip.
    pub(crate) fn handle_loss(&mut self, now: Instant, wait: Duration) {
        self.in_flight -= 1.0;
        if now < self.recovers_until {
            return;
        }
        self.recovers_until = now + self.settings.round_trip + wait;
        let is_below = self.peak.is_some_and(|(peak, _)| self.window < peak);
        self.peak = Some((if is_below { self.window * (1.0 + BETA) / 2.0 } else { self.window }, now));
        self.window = (self.window * BETA).max(2.0);
        (self.reno, self.floor) = (self.window, self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_falls_once_a_round_trip_and_comes_back_along_the_cubic() {
        let settings = CompetitorSettings { round_trip: Duration::from_millis(50), begins: Duration::ZERO };
        let mut flow = Competitor::new(settings);
        flow.window = 1_000.0;
        let at = Instant::from_nanos(1_000_000_000);
        flow.handle_loss(at, Duration::ZERO);
        flow.handle_loss(at + Duration::from_millis(10), Duration::ZERO);
        assert!((flow.window - 700.0).abs() < 1e-6);
        // K = cbrt(1,000 x 0.3 / 0.4) = 9.09 s.
        let mut now = at;
        while now < at + Duration::from_secs(9) {
            for _ in 0..70 {
                flow.handle_ack(now);
            }
            now = now + Duration::from_millis(5);
        }
        assert!((980.0..1_005.0).contains(&flow.window), "{}", flow.window);
    }
}
