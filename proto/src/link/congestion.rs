//! How much of a path's cells may be on their way at once: so much that its bottleneck never idles, and its queue stays short.
//!
//! The bottleneck may stand behind the NIC: a modem, a slower trunk, a radio link, or a receiver that has no time to read. No
//! kernel here shows its queue. The peer reports how far it has received ([`flight`]), and how long after its sending the
//! latest heartbeat came ([`delays`]). By that a [`Window`] says how much may be on the way, and at which pace it leaves. Cells that may
//! not leave stay in the sender's own queue, where flows are treated fairly ([`crate::send`]).
//!
//! A path has one of two windows: that of a [`steady`] one, for which a longer delay is a longer queue, or that of a path whose delay
//! varies by itself ([`varying`]). Which one is seen while hardly anything is sent.
//!
//! Source: LEDBAT (RFC 6817) for one-way delays and the history of their minimum; each window names its own.

mod cubic;
pub(crate) mod delays;
mod delivery;
mod envelope;
mod flight;
mod loss;
mod rate;
mod steady;
#[cfg(test)]
mod tests;
mod varying;

use crate::link::congestion::delays::Delays;
use crate::link::congestion::flight::Flight;
use crate::link::congestion::rate::Progress;
use crate::link::congestion::steady::Steady;
use crate::link::congestion::varying::Varying;
use crate::link::nic::{bytes_in, time_of};
use crate::time::Instant;
use alloc::boxed::Box;
use core::fmt::Debug;
use core::time::Duration;

/// A window begins with a superframe and what stands around it, and is never less than a few cells.
const WINDOW_FIRST: u64 = 80 * 1024;
const WINDOW_LEAST: u64 = 6 * 1_500;
/// A report follows so many bytes: when none comes, nothing may have passed.
const REPORT_EVERY: u64 = 16 * 1_500;
/// What leaves at once lasts so long.
const BATCH: Duration = Duration::from_millis(1);
/// What is on the way is given up when nothing was reported for so long: the peer may never report anything.
const STUCK_AFTER: Duration = Duration::from_millis(100);
/// Who asks is told for so long that the window held cells back.
const SHOWN_FOR: Duration = Duration::from_millis(250);
/// A path varies whose delays differ by so much while no more than this is on the way.
const VARIES: Duration = Duration::from_millis(2);
const QUIET: u64 = 4 * 1_500;

/// What a report says of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// The number after the highest that the peer has received.
    pub(crate) next: u64,
    /// How many cells it has received, modulo 2^32.
    pub(crate) count: u32,
    /// How many heartbeats have come there, modulo a power of two.
    pub(crate) heartbeats: u8,
    /// Arrival minus sending of the latest one, in microseconds modulo 2^24.
    pub(crate) delay: u32,
    /// How long cells wait in the NIC's queue at the moment.
    pub(crate) nic: Duration,
    /// When the report was written, by the peer's clock, in microseconds modulo 2^32.
    pub(crate) written: u32,
    /// How long the path is silent again and again.
    pub(crate) gathers: Option<Duration>,
}

/// A law by which a path's bottleneck is kept busy and its queue short.
trait Window: Debug + Send {
    /// Bytes that may be on the way.
    fn size(&self) -> u64;
    /// Bytes per second of the bottleneck, once it was found.
    fn rate(&self) -> Option<u64>;
    /// Bytes per second at which cells leave, as far as that is known.
    fn pace(&self) -> Option<u64>;
    /// How long cells wait behind the NIC.
    fn queue(&self) -> Duration;
    /// Whether cells that were lost lately may have found a queue full.
    fn explains_loss(&self, now: Instant) -> bool;
    /// Bytes that it has on the heap.
    fn bytes(&self) -> usize;
    /// Cells were sent; the next number is `next`.
    fn handle_sent(&mut self, _now: Instant, _next: u64) {}
    /// The peer reports.
    fn handle_report(&mut self, report: &Report, delays: &mut Delays);
    /// Whether others fill the queue.
    fn is_shared(&self) -> bool {
        false
    }
    /// By how much delays differ, where that is the path's own doing.
    fn variation(&self) -> Option<Duration> {
        None
    }
}

/// What a report says to a window.
#[derive(Clone, Copy, Debug)]
struct Report {
    progress: Progress,
    /// How much longer it took from the peer to here than the quickest one.
    late: Duration,
    /// The number of the next cell to be sent.
    next: u64,
    /// Bytes that were on the way before it came, and that still are.
    flight: (u64, u64),
    /// What the latest heartbeat says, if it is a new one.
    met: Option<Met>,
    /// Whether the window, or its pace, held cells back.
    was_full: bool,
    was_paced: bool,
    /// When the path last held cells back.
    limited: Option<Instant>,
}

