//! How a worker waits for what comes: the receive engine.
//!
//! To sleep until the kernel tells of something costs little while nothing comes, and much each time that something does:
//! the processor went idle and has to come back. To look again and again ([`Wait::Look`]) finds at once what came, and
//! costs a processor. [`Method::Adaptive`] looks while that pays. How long it would have had to look lately is known
//! ([`waits`]), as is what a sleep costs (how late the last ones ended); so each wait begins with looking for as long as
//! would have cost least, if at all. After frames that left the device an answer is waited for, after frames for it what
//! its host does next; so each kind is remembered for itself.
//!
//! What looking takes of a processor is bounded ([`allowance`]), and whoever looks lets others go first. Where they take
//! long, looking ends for a while ([`calm`]); but not while many frames move ([`rate`]): then they gather until the others
//! are done, where a sleeper would be woken for each, ahead of those who make and read them.
//!
//! Only frames count. Heartbeats and timers interrupt a wait without ending it, so that a quiet bundle sleeps.
//!
//! What no interrupt tells of (a window of memory) bounds each sleep: under traffic by the interval that was configured
//! for it, in quiet by an eighth of the silence and [`SELDOM`].
//!
//! Call [`Receive::turn`] when a turn is over, then [`Receive::next`] and, when what it says was done and looked after,
//! [`Receive::looked`], until something came or is due.
//!
//! Invariants: [`Wait::Look`] takes no larger part of any span than [`Settings::share`], but for one window's worth and
//! the last look. Source: P3, section 3 (polling by a timer); Karlin et al., "Competitive snoopy caching", 1988 (who looks
//! for no longer than a sleep costs never pays more than twice).

mod allowance;
mod calm;
mod rate;
#[cfg(test)]
mod tests;
mod waits;

use crate::time::Instant;
use allowance::Allowance;
use calm::Calm;
use core::time::Duration;
use rate::Rate;
use waits::Waits;

/// What a microsecond of delay is worth, in microseconds of a processor that would be idle.
const WORTH: u32 = 4;
/// How often is looked, at least, at what no interrupt tells of.
const SELDOM: Duration = Duration::from_millis(5);
/// The part of the silence after which it is looked at next.
const PART: u32 = 8;
/// What a sleep is taken to cost before one was measured, and bounds of what is believed.
const SLEEP_COST: Duration = Duration::from_micros(20);
const SLEEP_COST_MIN: Duration = Duration::from_micros(2);
const SLEEP_COST_MAX: Duration = Duration::from_micros(100);
/// How much of a new measurement is believed: one part in so many.
const SMOOTH: u32 = 8;
/// Between two looks, somebody else had the processor for longer than it takes to be woken.
const CROWDED: Duration = Duration::from_micros(250);

/// The names of the engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Sleeps until the kernel tells of something.
    Interrupt,
    /// Looks once in each interval.
    Timer,
    /// Looks all the time.
    Busy,
    /// Looks while that pays, else sleeps.
    #[default]
    Adaptive,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::Timer, Self::Busy, Self::Adaptive];

    /// The name in files, flags and the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Timer => "timer",
            Self::Busy => "busy",
            Self::Adaptive => "adaptive",
        }
    }
}

/// What an engine goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which engine.
    pub method: Method,
    /// [`Method::Timer`]: from the end of a look to the next.
    pub interval: Duration,
    /// [`Method::Adaptive`]: the largest part of one processor that looking may take, 0 to 100 percent.
    pub share: u8,
}

impl Default for Settings {
    /// Adaptive, with most of a processor: a ping-pong alone takes four fifths (`docs/perf-log.md`); 20 us.
    fn default() -> Self {
        Self { method: Method::default(), interval: Duration::from_micros(20), share: 90 }
    }
}

/// What to do before the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing, but let others have the processor if they want it.
    Look,
    /// Sleep so long, unless the kernel tells of something.
    Sleep(Duration),
    /// Sleep so long, whatever comes.
    Nap(Duration),
}

/// What has happened since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sleeps and naps.
    pub sleeps: u64,
    /// Looks without a sleep before them.
    pub looks: u64,
    /// Those of them that found something.
    pub caught: u64,
    /// How long was looked, in nanoseconds.
    pub looked_ns: u64,
    /// How often others wanted the processor for so long that looking ended.
    pub crowded: u64,
}

impl Counters {
    /// Name and value of each.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { sleeps, looks, caught, looked_ns, crowded } = *self;
        [
            ("receive_sleeps", sleeps),
            ("receive_looks", looks),
            ("receive_caught", caught),
            ("receive_looked_us", looked_ns / 1_000),
            ("receive_crowded", crowded),
        ]
        .into_iter()
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
    /// Waits after turns that moved frames to the device alone, and after those that moved some from it ([`Self::sent`]).
    waits: [Waits; 2],
    rate: Rate,
    allowance: Allowance,
    counters: Counters,
    /// What a sleep costs.
    sleep_cost: Duration,
    /// Since when frames are waited for: the end of the last turn that moved some.
    since: Instant,
    /// Whether that turn moved frames from the device.
    sent: bool,
    /// Until when is looked in this wait.
    look_until: Instant,
    /// Whether there was a sleep in this wait.
    slept: bool,
    /// Whether others had the processor for long in this wait.
    yielded: bool,
    /// When something was found since the last turn.
    found: Option<Instant>,
    /// What is being done, and since when.
    doing: Option<(Instant, Wait)>,
    /// After others had the processor for long.
    calm: Calm,
}

