//! The window of a path whose delay is steady: what a delay exceeds the shortest one is the time in the bottleneck's queue.
//!
//! Once in a round trip the window is changed by what the path carries in the time by which its queue is longer or shorter than wanted.
//! How fast cells arrive shows the bottleneck's rate ([`RateMeter`]). The window grows only when it held cells back, and otherwise shrinks
//! to what is on the way when that alone makes the queue far too long. Where the NIC is the bottleneck, its own queue limit holds
//! cells back before ([`crate::link::nic`]), and time in that queue does not count here.
//!
//! ```text
//!   Start ── a queue, or loss ──> Alone <── the queue vanishes with a small window, or is the way ── Shared
//!                                   └───────── the queue stays though the window is halved ────────────^
//! ```
//!
//! A queue that stays although the window was halved belongs to others, who fill it until cells are lost, or the way has
//! become longer. Then the window is that of one CUBIC flow ([`Cubic`]): the aggregate of a path takes as much of a shared
//! bottleneck as one flow of somebody else. From time to time the window is made small for a moment ([`Trial`]). If the queue vanishes,
//! nobody else fills it; if it is as long as the time before, it is the way that has become longer.
//!
//! Source: FAST TCP (Jin, Wei, Low 2004) for the law, BBR (draft-ietf-ccwg-bbr) for rounds, rates and the start.

use crate::link::congestion::cubic::Cubic;
use crate::link::congestion::delays::Delays;
use crate::link::congestion::loss::Loss;
use crate::link::congestion::rate::{Progress, RateMeter};
use crate::link::congestion::{Report, WINDOW_FIRST, WINDOW_LEAST, Window};
use crate::link::nic::{bytes_in, per_second, time_of};
use crate::time::Instant;
use core::time::Duration;

/// How long the queue is to last: a superframe, within bounds.
const TARGET: u64 = 64 * 1024;
const TARGET_BOUNDS: (Duration, Duration) = (Duration::from_micros(2_500), Duration::from_millis(5));
/// The smallest window while nothing is known of the rate.
const WINDOW_UNKNOWN: u64 = 16 * 1024;
/// The shortest round: several heartbeats come in it.
const ROUND: Duration = Duration::from_millis(4);
/// Cells that come in a round that ends early.
const ROUND_CELLS: u64 = 8;
/// A queue of so many targets ends a round early: the rate has fallen.
const SUDDEN: u32 = 4;
/// A path that has held nothing back for so long begins anew.
const FORGET_AFTER: Duration = Duration::from_secs(10);
/// The first round with hardly any queue adds a part of the window that is halved so many times; each further one twice the part.
const DOUBLINGS: u8 = 4;
/// The pace exceeds the rate by a part that is halved so many times. It is doubled with each of two rounds with hardly any queue in which the
/// pace alone held cells back: more would fill a short queue at once.
const PACE_DOUBLINGS: (u8, u8) = (4, 2);
/// Rounds of a trial, and rounds after which the law has not made the window half as large.
const TRIAL: u8 = 4;
const TRIAL_LONGEST: u8 = 16;
/// A queue that is shorter-lived is the work of a processor that was busy.
const TRIAL_LEAST: Duration = Duration::from_millis(100);
/// A queue of which half of the window leaves so much, in parts of a hundred, is not made by it.
const STAYS: u32 = 65;

#[derive(Debug)]
enum Phase {
    /// The window doubles with each round.
    Start,
    /// The queue is the window's own.
    Alone,
    /// Others fill the queue.
    Shared(Cubic),
}

#[derive(Debug)]
pub(super) struct Steady {
    /// Bytes that may be on the way.
    window: u64,
    phase: Phase,
    /// Whether a smaller window makes the queue shorter.
    trial: Option<Trial>,
    round: Round,
    /// How long the queue was when that was last known, and the shortest that it was in the last round.
    queue: Duration,
    standing: Duration,
    /// What the bottleneck carries, once the window has held cells back.
    rate: RateMeter,
    loss: Loss,
    /// The shortest time from sending a cell to its report.
    shortest: Option<Duration>,
    /// The part by which the next round with hardly any queue makes the window larger is halved so often, and that by which the pace exceeds
    /// the rate.
    doublings: u8,
    pace_doublings: u8,
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
    /// Reports that came, those at which the window held cells back, and those at which it or the pace did.
    reports: u32,
    full: u32,
    held_back: u32,
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
    /// Half of the window is used, so that the queue runs empty.
    drains: bool,
}

