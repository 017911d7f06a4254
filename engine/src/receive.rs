//! The receive engine: how a worker waits for frames and cells.
//!
//! A sleep until the kernel signals something costs little while nothing comes, and much each time that something
//! comes: the processor went idle and has to come back. A worker that polls without a pause ([`Wait::Spin`]) finds a
//! frame at once, and takes a whole processor. [`Method::Adaptive`] spins while that pays. It knows how long it would
//! have had to spin lately ([`Waits`]) and what a sleep costs (how late the last ones ended), so each wait begins with
//! spinning for as long as would have cost least, if at all. After frames from the device it waits for an answer, after
//! frames for the device for the host's next frame; so it remembers each kind by itself.
//!
//! A [`TokenBucket`] limits the processor time that spinning takes, and between two polls the worker lets other
//! threads run. Where those run for long, the worker backs off ([`BackOff`]); but not while many frames move
//! ([`Rate`]): then frames gather until the others are done, while a sleeping worker would be woken for each, before
//! the threads that make and read them.
//!
//! Only frames count. Heartbeats and timers interrupt a wait without ending it, so that a quiet bundle sleeps.
//!
//! A link without interrupts (a ring in shared memory) bounds each sleep: under traffic by the interval that was
//! configured for it, in quiet by an eighth of the silence and [`SELDOM`].
//!
//! The worker calls [`Receive::turn`] after each turn, then [`Receive::next`] and, after waiting as that says and
//! polling, [`Receive::polled`], until something has come or is due.
//!
//! Invariants: [`Wait::Spin`] takes no larger part of any span than [`Settings::share`], but for one window's worth and
//! the last poll. Source: P3, section 3 (polling by a timer); Karlin et al., "Competitive snoopy caching", 1988 (a
//! worker that spins for no longer than a sleep costs never pays more than twice).

mod spin;
#[cfg(test)]
mod tests;

use core::time::Duration;
use spin::{BackOff, Rate, TokenBucket, Waits};
use tabane_proto::time::Instant;

/// The cost of a microsecond of delay, in microseconds of a processor that would be idle.
const WORTH: u32 = 4;
/// How often a link without interrupts is polled, at least.
const SELDOM: Duration = Duration::from_millis(5);
/// The part of the silence after which it is polled next.
const PART: u32 = 8;
/// The assumed cost of a sleep before one was measured, and the limits of a measured one.
const SLEEP_COST: Duration = Duration::from_micros(20);
const SLEEP_COST_MIN: Duration = Duration::from_micros(2);
const SLEEP_COST_MAX: Duration = Duration::from_micros(100);
/// The weight of a new measurement: one part in so many.
const SMOOTH: u32 = 8;
/// A poll that takes longer than this was interrupted: another thread had the processor for longer than a wake-up
/// takes.
const PREEMPTED: Duration = Duration::from_micros(250);

tabane_proto::choices! {
    /// The engines.
    pub Method {
        /// Sleeps until the kernel signals something.
        Interrupt = "interrupt",
        /// Polls once in each interval.
        Timer = "timer",
        /// Spins all the time.
        Busy = "busy",
        /// Spins while that pays, else sleeps.
        #[default]
        Adaptive = "adaptive",
    }
}

/// The settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which engine.
    pub method: Method,
    /// [`Method::Timer`]: from the end of a poll to the next.
    pub interval: Duration,
    /// [`Method::Adaptive`]: the largest part of one processor that spinning may take, 0 to 100 percent.
    pub share: u8,
}

impl Default for Settings {
    /// Adaptive, with most of a processor: a ping-pong alone takes four fifths (`docs/lessons.md`); 20 us.
    fn default() -> Self {
        Self { method: Method::default(), interval: Duration::from_micros(20), share: 90 }
    }
}

/// What to do before the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Yield the processor once.
    Spin,
    /// Sleep so long, unless the kernel signals something.
    Sleep(Duration),
    /// Sleep so long, even if the kernel signals something.
    SleepThrough(Duration),
}

/// Counters since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sleeps of either kind.
    pub sleeps: u64,
    /// Polls without a sleep before them.
    pub spins: u64,
    /// Those of them that found something.
    pub caught: u64,
    /// For how long the worker spun, in nanoseconds.
    pub spun_ns: u64,
    /// How often others wanted the processor for so long that the worker backed off.
    pub preempted: u64,
}

impl Counters {
    /// Name and value of each.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.all().into_iter().map(|(name, value, _)| (name, value))
    }

    /// Name and meaning of each.
    pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
        Self::default().all().into_iter().map(|(name, _, meaning)| (name, meaning))
    }

    fn all(&self) -> [(&'static str, u64, &'static str); 5] {
        let Self { sleeps, spins, caught, spun_ns, preempted } = *self;
        [
            ("receive_sleeps", sleeps, "Times that a worker slept until something came or was due."),
            ("receive_spins", spins, "Polls of a worker without a sleep before them."),
            ("receive_caught", caught, "Those of them that found something."),
            ("receive_spun_us", spun_ns / 1_000, "For how long the workers spun, in microseconds."),
            (
                "receive_preempted",
                preempted,
                "Times that others wanted the processor for so long that a worker backed off.",
            ),
        ]
    }
}

/// How many frames moved each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Read from the device.
    pub from_device: u32,
    /// Written to it.
    pub to_device: u32,
}