impl Receive {
    /// An engine that begins `now`.
    #[must_use]
    pub fn new(now: Instant, settings: Settings) -> Self {
        Self {
            settings,
            waits: Default::default(),
            rate: Rate::default(),
            allowance: Allowance::new(now, settings.share),
            counters: Counters::default(),
            sleep_cost: SLEEP_COST,
            // No frame has moved yet.
            since: Instant::default(),
            sent: false,
            look_until: now,
            slept: false,
            yielded: false,
            found: None,
            doing: None,
            calm: Calm::new(now),
        }
    }

    /// What it goes by.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Goes by something else from `now` on; what was counted and learnt stays.
    pub fn change(&mut self, now: Instant, settings: Settings) {
        self.allowance = Allowance::new(now, settings.share);
        self.settings = settings;
        self.look_until = now;
    }

    /// What has happened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// A turn is over, and moved these frames. After frames a new wait begins.
    pub fn turn(&mut self, now: Instant, moved: Moved) {
        let found = self.found.take();
        self.doing = None;
        self.rate.count(now, moved.from_device + moved.to_device);
        if moved == Moved::default() {
            return;
        }
        // Beside others, a wait is as long as they take.
        if let Some(found) = found.filter(|_| !self.yielded) {
            let woken = if self.slept { self.sleep_cost } else { Duration::ZERO };
            self.waits[usize::from(self.sent)].record(found.since(self.since).saturating_sub(woken));
        }
        (self.since, self.sent) = (now, moved.from_device > 0);
        (self.slept, self.yielded) = (false, false);
        self.look_until = now + self.look_for(now);
    }

    /// How to wait, from `now` until `due` at the latest. `unannounced`: how often is to be looked, under traffic, at what
    /// the kernel does not tell of; `None`: it tells of everything.
    #[must_use]
    pub fn next(&mut self, now: Instant, due: Instant, unannounced: Option<Duration>) -> Wait {
        let left = due.since(now);
        let wait = match self.settings.method {
            Method::Busy => Wait::Look,
            Method::Timer => Wait::Nap(left.min(self.settings.interval)),
            Method::Adaptive if self.looks(now) && self.allowance.holds(now) => Wait::Look,
            Method::Interrupt | Method::Adaptive => Wait::Sleep(left.min(self.until_look(now, unannounced))),
        };
        self.counters.sleeps += u64::from(wait != Wait::Look);
        self.slept |= wait != Wait::Look;
        self.doing = Some((now, wait));
        wait
    }

    /// What [`Self::next`] said was done, and then looked; `found`: something came.
    pub fn looked(&mut self, now: Instant, found: bool) {
        let Some((begun, wait)) = self.doing.take() else { return };
        let took = now.since(begun);
        match wait {
            Wait::Look => self.account(now, took, found),
            Wait::Sleep(length) if !found && took >= length => self.learn(took.saturating_sub(length)),
            Wait::Sleep(_) | Wait::Nap(_) => {}
        }
        if found {
            self.found = Some(now);
        }
    }

    /// How long a wait that begins now is to look.
    fn look_for(&self, now: Instant) -> Duration {
        let waits = &self.waits[usize::from(self.sent)];
        if self.calm.holds(now) { Duration::ZERO } else { waits.best(self.sleep_cost * WORTH) }
    }

    /// Whether looking pays, or lets frames gather.
    fn looks(&self, now: Instant) -> bool {
        now < self.look_until || self.calm.echoes(now) && self.rate.is_high()
    }

    /// How long until what the kernel does not tell of has to be looked at.
    fn until_look(&self, now: Instant, unannounced: Option<Duration>) -> Duration {
        let within = |often: Duration| (now.since(self.since) / PART).clamp(often, SELDOM.max(often));
        unannounced.map_or(Duration::MAX, within)
    }

    /// A look without a sleep took so long.
    fn account(&mut self, now: Instant, took: Duration, found: bool) {
        self.counters.looks += 1;
        self.counters.caught += u64::from(found);
        // What goes beyond was somebody else's time.
        let ours = took.min(CROWDED);
        self.counters.looked_ns += crate::time::nanos(ours);
        self.allowance.spend(now, ours);
        if took > CROWDED {
            self.counters.crowded += 1;
            self.yielded = true;
            self.look_until = now;
            self.calm.begin(now, self.counters.caught);
        }
    }

    /// A sleep ended so much later than it was to.
    fn learn(&mut self, late: Duration) {
        let late = late.clamp(SLEEP_COST_MIN, SLEEP_COST_MAX);
        self.sleep_cost = (self.sleep_cost * (SMOOTH - 1) + late) / SMOOTH;
    }
}
