//! Time as every part of the lab tells it: CLOCK_MONOTONIC, the clock of the daemon's events, and bounded waiting.

use anyhow::Result;
pub use tabane_netns::wait_for;

/// When a change took effect, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Right before the command was given.
    pub before_ns: u64,
    /// Right after it had been acknowledged: it was in effect by then.
    pub after_ns: u64,
}

/// CLOCK_MONOTONIC in nanoseconds, comparable with `at_ns` of a daemon's events.
pub fn monotonic_ns() -> Result<u64> {
    Ok(tabane_io::now_ns())
}

/// Milliseconds from `from_ns` to `to_ns`; zero when `to_ns` is the earlier one.
pub fn milliseconds_between(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}
