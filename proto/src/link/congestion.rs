//! How much of a path's cells may be on their way at once: so much that its bottleneck never idles, and its queue stays short.
//!
//! The bottleneck may stand behind the NIC: a modem, a slower trunk, a radio link, or a receiver that has no time to read. No
//! kernel here shows its queue. The peer reports how far it has received ([`flight`]), and how long after its sending the
//! latest heartbeat came ([`delays`]): what that exceeds the shortest such time is the time in the queue. How fast cells arrive
//! shows the bottleneck's rate ([`rate`]). Once in a round trip the window is changed by what the path carries in the time by
//! which its queue is longer or shorter than wanted. Cells that may not leave stay in the sender's own queue, where flows are treated fairly ([`crate::send`]).
//!
//! The window grows only when it held cells back, and otherwise shrinks to what is on the way when that alone makes the queue far
//! too long. Where the NIC is the bottleneck, its own queue limit holds cells back before ([`crate::link::nic`]), and time in
//! that queue does not count here.
//!
//! Loss that is usual on the path is its own, as on a radio link, and changes nothing. More than that beside a queue says that
//! the queue is shorter than wanted: the target becomes half of what it was then. Heavy loss without a queue tells of a policer.
//!
//! A queue that stays although the window was halved belongs to others, who fill it until cells are lost, or the way has
//! become longer. Then the window is that of one CUBIC flow ([`cubic`]): the aggregate of a path takes as much of a shared
//! bottleneck as one flow of somebody else. From time to time the window is made small for a moment. If the queue vanishes, nobody
//! else fills it; if it is as long as the time before, it is the way that has become longer.
//!
//! All this holds where delays are steady. A path that varies by itself has another law ([`varying`]).
//!
//! Source: FAST TCP (Jin, Wei, Low 2004) for the law, BBR (draft-ietf-ccwg-bbr) for rounds, rates and the start, LEDBAT
//! (RFC 6817) for one-way delays and the history of their minimum.

mod cubic;
pub(crate) mod delays;
mod delivery;
mod envelope;
mod flight;
mod rate;
#[cfg(test)]
mod tests;
mod varying;

use crate::link::congestion::cubic::Cubic;
use crate::link::congestion::delays::Delays;
use crate::link::congestion::flight::Flight;
use crate::link::congestion::rate::{Progress, RateMeter};
use crate::link::congestion::varying::{Report, Varying};
use crate::link::nic::{bytes_in, per_second, time_of};
use crate::time::Instant;
use alloc::boxed::Box;
use core::time::Duration;

/// How long the queue is to last: a superframe, within bounds.
const TARGET: u64 = 64 * 1024;
const TARGET_BOUNDS: (Duration, Duration) = (Duration::from_micros(2_500), Duration::from_millis(5));
/// A queue that is shorter than wanted is wanted half as long as it is, and no shorter than this: beneath it, what is measured is
/// the processors' time rather than a queue's.
const TARGET_LEAST: Duration = Duration::from_micros(1_250);
/// Without loss, twice as long after each of these times.
const TARGET_RISES_AFTER: Duration = Duration::from_secs(10);
/// A window begins with a superframe and what stands around it, and is never less than a few cells.
const WINDOW_FIRST: u64 = 80 * 1024;
const WINDOW_LEAST: u64 = 6 * 1_500;
/// The smallest one while nothing is known of the rate.
const WINDOW_UNKNOWN: u64 = 16 * 1024;
/// The shortest round: several heartbeats come in it.
const ROUND: Duration = Duration::from_millis(4);
/// Cells that come in a round that ends early.
const ROUND_CELLS: u64 = 8;
/// A report follows so many bytes: when none comes, nothing may have passed.
const REPORT_EVERY: u64 = 16 * 1_500;
/// What leaves at once lasts so long.
const BATCH: Duration = Duration::from_millis(1);
/// A path that has held nothing back for so long begins anew.
const FORGET_AFTER: Duration = Duration::from_secs(10);
/// What is on the way is given up when nothing was reported for so long: the peer may never report anything.
const STUCK_AFTER: Duration = Duration::from_millis(100);
/// A queue of so many targets ends a round early: the rate has fallen.
const SUDDEN: u32 = 4;
/// The first round with hardly any queue adds a part of the window that is halved so many times; each further one twice the part.
const DOUBLINGS: u8 = 4;
/// Rounds of a trial, and rounds after which the law has not made the window half as large.
const TRIAL: u8 = 4;
const TRIAL_LONGEST: u8 = 16;
/// A queue that is shorter-lived is the work of a processor that was busy.
const TRIAL_LEAST: Duration = Duration::from_millis(100);
/// A queue of which half of the window leaves so much, in parts of a hundred, is not made by it.
const STAYS: u32 = 65;
/// Parts of a whole in which loss is given.
const WHOLE: u64 = 1_000_000;
/// A round counts one part of so many of what is usual.
const USUAL: u64 = 16;
/// More loss beside a queue is never usual: it is the queue's.
const USUAL_MOST: u64 = WHOLE / 40;
/// Lost cells that are never more than usual.
const CHANCE: u64 = 3;
/// Loss that tells of a policer, which has no queue.
const HEAVY: u64 = WHOLE / 10;
/// Who asks is told for so long that the window held cells back.
const SHOWN_FOR: Duration = Duration::from_millis(250);
/// After loss beside a queue, other loss says nothing against the path for so long.
const OVERFLOW_FOR: Duration = Duration::from_secs(2);
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

