//! One path to a peer, as its sender sees it: where it leads, the numbers of its cells, what the peer has received, and how much it carries.
//!
//! Beside [`crate::send::transmit`] and `send::repair`.

mod numbers;
mod receipts;
mod runs;

pub(crate) use crate::link::outbound::numbers::LOG;

use crate::link::black_hole::JITTER_PARTS;
use crate::link::carried::Programs;
use crate::link::ceiling::Ceiling;
use crate::link::congestion::Congestion;
use crate::link::health::{HEARTBEAT_QUIET, LATELY};
use crate::link::heartbeat_pacing::Pacing;
use crate::link::loss::Loss;
use crate::link::nic::{Link, LinkSettings};
use crate::link::outbound::numbers::Numbers;
use crate::link::outbound::receipts::Receipts;
use crate::link::outbound::runs::Runs;
use crate::link::path_mtu::PathMtu;
use crate::time::Instant;
use crate::wire::hello::KernelEnd;
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

/// The largest round trip and skew that are believed: a peer says both, and no path that TCP can use has longer ones.
pub(crate) const ESTIMATE_MAX: Duration = Duration::from_secs(2);
/// How much data avoids a path that is up: it takes those paths that it avoids least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Avoidance {
    /// Not at all.
    None,
    /// It loses much, or may carry less than its NICs take.
    Doubted,
    /// One of its ends drains it.
    Drained,
}

/// Whether cells are sent over a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// They are not.
    #[default]
    Down,
    /// It is down only because cells are not received, so it is better than nothing: both may just not have been scheduled.
    Doubted,
    /// They may be: the peer reports that it receives over it, and nothing here speaks against it.
    Up,
}

/// What was known of a path when it was left because cells were not received.
#[derive(Clone, Copy, Debug)]
struct Left {
    received: u64,
    lacks: u32,
    /// It carried cells of the present size.
    is_confirmed: bool,
}

/// Where a path ends at the peer, as that has said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FarEnd {
    /// Where the peer listens on this link, once it has sent from there.
    pub(crate) endpoint: Option<SocketAddr>,
    /// Where it may listen: it was asked there to say so, and when.
    pub(crate) asked: Option<(SocketAddr, Instant)>,
    /// What it said of itself there is old, and it has not yet said anything new.
    pub(crate) outdated: bool,
    /// The largest cell that its NIC takes, in bytes.
    pub(crate) cell_max: u16,
    /// Where it receives frames of the kernel path on this link, if it does.
    pub(crate) kernel: Option<KernelEnd>,
    /// Whether the peer drains it.
    pub(crate) is_drained: bool,
}

/// One path to a peer.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) end: FarEnd,
    pub(crate) numbers: Numbers,
    pub(crate) receipts: Receipts,
    runs: Runs,
    /// Bytes of the data cells that were sent, headers and tags included.
    bytes: u64,
    pub(crate) programs: Programs,
    pub(crate) standing: Standing,
    /// What the peer had received when it was left.
    left: Option<Left>,
    /// The peer's reports count again from here on: an error on our side must not be overruled by an old report.
    pub(crate) obey_reports_from: Instant,
    /// How much later than on the fastest link a cell arrives, as the peer reports it.
    pub(crate) skew: Duration,
    /// It is too far away to share a flow with the others.
    pub(crate) is_far: bool,
    /// To the peer and back, smoothed; only heartbeats measure it.
    pub(crate) round_trip: Option<Duration>,
    pub(crate) pacing: Pacing,
    pub(crate) loss: Loss,
    pub(crate) congestion: Congestion,
    /// What the peer wants to receive there.
    pub(crate) ceiling: Ceiling,
    pub(crate) path_mtu: PathMtu,
}

