//! The clock of the measurements, and the cost of reading it.

use std::time::Instant;

/// Reading the clock should cost less than this, in nanoseconds; a report says when it costs more.
pub(crate) const COST_ALLOWED_NS: f64 = 50.0;
/// Reads in each of the batches by which the cost is measured.
const READS: u32 = 20_000;
/// Batches; the fastest one was least disturbed.
const BATCHES: usize = 9;

/// CLOCK_MONOTONIC, counted from when the measurement was set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that shows 0 now.
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Nanoseconds since the start.
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

/// Nanoseconds as microseconds.
pub(crate) fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
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
}
