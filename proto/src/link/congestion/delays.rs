//! How long the queue on a path is: one-way delays, of which only differences mean anything, for the clocks differ.
//!
//! Beside [`crate::link::congestion`]. The least delay of the last one to two [`HISTORY`] counts as that of an empty queue. So
//! a way that becomes longer, and clocks that drift, are forgotten in time. Source: LEDBAT, RFC 6817, section 4.2.

use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

/// So short a delay was seen within one to two of these times. After each, the queue is drained once, to see it again.
const HISTORY: Duration = Duration::from_secs(15);

/// The shortest of some delays modulo 2^24, if all are known.
pub(crate) fn shortest(mut delays: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let first = delays.next()??;
    delays.try_fold(first, |least, delay| {
        delay.map(|delay| if micros_later(delay, least) < 0 { delay } else { least })
    })
}

/// How much longer a delay is than the shortest one.
pub(crate) fn beyond(delay: u32, shortest: u32) -> Duration {
    Duration::from_micros(u64::from(micros_later(delay, shortest).max(0).unsigned_abs()))
}

/// How much later `one` is than `other`, two delays modulo 2^24.
fn micros_later(one: u32, other: u32) -> i32 {
    (one.wrapping_sub(other) << 8).cast_signed() >> 8
}

/// The least of this period and of the one before.
#[derive(Clone, Copy, Debug)]
struct Least<T>([Option<T>; 2]);

impl<T> Default for Least<T> {
    fn default() -> Self {
        Self([None, None])
    }
}

impl<T: Ord + Copy> Least<T> {
    /// The least of all, this one included.
    fn note(&mut self, one: T) -> T {
        let least = self.0[0].map_or(one, |least| least.min(one));
        self.0[0] = Some(least);
        self.0[1].map_or(least, |before| before.min(least))
    }

    fn get(&self) -> Option<T> {
        self.0.into_iter().flatten().min()
    }

    fn roll(&mut self) {
        self.0 = [None, self.0[0]];
    }
}

/// The peer's clock as its reports name it.
#[derive(Debug, Default)]
struct Clock {
    /// The latest report, in microseconds modulo 2^32, and how long after the first one it was written.
    latest: Option<u32>,
    since: Duration,
    /// When the first one came here.
    first: Instant,
}

impl Clock {
    /// How long after the first report this one was written.
    fn read(&mut self, now: Instant, written: u32) -> Duration {
        let Some(latest) = self.latest.replace(written) else {
            self.first = now;
            return Duration::ZERO;
        };
        // A clock that goes back stands still meanwhile.
        let passed = written.wrapping_sub(latest).cast_signed().max(0);
        self.since += Duration::from_micros(u64::from(passed.unsigned_abs()));
        self.since
    }
}

/// The delays that were reported.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// The first that was reported: the others count from there.
    first: Option<u32>,
    /// How many heartbeats had come at the last report: before the first one comes, reports tell no delay.
    heartbeats: u8,
    /// The least, in microseconds.
    least: Least<i32>,
    /// The same of the trips of heartbeats, there and back, and of the ways of reports, by two clocks.
    trips: Least<Duration>,
    reports: Least<i64>,
    clock: Clock,
    began: Instant,
    /// The last one, from the first on, and when it was reported.
    latest: i32,
    at: Instant,
    quiet: Quiet,
}

/// Delays while hardly anything is sent: how much they differ shows how much the path varies by itself. A queue that others fill makes
/// delays longer and shorter, too, but not to and fro so often.
#[derive(Debug, Default)]
struct Quiet {
    delays: Vec<i32>,
    /// By how much all but the tenth that is least and the tenth that is greatest differ, if they go to and fro.
    spread: Option<Duration>,
}

/// So many are looked at, and up to so many times as many until they have gone to and fro.
const QUIET: usize = 64;
const QUIET_TURNS: usize = 6;
/// At first it is judged by fewer, and by still fewer if they hardly differ: how many, and by how many microseconds.
const QUIET_FIRST: usize = 20;
const ALIKE: (usize, i32) = (8, 500);
/// Delays that will be judged are no further apart.
const LEARNS_WITHIN: Duration = Duration::from_millis(30);
/// Times that delays rise from the least quarter to the greatest, or fall so far.
const SWINGS: usize = 4;

impl Quiet {
    /// Returns whether the spread is known anew.
    fn note(&mut self, delay: i32) -> bool {
        self.delays.push(delay);
        let is_first = self.spread.is_none();
        let (enough, turns) = if is_first { (QUIET_FIRST, 4) } else { (QUIET, QUIET_TURNS) };
        let seen = self.delays.len();
        let may_be_alike = is_first && seen == ALIKE.0;
        if !(may_be_alike || seen.is_multiple_of(enough)) {
            return false;
        }
        let mut sorted = self.delays.clone();
        sorted.sort_unstable();
        let part = |hundredths: usize| sorted[(seen * hundredths / 100).min(seen - 1)];
        if may_be_alike {
            let are_alike = part(100) - part(0) < ALIKE.1;
            self.spread = are_alike.then_some(Duration::ZERO);
            return are_alike;
        }
        let (low, high) = (part(25), part(75));
        let (mut swings, mut was_high) = (0, None);
        for is_high in
            self.delays.iter().filter(|delay| **delay <= low || **delay >= high).map(|delay| *delay >= high)
        {
            swings += usize::from(was_high.replace(is_high).is_some_and(|was_high| was_high != is_high));
        }
        let differ = Duration::from_micros(u64::from((part(90) - part(10)).unsigned_abs()));
        let is_over = swings >= SWINGS || seen >= enough * turns;
        if is_over {
            self.spread = Some(if swings >= SWINGS { differ } else { Duration::ZERO });
            self.delays.clear();
        }
        is_over
    }
}

