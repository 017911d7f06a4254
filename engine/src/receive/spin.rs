//! How long to spin: what waits were like lately, how much processor time is left, whether many frames move, and the back-off.
//!
//! Part of [`super`]. A wait that the worker spun through costs its length; another one costs what it spun in vain, and
//! a sleep. [`Waits::best`] computes the time to spin that would have cost least, so short and long waits need no
//! model.

use core::time::Duration;

use tabane_proto::time::{Instant, nanos};

/// How many waits are remembered: enough to distinguish two kinds, few enough to forget soon.
const REMEMBERED: usize = 16;
/// The next wait is not exactly as long as one before it.
const MARGIN: u32 = 4;

/// The last waits, in nanoseconds, in no order that matters.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    lengths: [u32; REMEMBERED],
    /// The number of all waits so far.
    count: usize,
}

impl Waits {
    /// Adds the length of a wait; longer than 4 s counts as 4 s.
    pub(super) fn record(&mut self, length: Duration) {
        self.lengths[self.count % REMEMBERED] = u32::try_from(length.as_nanos()).unwrap_or(u32::MAX);
        self.count += 1;
    }

    /// How long to spin for the next frame, when a sleep costs as much as spinning for `sleep`.
    pub(super) fn best(&self, sleep: Duration) -> Duration {
        let lengths = &self.lengths[..self.count.min(REMEMBERED)];
        let sleep = u64::try_from(sleep.as_nanos()).unwrap_or(u64::MAX);
        let cost = |spin: u32| -> u64 {
            let cost = |wait: u32| if wait <= spin { u64::from(wait) } else { u64::from(spin) + sleep };
            lengths.iter().map(|wait| cost(*wait)).sum()
        };
        let never = (sleep * lengths.len() as u64, 0);
        // Of equals the shortest.
        let (_, best) = lengths.iter().map(|spin| (cost(*spin), *spin)).fold(never, Ord::min);
        let best = Duration::from_nanos(best.into());
        best + best / MARGIN
    }
}

// The token bucket: how much processor time spinning may take.
//
// A share of the time that passes fills it, up to a window's worth, and spinning empties it; so no
// span sees more than its share and one window's. When it is empty, the worker waits for half a window's worth: many
// short spins, each too short, would gain nothing.

/// The bucket holds at most the share of this time.
pub(super) const WINDOW_NS: u64 = 20_000_000;

/// A balance, in hundredths of nanoseconds so that percents are exact.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    percent: u64,
    left: i64,
    at: Instant,
    /// Whether it was used up, and is not yet half full.
    is_saving: bool,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(now: Instant, percent: u8) -> Self {
        let percent = u64::from(percent.min(100));
        Self { percent, left: signed(WINDOW_NS * percent), at: now, is_saving: false }
    }

    /// Whether there is something to spend, and it is not being refilled.
    pub(super) fn holds(&mut self, now: Instant) -> bool {
        let full = signed(WINDOW_NS * self.percent);
        let gained = signed(nanos(now.since(self.at)).saturating_mul(self.percent));
        self.left = self.left.saturating_add(gained).min(full);
        self.at = self.at.max(now);
        self.is_saving = if self.is_saving { self.left < full / 2 } else { self.left <= 0 };
        // With a share of 0 there is never anything to spend.
        !self.is_saving && self.left > 0
    }

    /// Takes out what was spent until `now`.
    pub(super) fn spend(&mut self, now: Instant, spent: Duration) {
        self.holds(now);
        self.left = self.left.saturating_sub(signed(nanos(spent).saturating_mul(100)));
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

// Whether many frames move.
//
// It counts frames over spans of time that are long beside a burst of one flow.

pub(super) const SPAN: Duration = Duration::from_millis(10);
/// Frames are many when the time between two is shorter than a wake-up on another processor
/// (`docs/lessons.md`): then the sleeps cost more than the frames.
const MANY: Duration = Duration::from_micros(25);

/// The frames of the present span.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    frames: u64,
    since: Instant,
    is_high: bool,
}

impl Rate {
    /// Counts frames that moved until `now`.
    pub(super) fn count(&mut self, now: Instant, frames: u32) {
        self.frames += u64::from(frames);
        let passed = now.since(self.since);
        if passed >= SPAN {
            self.is_high = nanos(passed) < self.frames.saturating_mul(nanos(MANY));
            (self.frames, self.since) = (0, now);
        }
    }

    /// Whether they were many in the last span.
    pub(super) fn is_high(&self) -> bool {
        self.is_high
    }
}

// Back-off: how long the worker does not spin after other threads had the processor.
//
// A program that computes gets the processor at each poll of a worker that spins. A worker that
// sleeps finds a frame sooner, as the kernel wakes it before others. A rare interruption, which any machine has, is no
// reason to sleep. The frames that spinning caught in between distinguish the two cases.

/// How long at least and at most: twice as long as the time before, and half as long for each [`PAID_BY`] frames that
/// were caught since.
const LENGTH_MIN: Duration = Duration::from_millis(1);
const LENGTH_MAX: Duration = Duration::from_millis(640);
/// A scheduler lets others run for 3 ms. A frame that is caught saves a sleep, which costs some 20 us; so many make up
/// for it.
const PAID_BY: u64 = 128;

/// The present back-off, or the last one.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    until: Instant,
    length: Duration,
    /// How many frames had ever been caught when it began.
    caught: u64,
}

impl BackOff {
    /// Without a back-off yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { until: now, length: Duration::ZERO, caught: 0 }
    }

    /// Begins a back-off: others had the processor for long until `now`. `caught`: frames that spinning has ever
    /// caught.
    pub(super) fn begin(&mut self, now: Instant, caught: u64) {
        let paid = (caught - self.caught) / PAID_BY;
        let halved = 2_u32.saturating_pow(u32::try_from(paid).unwrap_or(u32::MAX));
        self.length = (2 * self.length / halved).clamp(LENGTH_MIN, LENGTH_MAX);
        (self.until, self.caught) = (now + self.length, caught);
    }

    /// Whether the worker backs off.
    pub(super) fn holds(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Whether others probably still want the processor. Only a poll could show it, so they are assumed to go on for as
    /// long again.
    pub(super) fn echoes(&self, now: Instant) -> bool {
        now < self.until + self.length
    }
}
