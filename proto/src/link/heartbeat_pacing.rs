//! When a link is due for a heartbeat: each 7 to 10 ms in quiet, up to each millisecond under load.
//!
//! Beside [`crate::link::heartbeat`]. Under load the cells of a link pay for its heartbeats, so that these take little of it at
//! any rate and among any number of peers: at 1 Gbit/s there is one each millisecond, at 10 Mbit/s each 10. What comes
//! from the peer pays as much, for its sender goes by reports ([`crate::link::congestion`]). What programs carry pays for heartbeats on
//! all links: those on the others tell what is missing on one ([`crate::link::carried`]). So a slow link whose rate was measured would have
//! more than it can carry: it has a 64th of its rate at most, at 20 Mbit/s one each 4 ms, but no fewer than in quiet.
//! A suspect link, which carries nothing else, has one each 5 ms, for by them alone it is known to be well again. A new one begins with
//! one each 2 to 5 ms and carries nothing else, until they show by how much its delay varies by itself ([`crate::link::congestion`]) or some
//! were sent in vain.
//!
//! A fast link has something saved when its cells stop: most often because cells were lost, and then reports matter most.

use crate::link::health::{HEARTBEAT_BUSY, HEARTBEAT_QUIET};
use crate::link::nic::time_of;
use crate::time::Instant;
use core::time::Duration;

/// What a heartbeat costs: 16 cells, each about ten times as long.
const COST: u64 = 16;
/// What a heartbeat takes of a link, in bytes, outer headers included, where a peer has two links.
const BYTES: u64 = 160;
/// One part in so many of a link's rate may be heartbeats.
const SHARE: u64 = 64;
/// So many heartbeats are the first of a link, so far apart at most.
const FIRST: usize = 96;
const HEARTBEAT_FIRST: Duration = Duration::from_millis(5);
/// They and those in quiet come so many milliseconds earlier, in turn: always as far apart they would find a link that sends in turns at the
/// same point of each. The links to a peer keep in step, so that those that beat together go on to do so, and a node wakes up once for them.
const EARLIER: [u64; 4] = [1, 2, 0, 3];
/// What can be saved: eight heartbeats.
const SAVED: u64 = 8 * COST;

/// The heartbeats of one link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacing {
    /// When the last one was made; `None`: the next is due at once.
    at: Option<Instant>,
    made: usize,
    /// Which of [`EARLIER`] the next one is.
    turn: usize,
    /// What has been spent, or was too much to be saved.
    spent: u64,
    /// One was due that the link did not take.
    pub(crate) is_owed: bool,
}

impl Pacing {
    /// When the next heartbeat is due; `suspect`: the link is; `rate`: what it carries of programs, in bytes per second, if that was measured.
    pub(crate) fn due(&self, now: Instant, earned: u64, suspect: bool, rate: Option<u64>) -> Instant {
        let Some(at) = self.at else { return now };
        let quiet = if suspect { HEARTBEAT_QUIET / 2 } else { self.apart(HEARTBEAT_QUIET) };
        if earned < self.spent + COST {
            return at + quiet;
        }
        let slow = rate.map_or(HEARTBEAT_BUSY, |rate| time_of(SHARE * BYTES, rate));
        at + slow.clamp(HEARTBEAT_BUSY, quiet)
    }

    /// When the next one of a new link is due, which carries nothing else.
    pub(crate) fn first_due(&self, now: Instant) -> Instant {
        self.at.map_or(now, |at| at + self.apart(HEARTBEAT_FIRST))
    }

    fn apart(&self, most: Duration) -> Duration {
        most - Duration::from_millis(EARLIER[self.turn % EARLIER.len()])
    }

    /// Whether few were made so far.
    pub(crate) fn is_first(&self) -> bool {
        self.made < FIRST
    }

    /// The link is none of the new ones, whoever sends over it now.
    pub(crate) fn grow_old(&mut self) {
        self.made = self.made.max(FIRST);
    }

    /// A heartbeat is made, in this turn of the peer's links.
    pub(crate) fn handle_sent(&mut self, now: Instant, earned: u64, turn: usize) {
        (self.at, self.turn) = (Some(now), turn);
        self.made = self.made.wrapping_add(1);
        self.spent = (self.spent + COST).clamp(earned.saturating_sub(SAVED), earned);
    }

    /// There is something to say at once.
    pub(crate) fn hasten(&mut self) {
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heartbeats of a second, of which cells are sent for `span` only, one each `pace`, and `reports` come with each.
    fn beats(pace: Duration, received: u64, span: Duration) -> usize {
        beats_at(pace, received, span, None)
    }

    /// The same on a link of this `rate`.
    fn beats_at(pace: Duration, received: u64, span: Duration, rate: Option<u64>) -> usize {
        let (mut beat, mut total) = (Pacing::default(), 0);
        let start = Instant::default();
        let ticks = (0..).map(|tick| start + pace * tick).take_while(|now| now.since(start).as_secs() < 1);
        let is_beaten = |now: Instant| {
            total += if now.since(start) < span { 1 + received } else { 0 };
            let is_due = beat.due(now, total, false, rate) <= now;
            if is_due {
                beat.handle_sent(now, total, beat.made);
            }
            is_due
        };
        ticks.map(is_beaten).filter(|is_beaten| *is_beaten).count()
    }

    #[test]
    fn cells_pay_for_heartbeats() {
        let second = Duration::from_secs(1);
        let micros = Duration::from_micros;
        assert_eq!(beats(micros(10), 0, second), 1_000, "1.2 Gbit/s: every millisecond");
        assert_eq!(beats(micros(125), 0, second), 500, "96 Mbit/s: every 16 cells");
        assert_eq!(beats(micros(5_000), 0, second), 100, "2 Mbit/s: with each second cell");
        assert_eq!(beats(micros(500), 64, second), 1_000, "little is sent, much is received");
        assert_eq!(beats(micros(500), 0, Duration::ZERO), 118, "quiet: each 8.5 ms in the mean");
    }

    #[test]
    fn a_slow_link_has_no_more_than_its_rate_allows() {
        let beats = |rate: u64| beats_at(Duration::from_micros(10), 0, Duration::from_secs(1), Some(rate));
        assert_eq!(beats(125_000_000), 1_000, "1 Gbit/s: every millisecond");
        assert_eq!(beats(12_500_000), 1_000, "100 Mbit/s: the same");
        assert!((240..250).contains(&beats(2_500_000)), "20 Mbit/s: {}", beats(2_500_000));
        assert_eq!(beats(125_000), 118, "1 Mbit/s: as in quiet");
    }

    #[test]
    fn a_fast_link_that_falls_silent_has_heartbeats_left() {
        let half = Duration::from_millis(500);
        assert_eq!(beats(Duration::from_micros(10), 0, half), 500 + 1 + 8 + 57, "one for the last of them");
        assert_eq!(beats(Duration::from_millis(1), 0, half), 118, "a slow one has nothing");
    }

    #[test]
    fn what_has_to_be_said_at_once_is_due_at_once() {
        let mut beat = Pacing::default();
        let now = Instant::from_nanos(7);
        assert_eq!(beat.due(now, 0, false, None), now);
        beat.handle_sent(now, 0, 1);
        assert_eq!(beat.due(now, 0, false, None), now + HEARTBEAT_QUIET - Duration::from_millis(2));
        assert_eq!(beat.due(now, 0, true, None), now + HEARTBEAT_QUIET / 2);
        beat.hasten();
        assert_eq!(beat.due(now, 0, false, None), now);
    }
}