impl Delays {
    /// How much longer `delay`, that of the latest heartbeat in microseconds modulo 2^24, is than the least; `None` when no heartbeat
    /// has come since the report before.
    pub(crate) fn queue(&mut self, now: Instant, heartbeats: u8, delay: u32) -> Option<Duration> {
        if core::mem::replace(&mut self.heartbeats, heartbeats) == heartbeats {
            return None;
        }
        if self.first.is_none() {
            (self.first, self.began) = (Some(delay), now);
        }
        let delay = micros_later(delay, self.first.unwrap_or(delay));
        (self.latest, self.at) = (delay, now);
        let least = self.least.note(delay);
        Some(Duration::from_micros(u64::from((delay - least).unsigned_abs())))
    }

    /// The delay that [`Self::queue`] was told last, in microseconds from the first one on.
    pub(super) fn latest(&self) -> i32 {
        self.latest
    }

    /// The last delay is one of a path on which hardly anything is sent, or on which more is. Returns whether it is known anew how much it
    /// varies.
    pub(super) fn note_quiet(&mut self, is_quiet: bool) -> bool {
        if is_quiet {
            self.quiet.note(self.latest)
        } else {
            self.quiet.delays.clear();
            false
        }
    }

    /// By how much a path varies on which nothing is sent, if that was seen.
    pub(super) fn spread(&self) -> Option<Duration> {
        self.quiet.spread
    }

    /// Whether delays come in quiet that are not judged yet.
    pub(super) fn is_learning(&self, now: Instant) -> bool {
        !self.quiet.delays.is_empty() && now.since(self.at) < LEARNS_WITHIN
    }

    /// What is known of a path that begins anew: how much it varies.
    pub(super) fn anew(&self) -> Self {
        let quiet = Quiet { spread: self.quiet.spread, ..Quiet::default() };
        Self { quiet, ..Self::default() }
    }

    /// A heartbeat came back after `trip`.
    pub(super) fn handle_trip(&mut self, trip: Duration) {
        self.trips.note(trip);
    }

    /// A report came that was `written` by the peer's clock, in microseconds modulo 2^32. Returns how long after the first one that was,
    /// and how much longer than the least it was on its way.
    pub(super) fn handle_report(&mut self, now: Instant, written: u32) -> (Duration, Duration) {
        let written = self.clock.read(now, written);
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let way = micros(now.since(self.clock.first)) - micros(written);
        let later = way - self.reports.note(way);
        (written, Duration::from_micros(later.unsigned_abs()))
    }

    /// The shortest trip.
    pub(super) fn shortest_trip(&self) -> Option<Duration> {
        self.trips.get()
    }

    /// The least, modulo 2^24.
    pub(super) fn least(&self) -> Option<u32> {
        Some(self.first?.wrapping_add_signed(self.least.get()?) & 0xff_ffff)
    }

    /// Whether the period is over.
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        now.since(self.began) >= HISTORY
    }

    /// A period ends.
    pub(crate) fn roll(&mut self, now: Instant) {
        self.least.roll();
        self.trips.roll();
        self.reports.roll();
        self.began = now;
    }

    /// What comes next is the least.
    pub(super) fn forget(&mut self) {
        (self.least, self.trips, self.reports) = (Least::default(), Least::default(), Least::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many delays it is known how much they differ, in microseconds.
    fn judged(quiet: &mut Quiet, delay: impl Fn(i32) -> i32) -> (i32, Option<u128>) {
        let seen = (1..=1_000).find(|number| quiet.note(delay(*number))).expect("it is judged");
        (seen, quiet.spread.map(|spread| spread.as_micros()))
    }

    #[test]
    fn a_path_is_soon_known_to_be_steady_or_to_vary_and_slow_changes_are_given_time() {
        let mut steady = Quiet::default();
        assert_eq!(judged(&mut steady, |number| number % 2 * 400), (8, Some(0)), "they hardly differ");
        let to_and_fro = |number: i32| number % 2 * 4_000;
        assert_eq!(judged(&mut Quiet::default(), to_and_fro), (20, Some(4_000)));
        let grows = |number: i32| number * 600;
        assert_eq!(judged(&mut Quiet::default(), grows), (80, Some(0)), "a queue that grows is no variation");
        // Half a second there, half a second back.
        let slowly = |number: i32| (number / 50 % 2) * 10_000;
        steady.delays.clear();
        assert_eq!(judged(&mut steady, slowly), (256, Some(10_000)));
        assert_eq!(judged(&mut steady, grows), (384, Some(0)));
    }

    #[test]
    fn delays_are_compared_across_the_end_of_their_range() {
        let delays = [Some(0xff_fff0), Some(20), Some(0xff_fff8)];
        assert_eq!(shortest(delays.into_iter()), Some(0xff_fff0));
        assert_eq!(beyond(20, 0xff_fff0), Duration::from_micros(36));
        assert_eq!(shortest([Some(1), None].into_iter()), None, "one is not known");
    }
}
