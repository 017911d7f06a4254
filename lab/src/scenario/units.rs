//! Times, shares and sizes as people write them in a scenario: a number and a unit, nothing else. Rates are written as
//! in the daemon's configuration.
//!
//! A bare number is refused: nobody can tell 5 ms from 5 s by it.

use std::time::Duration;

use tabane::config::units::{print_exactly, quantity};

/// Units with their factors, largest first: nanoseconds, millionths, bytes.
const TIMES: [(&str, u64); 5] =
    [("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const SHARES: [(&str, u64); 2] = [("%", 10_000), ("ppm", 1)];
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// What is taken, for error sentences.
pub(super) const TIME_ALLOWED: &str =
    "a number and one of ns, us, ms, s, min, up to 60 min, such as \"1.5 ms\"";
pub(super) const SHARE_ALLOWED: &str =
    "a number and one of ppm, %, up to 100 %, such as \"0.5 %\"; no finer than 1 ppm";
pub(super) const SIZE_ALLOWED: &str =
    "a number and one of B, kB, KiB, MB, MiB, GB, GiB, from 1 B to 16 GiB, such as \"64 MiB\"";

const TIME_MAX_NS: u64 = 3_600_000_000_000;
const SHARE_MAX: u64 = 1_000_000;
const SIZE_MAX: u64 = 16 << 30;

/// A share, to the millionth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    pub(super) per_million: u32,
}

impl Share {
    /// 0 to 1.
    pub(super) fn of_one(self) -> f64 {
        f64::from(self.per_million) / 1e6
    }
}

pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    quantity(text, &TIMES, "nanoseconds", 0..=TIME_MAX_NS).map(Duration::from_nanos)
}

pub(super) fn parse_share(text: &str) -> Result<Share, String> {
    let per_million = quantity(text, &SHARES, "ppm", 0..=SHARE_MAX)?;
    Ok(Share { per_million: u32::try_from(per_million).map_err(|error| error.to_string())? })
}

pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    quantity(text, &SIZES, "bytes", 1..=SIZE_MAX)
}

/// Reads back as the same, as do the next two.
pub(super) fn print_time(time: Duration) -> String {
    print_exactly(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), &TIMES)
}

pub(super) fn print_share(share: Share) -> String {
    print_exactly(share.per_million.into(), &SHARES)
}

pub(super) fn print_size(bytes: u64) -> String {
    print_exactly(bytes, &SIZES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_people_write() {
        assert_eq!(parse_time("1.5 ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_time("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_share("0.5 %"), Ok(Share { per_million: 5_000 }));
        assert_eq!(parse_share("100%"), Ok(Share { per_million: 1_000_000 }));
        assert_eq!(parse_size("16 MiB"), Ok(16 << 20));
    }

    #[test]
    fn what_is_refused_and_why() {
        assert_eq!(parse_time("5"), Err("`5` has no unit".into()));
        assert_eq!(parse_time("5 sec"), Err("unknown unit `sec`".into()));
        assert_eq!(parse_time("61 min"), Err("`61 min` is out of range".into()));
        assert_eq!(parse_share("0.00001 %"), Err("`0.00001 %` is not a whole number of ppm".into()));
        assert_eq!(parse_share("101 %"), Err("`101 %` is out of range".into()));
        assert_eq!(parse_size("0 B"), Err("`0 B` is out of range".into()));
        assert_eq!(parse_size("-1 B"), Err("unknown unit `-1 B`".into()));
    }

    proptest! {
        #[test]
        fn printed_quantities_read_back(time in 0..=TIME_MAX_NS, share in 0..=1_000_000_u32, size in 1..=SIZE_MAX) {
            let (time, share) = (Duration::from_nanos(time), Share { per_million: share });
            prop_assert_eq!(parse_time(&print_time(time)), Ok(time));
            prop_assert_eq!(parse_share(&print_share(share)), Ok(share));
            prop_assert_eq!(parse_size(&print_size(size)), Ok(size));
        }
    }
}
