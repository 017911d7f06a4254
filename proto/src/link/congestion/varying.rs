//! The law of a path whose delay varies without a queue: a radio, a modem that sends in turns, a NIC that gathers.
//!
//! Such a path keeps the order of its cells, so a cell that is held up holds up all behind it: the more is sent, the longer the
//! delay, without any queue. No law that holds delays near the least one can tell this from a queue. What differs is the rate at which
//! cells are delivered ([`delivery`](super::delivery)): without a queue, more sent is more delivered. So cells are paced at that rate,
//! and a window only bounds what is on the way. The queue is what the least delay of a while ([`envelope`](super::envelope)) exceeds its
//! base: what it was when certainly no queue stood, under nearly the same load.
//!
//! ```text
//!   Start ── the rate grows no more ──> Drain ── half of it, until a queue is gone ──> Learn ── nearly all: the base ──> Cruise
//!                                         ^                                                                              │  │
//!                                         └───────────────────────────── each 3 s ───────────────────────────────────────┘  │
//!                                                Down <── a queue, or no more is delivered ── Up <── now and then ──────────┘
//! ```
//!
//! Source: BBR (draft-ietf-ccwg-bbr) for the rate and the cycle; Arun, Alizadeh, Balakrishnan, "Starvation in end-to-end congestion
//! control" (SIGCOMM 2022) for why what is wanted of a queue grows with the variation.

use crate::link::congestion::delays::Delays;
use crate::link::congestion::delivery::{Delivery, Sample};
use crate::link::congestion::envelope::Envelope;
use crate::link::congestion::loss::OVERFLOW_FOR;
use crate::link::congestion::{Report, WINDOW_FIRST, WINDOW_LEAST, Window};
use crate::link::nic::{bytes_in, per_second, time_of};
use crate::time::Instant;
use core::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
/// The queue that is wanted: so long, and a part of the variation, in hundredths.
const TARGET: Duration = Duration::from_millis(4);
const TARGET_PART: u32 = 15;
/// One that is longer by so much is too long.
const LONG: Duration = Duration::from_millis(8);
/// The base is learned anew so often.
const LEARN_EVERY: Duration = Duration::from_secs(3);
/// What is on the way is what passes in a round trip, twice the variation, and so long.
const SLACK: Duration = Duration::from_millis(20);
/// And a few cells.
const WINDOW_MORE: u64 = 8 * 1_500;
/// No variation counts for more.
const VARIATION_MOST: Duration = Duration::from_millis(50);
/// A queue is given no more time to run empty, but for the one that the start has made.
const DRAIN_MOST: Duration = Duration::from_millis(100);
const DRAIN_MOST_FIRST: Duration = Duration::from_secs(2);
/// What a probe has put into a queue is given so long.
const DOWN_MOST: Duration = Duration::from_millis(500);
/// Probes are so far apart, and further while they find nothing.
const PROBE_EVERY: Duration = Duration::from_millis(500);
const PROBE_EVERY_MOST: Duration = Duration::from_secs(2);
/// A start whose queue is so much longer than the variation is over.
const START_QUEUE: Duration = Duration::from_millis(20);
/// Nothing is measured over so long as if the rate was less than this, in bytes per second.
const RATE_LEAST: u64 = 30_000;

/// Paces, in hundredths of the rate.
mod gain {
    pub(super) const START: u64 = 200;
    pub(super) const DRAIN: u64 = 50;
    pub(super) const LEARN: u64 = 95;
    pub(super) const UP: u64 = 125;
    /// After three probes in a row that found more.
    pub(super) const UP_FAST: u64 = 180;
    pub(super) const DOWN: u64 = 70;
    /// While the queue is shorter than is wanted, as long, or longer.
    pub(super) const CRUISE: [u64; 3] = [101, 98, 90];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The pace is twice the rate. The rate that it has to exceed by a quarter, and how often it did not.
    Start { rate: u64, stayed: u8 },
    /// A queue runs empty within this time.
    Drain { within: Duration },
    /// None stands: what delays are now, they are without one.
    Learn,
    /// What is delivered is sent.
    Cruise,
    /// More is sent, to see whether more is delivered: the most so far, and how many such phases came before.
    Up { best: u64, before: u8 },
    /// What that has put into a queue runs empty.
    Down,
}

#[derive(Debug)]
pub(super) struct Varying {
    phase: Phase,
    since: Instant,
    /// Whether cells were held back in this phase; reports in it, and those at which the window held them back.
    limited: bool,
    reports: u32,
    full: u32,
    /// Bytes that were sent until it began, and until now.
    sent: (u64, u64),
    /// Of the pace, in hundredths of the rate.
    gain: u64,
    /// Bytes per second that the path delivers, once something was held back.
    rate: Option<u64>,
    delivery: Delivery,
    envelope: Envelope,
    /// By how much delays differ.
    variation: Duration,
    trip: Duration,
    queue: Duration,
    /// When more was lost than usual.
    overflowed: Option<Instant>,
    learn_at: Instant,
    probe_every: Duration,
}

