//! A router's queue behind the NICs: a bottleneck that no sender's kernel shows.
//!
//! Part of [`crate::network`], between the switch and the way down to a node. The router's rate may change while datagrams
//! wait: they leave at the new rate. A competing flow ([`crate::competitor`]) shares the queue.
//!
//! Invariant: while a datagram waits, exactly one event of the current [`Router::turn`] is due.
//! Source: `CoDel`, RFC 8289, section 5.

use crate::cable::Passage;
use crate::competitor::{Competitor, CompetitorSettings};
use core::time::Duration;
use std::collections::VecDeque;
use tabane_proto::Instant;
use tabane_proto::time::nanos;

/// RFC 8289's target and interval.
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
/// A queue that holds one frame's bytes or less is no standing queue.
const FRAME: u64 = 1_514;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drops {
    /// Those that come while the queue is full.
    #[default]
    Tail,
    /// Also some of those that waited for long.
    CoDel,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RouterSettings {
    /// Bits per second.
    pub rate: u64,
    pub queue: u64,
    pub drops: Drops,
    /// The flow that shares the queue.
    pub competitor: Option<CompetitorSettings>,
    /// It sends in turns, each so long after the one before, what its rate allows in that time; zero: whenever it may.
    pub turns: Duration,
}

impl RouterSettings {
    /// A queue that drops its tail, with room for the bytes that leave in `span`.
    pub fn tail(rate: u64, span: Duration) -> Self {
        let bits = u128::from(rate) * u128::from(nanos(span));
        let queue = u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX).max(2 * FRAME);
        Self { rate, queue, ..Self::default() }
    }
}

pub(crate) enum Waiting {
    Cell(Passage),
    /// A segment of the competing flow.
    Rival,
}

struct Entry {
    since: Instant,
    bytes: u64,
    what: Waiting,
}

/// A router's queue for one node.
#[derive(Default)]
pub(crate) struct Router {
    settings: RouterSettings,
    usual: u64,
    entries: VecDeque<Entry>,
    /// Bytes that wait, the one that is leaving included.
    pub(crate) queued: u64,
    /// Bits, times a billion, that the first entry still has to send at `served`.
    left: u128,
    served: Instant,
    /// When it would be done with the first entry if it sent steadily.
    done: Instant,
    /// The number of the event that is due.
    pub(crate) turn: u64,
    codel: CoDel,
    pub(crate) competitor: Option<Competitor>,
}

impl Router {
    pub(crate) fn new(settings: RouterSettings) -> Self {
        let competitor = settings.competitor.map(Competitor::new);
        Self { settings, usual: settings.rate, competitor, ..Self::default() }
    }

    /// Datagrams of the bundle that wait.
    pub(crate) fn cells(&self) -> u64 {
        self.entries.iter().filter(|entry| matches!(entry.what, Waiting::Cell(_))).count() as u64
    }

    /// How long the last of those that wait still takes.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_nanos(self.queued.saturating_mul(8_000_000_000) / self.settings.rate)
    }

    /// The queue takes a datagram, or drops it. Returns whether it took it, and when the first one leaves if that is new.
    pub(crate) fn push(&mut self, now: Instant, bytes: u64, what: Waiting) -> (bool, Option<Instant>) {
        if self.queued + bytes > self.settings.queue {
            return (false, None);
        }
        self.queued += bytes;
        self.entries.push_back(Entry { since: now, bytes, what });
        (true, (self.entries.len() == 1).then(|| self.serve(now)))
    }

    /// The rate has changed; returns when the first one leaves instead, if one waits.
    pub(crate) fn set(&mut self, now: Instant, settings: &RouterSettings) -> Option<Instant> {
        let sent = u128::from(nanos(now.since(self.served))) * u128::from(self.settings.rate);
        self.left = self.left.saturating_sub(sent);
        self.settings = RouterSettings { competitor: self.settings.competitor, ..*settings };
        (!self.entries.is_empty()).then(|| self.leaves(now))
    }

    /// Another rate, or its own again; the same is returned.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<u64>) -> Option<Instant> {
        let rate = rate.unwrap_or(self.usual);
        let settings = RouterSettings { rate, ..self.settings };
        self.set(now, &settings)
    }

    /// The first one has left: hands it over, and those that `CoDel` drops behind it. Returns when the next one leaves.
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        dropped: &mut Vec<Waiting>,
    ) -> (Option<Waiting>, Option<Instant>) {
        let sent = self.take();
        if self.settings.drops == Drops::CoDel {
            while let Some(next) = self.entries.front() {
                let waited = now.since(next.since);
                if !self.codel.drops(now, waited, self.queued) {
                    break;
                }
                dropped.extend(self.take());
            }
        }
        // Steadily, the next one would have begun when this one was done.
        let begins = |next: &Entry| self.done.max(next.since).min(now);
        let begins = self.entries.front().map(begins);
        let next = begins.map(|begins| self.serve(begins));
        (sent, next)
    }

    fn take(&mut self) -> Option<Waiting> {
        let entry = self.entries.pop_front()?;
        self.queued -= entry.bytes;
        Some(entry.what)
    }

    /// Begins to send the first one.
    fn serve(&mut self, now: Instant) -> Instant {
        let bytes = self.entries.front().map_or(0, |entry| entry.bytes);
        self.left = u128::from(bytes) * 8_000_000_000;
        self.leaves(now)
    }

    fn leaves(&mut self, now: Instant) -> Instant {
        self.served = now;
        self.turn += 1;
        let span = self.left.div_ceil(u128::from(self.settings.rate));
        self.done = now + Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        let turns = nanos(self.settings.turns);
        if turns == 0 {
            return self.done;
        }
        Instant::from_nanos(nanos(self.done.since(Instant::default())).next_multiple_of(turns))
    }
}

