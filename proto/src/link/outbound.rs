//! The sending direction of one link: its numbers, what was sent under them, and what the peer says of it.
//!
//! Beside [`crate::send::transmit`] and `send::repair`. The log remembers for each recent link number which slot of the arena it
//! carried, so that a repair request, which names link numbers, finds the cell. It keeps no bytes.

use crate::link::adaptive_timeout::AdaptiveTimeout;
use crate::link::black_hole::{Detector, JITTER_PARTS};
use crate::link::carried::Pace;
use crate::link::ceiling::Ceiling;
use crate::link::congestion::Congestion;
use crate::link::gaps::Gaps;
use crate::link::health::{HEARTBEAT_BUSY, LATELY};
use crate::link::heartbeat_pacing::Pacing;
use crate::link::loss::Loss;
use crate::link::nic::{Link, LinkSettings};
use crate::link::path_mtu::PathMtu;
use crate::time::Instant;
use crate::wire::cell::wire_seq;
use crate::wire::hello::KernelEnd;
use alloc::collections::VecDeque;
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

/// Numbers that the log remembers: as many as a ring of the default size has slots.
pub(crate) const LOG: usize = 8_192;
/// Departure marks that are kept; older ones are merged.
const MARKS: usize = 256;
/// The largest round trip and skew that are believed: a peer says both, and no path that TCP can use has longer ones.
pub(crate) const ESTIMATE_MAX: Duration = Duration::from_secs(2);
/// In the log: nothing to repair (a heartbeat, or sent again already).
const NOTHING: u64 = u64::MAX;

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

/// What was known of a path when it was left because cells were not received.
#[derive(Clone, Copy, Debug)]
struct Left {
    received: u64,
    lacks: u32,
    /// It carried cells of the present size.
    is_confirmed: bool,
}

/// One direction of one link.
#[derive(Debug)]
pub(crate) struct Outbound {
    /// Where the peer listens on this link, once it has sent from there.
    pub(crate) endpoint: Option<SocketAddr>,
    /// Where it may listen: it was asked there to say so, and when.
    pub(crate) asked: Option<(SocketAddr, Instant)>,
    /// What it said of itself there is old, and it has not yet said anything new.
    pub(crate) outdated: bool,
    /// The largest cell that the peer's NIC takes, in bytes.
    pub(crate) cell_max: u16,
    /// Where the peer receives frames of the kernel path on this link, if it does.
    pub(crate) kernel: Option<KernelEnd>,
    /// Whether the peer drains its end.
    pub(crate) is_drained_there: bool,
    /// Whether cells may be sent: the peer reports that it receives over it, and nothing here speaks against it.
    pub(crate) up: bool,
    /// What the peer had received when it was left.
    left: Option<Left>,
    /// It is down only because cells are not received, so it is better than nothing: both may just not have been scheduled.
    pub(crate) doubted: bool,
    /// The peer's reports count again from here on: an error on our side must not be overruled by an old report.
    pub(crate) obey_reports_from: Instant,
    /// How much later than on the fastest link a cell arrives, as the peer reports it.
    pub(crate) skew: Duration,
    /// To the peer and back, smoothed; only heartbeats measure it.
    pub(crate) round_trip: Option<Duration>,
    /// The peer's reports about it, and those of them that said that cells still waited in the peer's socket.
    pub(crate) reports: (u64, u64),
    /// The first link number of the session.
    first: u64,
    /// The next link number.
    next_seq: u64,
    /// Bytes of the data cells that were sent, headers and tags included.
    bytes: u64,
    /// What programs sent, counted in cells.
    pub(crate) carried: u64,
    /// How fast it carries what programs send.
    pub(crate) pace: Pace,
    /// When they last carried something over the link, either way.
    pub(crate) carried_at: Option<Instant>,
    /// The number after the highest that the peer has received.
    received: u64,
    /// What went out under numbers before this one was looked up when the link was left: nothing is to be repaired there.
    looked_up: u64,
    /// Slots of the numbers before `next_seq`.
    log: VecDeque<u64>,
    /// After which number the link had been given how many bytes.
    marks: VecDeque<(u64, u64)>,
    /// The number after the last that has left the link.
    departed: u64,
    /// When the peer's reports last showed that something new was received.
    progressed: Instant,
    pub(crate) gaps: Gaps,
    black_hole: Detector,
    /// The first heartbeat that the peer is not known to have received, and when it was written.
    heartbeat: Option<(u64, Instant)>,
    /// Cells before `reports` that the peer has not received, modulo 2^32.
    lacks: u32,
    /// By how much that grew at the latest report of something new.
    skipped: u64,
    pub(crate) pacing: Pacing,
    /// One was due that the link did not take.
    pub(crate) lacks_heartbeat: bool,
    pub(crate) timeout: AdaptiveTimeout,
    pub(crate) loss: Loss,
    pub(crate) congestion: Congestion,
    /// What the peer wants to receive there.
    pub(crate) ceiling: Ceiling,
    pub(crate) path_mtu: PathMtu,
}