/// What a heartbeat has met on its way.
#[derive(Clone, Copy, Debug)]
struct Met {
    /// How much longer than the least its delay was, but for the NIC's queue.
    queue: Duration,
    /// That delay in microseconds, by two clocks.
    delay: i32,
}

impl Report {
    fn now(&self) -> Instant {
        self.progress.at
    }

    /// Over a long path it is mostly the pace that holds cells back.
    fn held_back(&self) -> bool {
        self.was_full || self.was_paced
    }
}

/// How much may be on the way on one path.
#[derive(Debug)]
pub(crate) struct Congestion {
    flight: Flight,
    delays: Delays,
    window: Box<dyn Window>,
    /// When a report last showed that something has arrived.
    progressed: Instant,
    /// When the last reports came, and whether the window was full before them.
    was_full: (Instant, bool),
    /// Bytes that have probably arrived since the peer wrote the last report, which waited in a queue on its way here: at most half of what it
    /// leaves on the way, for the rate may have been measured while the path carried more.
    arrived_since: u64,
    /// When the path last held cells back.
    limited: Option<Instant>,
    /// When the pace allows the next batch.
    next_at: Instant,
}

impl Congestion {
    pub(crate) fn new() -> Self {
        Self::from(0, Delays::default())
    }

    fn from(next: u64, delays: Delays) -> Self {
        Self {
            flight: Flight::from(next),
            delays,
            window: Box::new(Steady::from(next)),
            progressed: Instant::default(),
            was_full: (Instant::default(), false),
            arrived_since: 0,
            limited: None,
            next_at: Instant::default(),
        }
    }

    /// Nothing is on the way; numbers go on from `next`.
    pub(crate) fn restart(&mut self, next: u64) {
        *self = Self::from(next, self.delays.anew());
    }