impl Round {
    fn handle_report(&mut self, report: &Report, queue: Duration) {
        self.reports += 1;
        self.full += u32::from(report.was_full);
        self.held_back += u32::from(report.held_back());
        self.flight = self.flight.max(report.flight.0);
        if report.met.is_some() || queue.is_zero() {
            let (least, most) = self.queue.unwrap_or((queue, queue));
            self.queue = Some((least.min(queue), most.max(queue)));
        }
        if report.progress.next >= self.end && self.trip.is_none() {
            let trip = report.now().since(self.began.unwrap_or(report.progress).at);
            self.trip = Some(trip.saturating_sub(report.late));
        }
    }
}

/// What a round has shown.
#[derive(Clone, Copy, Debug)]
struct Seen {
    now: Instant,
    /// How long it took, and its first cell until it was reported.
    span: Duration,
    trip: Duration,
    /// The shortest and the longest queue.
    queue: Duration,
    longest: Duration,
    /// Bytes per second that came.
    came: u64,
    /// The window held cells back.
    limited: bool,
    /// Loss tells that a queue was full; and of what was sent since the window became smaller for that.
    overflows: bool,
    overflows_anew: bool,
    /// It ended early, with a queue that grows quickly.
    is_sudden: bool,
}

impl Window for Steady {
    fn size(&self) -> u64 {
        if self.round.drains { self.window / 2 } else { self.window }
    }

    fn rate(&self) -> Option<u64> {
        self.rate.get().filter(|_| !self.starts())
    }

    fn pace(&self) -> Option<u64> {
        let spread = per_second(self.window, self.shortest? + self.target()).max(self.rate.get()?);
        // Where no queue comes, the rate may have been measured while the path carried less.
        Some(if self.starts() { 2 * spread } else { spread + (spread >> self.pace_doublings) })
    }

    fn queue(&self) -> Duration {
        self.queue
    }

    fn explains_loss(&self, now: Instant) -> bool {
        let is_long = |(_, longest)| longest >= self.target() / 2;
        self.loss.has_overflowed(now) || self.round.queue.is_some_and(is_long)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn is_shared(&self) -> bool {
        matches!(self.phase, Phase::Shared(_))
    }

    fn handle_report(&mut self, report: &Report, delays: &mut Delays) {
        // What is still on the way waits no longer than it takes to pass, whatever the last heartbeat has met.
        let most = self.rate.latest().map_or(Duration::MAX, |rate| time_of(report.flight.1, rate));
        self.queue =
            report.met.map_or(self.queue.min(most), |met| met.queue.min(most.saturating_add(report.late)));
        self.rate.handle_report(report.progress, self.is_idle(report), report.held_back());
        self.round.handle_report(report, self.queue);
        let (now, arrived) = (report.now(), report.progress.next);
        let began = self.round.began.unwrap_or(report.progress);
        let is_over = arrived >= self.round.end;
        let is_long = self.queue >= SUDDEN * self.target();
        let is_news = !(self.round.obeyed && self.round.began_long);
        let is_sudden = is_long && is_news && arrived >= began.next + ROUND_CELLS;
        let is_long_enough = now.since(began.at) >= ROUND && self.round.queue.is_some();
        // What was sent before it began anew says nothing.
        let begins = self.round.began.is_none() && is_over;
        if begins || is_long_enough && (is_over || is_sudden) {
            let (follows_overflow, drains) = self.end_round(&began, report, is_sudden, delays);
            self.round = Round {
                began: Some(report.progress),
                end: report.next + 1,
                follows_overflow,
                obeyed: report.flight.1 <= self.window,
                began_long: is_long,
                drains,
                ..Round::default()
            };
        }
    }
}

impl Steady {
    /// Numbers go on from `next`.
    pub(super) fn from(next: u64) -> Self {
        Self {
            window: WINDOW_FIRST,
            phase: Phase::Start,
            trial: None,
            round: Round { end: next, ..Round::default() },
            queue: Duration::ZERO,
            standing: Duration::ZERO,
            rate: RateMeter::default(),
            loss: Loss::new(TARGET_BOUNDS.1),
            shortest: None,
            doublings: DOUBLINGS,
            pace_doublings: PACE_DOUBLINGS.0,
        }
    }

    fn starts(&self) -> bool {
        matches!(self.phase, Phase::Start)
    }

    /// How long the queue is to last.
    fn target(&self) -> Duration {
        let (least, most) = TARGET_BOUNDS;
        self.rate.get().map_or(most, |rate| time_of(TARGET, rate).clamp(least, most)).min(self.loss.target())
    }

    /// The smallest window. What has carried much may only be slow to be read: it is not given up for a few cells.
    fn least(&self) -> u64 {
        match self.rate.best() {
            0 => WINDOW_UNKNOWN,
            best => bytes_in(best, TARGET_BOUNDS.0).max(WINDOW_LEAST),
        }
    }

