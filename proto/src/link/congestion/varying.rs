//! The law of a path whose delay varies without a queue: a radio, a modem that sends in turns, a NIC that gathers.
//!
//! Such a path keeps the order of its cells, so a cell that is held up holds up all behind it: the more is sent, the longer the
//! delay, without any queue. No law that holds delays near the least one can tell this from a queue. What differs is the rate at which
//! cells are delivered: without a queue, more sent is more delivered. So the path is paced at the rate that it delivers, a window
//! bounds only what is on the way, and the queue is what the least delay of a while exceeds that of a moment in which no queue can
//! have stood, under nearly the same load.
//!
//! ```text
//!   Start ── rate grows no more ──> Drain ── half the rate, until a queue is gone ──> Learn ── 0.95: the base ──> Cruise
//!                                     ^                                                                            │  │
//!                                     └──────────────── each 3 s ──────────────────────────────────────────────────┘  │
//!                                        Down <── a queue, or no more is delivered ── Up <── now and then ────────────┘
//! ```
//!
//! Source: BBR (draft-ietf-ccwg-bbr) for samples of the delivery rate and the cycle; Arun, Alizadeh, Balakrishnan, "Starvation in
//! end-to-end congestion control" (SIGCOMM 2022) for why the target contains the variation; LEDBAT (RFC 6817) for the current delay
//! as a minimum.

use crate::link::congestion::{WINDOW_FIRST, WINDOW_LEAST};
use crate::link::nic::{bytes_in, per_second};
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
/// A queue that is wanted, beside a part of the variation, in hundredths.
const TARGET: Duration = Duration::from_millis(4);
const TARGET_PART: u32 = 15;
/// A queue that is so much longer is too long.
const LONG: Duration = Duration::from_millis(8);
/// The base is learned anew so often, and holds for two of these times.
const LEARN_EVERY: Duration = Duration::from_secs(3);
/// More than the way, twice the variation and this is not on the way.
const SLACK: Duration = Duration::from_millis(20);
/// Delays are kept for so long, each the least of a slot.
const KEPT: Duration = Duration::from_secs(1);
const SLOT: Duration = Duration::from_millis(4);
/// The longest variation that counts.
const VARIATION_MOST: Duration = Duration::from_millis(50);
/// No rate is measured over so long as if it was less than this, in bytes per second.
const RATE_LEAST: u64 = 30_000;
/// Probes are so far apart; as many times further while they find nothing.
const PROBE_EVERY: Duration = Duration::from_millis(500);
const PROBE_EVERY_MOST: Duration = Duration::from_secs(2);
/// More loss than one part in so many, beside what is usual, ends a probe: it has filled a queue.
const LOSS: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The pace doubles.
    Start,
    /// A queue runs empty.
    Drain,
    /// None stands: what delays are now, they are without one.
    Learn,
    Cruise,
    /// More is sent, to see whether more is delivered.
    Up,
    /// What that has put into a queue runs empty.
    Down,
}

/// What a report says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) now: Instant,
    /// When it was written, by the peer's clock, in microseconds modulo 2^32.
    pub(super) written: u32,
    /// The number after the highest that has arrived.
    pub(super) next: u64,
    /// Bytes and cells that have arrived or are lost, and cells that have arrived, modulo 2^32.
    pub(super) passed: u64,
    pub(super) count: u32,
    /// The delay of the latest heartbeat, if it is a new one, in microseconds by two clocks.
    pub(super) delay: Option<i32>,
    /// The shortest trip of a heartbeat.
    pub(super) trip: Duration,
    /// The pace or the window held cells back.
    pub(super) held_back: bool,
}

/// What had been delivered at a report.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    /// By the peer's clock, and when the latest of it was sent.
    written: Duration,
    sent: Instant,
    bytes: u64,
    /// Numbers that were passed, and that did not arrive.
    numbers: u64,
    lost: u64,
}

