//! Bit rates, sizes and intervals as people write them: a number and a unit, nothing else.
//!
//! Bytes per second, binary prefixes and bare numbers are refused: a factor of 8 or 1.05 in a link's rate
//! would make a link look slow, and nobody would see the error.

use std::ops::RangeInclusive;
use std::time::Duration;

use tabane_engine::fragments::Fragments;
use tabane_io::PIECES;

use super::problem::quoted;

/// What [`parse_bitrate`] takes, for error sentences.
pub const BITRATE_ALLOWED: &str =
    "a number and one of bit/s, kbit/s, Mbit/s, Gbit/s, from 1 kbit/s to 1000 Gbit/s, such as \"2.5 Gbit/s\"";

/// Units with their factor to bits per second, largest first.
const UNITS: [(&str, u64); 4] =
    [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)];

/// Lowest and highest rate of a link, in bits per second.
const BITRATE_MIN: u64 = 1_000;
const BITRATE_MAX: u64 = 1_000_000_000_000;

/// Reads a bit rate; the result is in bits per second.
pub fn parse_bitrate(text: &str) -> Result<u64, String> {
    let (_, unit) = split(text);
    if unit.contains('B') {
        return Err(format!("unit {} counts bytes, not bits", quoted(unit)));
    }
    quantity(text, &UNITS, "bits", BITRATE_MIN..=BITRATE_MAX)
}

/// A rate in the largest unit that holds it exactly: [`parse_bitrate`] gives the same rate back.
pub fn print_bitrate(bits_per_second: u64) -> String {
    print_exactly(bits_per_second, &UNITS)
}

/// `value` in the first of `units`, each with its factor, that holds it exactly; the last one always does.
///
/// # Panics
/// There are no units.
pub fn print_exactly(value: u64, units: &[(&str, u64)]) -> String {
    let exact = units.iter().find(|(_, factor)| value.is_multiple_of(*factor));
    let (unit, factor) = exact.or(units.last()).expect("a quantity has a unit");
    format!("{} {unit}", value / factor)
}

/// Reads a decimal number and one of `units`, each with its factor to what a `whole` number is wanted of.
pub fn quantity(
    text: &str,
    units: &[(&str, u64)],
    whole: &str,
    range: RangeInclusive<u64>,
) -> Result<u64, String> {
    let (number, unit) = split(text);
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(match unit {
            "" => format!("{} has no unit", quoted(text)),
            _ => format!("unknown unit {}", quoted(unit)),
        });
    };
    let value =
        scale(number, *factor).ok_or_else(|| format!("{} is not a whole number of {whole}", quoted(text)))?;
    let value = u64::try_from(value).ok().filter(|value| range.contains(value));
    value.ok_or_else(|| format!("{} is out of range", quoted(text)))
}

/// The number and the unit of a quantity; neither is checked.
fn split(text: &str) -> (&str, &str) {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..split], text[split..].trim_start_matches(' '))
}

/// `number * factor` without rounding; `None` when it is no number or not whole. 128 bits, so that rates far out of
/// range are called that.
fn scale(number: &str, factor: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = whole.parse::<u128>().ok()?.checked_mul(factor.into())?;
    let fraction = fraction.parse::<u128>().ok()?.checked_mul(factor.into())?;
    fraction.is_multiple_of(divisor).then_some(())?;
    whole.checked_add(fraction / divisor)
}

/// What [`parse_size`] takes, for error sentences.
pub const SIZE_ALLOWED: &str = "a number and one of B, KiB, MiB, GiB, such as \"4 KiB\"";
/// What [`parse_interval`] takes, for error sentences.
pub const INTERVAL_ALLOWED: &str = "a number and one of us, ms, from 1 us to 100 ms, such as \"32 us\"";

/// What [`parse_share`] takes, for error sentences.
pub const SHARE_ALLOWED: &str = "a whole number and %, from 0 % to 100 %, such as \"50 %\"";

const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const SHARES: [(&str, u64); 1] = [("%", 1)];
const INTERVALS: [(&str, u64); 2] = [("ms", 1_000), ("us", 1)];
/// Longest interval, in microseconds.
const INTERVAL_MAX: u64 = 100_000;

/// Reads a number of bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    quantity(text, &SIZES, "bytes", 0..=u64::MAX)
}

/// A size in the largest unit that holds it exactly: [`parse_size`] gives the same back.
pub fn print_size(bytes: u64) -> String {
    print_exactly(bytes, &SIZES)
}

pub fn parse_interval(text: &str) -> Result<Duration, String> {
    quantity(text, &INTERVALS, "microseconds", 1..=INTERVAL_MAX).map(Duration::from_micros)
}

/// An interval of whole microseconds in the largest unit that holds it exactly: [`parse_interval`] gives the same back.
pub fn print_interval(interval: Duration) -> String {
    print_exactly(u64::try_from(interval.as_micros()).unwrap_or(u64::MAX), &INTERVALS)
}

/// Reads a part of something; the result is in percent.
pub fn parse_share(text: &str) -> Result<u8, String> {
    let share = quantity(text, &SHARES, "percent", 0..=100)?;
    u8::try_from(share).map_err(|_| format!("{} is out of range", quoted(text)))
}

