//! The clock of the measurements, and the cost of reading it.

use std::thread;
use std::time::{Duration, Instant};

/// Reading the clock should cost less than this, in nanoseconds; a report says when it costs more.
pub(crate) const COST_ALLOWED_NS: f64 = 50.0;
const READS: u32 = 20_000;
/// Batches; the fastest one was least disturbed.
const BATCHES: usize = 9;

/// CLOCK_MONOTONIC, counted from when the measurement was set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now_ns(self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The cost of one read, in nanoseconds, measured now.
    pub(crate) fn cost_ns(self) -> f64 {
        let batch = |_| {
            let begin = Instant::now();
            let last = (0..READS).fold(0, |_, _| std::hint::black_box(self.now_ns()));
            std::hint::black_box(last);
            begin.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
        };
        (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
    }
}

pub(crate) fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

// An offered load: when the next message is due.
//
// A sleep ends some 60 µs late, so at high rates several messages follow at once. Spinning would be more
// even, but would take a processor from the measured system.

/// How far a delayed sender may catch up, in nanoseconds; it skips the messages before.
const CATCH_UP_NS: u64 = 50_000_000;
/// Part of the offered load that counts as reached.
const REACHED: f64 = 0.98;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Nanoseconds between two messages; 0 when there is no limit.
    distance_ns: f64,
    /// When the next one is due, in nanoseconds of the clock.
    due_ns: f64,
}

impl Pace {
    /// Messages of `size` bytes that make `mbit` Mbit/s from `start_ns` on; no limit without a rate.
    pub(crate) fn new(size: u32, mbit: Option<f64>, start_ns: u64) -> Pace {
        let distance_ns = mbit.map_or(0.0, |mbit| f64::from(size) * 8e3 / mbit);
        Pace { distance_ns, due_ns: start_ns as f64 }
    }

    pub(crate) fn wait(&mut self, clock: Clock) {
        if self.distance_ns <= 0.0 {
            return;
        }
        let late = clock.now_ns() as f64 - self.due_ns;
        if late > CATCH_UP_NS as f64 {
            self.due_ns += late - CATCH_UP_NS as f64;
        }
        let left = self.due_ns - clock.now_ns() as f64;
        if left > 0.0 {
            thread::sleep(Duration::from_secs_f64(left / 1e9));
        }
        self.due_ns += self.distance_ns;
    }
}

/// The cell of a table for an offered load of which `mbit` Mbit/s arrived.
pub(crate) fn verdict(offered: Option<f64>, mbit: f64) -> String {
    match offered {
        None => "no limit".to_owned(),
        Some(offered) if is_reached(offered, mbit) => format!("{offered} reached"),
        Some(offered) => format!("{offered} NOT reached"),
    }
}

pub(crate) fn is_reached(offered: f64, mbit: f64) -> bool {
    mbit >= REACHED * offered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_time_but_little() {
        let clock = Clock::start();
        let (earlier, cost, later) = (clock.now_ns(), clock.cost_ns(), clock.now_ns());
        assert!(later > earlier);
        assert!(cost > 0.5 && cost < 100_000.0, "{cost} ns");
    }

    #[test]
    fn messages_keep_their_distance() {
        let clock = Clock::start();
        let mut pace = Pace::new(1_000, Some(8.0), clock.now_ns());
        (0..21).for_each(|_| pace.wait(clock));
        // 1,000 bytes at 8 Mbit/s are a millisecond; the first one is due at once.
        assert!(clock.now_ns() >= 20_000_000, "{} ns", clock.now_ns());
    }

    #[test]
    fn what_was_missed_for_long_is_not_made_up() {
        let clock = Clock::start();
        let mut pace = Pace { distance_ns: 1e6, due_ns: -1e9 };
        pace.wait(clock);
        assert!(pace.due_ns > -(CATCH_UP_NS as f64) - 1e6);
    }

    #[test]
    fn a_load_that_is_not_reached_is_called_so() {
        assert_eq!(verdict(Some(100.0), 99.1), "100 reached");
        assert_eq!(verdict(Some(100.0), 70.0), "100 NOT reached");
        assert_eq!(verdict(None, 70.0), "no limit");
    }
}
