//! A competing flow that shares a router's queue: a bulk transfer by CUBIC, simulated by its window alone, without bytes.
//!
//! Beside [`crate::router`]. It sends whenever its window allows; a segment that leaves the router is acknowledged after the
//! rest of the round trip, a dropped one is missed when the one before it would have been acknowledged.
//!
//! Its round trips as [`crate::cubic`] sees them are without the queue, so its slow start ends with a loss.

use crate::cubic::Cubic;
use core::time::Duration;
use tabane_proto::Instant;

/// Bytes of a segment as the router counts them.
pub(crate) const SEGMENT: u64 = 1_500;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[derive(Debug)]
pub(crate) struct Competitor {
    pub(crate) settings: CompetitorSettings,
    window: Cubic,
    in_flight: f64,
    ended: bool,
    /// Segments that left the router.
    pub(crate) passed: u64,
    /// Segments that the router dropped.
    pub(crate) lost: u64,
}

impl Competitor {
    pub(crate) fn new(settings: CompetitorSettings) -> Self {
        Self { settings, window: Cubic::new(), in_flight: 0.0, ended: false, passed: 0, lost: 0 }
    }

    /// Sends one more segment if the window allows it; returns whether it did.
    pub(crate) fn sends(&mut self) -> bool {
        let sends = !self.ended && self.in_flight + 1.0 <= self.window.window();
        self.in_flight += f64::from(u8::from(sends));
        sends
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn handle_ack(&mut self, now: Instant) {
        self.in_flight -= 1.0;
        self.window.handle_ack(now, self.settings.round_trip);
    }

    /// A segment is missed. `wait`: what the router's queue adds to the round trip.
    pub(crate) fn handle_loss(&mut self, now: Instant, wait: Duration) {
        self.in_flight -= 1.0;
        self.window.handle_loss(now, self.settings.round_trip + wait);
    }
}