/// The window of one path.
#[derive(Debug)]
pub(crate) struct Congestion {
    flight: Flight,
    delays: Delays,
    /// How long the queue was when that was last known.
    queue: Duration,
    /// The shortest that it was in the last round.
    standing: Duration,
    /// Bytes that may be on the way.
    window: u64,
    /// The window doubles with each round.
    starts: bool,
    /// The longest queue that is wanted, if it can be so long.
    target_max: Duration,
    /// What the bottleneck carries, once the window has held cells back.
    rate: RateMeter,
    /// The shortest time from sending a cell to its report.
    shortest: Option<Duration>,
    /// When a report last showed that something has arrived.
    progressed: Instant,
    /// When the window last held cells back.
    limited: Option<Instant>,
    /// When the pace allows the next batch.
    next_at: Instant,
    round: Round,
    /// The round in which the queue is to run empty.
    drains: bool,
    /// The next round with hardly any queue adds half of the window, halved so many times more.
    doublings: u8,
    /// The loss of rounds, smoothed, in parts of [`WHOLE`].
    usual_loss: u64,
    /// When cells were lost beside a queue.
    overflowed: Option<Instant>,
    /// Whether a smaller window makes the queue shorter.
    trial: Option<Trial>,
    /// It does not: others fill the queue.
    shared: Option<Cubic>,
    /// The law of a path that varies, in place of the rounds.
    varying: Option<Box<Varying>>,
}

/// A window becomes smaller, and its queue may.
#[derive(Clone, Copy, Debug)]
struct Trial {
    began: Instant,
    rounds: u8,
    /// Before it did.
    window: u64,
    /// The longest that stayed for a round since then, and that was seen at all.
    queue: Duration,
    longest: Duration,
}

/// What has come since the round began.
#[derive(Debug, Default)]
struct Round {
    /// What had arrived then.
    began: Option<Progress>,
    /// It ends when the cell with this number has passed.
    end: u64,
    /// Reports that came, and those at which the window held cells back.
    reports: u32,
    full: u32,
    /// The most that was on the way at a report, in bytes.
    flight: u64,
    /// The shortest and the longest queue.
    queue: Option<(Duration, Duration)>,
    /// How long its first cell took until it was reported.
    trip: Option<Duration>,
    /// Loss made the window smaller before it: what is lost meanwhile was sent before.
    follows_overflow: bool,
    /// No more was on the way at its beginning than the window allowed.
    obeyed: bool,
    /// The queue was too long already, so that it is no news.
    began_long: bool,
}

impl Congestion {
    pub(crate) fn new() -> Self {
        Self {
            flight: Flight::default(),
            delays: Delays::default(),
            queue: Duration::ZERO,
            standing: Duration::ZERO,
            window: WINDOW_FIRST,
            starts: true,
            target_max: TARGET_BOUNDS.1,
            rate: RateMeter::default(),
            shortest: None,
            progressed: Instant::default(),
            limited: None,
            next_at: Instant::default(),
            round: Round::default(),
            drains: false,
            doublings: DOUBLINGS,
            usual_loss: 0,
            overflowed: None,
            trial: None,
            shared: None,
            varying: None,
        }
    }

    /// Nothing is on the way; numbers go on from `next`.
    pub(crate) fn restart(&mut self, next: u64) {
        let delays = self.delays.anew();
        *self = Self { flight: Flight::from(next), delays, ..Self::new() };
        self.round.end = next;
    }