impl Outbound {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            endpoint: None,
            asked: None,
            outdated: false,
            cell_max: 0,
            kernel: None,
            is_drained_there: false,
            up: false,
            left: None,
            doubted: false,
            obey_reports_from: now,
            skew: Duration::ZERO,
            round_trip: None,
            reports: (0, 0),
            first: 0,
            next_seq: 0,
            bytes: 0,
            carried: 0,
            pace: Pace::default(),
            carried_at: None,
            received: 0,
            looked_up: 0,
            log: VecDeque::new(),
            marks: VecDeque::new(),
            departed: 0,
            progressed: now,
            gaps: Gaps::new(now),
            black_hole: Detector::default(),
            heartbeat: None,
            lacks: 0,
            skipped: 0,
            pacing: Pacing::default(),
            lacks_heartbeat: false,
            timeout: AdaptiveTimeout::new(now),
            loss: Loss::new(now),
            congestion: Congestion::new(),
            ceiling: Ceiling::default(),
            path_mtu: PathMtu::new(now),
        }
    }

    /// Bytes per second of its bottleneck, as far as it is known: the NIC of its `link`, or what stands behind it.
    pub(crate) fn rate(&self, link: &Link) -> Option<u64> {
        self.congestion.rate().into_iter().chain(link.rate()).chain(self.ceiling.rate()).min()
    }

    /// Whether it takes no data now.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.congestion.is_full(now) || self.ceiling.is_full(now)
    }

    /// When it takes data again, if nothing else happens before.
    pub(crate) fn opens_at(&self, now: Instant) -> Instant {
        let opens = if self.congestion.is_full(now) { self.congestion.opens_at() } else { now };
        opens.max(self.ceiling.opens_at())
    }

    /// How long until it is likely to take data.
    pub(crate) fn opens_in(&self, now: Instant) -> Duration {
        self.congestion.opens_in(now).max(self.ceiling.opens_at().since(now))
    }

    /// Bytes that may be sent at once.
    pub(crate) fn batch_limit(&self, now: Instant) -> u64 {
        self.congestion.batch_limit(now).min(self.ceiling.batch_limit())
    }

    /// The largest cell that it takes, as far as is known, in bytes; the link takes `link_max`.
    pub(crate) fn cell_max(&self, link_max: u16) -> u16 {
        self.cell_max.min(link_max).min(self.path_mtu.size())
    }

    /// Whether an end drains it; `link`: ours.
    pub(crate) fn is_drained(&self, link: &LinkSettings) -> bool {
        self.is_drained_there || link.drained
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
        (self.first, self.next_seq, self.received, self.departed) = (first, first, first, first);
        self.looked_up = first;
        self.pace = Pace::default();
        self.heartbeat = None;
    }

    /// Looks for the MTU of its way over a link with these settings; returns whether the NICs take another size than before.
    pub(crate) fn fit_mtu(&mut self, now: Instant, link: &LinkSettings) -> bool {
        link.headers > 0 && self.path_mtu.fit(now, self.cell_max.min(link.cell_max), link.headers)
    }

    /// The peer receives over it. Where it has since received cells and lacks no more than before, the path was left in error: what it
    /// carried, it carries still.
    pub(crate) fn rise(&mut self, now: Instant) {
        self.up = self.endpoint.is_some();
        self.doubted = false;
        self.progressed = now;
        self.black_hole = Detector::default();
        self.loss.restart(self.next_seq);
        match self.left.take().filter(|left| self.received > left.received && self.lacks == left.lacks) {
            Some(left) => self.path_mtu.trust(left.is_confirmed),
            None => self.congestion.restart(self.next_seq),
        }
    }

    /// No cells are sent over it any more; returns whether it was up. `is_doubt`: only because cells are not received.
    pub(crate) fn leave(&mut self, now: Instant, is_doubt: bool) -> bool {
        let was_up = core::mem::replace(&mut self.up, false);
        self.doubted = is_doubt && (was_up || self.doubted);
        if was_up {
            let Self { received, lacks, .. } = *self;
            let is_confirmed = !self.path_mtu.is_unconfirmed();
            self.left = is_doubt.then_some(Left { received, lacks, is_confirmed });
            self.path_mtu.leave(now);
        }
        was_up
    }

    /// The link leads nowhere any more. Its numbers go on counting for the next one in its place.
    pub(crate) fn withdraw(&mut self) {
        self.endpoint = None;
        self.asked = None;
        self.kernel = None;
        self.is_drained_there = false;
        (self.up, self.left, self.pace) = (false, None, Pace::default());
        self.doubted = false;
        self.skew = Duration::ZERO;
        self.round_trip = None;
        self.ceiling.set(None);
        self.path_mtu.withdraw();
        self.marks.clear();
        self.departed = self.next_seq;
    }

    /// Bytes that it has on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.log.capacity() * size_of::<u64>()
            + self.marks.capacity() * size_of::<(u64, u64)>()
            + self.congestion.bytes()
    }

    /// The number of the next cell.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Cells that were given a number.
    pub(crate) fn sent(&self) -> u64 {
        self.next_seq - self.first
    }

    /// When its next heartbeat is due: its own cells pay for it, and what `all` paths to the peer have earned.
    pub(crate) fn heartbeat_due(&self, now: Instant, all: u64) -> Instant {
        self.pacing.due(now, self.sent() + all, self.loss.is_suspect(), self.pace.rate())
    }

    /// A heartbeat is made, whether or not it was due.
    pub(crate) fn handle_heartbeat(&mut self, now: Instant, all: u64) {
        self.pacing.handle_sent(now, self.sent() + all);
    }

    /// The number after the highest that the peer has received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// How many cells count as arrived where the peer has received so many, modulo 2^32: a probe that does not arrive is no loss of the path.
    pub(crate) fn arrived(&self, count: u32) -> u32 {
        count.wrapping_add(self.path_mtu.lost())
    }

    /// Whether the peer has received all data cells, or has asked for them again.
    pub(crate) fn is_received(&self) -> bool {
        let unreceived = usize::try_from(self.next_seq - self.received).unwrap_or(usize::MAX);
        self.log.iter().rev().take(unreceived).all(|slot| *slot == NOTHING)
    }

    /// Takes the next number for a data cell in `slot`, or for a cell that is never repaired (`None`).
    pub(crate) fn take_seq(&mut self, slot: Option<u64>) -> u64 {
        if self.log.len() == LOG {
            self.log.pop_front();
        }
        self.log.push_back(slot.unwrap_or(NOTHING));
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Takes the next number for a heartbeat that is no probe: it passes where long packets do not.
    pub(crate) fn take_heartbeat_seq(&mut self, now: Instant) -> u64 {
        let seq = self.take_seq(None);
        self.heartbeat.get_or_insert((seq, now));
        self.pace.handle_heartbeat(now, seq);
        seq
    }

    /// Nothing was sent under the last `count` numbers.
    pub(crate) fn return_seqs(&mut self, count: usize) {
        self.log.truncate(self.log.len() - count);
        self.next_seq -= count as u64;
        self.looked_up = self.looked_up.min(self.next_seq);
        self.heartbeat = self.heartbeat.filter(|(seq, _)| *seq < self.next_seq);
        while self.marks.pop_back_if(|(seq, _)| *seq > self.next_seq).is_some() {}
    }

    /// What the last `count` numbers carried may not have left, or only in part: the numbers are lost, and nothing is to
    /// be repaired under them.
    pub(crate) fn void_seqs(&mut self, count: usize) {
        let from = self.log.len() - count;
        self.log.range_mut(from..).for_each(|slot| *slot = NOTHING);
    }

    /// Bytes of the data cells that were sent, headers and tags included.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes
    }

    /// `bytes` of data went out, after which the link had been given `port_sent`.
    pub(crate) fn handle_sent(&mut self, now: Instant, port_sent: u64, bytes: u64) {
        self.bytes += bytes;
        self.mark(port_sent);
        self.congestion.handle_sent(now, self.next_seq, bytes);
    }

    /// The link had been given `port_sent` bytes when the last number went out.
    pub(crate) fn mark(&mut self, port_sent: u64) {
        if self.marks.len() == MARKS {
            self.marks.pop_back();
        }
        self.marks.push_back((self.next_seq, port_sent));
    }

    /// A heartbeat was written, with which the link has been given `port_sent` bytes. While programs carry frames over the link it is
    /// missed as a cell with data is; in quiet nobody misses a single one.
    pub(crate) fn mark_carried(&mut self, now: Instant, port_sent: u64) {
        if self.carried_at.is_some_and(|at| now.since(at) < LATELY) {
            self.mark(port_sent);
        }
    }

    /// The number after the last that has left, when `port_departed` bytes have left the link.
    pub(crate) fn departed(&mut self, port_departed: u64) -> u64 {
        while let Some((seq, bytes)) = self.marks.front().copied() {
            if bytes > port_departed {
                break;
            }
            self.departed = seq;
            self.marks.pop_front();
        }
        self.departed
    }

    /// The peer reports the number after the highest that it has received and how many it has received, when `port_departed`
    /// bytes have left the link.
    pub(crate) fn handle_received(&mut self, now: Instant, received: u64, count: u32, port_departed: u64) {
        let lacks = wire_seq(received).wrapping_sub(count);
        if received > self.received && received <= self.next_seq {
            // Nothing was lost, so what was waited for in vain has come.
            let more = lacks.wrapping_sub(self.lacks).cast_signed().max(0);
            self.skipped = u64::from(more.cast_unsigned());
            if core::mem::replace(&mut self.lacks, lacks) == lacks
                && self.timeout.handle_seq(now, self.received)
            {
                self.obey_reports_from = now;
            }
            self.gaps.note_cells(now, received - self.received);
            self.received = received;
            self.heartbeat = self.heartbeat.filter(|(seq, _)| *seq >= received);
            self.progressed = now;
        }
        let departed = self.departed(port_departed);
        self.black_hole.note(now, departed, self.received);
    }

    /// Whether the peer reports, but has received nothing of what has left; its report was written at `as_of` or later. It would
    /// find that out by itself, but what has left is known here at once, and there only by a heartbeat that waits behind
    /// data. Returns what is overdue, and for how long.
    pub(crate) fn overdue(&self, as_of: Instant) -> Option<(u64, Duration)> {
        let jitter = self.round_trip.unwrap_or_default() / JITTER_PARTS;
        let after_loss = Detector::extra_after_loss(self.skipped);
        let late = 2 * (self.skew + jitter) + self.timeout.extra(as_of) + after_loss;
        let overdue = self.black_hole.overdue(as_of, self.received, late, 0);
        let lacks_heartbeat = self.heartbeat.is_some_and(|(_, at)| as_of.since(at) >= HEARTBEAT_BUSY);
        overdue.filter(|_| lacks_heartbeat && as_of.since(self.progressed) >= self.gaps.limit())
    }

    /// The link is left: the numbers that the peer has not received, each of them once. So a peer that takes a link out and in,
    /// over and over, has what was sent to it looked up once.
    pub(crate) fn take_unreceived(&mut self) -> Range<u64> {
        let from = self.received.max(core::mem::replace(&mut self.looked_up, self.next_seq));
        from..self.next_seq
    }

    /// Those of the numbers that the log remembers, at most `most`.
    pub(crate) fn remembered(&self, numbers: Range<u64>, most: u64) -> Range<u64> {
        let start = numbers.start.max(self.next_seq.saturating_sub(self.log.len() as u64));
        start..numbers.end.min(self.next_seq).min(start.saturating_add(most)).max(start)
    }

    /// The slot that went out under `seq`, once: it is asked for because it did not arrive.
    pub(crate) fn take_for_repair(&mut self, seq: u64) -> Option<u64> {
        let back = usize::try_from(self.next_seq.checked_sub(seq)?).ok()?;
        let index = self.log.len().checked_sub(back)?;
        let slot = core::mem::replace(self.log.get_mut(index)?, NOTHING);
        (slot != NOTHING).then_some(slot)
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
mod tests;