#[derive(Debug)]
pub(super) struct Varying {
    phase: Phase,
    since: Instant,
    /// How long the phase lasts, where that is known.
    lasts: Duration,
    /// Bytes per second that the path delivers.
    rate: Option<u64>,
    /// Of the pace, in hundredths of the rate.
    gain: u64,
    /// The rate that a doubling has to exceed, and how often it did not.
    grown: (u64, u8),
    /// The best of a probe, how many were followed by another one, and how far they are apart.
    best: u64,
    ups: u8,
    probe_every: Duration,
    /// Whether cells were held back in this phase.
    limited: bool,
    variation: Duration,
    /// The least delay of each slot, by its number; the least of this and the last ten seconds.
    delays: VecDeque<(u64, i32)>,
    latest: VecDeque<i32>,
    least: [Option<i32>; 2],
    least_since: Instant,
    /// What the least delay was when no queue stood, the last two times.
    base: [Option<i32>; 2],
    learn_at: Instant,
    trip: Duration,
    history: VecDeque<Delivered>,
    before: Option<Report>,
    /// Numbers and when they were sent.
    sent: VecDeque<(u64, Instant)>,
    latest_sent: Instant,
    /// Loss that is usual, in parts of a million.
    usual: u64,
    queue: Duration,
}

impl Varying {
    pub(super) fn new(variation: Duration) -> Self {
        Self {
            phase: Phase::Start,
            since: Instant::default(),
            lasts: Duration::ZERO,
            rate: None,
            gain: 200,
            grown: (0, 0),
            best: 0,
            ups: 0,
            probe_every: PROBE_EVERY,
            limited: false,
            variation,
            delays: VecDeque::new(),
            latest: VecDeque::new(),
            least: [None; 2],
            least_since: Instant::default(),
            base: [None; 2],
            learn_at: Instant::default(),
            trip: Duration::ZERO,
            history: VecDeque::new(),
            before: None,
            sent: VecDeque::new(),
            latest_sent: Instant::default(),
            usual: 0,
            queue: Duration::ZERO,
        }
    }