impl Window for Varying {
    fn size(&self) -> u64 {
        let Some(rate) = self.rate else { return WINDOW_FIRST };
        let rounds = if self.starts() { 2 } else { 1 };
        rounds * bytes_in(rate, self.trip + SLACK + 2 * self.variation) + WINDOW_MORE
    }

    fn rate(&self) -> Option<u64> {
        self.rate.filter(|_| !self.starts())
    }

    fn pace(&self) -> Option<u64> {
        Some((self.rate? / 100 * self.gain).max(per_second(WINDOW_LEAST, self.trip + SLACK)))
    }

    fn queue(&self) -> Duration {
        self.queue
    }

    fn explains_loss(&self, now: Instant) -> bool {
        self.overflowed.is_some_and(|at| now.since(at) < OVERFLOW_FOR) || self.queue > self.target()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.delivery.bytes() + self.envelope.bytes()
    }

    fn handle_sent(&mut self, now: Instant, next: u64) {
        self.delivery.handle_sent(now, next);
    }

    fn handle_report(&mut self, report: &Report, delays: &mut Delays) {
        let now = report.now();
        self.trip = delays.shortest_trip().unwrap_or_default();
        self.limited |= report.held_back();
        self.reports += 1;
        self.full += u32::from(report.was_full);
        self.sent.1 = report.progress.bytes + report.flight.1;
        if let Some(met) = report.met {
            self.envelope.note(now, met.delay);
        }
        if self.rate.is_none() && !self.limited {
            self.delivery.forget(now);
        }
        let sample = self.delivery.sample(report.progress, self.rate_span());
        self.queue = self.standing(now);
        if let Some(sample) = sample {
            self.follow(now, sample);
        }
        if sample.is_some_and(|sample| sample.loses) {
            self.overflowed = Some(now);
        }
    }

    fn variation(&self) -> Option<Duration> {
        Some(self.variation)
    }
}

impl Varying {
    pub(super) fn new(variation: Duration) -> Self {
        Self {
            phase: Phase::Start { rate: 0, stayed: 0 },
            since: Instant::default(),
            limited: false,
            reports: 0,
            full: 0,
            sent: (0, 0),
            gain: gain::START,
            rate: None,
            delivery: Delivery::default(),
            envelope: Envelope::default(),
            variation: variation.min(VARIATION_MOST),
            trip: Duration::ZERO,
            queue: Duration::ZERO,
            overflowed: None,
            learn_at: Instant::default(),
            probe_every: PROBE_EVERY,
        }
    }

    fn starts(&self) -> bool {
        matches!(self.phase, Phase::Start { .. })
    }

    /// Whether they were held back for most of it: what the pace allows was sent, or the window was full.
    fn is_filled(&self, now: Instant) -> bool {
        let due = self.pace().map_or(0, |pace| bytes_in(pace, now.since(self.since)));
        4 * (self.sent.1 - self.sent.0) >= 3 * due || 2 * self.full >= self.reports
    }

    /// Over how long the rate is measured: lumps of what varies, and a few cells, make little of it.
    fn rate_span(&self) -> Duration {
        let lumps = (6 * self.variation).min(200 * MILLI);
        (self.trip / 2).max(15 * MILLI).max(lumps).max(self.time_of_cells(16))
    }

    /// Over how long the least delay is one that all cells had to take.
    fn delay_span(&self) -> Duration {
        let varies = (self.variation * 3 / 2).min(80 * MILLI);
        (self.trip / 2).max(25 * MILLI).max(varies).max(self.time_of_cells(12))
    }

    fn time_of_cells(&self, cells: u64) -> Duration {
        time_of(cells * 1_500, self.rate.unwrap_or(u64::MAX).max(RATE_LEAST))
    }

    /// How long the queue is to last.
    fn target(&self) -> Duration {
        TARGET + self.variation * TARGET_PART / 100
    }

    /// How long a queue stands; before a base is known, what is longer than the variation.
    fn standing(&self, now: Instant) -> Duration {
        let span = self.delay_span();
        let beyond = || self.envelope.over_least(now, span).saturating_sub(self.variation);
        self.envelope.over_base(now, span).unwrap_or_else(beyond)
    }

    fn go(&mut self, now: Instant, phase: Phase, gain: u64) {
        (self.phase, self.since, self.gain) = (phase, now, gain);
        (self.limited, self.reports, self.full, self.sent.0) = (false, 0, 0, self.sent.1);
    }