/// A part of something: [`parse_share`] gives the same back.
pub fn print_share(percent: u8) -> String {
    print_exactly(percent.into(), &SHARES)
}

// Which fragments of a frame are copied: `auto`, `gather`, `copy` or a number.

/// What [`parse_fragments`] takes, for error sentences.
pub(crate) const FRAGMENTS_ALLOWED: &str =
    "auto, gather, copy, or how many of the first are copied, such as \"3\", from 2 to 128";

pub(crate) fn parse_fragments(text: &str) -> Result<Fragments, String> {
    match text {
        "auto" => Ok(Fragments::default()),
        "gather" => Ok(Fragments::ScatterGather),
        "copy" => Ok(Fragments::CopyAll),
        number => match number.parse() {
            Ok(first @ 2..=PIECES) => Ok(Fragments::CopyFirst(first)),
            Ok(_) => Err(format!("{} is out of range", quoted(text))),
            Err(_) => Err(format!("{} is unknown", quoted(text))),
        },
    }
}

/// Which fragments are copied: [`parse_fragments`] gives the same back, without what was measured.
pub fn print_fragments(fragments: &Fragments) -> String {
    match fragments {
        Fragments::Auto(_) => "auto".to_owned(),
        Fragments::ScatterGather => "gather".to_owned(),
        Fragments::CopyAll => "copy".to_owned(),
        Fragments::CopyFirst(first) => first.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_people_write() {
        assert_eq!(parse_bitrate("1 Gbit/s"), Ok(1_000_000_000));
        assert_eq!(parse_bitrate("2.5Gbit/s"), Ok(2_500_000_000));
        assert_eq!(parse_bitrate("100 Mbit/s"), Ok(100_000_000));
        assert_eq!(parse_bitrate("64 kbit/s"), Ok(64_000));
        assert_eq!(parse_bitrate("1000 bit/s"), Ok(1_000));
        assert_eq!(parse_bitrate("1000 Gbit/s"), Ok(BITRATE_MAX));
    }

    #[test]
    fn what_is_refused_and_why() {
        let why = |text| parse_bitrate(text).expect_err(text);
        assert_eq!(why("100 MB/s"), "unit `MB/s` counts bytes, not bits");
        assert_eq!(why("100"), "`100` has no unit");
        assert_eq!(why("1 gbit/s"), "unknown unit `gbit/s`");
        assert_eq!(why("1 Gibit/s"), "unknown unit `Gibit/s`");
        assert_eq!(why("-1 Gbit/s"), "unknown unit `-1 Gbit/s`");
        assert_eq!(why(""), "`` has no unit");
        assert_eq!(why("Gbit/s"), "`Gbit/s` is not a whole number of bits");
        assert_eq!(why("1.2.3 Gbit/s"), "`1.2.3 Gbit/s` is not a whole number of bits");
        assert_eq!(why("1000.5 bit/s"), "`1000.5 bit/s` is not a whole number of bits");
        assert_eq!(why("0 Gbit/s"), "`0 Gbit/s` is out of range");
        assert_eq!(why("999 bit/s"), "`999 bit/s` is out of range");
        assert_eq!(why("1001 Gbit/s"), "`1001 Gbit/s` is out of range");
        assert_eq!(why("99999999999999999999 Gbit/s"), "`99999999999999999999 Gbit/s` is out of range");
    }

    #[test]
    fn sizes_and_intervals_people_write() {
        assert_eq!(parse_size("4 KiB"), Ok(4096));
        assert_eq!(parse_size("512B"), Ok(512));
        assert_eq!(parse_size("1.5 KiB"), Ok(1536));
        assert_eq!(parse_size("4 KB"), Err("unknown unit `KB`".to_owned()));
        assert_eq!(parse_size("B"), Err("`B` is not a whole number of bytes".to_owned()));
        assert_eq!(parse_size("20000000000 GiB"), Err("`20000000000 GiB` is out of range".to_owned()));
        assert_eq!(parse_interval("32 us"), Ok(Duration::from_micros(32)));
        assert_eq!(parse_interval("0 us"), Err("`0 us` is out of range".to_owned()));
        assert_eq!(parse_interval("101 ms"), Err("`101 ms` is out of range".to_owned()));
        assert_eq!((parse_share("0%"), parse_share("100 %")), (Ok(0), Ok(100)));
        assert_eq!(parse_share("101 %"), Err("`101 %` is out of range".to_owned()));
        assert_eq!(parse_share("0.5"), Err("`0.5` has no unit".to_owned()));
    }

    proptest! {
        #[test]
        fn printed_rates_read_back(rate in BITRATE_MIN..=BITRATE_MAX) {
            prop_assert_eq!(parse_bitrate(&print_bitrate(rate)), Ok(rate));
        }

        #[test]
        fn printed_sizes_and_intervals_read_back(size in 0..1_u64 << 40, micros in 1..=INTERVAL_MAX, share in 0..=100_u8) {
            prop_assert_eq!(parse_size(&print_size(size)), Ok(size));
            let interval = Duration::from_micros(micros);
            prop_assert_eq!(parse_interval(&print_interval(interval)), Ok(interval));
            prop_assert_eq!(parse_share(&print_share(share)), Ok(share));
        }
    }
}