    /// Whether nothing waits at the bottleneck. A queue that stands although nothing was held back is the bottleneck's, too.
    fn is_idle(&self, report: &Report) -> bool {
        if report.held_back() {
            self.queue <= self.target() / 4
        } else {
            self.queue.min(self.standing) <= 2 * self.target()
        }
    }

    /// A round is over: sets the window of the next one. Returns whether loss made it smaller, and whether the next one drains the queue.
    fn end_round(
        &mut self,
        began: &Progress,
        report: &Report,
        is_sudden: bool,
        delays: &mut Delays,
    ) -> (bool, bool) {
        let Some(seen) = self.sum_up(began, report, is_sudden) else { return (false, false) };
        let obeyed = self.round.obeyed;
        let rate = self.rate.get().filter(|_| seen.limited || seen.overflows);
        match rate {
            Some(rate) => self.adjust(&seen, rate),
            None => self.adjust_unfilled(&seen),
        }
        let is_paced_only = self.round.held_back > 0 && !seen.limited;
        self.pace_doublings = if is_paced_only && self.is_short(&seen) {
            (self.pace_doublings - 1).max(PACE_DOUBLINGS.1)
        } else {
            PACE_DOUBLINGS.0
        };
        if let Some(rate) = rate.filter(|_| obeyed) {
            self.ask_whose_queue(&seen, rate, delays);
        }
        let is_old = !self.is_shared() && delays.is_old(seen.now);
        if is_old {
            delays.roll(seen.now);
        }
        let drains = is_old && rate.is_some();
        if drains {
            self.rate.roll();
            self.shortest = None;
        }
        (seen.overflows_anew, drains)
    }

    /// What the round has shown, unless it has shown nothing or was there to drain the queue.
    fn sum_up(&mut self, began: &Progress, report: &Report, is_sudden: bool) -> Option<Seen> {
        let Round { full, queue, trip, follows_overflow, drains, .. } = self.round;
        let (now, span) = (report.now(), report.now().since(began.at));
        let (queue, longest) = queue.filter(|_| !span.is_zero())?;
        self.standing = queue;
        if drains {
            return None;
        }
        self.shortest = self.shortest.into_iter().chain(trip).min();
        let limited = full > 0;
        let overflows = self.loss.judge(now, report.progress.lost_since(began), longest, self.target());
        if !limited && !overflows && report.limited.is_none_or(|at| now.since(at) >= FORGET_AFTER) {
            self.rate.forget();
        }
        if longest <= self.target() && self.is_shared() {
            self.phase = Phase::Alone;
        }
        let came = per_second(report.progress.bytes - began.bytes, span);
        let (trip, overflows_anew) = (trip.unwrap_or(span), overflows && !follows_overflow);
        Some(Seen { now, span, trip, queue, longest, came, limited, overflows, overflows_anew, is_sudden })
    }

    /// The window held cells back, or was too large, and the rate is known.
    fn adjust(&mut self, seen: &Seen, rate: u64) {
        let Seen { queue, longest, .. } = *seen;
        let shortest = self.shortest.unwrap_or(seen.span);
        let fitting = bytes_in(rate, shortest + self.target());
        let is_short = self.is_short(seen);
        if self.is_shared() {
            self.share(seen);
        } else if seen.is_sudden || seen.overflows {
            if !self.round.follows_overflow {
                self.window = self.window.min(fitting);
            }
            self.phase = Phase::Alone;
        } else if self.starts() {
            // A queue is seen a round trip after its cause.
            if longest < self.target() {
                self.start(true);
            } else {
                self.phase = Phase::Alone;
            }
        } else if queue > self.target() {
            self.window -= bytes_in(rate, queue - self.target()).min(self.window / 3);
        } else {
            // Who sends less than it may learns nothing of the queue that it might have. On a short path what a report finds full was
            // full for most of the time before it.
            let part = if shortest < ROUND { 8 } else { 2 };
            if part * self.round.full >= self.round.reports {
                let idle = seen.trip.saturating_sub(queue).max(shortest);
                self.grow(seen.now, rate, queue, idle);
            }
            if queue <= self.target() / 2 {
                self.window = self.window.max(fitting);
            }
        }
        self.doublings = if is_short { self.doublings.saturating_sub(1) } else { DOUBLINGS };
        self.window = self.window.max(self.least());
    }

    /// Whether there was hardly any queue.
    fn is_short(&self, seen: &Seen) -> bool {
        seen.queue <= self.target() / 4 && !seen.overflows
    }