impl Outbound {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            end: FarEnd::default(),
            numbers: Numbers::default(),
            receipts: Receipts::new(now),
            runs: Runs::default(),
            bytes: 0,
            programs: Programs::default(),
            standing: Standing::Down,
            left: None,
            obey_reports_from: now,
            skew: Duration::ZERO,
            is_far: false,
            round_trip: None,
            pacing: Pacing::default(),
            loss: Loss::new(now),
            congestion: Congestion::new(),
            ceiling: Ceiling::default(),
            path_mtu: PathMtu::new(now),
        }
    }

    /// Whether cells may be sent: the peer reports that it receives over it, and nothing here speaks against it.
    pub(crate) fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }

    /// The peer misses these numbers. Returns whether what leaves by one call is lost here, and what leaves alone is not; what was lost so
    /// says nothing against the path.
    pub(crate) fn handle_missing(&mut self, now: Instant, missing: &Range<u64>) -> bool {
        let are_swallowed = self.runs.handle_missing(now, missing, &self.numbers);
        if are_swallowed {
            self.loss.restart(self.numbers.next());
        }
        are_swallowed
    }

    /// Bytes per second of its bottleneck, as far as it is known: the NIC of its `link`, or what stands behind it.
    pub(crate) fn rate(&self, link: &Link) -> Option<u64> {
        self.congestion.rate().into_iter().chain(link.queue.rate()).chain(self.ceiling.rate()).min()
    }

    /// Whether it holds cells back, and it is not known yet what it carries.
    pub(crate) fn is_starting(&self, now: Instant) -> bool {
        self.congestion.rate().is_none() && self.congestion.was_limited(now)
    }

    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.is_new() || self.congestion.is_full(now) || self.ceiling.is_full(now)
    }

    /// When it takes data again, if nothing else happens before.
    pub(crate) fn opens_at(&self, now: Instant) -> Instant {
        let opens = if self.congestion.is_full(now) { self.congestion.opens_at() } else { now };
        let known = if self.is_new() { now + HEARTBEAT_QUIET } else { now };
        opens.max(self.ceiling.opens_at()).max(known)
    }

    /// How long until it is likely to take data.
    pub(crate) fn opens_in(&self, now: Instant) -> Duration {
        self.congestion.opens_in(now).max(self.ceiling.opens_at().since(now))
    }

    pub(crate) fn batch_limit(&self, now: Instant) -> u64 {
        self.congestion.batch_limit(now).min(self.ceiling.batch_limit())
    }

    /// The largest cell that it takes, as far as is known, in bytes; the link takes `link_max`.
    pub(crate) fn cell_max(&self, link_max: u16) -> u16 {
        self.end.cell_max.min(link_max).min(self.path_mtu.size())
    }

    /// Whether an end drains it; `link`: ours.
    pub(crate) fn is_drained(&self, link: &LinkSettings) -> bool {
        self.end.is_drained || link.drained
    }

    /// How much data avoids it; `link`: our end.
    pub(crate) fn avoidance(&self, link: &LinkSettings) -> Avoidance {
        match () {
            () if self.is_drained(link) => Avoidance::Drained,
            () if self.loss.is_suspect() || self.path_mtu.is_unconfirmed() => Avoidance::Doubted,
            () => Avoidance::None,
        }
    }

    /// A session begins: numbers count from `first`.
    pub(crate) fn begin(&mut self, first: u64) {
        self.numbers.begin(first);
        self.receipts.begin(first);
        self.congestion.restart(first);
        self.programs.restart();
    }

    /// Looks for the MTU of its way over a link with these settings; returns whether the NICs take another size than before.
    pub(crate) fn fit_mtu(&mut self, now: Instant, link: &LinkSettings) -> bool {
        link.headers > 0 && self.path_mtu.fit(now, self.end.cell_max.min(link.cell_max), link.headers)
    }

    /// Whether heartbeats have not shown yet how its delay varies while it carries nothing else. It carries nothing else until then.
    pub(crate) fn is_new(&self) -> bool {
        !self.is_up() && self.pacing.is_first() && !self.congestion.knows_variation()
    }

    /// Whether they are about to show that: other paths to the peer are not used before, so that all begin together.
    pub(crate) fn is_learning(&self, now: Instant) -> bool {
        self.is_new() && self.congestion.is_learning(now)
    }

    /// The peer receives over it. Where it has since received cells and lacks no more than before, the path was left in error: what it
    /// carried, it carries still.
    pub(crate) fn rise(&mut self, now: Instant) {
        self.standing = if self.end.endpoint.is_some() { Standing::Up } else { Standing::Down };
        self.receipts.rise(now);
        let (next, received, lacks) = (self.numbers.next(), self.receipts.next(), self.receipts.lacks());
        self.loss.restart(next);
        match self.left.take().filter(|left| received > left.received && lacks == left.lacks) {
            Some(left) => self.path_mtu.trust(left.is_confirmed),
            None => self.congestion.restart(next),
        }
    }

    /// No cells are sent over it any more; returns whether it was up. `is_doubt`: only because cells are not received.
    pub(crate) fn leave(&mut self, now: Instant, is_doubt: bool) -> bool {
        let was_up = self.is_up();
        self.standing = self.standing.min(if is_doubt { Standing::Doubted } else { Standing::Down });
        if was_up {
            let (received, lacks) = (self.receipts.next(), self.receipts.lacks());
            let is_confirmed = !self.path_mtu.is_unconfirmed();
            self.left = is_doubt.then_some(Left { received, lacks, is_confirmed });
            self.path_mtu.leave(now);
        }
        was_up
    }

    /// The link leads nowhere any more. Its numbers go on counting for the next one in its place.
    pub(crate) fn withdraw(&mut self) {
        let FarEnd { outdated, cell_max, .. } = self.end;
        self.end = FarEnd { outdated, cell_max, ..FarEnd::default() };
        (self.standing, self.left) = (Standing::Down, None);
        self.programs.restart();
        (self.skew, self.is_far) = (Duration::ZERO, false);
        self.round_trip = None;
        self.ceiling.set(None);
        self.path_mtu.withdraw();
        self.numbers.withdraw();
    }

    /// Bytes that it has on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.numbers.bytes() + self.congestion.bytes()
    }

    /// When its next heartbeat is due: its own cells pay for it, and what `all` paths to the peer have earned.
    pub(crate) fn heartbeat_due(&self, now: Instant, all: u64) -> Instant {
        if self.is_new() {
            return self.pacing.first_due(now);
        }
        self.pacing.due(now, self.numbers.sent() + all, self.loss.is_suspect(), self.programs.rate())
    }

    /// A heartbeat is made, whether or not it was due.
    pub(crate) fn handle_heartbeat(&mut self, now: Instant, all: u64, turn: usize) {
        self.pacing.handle_sent(now, self.numbers.sent() + all, turn);
    }

    /// How many cells count as arrived where the peer has received so many, modulo 2^32: a probe that does not arrive is no loss of the path.
    pub(crate) fn arrived(&self, count: u32) -> u32 {
        count.wrapping_add(self.path_mtu.lost)
    }

    /// Whether the peer has received all data cells, or has asked for them again.
    pub(crate) fn is_received(&self) -> bool {
        self.numbers.is_nothing_since(self.receipts.next())
    }

    /// Takes the next number for a heartbeat that is no probe: it passes where long packets do not.
    pub(crate) fn take_heartbeat_number(&mut self, now: Instant) -> u64 {
        let number = self.numbers.take(None);
        self.receipts.handle_heartbeat(now, number);
        self.programs.handle_heartbeat(now, number);
        number
    }

    /// Nothing was sent under the last `count` numbers.
    pub(crate) fn give_back_numbers(&mut self, count: usize) {
        self.numbers.give_back(count);
        self.receipts.give_back(self.numbers.next());
    }

    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes
    }

    /// `bytes` of data went out, after which the link had been given so many in all.
    pub(crate) fn handle_sent(&mut self, now: Instant, given: u64, bytes: u64) {
        self.bytes += bytes;
        self.numbers.mark(given);
        self.congestion.handle_sent(now, self.numbers.next(), bytes);
    }

    /// A heartbeat was written, with which the link has been given so many bytes. While programs carry frames over the link it is
    /// missed as a cell with data is; in quiet nobody misses a single one.
    pub(crate) fn mark_carried(&mut self, now: Instant, given: u64) {
        if self.programs.at().is_some_and(|at| now.since(at) < LATELY) {
            self.numbers.mark(given);
        }
    }

    /// The peer reports the number after the highest that it has received and how many it has received, when so many bytes have left the
    /// link.
    pub(crate) fn handle_received(&mut self, now: Instant, received: u64, count: u32, left: u64) {
        let sent = (self.numbers.next(), self.numbers.departed(left));
        if self.receipts.handle_report(now, received, count, sent) {
            self.obey_reports_from = now;
        }
    }

    /// What is overdue there at a report that was written at `as_of` or later, and for how long.
    pub(crate) fn overdue(&self, as_of: Instant) -> Option<(u64, Duration)> {
        let jitter = self.round_trip.unwrap_or_default() / JITTER_PARTS;
        self.receipts.overdue(as_of, 2 * (self.skew + jitter))
    }

    /// The link is left: the numbers that the peer has not received, each of them once.
    pub(crate) fn take_unreceived(&mut self) -> Range<u64> {
        self.numbers.take_since(self.receipts.next())
    }

    /// The peer reports that cells come so much later here than on the fastest link.
    pub(crate) fn handle_skew(&mut self, skew: Duration) {
        self.skew = skew.min(ESTIMATE_MAX);
    }

    /// A heartbeat came back after `sample`.
    pub(crate) fn handle_round_trip(&mut self, sample: Duration) {
        let sample = sample.min(ESTIMATE_MAX);
        self.round_trip = Some(self.round_trip.map_or(sample, |old| (old * 7 + sample) / 8));
        self.congestion.handle_trip(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::gaps::Gaps;

    #[test]
    fn a_path_that_was_left_in_error_goes_on_with_its_window() {
        for (received, goes_on) in [(8, true), (7, false), (2, false)] {
            let now = Instant::default();
            let mut path = Outbound::new(now);
            path.end.endpoint = Some(([10, 0, 0, 1], 7_420).into());
            path.rise(now);
            (0..10).for_each(|slot| _ = path.numbers.take(Some((slot, false))));
            path.handle_sent(now, 0, 1 << 20);
            path.handle_received(now, 2, 2, 0);
            assert!(path.leave(now, true) && path.is_full(now), "a window is on the way");
            path.handle_received(now, received, if goes_on { 8 } else { 2 }, 0);
            path.rise(now);
            assert_eq!(path.is_full(now), goes_on, "{received} cells were passed");
        }
    }

    #[test]
    fn no_peer_makes_a_path_longer_than_any_is() {
        let mut path = Outbound::new(Instant::default());
        for _ in 0..100 {
            path.handle_round_trip(Duration::from_secs(4_000));
            path.handle_skew(Duration::from_secs(4_000));
        }
        assert_eq!((path.round_trip, path.skew), (Some(ESTIMATE_MAX), ESTIMATE_MAX));
    }

    /// A way that begins to drop long packets brings heartbeats alone, which are rare on a slow path, and a busy processor may be late with
    /// the next one.
    #[test]
    fn a_path_is_left_when_a_heartbeat_is_missing_too() {
        const CELLS: u64 = 30;
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let left = |apart: u64| {
            let mut path = Outbound::new(at(0));
            path.receipts.watch.gaps = Gaps::steady(at(0));
            path.take_heartbeat_number(at(1_100 - apart));
            path.give_back_numbers(1);
            (0..CELLS).for_each(|slot| _ = path.numbers.take(Some((slot, false))));
            path.numbers.mark(0);
            path.handle_received(at(1_000), 0, 0, 0);
            assert_eq!(path.overdue(at(1_100)), None, "no heartbeat was written");
            path.take_heartbeat_number(at(1_100));
            let missing = (1_100..1_200).find(|millis| path.overdue(at(*millis)).is_some());
            (missing.unwrap() - 1_100, path)
        };
        assert_eq!([1, 5, 90].map(|apart| left(apart).0), [1, 5, 10], "it has had time to arrive");
        let (_, mut path) = left(1);
        path.handle_received(at(1_101), CELLS + 1, 1, 0);
        path.numbers.take(None);
        path.numbers.mark(0);
        path.handle_received(at(1_102), CELLS + 1, 1, 0);
        assert_eq!(path.overdue(at(1_200)), None, "it has arrived");
    }
}
