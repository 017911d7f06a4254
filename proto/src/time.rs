//! Time as an argument: a point on the caller's monotonic clock.
//!
//! The core never reads a clock. The daemon passes the kernel's time in, the simulator its own.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time in nanoseconds on one node's monotonic clock. Two nodes' clocks are unrelated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// The point `nanos` nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Microseconds since the clock's zero, modulo 2^32 (71 minutes): the form in which times travel.
    #[expect(clippy::cast_possible_truncation, reason = "times on the wire wrap on purpose")]
    pub const fn as_wire_micros(self) -> u32 {
        (self.0 / 1_000) as u32
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// A duration in nanoseconds, at most the 584 years that 64 bits hold.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration in microseconds as it travels: at most the 71 minutes that 32 bits hold.
pub fn wire_micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