    fn follow(&mut self, now: Instant, Sample { rate: sample, loses }: Sample) {
        let (passed, rate) = (now.since(self.since), self.rate.unwrap_or(sample));
        match self.phase {
            Phase::Drain { .. } | Phase::Down | Phase::Cruise if self.falls(now, rate, sample, loses) => {
                // The path delivers less than it did.
                self.rate = Some(sample.max(rate / 2));
                match self.phase {
                    Phase::Drain { .. } => self.drain(now),
                    _ => self.go(now, Phase::Down, gain::DOWN),
                }
            }
            Phase::Start { .. } if self.rate.is_none() => {
                if self.limited && sample > 0 {
                    self.rate = Some(sample);
                    self.go(now, Phase::Start { rate: sample, stayed: 0 }, gain::START);
                }
            }
            Phase::Start { rate: before, stayed } => {
                let rate = rate.max(sample);
                self.rate = Some(rate);
                if passed >= self.trip.max(self.rate_span()) {
                    self.end_start(now, rate, (before, stayed), loses);
                }
            }
            Phase::Drain { within } if passed >= within => self.go(now, Phase::Learn, gain::LEARN),
            Phase::Learn if passed >= self.trip + self.delay_span() => {
                if let Some(spread) = self.envelope.learn(now, self.delay_span()) {
                    self.variation = (7 * self.variation + 3 * spread.min(VARIATION_MOST)) / 10;
                }
                self.learn_at = now + LEARN_EVERY;
                self.go(now, Phase::Cruise, gain::CRUISE[0]);
            }
            Phase::Cruise => self.cruise(now, rate, sample),
            Phase::Up { best, before } => {
                let best = if passed >= self.trip { best.max(sample) } else { best };
                self.phase = Phase::Up { best, before };
                let is_full = loses || self.queue > self.target() + LONG;
                if is_full || passed >= self.trip + self.rate_span() {
                    self.end_probe(now, rate, (best, before), is_full);
                }
            }
            Phase::Down if passed >= self.trip + DOWN_MOST => self.go(now, Phase::Cruise, gain::CRUISE[0]),
            Phase::Down if passed >= self.trip && self.queue <= self.target() / 2 => {
                self.go(now, Phase::Cruise, gain::CRUISE[0]);
            }
            Phase::Drain { .. } | Phase::Learn | Phase::Down => {}
        }
    }

    /// A round of the start is over.
    fn end_start(&mut self, now: Instant, rate: u64, (before, stayed): (u64, u8), loses: bool) {
        let is_filled = self.is_filled(now);
        self.go(now, self.phase, gain::START);
        let queue = self.envelope.over_least(now, self.delay_span());
        let is_long = queue > self.variation + START_QUEUE;
        // Who sends less than it may sees no more delivered, and no queue.
        if !(is_filled || loses || is_long) {
            return;
        }
        let (before, stayed) = if rate < before / 4 * 5 { (before, stayed + 1) } else { (rate, 0) };
        self.phase = Phase::Start { rate: before, stayed };
        if loses || stayed >= 2 || stayed == 1 && is_long {
            let within = (2 * queue).min(DRAIN_MOST_FIRST) + self.trip;
            self.go(now, Phase::Drain { within }, gain::DRAIN);
        }
    }

    /// Whether the queue is long, and less is delivered than is sent.
    fn falls(&self, now: Instant, rate: u64, sample: u64, loses: bool) -> bool {
        let is_long = loses || self.queue > self.target() + LONG;
        let is_over = now.since(self.since) >= self.trip + self.rate_span();
        // A queue alone delivers the rate, however little is sent.
        let sent = if matches!(self.phase, Phase::Cruise) { rate } else { rate / 100 * self.gain };
        self.limited && is_long && is_over && sample < sent / 100 * 97
    }

    fn drain(&mut self, now: Instant) {
        let queue = self.envelope.over_least(now, self.delay_span());
        let most = if self.queue > self.target() + LONG { DRAIN_MOST_FIRST } else { DRAIN_MOST };
        let within = (2 * queue).min(most) + self.trip * 3 / 10;
        self.go(now, Phase::Drain { within }, gain::DRAIN);
    }

    fn cruise(&mut self, now: Instant, rate: u64, sample: u64) {
        let (passed, target) = (now.since(self.since), self.target());
        if passed >= self.trip {
            let [short, fair, long] = gain::CRUISE;
            self.gain = match self.queue {
                queue if queue <= target * 3 / 10 => short,
                queue if queue <= target => fair,
                _ => long,
            };
        }
        if sample > rate / 4 * 5 {
            // More came than was thought to be possible.
            self.rate = Some(sample);
        }
        let round = self.trip + self.rate_span();
        if now >= self.learn_at {
            self.drain(now);
        } else if self.limited && passed >= self.probe_every.max(4 * round) {
            self.go(now, Phase::Up { best: 0, before: 0 }, gain::UP);
        }
    }

    /// A probe is over. Where it found more, another one follows.
    fn end_probe(&mut self, now: Instant, rate: u64, (best, before): (u64, u8), is_full: bool) {
        if !is_full && best > rate / 10 * 11 {
            self.rate = Some(best);
            let gain = if before < 2 { gain::UP } else { gain::UP_FAST };
            return self.go(now, Phase::Up { best: 0, before: before.saturating_add(1) }, gain);
        }
        let found = before > 0 || best > rate / 100 * 105;
        self.probe_every = if found { PROBE_EVERY } else { (self.probe_every * 3 / 2).min(PROBE_EVERY_MOST) };
        if best > 0 && self.limited {
            self.rate = Some(best.clamp(rate / 10 * 9, rate / 4 * 5));
        }
        self.go(now, Phase::Down, gain::DOWN);
    }
}