/// The engine of one worker.
#[derive(Debug)]
pub struct Receive {
    settings: Settings,
    /// Waits after turns that moved frames to the device alone, and after those that moved some from it
    /// ([`Self::sent`]).
    waits: [Waits; 2],
    rate: Rate,
    tokens: TokenBucket,
    counters: Counters,
    sleep_cost: Duration,
    /// When this wait for frames began: the end of the last turn that moved some.
    since: Instant,
    /// Whether that turn moved frames from the device.
    sent: bool,
    spin_until: Instant,
    slept: bool,
    /// Whether others had the processor for long in this wait.
    yielded: bool,
    /// When a poll found something, since the last turn.
    found: Option<Instant>,
    /// The present wait, and since when.
    doing: Option<(Instant, Wait)>,
    /// The back-off after others had the processor for long.
    back_off: BackOff,
}

impl Receive {
    /// An engine that begins `now`.
    pub fn new(now: Instant, settings: Settings) -> Self {
        Self {
            settings,
            waits: Default::default(),
            rate: Rate::default(),
            tokens: TokenBucket::new(now, settings.share),
            counters: Counters::default(),
            sleep_cost: SLEEP_COST,
            // No frame has moved yet.
            since: Instant::default(),
            sent: false,
            spin_until: now,
            slept: false,
            yielded: false,
            found: None,
            doing: None,
            back_off: BackOff::new(now),
        }
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Uses other settings from `now` on; counters and measurements stay.
    pub fn change(&mut self, now: Instant, settings: Settings) {
        self.tokens = TokenBucket::new(now, settings.share);
        self.settings = settings;
        self.spin_until = now;
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Notes that a turn is over and moved these frames. After frames a new wait begins.
    pub fn turn(&mut self, now: Instant, moved: Moved) {
        let found = self.found.take();
        self.doing = None;
        self.rate.count(now, moved.from_device + moved.to_device);
        if moved == Moved::default() {
            return;
        }
        // A wait that others interrupted is as long as they took.
        if let Some(found) = found.filter(|_| !self.yielded) {
            let woken = if self.slept { self.sleep_cost } else { Duration::ZERO };
            self.waits[usize::from(self.sent)].record(found.since(self.since).saturating_sub(woken));
        }
        (self.since, self.sent) = (now, moved.from_device > 0);
        (self.slept, self.yielded) = (false, false);
        self.spin_until = now + self.spin_for(now);
    }

    /// How to wait, from `now` until `due` at the latest. `unannounced`: how often to poll, under traffic, a link
    /// without interrupts; `None`: there is none.
    #[must_use]
    pub fn next(&mut self, now: Instant, due: Instant, unannounced: Option<Duration>) -> Wait {
        let left = due.since(now);
        let wait = match self.settings.method {
            Method::Busy => Wait::Spin,
            Method::Timer => Wait::SleepThrough(left.min(self.settings.interval)),
            Method::Adaptive if self.spins(now) && self.tokens.holds(now) => Wait::Spin,
            Method::Interrupt | Method::Adaptive => Wait::Sleep(left.min(self.until_poll(now, unannounced))),
        };
        self.counters.sleeps += u64::from(wait != Wait::Spin);
        self.slept |= wait != Wait::Spin;
        self.doing = Some((now, wait));
        wait
    }

    /// Notes that the worker waited as [`Self::next`] said, and polled; `found`: something had come.
    pub fn polled(&mut self, now: Instant, found: bool) {
        let Some((begun, wait)) = self.doing.take() else { return };
        let took = now.since(begun);
        match wait {
            Wait::Spin => self.account(now, took, found),
            Wait::Sleep(length) if !found && took >= length => self.measure(took.saturating_sub(length)),
            Wait::Sleep(_) | Wait::SleepThrough(_) => {}
        }
        if found {
            self.found = Some(now);
        }
    }

    fn spin_for(&self, now: Instant) -> Duration {
        let waits = &self.waits[usize::from(self.sent)];
        if self.back_off.holds(now) { Duration::ZERO } else { waits.best(self.sleep_cost * WORTH) }
    }

    /// Whether spinning pays, or lets frames gather.
    fn spins(&self, now: Instant) -> bool {
        now < self.spin_until || self.back_off.echoes(now) && self.rate.is_high()
    }

    /// How long until a link without interrupts has to be polled.
    fn until_poll(&self, now: Instant, unannounced: Option<Duration>) -> Duration {
        let within = |often: Duration| (now.since(self.since) / PART).clamp(often, SELDOM.max(often));
        unannounced.map_or(Duration::MAX, within)
    }

    /// Accounts for a poll without a sleep that took so long.
    fn account(&mut self, now: Instant, took: Duration, found: bool) {
        self.counters.spins += 1;
        self.counters.caught += u64::from(found);
        // The time beyond was another thread's.
        let ours = took.min(PREEMPTED);
        self.counters.spun_ns += tabane_proto::time::nanos(ours);
        self.tokens.spend(now, ours);
        if took > PREEMPTED {
            self.counters.preempted += 1;
            self.yielded = true;
            self.spin_until = now;
            self.back_off.begin(now, self.counters.caught);
        }
    }

    /// Measures a sleep that ended so much too late.
    fn measure(&mut self, late: Duration) {
        let late = late.clamp(SLEEP_COST_MIN, SLEEP_COST_MAX);
        self.sleep_cost = (self.sleep_cost * (SMOOTH - 1) + late) / SMOOTH;
    }
}