#[derive(Debug, Default)]
struct CoDel {
    /// When a standing queue will have lasted for an interval.
    above_until: Option<Instant>,
    /// When the next one is dropped; `None`: none is.
    next: Option<Instant>,
    count: u32,
}

impl CoDel {
    /// Whether the datagram that would leave next is dropped.
    fn drops(&mut self, now: Instant, waited: Duration, queued: u64) -> bool {
        if waited < TARGET || queued <= FRAME {
            (self.above_until, self.next) = (None, None);
            return false;
        }
        let above_until = *self.above_until.get_or_insert(now + INTERVAL);
        if now < above_until {
            return false;
        }
        match self.next {
            Some(next) if now < next => false,
            Some(next) => {
                self.count += 1;
                self.next = Some(next + INTERVAL.div_f64(f64::from(self.count).sqrt()));
                true
            }
            None => {
                self.count = if self.count > 2 { self.count - 2 } else { 1 };
                self.next = Some(now + INTERVAL.div_f64(f64::from(self.count).sqrt()));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(count: u64) -> Instant {
        Instant::from_nanos(count * 1_000_000)
    }

    #[test]
    fn what_waits_leaves_at_the_new_rate() {
        let mut router = Router::new(RouterSettings::tail(8_000_000, Duration::from_millis(100)));
        assert_eq!(router.push(millis(0), 1_000, Waiting::Rival), (true, Some(millis(1))));
        assert_eq!(router.push(millis(0), 1_000, Waiting::Rival), (true, None));
        let slow = RouterSettings { rate: 800_000, ..router.settings };
        let half = Instant::from_nanos(500_000);
        assert_eq!(
            router.set(half, &slow),
            Some(Instant::from_nanos(5_500_000)),
            "half is left, ten times as slow"
        );
        let (_, next) = router.pop(Instant::from_nanos(5_500_000), &mut Vec::new());
        assert_eq!(next, Some(Instant::from_nanos(15_500_000)));
    }

    #[test]
    fn a_full_queue_drops_its_tail() {
        let mut router = Router::new(RouterSettings::tail(50_000_000, Duration::from_millis(100)));
        let taken = (0..1_000).filter(|_| router.push(millis(0), 1_250, Waiting::Rival).0).count();
        assert_eq!((taken, router.queued, router.wait()), (500, 625_000, Duration::from_millis(100)));
    }

    /// Drops in the first `span` of a sender that fills the queue again whenever one leaves.
    fn codel_drops(span: Duration, standing: usize) -> usize {
        let settings = RouterSettings { drops: Drops::CoDel, ..RouterSettings::tail(10_000_000, span) };
        let mut router = Router::new(settings);
        let (mut now, mut dropped) = (millis(0), Vec::new());
        let mut due = None;
        while now < millis(0) + span {
            while router.entries.len() < standing {
                due = router.push(now, 1_250, Waiting::Rival).1.or(due);
            }
            now = due.expect("somebody waits");
            due = router.pop(now, &mut dropped).1;
        }
        dropped.len()
    }

    #[test]
    fn codel_drops_from_a_standing_queue_alone() {
        assert_eq!(codel_drops(Duration::from_secs(1), 4), 0, "3 ms of queue");
        assert_eq!(codel_drops(Duration::from_millis(100), 20), 0, "not yet for an interval");
        // The nth drop follows after 100 ms / sqrt(n): 105, 205, 276, 333, 383, 428, 469, 507, ...
        let drops = codel_drops(Duration::from_millis(500), 20);
        assert!((6..=8).contains(&drops), "{drops}");
    }
}