    /// The window held nothing back, or the rate is not known yet.
    fn adjust_unfilled(&mut self, seen: &Seen) {
        let Round { flight, .. } = self.round;
        if self.is_shared() {
            // Others keep the queue, however little is on the way.
        } else if seen.overflows {
            // Bursts have filled a queue that is empty again when the next one comes.
            if seen.overflows_anew {
                self.window = self.window.min(flight / 2).max(self.least());
            }
            self.phase = Phase::Alone;
        } else if seen.queue > 2 * self.target() {
            // The senders held back, and too late: what is on the way is already too much.
            let excess = bytes_in(seen.came, seen.queue - self.target());
            self.window = self.window.min(flight - excess.min(flight / 3)).max(self.least());
            self.phase = Phase::Alone;
        } else {
            self.start(seen.limited);
        }
    }

    /// The window doubles while it starts, if it held cells back.
    fn start(&mut self, limited: bool) {
        self.window *= if self.starts() && limited { 2 } else { 1 };
    }

    /// Where the queue is shorter than wanted, the window becomes larger. `idle`: a trip without the queue.
    fn grow(&mut self, now: Instant, rate: u64, queue: Duration, idle: Duration) {
        // Where the queue does not grow, the rate has: each round adds twice the share. A queue that has just been found to be short
        // would fill up at once.
        let share = if queue > self.target() / 4 {
            0
        } else if self.loss.has_overflowed(now) {
            bytes_in(rate, self.target() / 4)
        } else {
            self.window >> self.doublings
        };
        let more = (bytes_in(rate, self.target().saturating_sub(queue)) / 2).max(share);
        // More than the path has carried would only wait.
        let most = bytes_in(rate / 4 * 5, idle + self.target());
        self.window = (self.window + more).min(most.max(self.window));
    }

    /// The window of a round in a queue that others fill. Until cells are lost, three quarters of what the path has carried, for
    /// others may fill a long queue with their start.
    fn share(&mut self, seen: &Seen) {
        let most = self.part_of_best(seen.trip);
        let Phase::Shared(cubic) = &mut self.phase else { return };
        if seen.overflows_anew {
            self.window = cubic.handle_loss(seen.now, self.window);
        } else if self.trial.is_none() {
            let most = if cubic.has_lost() { 0 } else { most };
            self.window = cubic.window(seen.now, self.window).max(most);
        }
    }

    /// Three quarters of what the path has carried in such a time, in bytes.
    fn part_of_best(&self, span: Duration) -> u64 {
        bytes_in(self.rate.best() / 4 * 3, span)
    }

    /// A queue that stays although the window has become small is not made by it.
    fn ask_whose_queue(&mut self, seen: &Seen, rate: u64, delays: &mut Delays) {
        let Some(mut trial) = self.trial.take() else { return self.begin_trial(seen, rate) };
        trial.rounds += 1;
        trial.queue = trial.queue.max(seen.queue);
        trial.longest = trial.longest.max(seen.longest);
        let target = self.target();
        let Phase::Shared(cubic) = &mut self.phase else { return self.try_alone(seen, trial) };
        if trial.rounds < TRIAL {
            self.trial = Some(trial);
        } else if seen.queue <= 2 * target {
            self.phase = Phase::Alone;
        } else if cubic.is_way(seen.queue) {
            delays.forget();
            (self.phase, self.shortest) = (Phase::Alone, None);
        } else {
            self.window = trial.window;
        }
    }

    fn begin_trial(&mut self, seen: &Seen, rate: u64) {
        let &Seen { now, queue, longest, .. } = seen;
        let target = self.target();
        let begins = match &mut self.phase {
            Phase::Shared(cubic) => cubic.asks(now),
            _ => queue > target,
        };
        self.trial = begins.then_some(Trial { began: now, rounds: 0, window: self.window, queue, longest });
        // Else the law makes it smaller.
        if begins && self.is_shared() {
            self.window = self.window.min(bytes_in(rate, self.shortest.unwrap_or_default() + target));
        }
    }

    /// A round of the trial whether others have come.
    fn try_alone(&mut self, seen: &Seen, trial: Trial) {
        let &Seen { now, queue, .. } = seen;
        let (target, least) = (self.target(), self.least());
        let is_small =
            self.window <= least || self.window <= trial.window / 2 && queue >= trial.queue * STAYS / 100;
        // The least window is a queue by itself where the rate is low.
        let others = queue > target + time_of(least, self.rate.best());
        if trial.rounds >= TRIAL && now.since(trial.began) >= TRIAL_LEAST && is_small && others {
            // A part of what the path has carried, for who came later may have left nothing.
            let most = self.part_of_best(trial.longest + self.shortest.unwrap_or_default());
            self.window = trial.window.max(most);
            (self.phase, self.shortest) = (Phase::Shared(Cubic::new(now, self.window, queue)), None);
        } else if queue > target && trial.rounds < TRIAL_LONGEST {
            self.trial = Some(trial);
        }
    }
}
