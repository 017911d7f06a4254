//! How long the queue on a path is: one-way delays, of which only differences mean anything, for the clocks differ.
//!
//! Beside [`crate::link::congestion`]. The least delay of the last one to two [`HISTORY`] counts as that of an empty queue. So
//! a way that becomes longer, and clocks that drift, are forgotten in time. Source: LEDBAT, RFC 6817, section 4.2.

use crate::time::Instant;
use core::time::Duration;

/// So short a delay was seen within one to two of these times. After each, the queue is drained once, to see it again.
const HISTORY: Duration = Duration::from_secs(15);

/// The delays that were reported.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// The first that was reported: the others count from there.
    first: Option<u32>,
    /// How many heartbeats had come at the last report.
    heartbeats: Option<u8>,
    /// The least of this period and of the one before, in microseconds.
    least: [Option<i32>; 2],
    began: Instant,
}

impl Delays {
    /// How much longer `delay`, that of the latest heartbeat in microseconds modulo 2^24, is than the least; `None` when no heartbeat
    /// has come since the report before.
    pub(super) fn queue(&mut self, now: Instant, heartbeats: u8, delay: u32) -> Option<Duration> {
        if self.heartbeats.replace(heartbeats) == Some(heartbeats) {
            return None;
        }
        if self.first.is_none() {
            (self.first, self.began) = (Some(delay), now);
        }
        let first = self.first.unwrap_or(delay);
        // Of 24 bits with a sign.
        let delay = (delay.wrapping_sub(first) << 8).cast_signed() >> 8;
        let current = self.least[0].map_or(delay, |least| least.min(delay));
        self.least[0] = Some(current);
        let least = self.least[1].map_or(current, |before| before.min(current));
        Some(Duration::from_micros(u64::from((delay - least).unsigned_abs())))
    }

    /// Whether the period is over.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now.since(self.began) >= HISTORY
    }

    /// A period ends.
    pub(super) fn roll(&mut self, now: Instant) {
        self.least = [None, self.least[0]];
        self.began = now;
    }

    /// What comes next is the least.
    pub(super) fn forget(&mut self) {
        self.least = [None; 2];
    }
}
