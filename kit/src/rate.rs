//! A bit rate: how it is written for people and for `tc`.

use std::fmt;

/// Bits per second on the wire, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bitrate(u64);

impl Bitrate {
    /// `rate` million bits per second.
    pub const fn mbit(rate: u64) -> Bitrate {
        Bitrate(rate * 1_000_000)
    }

    /// `rate` thousand million bits per second.
    pub const fn gbit(rate: u64) -> Bitrate {
        Bitrate(rate * 1_000_000_000)
    }

    /// `rate` bits per second, at least 1.
    pub const fn bits(rate: u64) -> Bitrate {
        Bitrate(if rate == 0 { 1 } else { rate })
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Million bits per second.
    pub const fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Bytes that pass in `milliseconds`.
    pub const fn bytes_in(self, milliseconds: u64) -> u64 {
        self.0 / 8 * milliseconds / 1000
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
        let (scale, unit) = units.into_iter().find(|(scale, _)| self.0 >= *scale).unwrap_or((1, "bit/s"));
        write!(out, "{} {unit}", self.0 as f64 / scale as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_in_the_largest_unit_that_fits() {
        assert_eq!(Bitrate::gbit(1).to_string(), "1 Gbit/s");
        assert_eq!(Bitrate::mbit(2500).to_string(), "2.5 Gbit/s");
        assert_eq!(Bitrate::mbit(100).to_string(), "100 Mbit/s");
    }
}
