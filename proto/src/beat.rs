//! When a link is due for a heartbeat: each 10 ms in quiet, up to each millisecond under load.
//!
//! Beside [`crate::heartbeat`]. Under load the cells of a link pay for its heartbeats, so that these take little of it at
//! any rate and among any number of peers: at 1 Gbit/s there is one each millisecond, at 10 Mbit/s each 10. What comes
//! from the peer pays too, for reports are what it waits for; but less, for the way back may be the slower one.

use crate::health::{HEARTBEAT_BUSY, HEARTBEAT_QUIET};
use crate::time::Instant;

/// Cells sent over the link that pay for a heartbeat, which is about a tenth as long as one of them.
const SENT: u64 = 16;
/// Cells heard from the peer that do.
const HEARD: u64 = 128;

/// The heartbeats of one link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beat {
    /// When the last one was made; `None`: the next is due at once.
    at: Option<Instant>,
    /// What had been sent over the link and heard from the peer by then.
    paid: Traffic,
}

/// Cells sent over a link, and heard from its peer over any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) heard: u64,
}

impl Beat {
    /// When the next heartbeat is due, after `traffic`.
    pub(crate) fn due(&self, now: Instant, traffic: Traffic) -> Instant {
        let Some(at) = self.at else { return now };
        let is_paid = traffic.sent >= self.paid.sent + SENT || traffic.heard >= self.paid.heard + HEARD;
        at + if is_paid { HEARTBEAT_BUSY } else { HEARTBEAT_QUIET }
    }

    /// A heartbeat is made.
    pub(crate) fn handle_beat(&mut self, now: Instant, traffic: Traffic) {
        (self.at, self.paid) = (Some(now), traffic);
    }

    /// There is something to say at once.
    pub(crate) fn hasten(&mut self) {
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    /// Heartbeats of a second in which a cell is sent and `heard` come each `pace`.
    fn beats(pace: Duration, heard: u64) -> usize {
        let (mut beat, mut traffic) = (Beat::default(), Traffic::default());
        let ticks = (0..).map(|tick| Instant::default() + pace * tick);
        let ticks = ticks.take_while(|now| now.since(Instant::default()) < Duration::from_secs(1));
        ticks
            .filter(|now| {
                (traffic.sent, traffic.heard) = (traffic.sent + 1, traffic.heard + heard);
                let is_due = beat.due(*now, traffic) <= *now;
                if is_due {
                    beat.handle_beat(*now, traffic);
                }
                is_due
            })
            .count()
    }

    #[test]
    fn heartbeats_are_paid_for_by_cells() {
        assert_eq!(beats(Duration::from_micros(10), 0), 1_000, "1.2 Gbit/s: every millisecond");
        assert_eq!(beats(Duration::from_micros(125), 0), 500, "96 Mbit/s: every 16 cells");
        assert_eq!(beats(Duration::from_millis(5), 0), 100, "2 Mbit/s: as in quiet");
        assert_eq!(beats(Duration::from_micros(500), 64), 1_000, "little is sent, much is heard");
    }

    #[test]
    fn what_has_to_be_said_at_once_is_due_at_once() {
        let mut beat = Beat::default();
        let now = Instant::from_nanos(7);
        assert_eq!(beat.due(now, Traffic::default()), now);
        beat.handle_beat(now, Traffic::default());
        assert_eq!(beat.due(now, Traffic::default()), now + HEARTBEAT_QUIET);
        beat.hasten();
        assert_eq!(beat.due(now, Traffic::default()), now);
    }
}
