//! The window of a sender with CUBIC, in segments: what TCP does on Linux unless it is told otherwise.
//!
//! Beside [`crate::traffic`], whose flows send by it, and [`crate::competitor`]. Sources: RFC 9438, sections 4.2 to 4.7 and 4.10; Ha, Rhee,
//! "Taming the elephants: new TCP slow start" (2011) for the end of a slow start, with the bounds that Linux has.

use core::time::Duration;
use tabane_proto::Instant;

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// RFC 6928.
const FIRST_WINDOW: f64 = 10.0;
/// A slow start goes on until the window is so large.
const START_LEAST: f64 = 16.0;
/// It is over when the shortest of so many round trips is longer than the shortest of all by an eighth, within bounds.
const START_TRIPS: u32 = 8;
const START_LATER: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));

/// For each segment that comes.
const UNLOST: f64 = 1.0 / 20.0;

#[derive(Debug)]
pub(crate) struct Cubic {
    window: f64,
    /// Window before the last loss or at the end of the slow start, and when that was; `None`: slow start.
    peak: Option<(f64, Instant)>,
    /// What that left of the window.
    floor: f64,
    reno: f64,
    /// Losses until then belong to one congestion event.
    recovers_until: Instant,
    lost: bool,
    /// The shortest round trip, and that of this round of the slow start.
    shortest: Option<Duration>,
    round: Round,
}

#[derive(Debug, Default)]
struct Round {
    began: Instant,
    trips: u32,
    shortest: Option<Duration>,
}

impl Cubic {
    pub(crate) fn new() -> Self {
        Self {
            window: FIRST_WINDOW,
            peak: None,
            floor: FIRST_WINDOW,
            reno: FIRST_WINDOW,
            recovers_until: Instant::default(),
            lost: false,
            shortest: None,
            round: Round::default(),
        }
    }

    pub(crate) fn window(&self) -> f64 {
        self.window
    }

    /// A segment came, as its acknowledgement says after `trip`.
    pub(crate) fn handle_ack(&mut self, now: Instant, trip: Duration) {
        let shortest = self.shortest.map_or(trip, |shortest| shortest.min(trip));
        self.shortest = Some(shortest);
        let Some((peak, since)) = self.peak else {
            self.window += 1.0;
            if self.is_late(now, trip, shortest) {
                self.leave(now, self.window, self.window);
            }
            return;
        };
        let seconds = (now.since(since) + shortest).as_secs_f64();
        let k = ((peak - self.floor).max(0.0) / C).cbrt();
        let target = (C * (seconds - k).powi(3) + peak).clamp(self.window, 1.5 * self.window);
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        // While nothing was lost yet, Linux goes on by a twentieth in each round trip at least.
        let least = if self.lost { 0.0 } else { UNLOST };
        self.window = (self.window + ((target - self.window) / self.window).max(least)).max(self.reno);
    }

    /// A round ends with the first segment that was sent in it. Whether its trips are so long that a queue grows.
    fn is_late(&mut self, now: Instant, trip: Duration, shortest: Duration) -> bool {
        if now - trip >= self.round.began {
            self.round = Round { began: now, ..Round::default() };
        }
        let round = &mut self.round;
        if round.trips == START_TRIPS {
            return false;
        }
        round.trips += 1;
        let least = round.shortest.map_or(trip, |least| least.min(trip));
        round.shortest = Some(least);
        let (few, many) = START_LATER;
        round.trips == START_TRIPS
            && self.window >= START_LEAST
            && least >= shortest + (shortest / 8).clamp(few, many)
    }

    fn leave(&mut self, now: Instant, peak: f64, window: f64) {
        self.peak = Some((peak, now));
        (self.window, self.reno, self.floor) = (window, window, window);
    }

    /// A segment is missed. `trip`: how long a round trip takes now.
    pub(crate) fn handle_loss(&mut self, now: Instant, trip: Duration) {
        if now < self.recovers_until {
            return;
        }
        (self.recovers_until, self.lost) = (now + trip, true);
        let is_below = self.peak.is_some_and(|(peak, _)| self.window < peak);
        let peak = if is_below { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.leave(now, peak, (self.window * BETA).max(2.0));
    }

    /// Nothing came for so long that all is sent again.
    pub(crate) fn handle_timeout(&mut self) {
        *self = Self { window: 1.0, lost: true, shortest: self.shortest, ..Self::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_falls_once_a_round_trip_and_comes_back_along_the_cubic() {
        let trip = Duration::from_millis(50);
        let mut flow = Cubic { window: 1_000.0, ..Cubic::new() };
        let at = Instant::from_nanos(1_000_000_000);
        flow.handle_loss(at, trip);
        flow.handle_loss(at + Duration::from_millis(10), trip);
        assert!((flow.window - 700.0).abs() < 1e-6);
        // K = cbrt(1,000 x 0.3 / 0.4) = 9.09 s.
        let mut now = at;
        while now < at + Duration::from_secs(9) {
            for _ in 0..70 {
                flow.handle_ack(now, trip);
            }
            now = now + Duration::from_millis(5);
        }
        assert!((980.0..1_005.0).contains(&flow.window), "{}", flow.window);
    }

    #[test]
    fn a_slow_start_ends_when_all_trips_of_a_round_are_longer() {
        let mut flow = Cubic::new();
        let mut now = Instant::from_nanos(1_000_000_000);
        for trip in [20, 22, 28] {
            for _ in 0..30 {
                now = now + Duration::from_millis(1);
                flow.handle_ack(now, Duration::from_millis(trip));
            }
        }
        assert!(flow.peak.is_some_and(|(peak, _)| (75.0..90.0).contains(&peak)), "{flow:?}");
    }
}