    /// Bytes that it has on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.history.capacity() * size_of::<Delivered>()
            + self.delays.capacity() * size_of::<(u64, i32)>()
            + self.sent.capacity() * size_of::<(u64, Instant)>()
    }

    pub(super) fn rate(&self) -> Option<u64> {
        self.rate.filter(|_| self.phase != Phase::Start)
    }

    pub(super) fn queue(&self) -> Duration {
        self.queue
    }

    pub(super) fn variation(&self) -> Duration {
        self.variation
    }

    /// Bytes per second at which cells leave.
    pub(super) fn pace(&self) -> Option<u64> {
        Some((self.rate? / 100 * self.gain).max(per_second(WINDOW_LEAST, self.trip + SLACK)))
    }

    /// Bytes that may be on the way.
    pub(super) fn window(&self) -> u64 {
        let Some(rate) = self.rate else { return WINDOW_FIRST };
        let gain = if self.phase == Phase::Start { 2 } else { 1 };
        gain * bytes_in(rate, self.trip + SLACK + 2 * self.variation) + 12_000
    }

    /// The next number is `next`.
    pub(super) fn handle_sent(&mut self, now: Instant, next: u64) {
        if self.sent.back().is_none_or(|(_, at)| now.since(*at) >= MILLI) {
            self.sent.push_back((next, now));
        }
    }

    pub(super) fn handle_report(&mut self, report: Report) {
        let now = report.now;
        self.trip = report.trip;
        self.limited |= report.held_back;
        self.note_delay(now, report.delay);
        let sample = self.sample(report);
        self.queue = self.standing(now);
        if let Some((rate, loses)) = sample {
            self.follow(now, rate, loses);
        }
    }

    /// Over how long the rate is measured, and the least delay.
    fn spans(&self) -> [Duration; 2] {
        let cells = |count: u64| {
            crate::link::nic::time_of(count * 1_500, self.rate.unwrap_or(1_000_000).max(RATE_LEAST))
        };
        let rate = (self.trip / 2).max(15 * MILLI).max((6 * self.variation).min(200 * MILLI)).max(cells(16));
        let delay =
            (25 * MILLI).max(self.trip / 2).max((self.variation * 3 / 2).min(80 * MILLI)).max(cells(12));
        [rate, delay]
    }

    fn target(&self) -> Duration {
        TARGET + self.variation * TARGET_PART / 100
    }

    fn note_delay(&mut self, now: Instant, delay: Option<i32>) {
        let Some(delay) = delay else { return };
        if now.since(self.least_since) >= Duration::from_secs(10) {
            (self.least, self.least_since) = ([None, self.least[0]], now);
        }
        self.least[0] = Some(self.least[0].map_or(delay, |least| least.min(delay)));
        let slot = slot(now);
        match self.delays.back_mut() {
            Some((last, least)) if *last == slot => *least = delay.min(*least),
            _ => self.delays.push_back((slot, delay)),
        }
        let old = slot.saturating_sub(slots(KEPT));
        while self.delays.pop_front_if(|(slot, _)| *slot < old).is_some() {}
        if self.latest.len() == 128 {
            self.latest.pop_front();
        }
        self.latest.push_back(delay);
    }

    /// The least delay of a time.
    fn envelope(&self, now: Instant, span: Duration) -> Option<i32> {
        let from = slot(now).saturating_sub(slots(span));
        self.delays.iter().rev().take_while(|(slot, _)| *slot >= from).map(|(_, delay)| *delay).min()
    }

    /// How long a queue stands.
    fn standing(&self, now: Instant) -> Duration {
        let base = self.base.into_iter().flatten().max();
        let over = self.envelope(now, self.spans()[1]).zip(base.or(self.least()));
        let over = over.map_or(0, |(delay, base)| delay.saturating_sub(base));
        let spare = if base.is_some() { Duration::ZERO } else { self.variation };
        micros(over).saturating_sub(spare)
    }

    fn least(&self) -> Option<i32> {
        self.least.into_iter().flatten().min()
    }

    /// The longest queue that there can be.
    fn longest(&self, now: Instant) -> Duration {
        let over = self.envelope(now, self.spans()[1]).zip(self.least());
        micros(over.map_or(0, |(delay, least)| delay.saturating_sub(least)))
    }

    /// What was delivered in a second lately, and whether more was lost than usual.
    fn sample(&mut self, report: Report) -> Option<(u64, bool)> {
        let before = self.before.replace(report);
        while self.sent.get(1).is_some_and(|(next, _)| *next <= report.next) {
            self.sent.pop_front();
        }
        if let Some((_, at)) = self.sent.front().filter(|(next, _)| *next <= report.next) {
            self.latest_sent = *at;
        }
        let sent = self.latest_sent;
        let Some((before, last)) = before.zip(self.history.back().copied()) else {
            let (written, bytes, numbers, lost) = (Duration::ZERO, 0, 0, 0);
            self.history.push_back(Delivered { written, sent, bytes, numbers, lost });
            return None;
        };
        let numbers = report.next - before.next;
        let came = u64::from(report.count.wrapping_sub(before.count)).min(numbers);
        let bytes = (report.passed - before.passed) * came / numbers.max(1);
        let passed = Duration::from_micros(u64::from(report.written.wrapping_sub(before.written)));
        let delivered = Delivered {
            written: last.written + passed,
            sent,
            bytes: last.bytes + bytes,
            numbers: last.numbers + numbers,
            lost: last.lost + numbers - came,
        };
        if self.rate.is_none() && !self.limited {
            // What was sent says nothing of what the path carries.
            self.history.clear();
            self.latest_sent = report.now;
        }
        self.history.push_back(Delivered { sent: self.latest_sent, ..delivered });
        let [span, _] = self.spans();
        while self.history.get(1).is_some_and(|first| delivered.written - first.written >= span) {
            self.history.pop_front();
        }
        let first = self.history.front()?;
        let took = (delivered.written - first.written).max(delivered.sent.since(first.sent));
        if took < span * 6 / 10 {
            return None;
        }
        let numbers = delivered.numbers - first.numbers;
        let lost = (delivered.lost - first.lost) * 1_000_000 / numbers.max(1);
        let loses = numbers >= 32 && lost > 2 * self.usual + 1_000_000 / LOSS;
        if !loses {
            self.usual = (63 * self.usual + lost) / 64;
        }
        Some((per_second(delivered.bytes - first.bytes, took), loses))
    }

    fn go(&mut self, now: Instant, phase: Phase, gain: u64, lasts: Duration) {
        (self.phase, self.since, self.gain, self.lasts) = (phase, now, gain, lasts);
        (self.best, self.limited) = (0, false);
    }

    /// `sample`: what is delivered in a second. `loses`: and a queue was full.
    fn follow(&mut self, now: Instant, sample: u64, loses: bool) {
        let [span, envelope] = self.spans();
        let (passed, trip, target, queue) = (now.since(self.since), self.trip, self.target(), self.queue);
        let rate = self.rate.unwrap_or(sample);
        match self.phase {
            Phase::Start => {
                if self.rate.is_none() {
                    if !self.limited || sample == 0 {
                        return;
                    }
                    (self.since, self.grown) = (now, (sample, 0));
                }
                let rate = rate.max(sample);
                self.rate = Some(rate);
                if passed < trip.max(span) {
                    return;
                }
                self.since = now;
                if !core::mem::take(&mut self.limited) {
                    return;
                }
                let (before, stays) = self.grown;
                self.grown = if rate < before / 4 * 5 { (before, stays + 1) } else { (rate, 0) };
                let (is_long, stays) = (self.longest(now) > self.variation + 40 * MILLI, self.grown.1);
                if loses || stays >= 2 || stays == 1 && is_long {
                    self.drain(now);
                }
            }
            Phase::Drain if passed >= self.lasts => self.go(now, Phase::Learn, 95, trip + envelope),
            Phase::Learn if passed >= self.lasts => {
                self.learn(now, envelope);
                self.go(now, Phase::Cruise, 100, Duration::ZERO);
            }
            Phase::Up => {
                if passed >= trip {
                    self.best = self.best.max(sample);
                }
                let is_full = loses || queue > target + LONG;
                if !is_full && passed < trip + span {
                    return;
                }
                let (best, was_limited) = (self.best, self.limited);
                if !is_full && best > rate / 10 * 11 {
                    self.rate = Some(best);
                    self.ups += 1;
                    let gain = if self.ups < 3 { 125 } else { 180 };
                    return self.go(now, Phase::Up, gain, Duration::ZERO);
                }
                if best > rate / 100 * 105 || self.ups > 0 {
                    self.probe_every = PROBE_EVERY;
                } else {
                    self.probe_every = (self.probe_every * 3 / 2).min(PROBE_EVERY_MOST);
                }
                self.ups = 0;
                if best > 0 && was_limited {
                    self.rate = Some(best.clamp(rate / 10 * 9, rate / 4 * 5));
                }
                self.go(now, Phase::Down, 70, Duration::ZERO);
            }
            Phase::Down if passed >= trip && queue <= target / 2 || passed >= trip + 200 * MILLI => {
                self.go(now, Phase::Cruise, 100, Duration::ZERO);
            }
            Phase::Cruise => {
                if passed >= trip {
                    self.gain = match queue {
                        short if short <= target * 3 / 10 => 101,
                        fair if fair <= target => 98,
                        _ => 90,
                    };
                    let is_slower = sample < rate / 100 * 97 && passed >= trip + span;
                    if (queue > target + LONG || loses) && is_slower {
                        self.rate = Some(sample.max(rate / 10 * 6));
                        return self.go(now, Phase::Down, 70, Duration::ZERO);
                    }
                }
                if now >= self.learn_at {
                    self.drain(now);
                } else if passed >= self.probe_every.max(4 * (trip + span)) && self.limited {
                    self.go(
                        now,
                        Phase::Up,
                        if self.probe_every > PROBE_EVERY { 120 } else { 125 },
                        Duration::ZERO,
                    );
                }
            }
            _ => {}
        }
    }

    fn drain(&mut self, now: Instant) {
        let longest = self.longest(now).min(if self.phase == Phase::Start { KEPT } else { 50 * MILLI });
        let lasts = 2 * longest + if self.phase == Phase::Start { self.trip } else { self.trip * 3 / 10 };
        self.go(now, Phase::Drain, 50, lasts);
    }

    /// No queue stands.
    fn learn(&mut self, now: Instant, span: Duration) {
        if let Some(delay) = self.envelope(now, span) {
            self.base = [Some(delay), self.base[0]];
        }
        let mut delays: Vec<i32> = self.latest.iter().copied().collect();
        delays.sort_unstable();
        if delays.len() > 6 {
            let part = |tenths: usize| delays[delays.len() * tenths / 10];
            let spread = micros(part(9) - part(1)).min(VARIATION_MOST);
            self.variation = (7 * self.variation + 3 * spread) / 10;
        }
        self.learn_at = now + LEARN_EVERY;
    }
}

fn slot(at: Instant) -> u64 {
    crate::time::nanos(at.since(Instant::default())) / crate::time::nanos(SLOT)
}

fn slots(span: Duration) -> u64 {
    crate::time::nanos(span) / crate::time::nanos(SLOT)
}

fn micros(count: i32) -> Duration {
    Duration::from_micros(u64::from(count.max(0).unsigned_abs()))
}