    /// Bytes that it has on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.flight.bytes() + self.window.bytes()
    }

    /// Bytes per second of the bottleneck, once it was found.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.window.rate()
    }

    /// Bytes per second at which cells leave, as far as that is known.
    pub(crate) fn pace(&self) -> Option<u64> {
        self.window.pace()
    }

    /// By how much its delay varies, if it is a path that varies by itself.
    pub(crate) fn variation(&self) -> Option<Duration> {
        self.window.variation()
    }

    /// Whether it was seen how much its delay varies while hardly anything is sent.
    pub(crate) fn knows_variation(&self) -> bool {
        self.delays.spread().is_some()
    }

    /// Whether delays have come that will show that.
    pub(crate) fn is_learning(&self, now: Instant) -> bool {
        self.delays.is_learning(now)
    }

    /// How long cells wait behind the NIC: in a router's queue, or at the peer until it reads them.
    pub(crate) fn queue(&self) -> Duration {
        self.window.queue()
    }

    /// Whether cells that were lost lately may have found a queue full: that says nothing against the path.
    pub(crate) fn explains_loss(&self, now: Instant) -> bool {
        self.window.explains_loss(now)
    }

    /// Whether nothing may be sent now.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.room() == 0 && !self.is_stuck(now) || now < self.next_at
    }

    /// When the pace allows a batch that is worth to be woken for, or what is on the way is given up.
    pub(crate) fn opens_at(&self) -> Instant {
        if self.room() > 0 { self.next_at + BATCH / 2 } else { self.progressed + STUCK_AFTER }
    }

    /// How long until it is likely to take cells: until the pace allows it, or until the next report.
    pub(crate) fn opens_in(&self, now: Instant) -> Duration {
        let report = || self.rate().map_or(STUCK_AFTER, |rate| time_of(REPORT_EVERY, rate));
        let opens = if self.room() > 0 { self.opens_at() } else { self.progressed + report() };
        opens.since(now)
    }

    /// Bytes that may be sent at once.
    pub(crate) fn batch_limit(&self, now: Instant) -> u64 {
        let room = if self.is_stuck(now) { self.window.size() } else { self.room() };
        self.window.pace().map_or(room, |pace| room.min(bytes_in(pace, BATCH)))
    }

    /// Whether the path held cells back within the last [`SHOWN_FOR`].
    pub(crate) fn was_limited(&self, now: Instant) -> bool {
        self.limited.is_some_and(|at| now.since(at) < SHOWN_FOR)
    }

    /// How long the next cell waits behind the NIC, once the rate is known: for what is on the way beyond what fits on it, and can not
    /// have passed since the last report. Where others fill the queue, as long as that report says.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let alone = || self.rate().filter(|_| !self.window.is_shared()).zip(self.delays.shortest_trip());
        alone().map_or(self.queue(), |(rate, trip)| {
            let passing = now.since(self.progressed).min(time_of(REPORT_EVERY, rate));
            time_of(self.on_the_way(), rate).saturating_sub(trip + passing)
        })
    }

    /// A heartbeat came back after `trip`.
    pub(crate) fn handle_trip(&mut self, trip: Duration) {
        self.delays.handle_trip(trip);
    }

    /// How long a cell takes that waits for none, in microseconds modulo 2^24 by two clocks, once the rate is known.
    pub(crate) fn way(&self) -> Option<u32> {
        self.rate().and(self.delays.least())
    }

    /// Nothing has been reported for long, though much is on the way.
    fn is_stuck(&self, now: Instant) -> bool {
        self.room() == 0 && now.since(self.progressed) >= STUCK_AFTER
    }

    /// Bytes that may be on the way and are not.
    fn room(&self) -> u64 {
        self.window.size().saturating_sub(self.on_the_way())
    }

    /// Bytes on the way, as far as is known.
    fn on_the_way(&self) -> u64 {
        self.flight.on_the_way().saturating_sub(self.arrived_since)
    }

    /// `bytes` of data were sent; the next number is `next`.
    pub(crate) fn handle_sent(&mut self, now: Instant, next: u64, bytes: u64) {
        if self.is_stuck(now) {
            self.flight.give_up();
        }
        if self.flight.on_the_way() == 0 {
            self.progressed = now;
        }
        self.flight.handle_sent(next, bytes);
        self.window.handle_sent(now, next);
        if let Some(pace) = self.window.pace() {
            // Who comes late catches up.
            self.next_at = self.next_at.max(now - BATCH) + time_of(bytes, pace);
        }
    }

    /// The peer reports; `next`: of the next cell to be sent. Returns whether cells may be sent again.
    pub(crate) fn handle_report(&mut self, now: Instant, next: u64, arrived: Arrived) -> bool {
        // Nothing was sent between reports that come at the same time.
        if self.was_full.0 != now {
            self.was_full = (now, self.room() == 0);
        }
        let (was_full, was_paced) = (self.was_full.1, now < self.next_at + BATCH);
        let (before, passed) = (self.on_the_way(), self.flight.passed());
        self.flight.pass(arrived.next);
        let (written, late) = self.delays.handle_report(now, arrived.written);
        let likely =
            self.rate().filter(|_| self.variation().is_none()).map_or(0, |rate| bytes_in(rate, late));
        self.arrived_since = likely.min(self.flight.on_the_way() / 2);
        let Arrived { next: received, count, .. } = arrived;
        let progress = Progress { at: now, written, bytes: self.flight.passed(), next: received, count };
        if progress.bytes > passed {
            self.progressed = now;
        }
        let met = self.delays.queue(now, arrived.heartbeats, arrived.delay);
        let met =
            met.map(|queue| Met { queue: queue.saturating_sub(arrived.nic), delay: self.delays.latest() });
        let is_quiet = self.on_the_way() <= QUIET && !self.was_limited(now);
        let is_judged = met.is_some() && self.delays.note_quiet(is_quiet);
        self.choose_window(now, arrived.gathers, is_judged);
        // The pace of a steady path only spreads what its window allows.
        if was_full || was_paced && self.variation().is_some() {
            self.limited = Some(now);
        }
        let flight = (before, self.on_the_way());
        let report = Report { progress, late, next, flight, met, was_full, was_paced, limited: self.limited };
        self.window.handle_report(&report, &mut self.delays);
        was_full && self.room() > 0
    }

    /// A path that begins or ceases to vary begins anew, with the other window; so does one that varies by half more than was known, which
    /// `is_judged` shows, in quiet.
    fn choose_window(&mut self, now: Instant, gathers: Option<Duration>, is_judged: bool) {
        let varied = self.variation().is_some();
        let exceeds =
            |spread: Duration| self.variation().is_none_or(|known| is_judged && spread > known * 3 / 2);
        // A host that is short of processor time brings lumps, too, but the window does not hold it back.
        let gathers = gathers.filter(|_| varied || self.was_limited(now));
        match self.delays.spread().max(gathers) {
            Some(spread) if spread >= VARIES && exceeds(spread) => {
                self.window = Box::new(Varying::new(spread));
            }
            Some(spread) if varied && spread < VARIES / 2 => {
                let (flight, delays) = (core::mem::take(&mut self.flight), core::mem::take(&mut self.delays));
                *self = Self { flight, progressed: self.progressed, ..Self::from(0, delays) };
            }
            _ => {}
        }
    }
}