    /// Bytes that it has on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.flight.bytes() + self.varying.as_ref().map_or(0, |varying| varying.bytes())
    }

    /// Bytes per second of the bottleneck, once it was found.
    pub(crate) fn rate(&self) -> Option<u64> {
        match &self.varying {
            Some(varying) => varying.rate(),
            None => self.rate.get().filter(|_| !self.starts),
        }
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
        let report = || self.rate.get().map_or(STUCK_AFTER, |rate| time_of(REPORT_EVERY, rate));
        let opens = if self.room() > 0 { self.opens_at() } else { self.progressed + report() };
        opens.since(now)
    }

    /// Bytes that may be sent at once.
    pub(crate) fn batch_limit(&self, now: Instant) -> u64 {
        let room = if self.is_stuck(now) { self.window } else { self.room() };
        self.pace().map_or(room, |pace| room.min(bytes_in(pace, BATCH)))
    }

    /// Whether the window held cells back within the last [`SHOWN_FOR`].
    pub(crate) fn was_limited(&self, now: Instant) -> bool {
        self.limited.is_some_and(|at| now.since(at) < SHOWN_FOR)
    }

    /// By how much its delay varies, if the law in force is that of such a path.
    pub(crate) fn variation(&self) -> Option<Duration> {
        self.varying.as_ref().map(|varying| varying.variation())
    }

    /// How long cells wait behind the NIC: in a router's queue, or at the peer until it reads them.
    pub(crate) fn queue(&self) -> Duration {
        self.queue
    }

    /// How long the next cell waits behind the NIC, once the rate is known: for what is on the way beyond what fits on it, and can not
    /// have passed since the last report. Where others fill the queue, as long as that report says.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let (Some(rate), Some(trip), None) = (self.rate(), self.delays.shortest_trip(), self.shared) else {
            return self.queue;
        };
        let passing = now.since(self.progressed).min(time_of(REPORT_EVERY, rate));
        time_of(self.flight.on_the_way(), rate).saturating_sub(trip + passing)
    }

    /// A heartbeat came back after `trip`.
    pub(crate) fn handle_trip(&mut self, trip: Duration) {
        self.delays.handle_trip(trip);
    }

    /// How long a cell takes that waits for none, in microseconds modulo 2^24 by two clocks, once the rate is known.
    pub(crate) fn way(&self) -> Option<u32> {
        self.rate().and(self.delays.least())
    }

    /// Whether cells that were lost lately may have found a queue full: that says nothing against the path.
    pub(crate) fn explains_loss(&self, now: Instant) -> bool {
        self.has_overflowed(now) || self.round.queue.is_some_and(|(_, longest)| longest >= self.target() / 2)
    }

    fn has_overflowed(&self, now: Instant) -> bool {
        self.overflowed.is_some_and(|at| now.since(at) < OVERFLOW_FOR)
    }

    /// How long the queue is to last.
    fn target(&self) -> Duration {
        let (least, most) = TARGET_BOUNDS;
        self.rate.get().map_or(most, |rate| time_of(TARGET, rate).clamp(least, most)).min(self.target_max)
    }

    /// The smallest window. What has carried much may only be slow to be read: it is not given up for a few cells.
    fn least(&self) -> u64 {
        match self.rate.best() {
            0 => WINDOW_UNKNOWN,
            best => bytes_in(best, TARGET_BOUNDS.0).max(WINDOW_LEAST),
        }
    }

    /// Nothing has been reported for long, though much is on the way.
    fn is_stuck(&self, now: Instant) -> bool {
        self.room() == 0 && now.since(self.progressed) >= STUCK_AFTER
    }

    /// Bytes that may be on the way and are not.
    fn room(&self) -> u64 {
        let window = match &self.varying {
            Some(varying) => varying.window(),
            None if self.drains => self.window / 2,
            None => self.window,
        };
        window.saturating_sub(self.flight.on_the_way())
    }

    /// Bytes per second at which the window is spread over a round, as far as the bottleneck is known.
    fn pace(&self) -> Option<u64> {
        if let Some(varying) = &self.varying {
            return varying.pace();
        }
        let spread = per_second(self.window, self.shortest? + self.target()).max(self.rate.get()?);
        Some(if self.starts { 2 * spread } else { spread / 16 * 17 })
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
        if let Some(varying) = &mut self.varying {
            varying.handle_sent(now, next);
        }
        if let Some(pace) = self.pace() {
            // Who comes late catches up.
            self.next_at = self.next_at.max(now - BATCH) + time_of(bytes, pace);
        }
    }

    /// The peer reports; `next`: of the next cell to be sent. Returns whether cells may be sent again.
    pub(crate) fn handle_report(&mut self, now: Instant, next: u64, arrived: Arrived) -> bool {
        let was_full = self.room() == 0;
        self.round.flight = self.round.flight.max(self.flight.on_the_way());
        let before = self.flight.passed();
        self.flight.pass(arrived.next);
        if self.flight.passed() > before {
            self.progressed = now;
        }
        // What is still on the way waits no longer than it takes to pass, whatever the last heartbeat has met.
        let most = self.rate.latest().map_or(Duration::MAX, |rate| time_of(self.flight.on_the_way(), rate));
        let met = self.delays.queue(now, arrived.heartbeats, arrived.delay);
        let met = met.map(|queue| queue.saturating_sub(arrived.nic));
        let queue = met.unwrap_or(self.queue).min(most);
        self.queue = queue;
        let progress =
            Progress { at: now, bytes: self.flight.passed(), next: arrived.next, count: arrived.count };
        // Over a long path it is mostly the pace that holds cells back.
        let held_back = was_full || now < self.next_at + BATCH;
        // A queue that stands although nothing was held back is the bottleneck's, too.
        let is_idle = if held_back {
            queue <= self.target() / 4
        } else {
            queue.min(self.standing) <= 2 * self.target()
        };
        if met.is_some() {
            self.delays.note_quiet(self.flight.on_the_way() <= QUIET && !self.was_limited(now));
        }
        if self.follow_variation(&arrived, progress, met.is_some(), held_back) {
            if held_back {
                self.limited = Some(now);
            }
            return was_full && self.room() > 0;
        }
        self.rate.handle_report(progress, is_idle, held_back);
        if was_full {
            self.limited = Some(now);
        }
        let round = &mut self.round;
        round.reports += 1;
        round.full += u32::from(was_full);
        if met.is_some() || queue.is_zero() {
            let (least, most) = round.queue.unwrap_or((queue, queue));
            round.queue = Some((least.min(queue), most.max(queue)));
        }
        let began = round.began.unwrap_or(progress);
        let span = now.since(began.at);
        let is_over = arrived.next >= round.end;
        if is_over && round.trip.is_none() {
            round.trip = Some(span);
        }
        let is_long = queue >= SUDDEN * self.target();
        let is_sudden = is_long
            && arrived.next >= began.next + ROUND_CELLS
            && !(self.round.obeyed && self.round.began_long);
        let round = &self.round;
        let is_long_enough = span >= ROUND && round.queue.is_some();
        // What was sent before it began anew says nothing.
        let begins = round.began.is_none() && is_over;
        if begins || is_long_enough && (is_over || is_sudden) {
            let follows_overflow = self.end_round(&began, &progress, is_sudden);
            let obeyed = self.flight.on_the_way() <= self.window;
            let (began, end, began_long) = (Some(progress), next + 1, is_long);
            self.round = Round { began, end, follows_overflow, obeyed, began_long, ..Round::default() };
        }
        was_full && self.room() > 0
    }

    /// Where the path varies, another law holds: returns whether it does.
    fn follow_variation(
        &mut self,
        arrived: &Arrived,
        progress: Progress,
        met: bool,
        held_back: bool,
    ) -> bool {
        // A host that is short of processor time brings lumps, too, but the window does not hold it back.
        let gathers = arrived.gathers.filter(|_| self.varying.is_some() || self.was_limited(progress.at));
        match (&self.varying, self.delays.spread().max(gathers)) {
            (None, Some(spread)) if spread >= VARIES => self.varying = Some(Box::new(Varying::new(spread))),
            (Some(_), Some(spread)) if spread < VARIES / 2 => {
                let (flight, delays) = (core::mem::take(&mut self.flight), core::mem::take(&mut self.delays));
                *self = Self { flight, delays, progressed: self.progressed, ..Self::new() };
            }
            _ => {}
        }
        let delay = met.then(|| self.delays.latest());
        let trip = self.delays.shortest_trip().unwrap_or_default();
        let Some(varying) = &mut self.varying else { return false };
        let loses = varying.handle_report(Report {
            now: progress.at,
            written: arrived.written,
            next: arrived.next,
            passed: progress.bytes,
            count: arrived.count,
            delay,
            trip,
            held_back,
        });
        self.queue = varying.queue();
        if loses {
            self.overflowed = Some(progress.at);
        }
        true
    }

    /// A round is over: sets the window of the next one. Returns whether loss made it smaller.
    fn end_round(&mut self, began: &Progress, ended: &Progress, is_sudden: bool) -> bool {
        let Round { reports, full, queue, trip, follows_overflow, obeyed, .. } = self.round;
        let (now, span) = (ended.at, ended.at.since(began.at));
        let Some((queue, longest)) = queue.filter(|_| !span.is_zero()) else { return false };
        self.standing = queue;
        if core::mem::take(&mut self.drains) {
            return false;
        }
        self.shortest = self.shortest.into_iter().chain(trip).min();
        let limited = full > 0;
        let (numbers, lost) = ended.lost_since(began);
        let overflows = self.judge_loss(now, numbers, lost, longest);
        if !limited && !overflows && self.limited.is_none_or(|at| now.since(at) >= FORGET_AFTER) {
            self.rate.forget();
        }
        if longest <= self.target() {
            self.shared = None;
        }
        let Some(rate) = self.rate.get().filter(|_| limited || overflows) else {
            if self.shared.is_none() && self.delays.is_old(now) {
                self.delays.roll(now);
            }
            return self.end_unfilled(queue, overflows, limited, per_second(ended.bytes - began.bytes, span));
        };
        let shortest = self.shortest.unwrap_or(span);
        let fitting = bytes_in(rate, shortest + self.target());
        let is_short = queue <= self.target() / 4 && !overflows;
        if self.shared.is_some() {
            self.share(now, overflows && !follows_overflow, trip.unwrap_or(span));
        } else if is_sudden || overflows {
            if !follows_overflow {
                self.window = self.window.min(fitting);
            }
            self.starts = false;
        } else if self.starts {
            // A queue is seen a round trip after its cause.
            self.starts = longest < self.target();
            self.start(self.starts);
        } else if queue > self.target() {
            self.window -= bytes_in(rate, queue - self.target()).min(self.window / 3);
        } else {
            // Who sends less than it may learns nothing of the queue that it might have. On a short path what a report finds full was
            // full for most of the time before it.
            let part = if shortest < ROUND { 8 } else { 2 };
            if part * full >= reports {
                let idle = trip.unwrap_or(span).saturating_sub(queue).max(shortest);
                self.grow(now, rate, queue, idle);
            }
            if queue <= self.target() / 2 {
                self.window = self.window.max(fitting);
            }
        }
        self.doublings = if is_short { self.doublings.saturating_sub(1) } else { DOUBLINGS };
        self.window = self.window.max(self.least());
        if obeyed {
            self.ask_whose_queue(now, rate, queue, longest);
        }
        if self.shared.is_none() && self.delays.is_old(now) {
            self.delays.roll(now);
            self.rate.roll();
            self.shortest = None;
            self.drains = true;
        }
        overflows && !follows_overflow
    }

    /// A round is over in which the window held nothing back, or the rate is not known yet; `rate`: what has come. Returns whether loss made
    /// the window smaller.
    fn end_unfilled(&mut self, queue: Duration, overflows: bool, limited: bool, rate: u64) -> bool {
        let Round { flight, follows_overflow, .. } = self.round;
        if self.shared.is_some() {
            // Others keep the queue, however little is on the way.
            return false;
        }
        if overflows {
            // Bursts have filled a queue that is empty again when the next one comes.
            if !follows_overflow {
                self.window = self.window.min(flight / 2).max(self.least());
            }
            self.starts = false;
            return !follows_overflow;
        }
        if queue > 2 * self.target() {
            // The senders held back, and too late: what is on the way is already too much.
            let excess = bytes_in(rate, queue - self.target());
            self.window = self.window.min(flight - excess.min(flight / 3)).max(self.least());
            self.starts = false;
        } else {
            self.start(limited);
        }
        false
    }

    /// The window doubles while it starts, if it held cells back.
    fn start(&mut self, limited: bool) {
        self.window *= if self.starts && limited { 2 } else { 1 };
    }

    /// Where the queue is shorter than wanted, the window becomes larger. `idle`: a trip without the queue.
    fn grow(&mut self, now: Instant, rate: u64, queue: Duration, idle: Duration) {
        // Where the queue does not grow, the rate has: each round adds twice the share. A queue that has just been found to be short
        // would fill up at once.
        let share = if queue > self.target() / 4 {
            0
        } else if self.has_overflowed(now) {
            bytes_in(rate, self.target() / 4)
        } else {
            self.window >> self.doublings
        };
        let more = (bytes_in(rate, self.target().saturating_sub(queue)) / 2).max(share);
        // More than the path has carried would only wait.
        let most = bytes_in(rate / 4 * 5, idle + self.target());
        self.window = (self.window + more).min(most.max(self.window));
    }

    /// Whether the loss of a round tells of the end of a queue, which is then shorter than was wanted of it, or of a policer.
    fn judge_loss(&mut self, now: Instant, numbers: u64, lost: u64, longest: Duration) -> bool {
        let share = lost * WHOLE / numbers.max(1);
        let usual = numbers * self.usual_loss / WHOLE;
        let target = self.target();
        let most = if longest >= target / 2 { USUAL_MOST } else { HEAVY };
        self.usual_loss = ((USUAL - 1) * self.usual_loss + share.min(most)) / USUAL;
        // Of a number that chance brings about, four deviations more are chance, too.
        let is_unusual = lost > usual + 4 * usual.isqrt() + CHANCE;
        if is_unusual && (longest >= target / 2 || share >= HEAVY) {
            self.overflowed = Some(now);
            self.target_max = (longest / 2).clamp(TARGET_LEAST, target);
            return true;
        }
        if self.overflowed.is_some_and(|at| now.since(at) >= TARGET_RISES_AFTER) {
            self.target_max = (2 * self.target_max).min(TARGET_BOUNDS.1);
            self.overflowed = (self.target_max < TARGET_BOUNDS.1).then_some(now);
        }
        false
    }

    /// The window of a round in a queue that others fill. Until cells are lost, three quarters of what the path has carried, for
    /// others may fill a long queue with their start.
    fn share(&mut self, now: Instant, overflowed: bool, trip: Duration) {
        let Some(cubic) = &mut self.shared else { return };
        if overflowed {
            self.window = cubic.handle_loss(now, self.window);
        } else if self.trial.is_none() {
            let most = if cubic.has_lost() { 0 } else { bytes_in(self.rate.best() / 4 * 3, trip) };
            self.window = cubic.window(now, self.window).max(most);
        }
    }

    /// A queue that stays although the window has become small is not made by it.
    fn ask_whose_queue(&mut self, now: Instant, rate: u64, queue: Duration, longest: Duration) {
        let target = self.target();
        let Some(mut trial) = self.trial.take() else {
            let begins = self.shared.as_mut().map_or(queue > target, |cubic| cubic.asks(now));
            self.trial =
                begins.then_some(Trial { began: now, rounds: 0, window: self.window, queue, longest });
            // Else the law makes it smaller.
            if begins && self.shared.is_some() {
                self.window = self.window.min(bytes_in(rate, self.shortest.unwrap_or_default() + target));
            }
            return;
        };
        trial.rounds += 1;
        trial.queue = trial.queue.max(queue);
        trial.longest = trial.longest.max(longest);
        let Some(cubic) = &mut self.shared else {
            let least = self.least();
            let is_least = self.window <= least;
            let is_small = is_least || self.window <= trial.window / 2 && queue >= trial.queue * STAYS / 100;
            // The least window is a queue by itself where the rate is low.
            let others = queue > target + time_of(least, self.rate.best());
            if trial.rounds >= TRIAL && now.since(trial.began) >= TRIAL_LEAST && is_small && others {
                // A part of what the path has carried, for who came later may have left nothing.
                let trip = trial.longest + self.shortest.unwrap_or_default();
                let most = bytes_in(self.rate.best() / 4 * 3, trip);
                self.window = trial.window.max(most);
                (self.shared, self.shortest) = (Some(Cubic::new(now, self.window, queue)), None);
            } else if queue > target && trial.rounds < TRIAL_LONGEST {
                self.trial = Some(trial);
            }
            return;
        };
        if trial.rounds < TRIAL {
            self.trial = Some(trial);
        } else if queue <= 2 * target {
            self.shared = None;
        } else if cubic.is_way(queue) {
            self.delays.forget();
            (self.shared, self.shortest) = (None, None);
        } else {
            self.window = trial.window;
        }
    }
}
