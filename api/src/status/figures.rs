//! Figures for people: three digits or so, and a prefix.

/// A duration of `ns` nanoseconds with three significant digits or so.
pub fn duration(ns: u64) -> String {
    match ns {
        0..10_000_000 => format!("{} us", ns / 1_000),
        10_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        1_000_000_000..120_000_000_000 => format!("{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10),
        _ => format!("{} min", ns / 60_000_000_000),
    }
}

/// `value` with a decimal prefix and two decimals.
pub fn scaled(value: u64, unit: &str) -> String {
    const PREFIXES: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match PREFIXES.iter().find(|(factor, _)| value >= *factor) {
        Some((factor, prefix)) => {
            format!("{}.{:02} {prefix}{unit}", value / factor, value % factor * 100 / factor)
        }
        None => format!("{value} {unit}"),
    }
}

/// `value` with a decimal prefix and three digits.
pub fn short(value: u64, unit: &str) -> String {
    let (figure, prefix) = prefixed(value);
    format!("{figure} {prefix}{unit}")
}

/// `value` as three digits, and the decimal prefix that goes with them.
pub fn prefixed(value: u64) -> (String, &'static str) {
    const PREFIXES: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match PREFIXES.iter().find(|(factor, _)| value >= *factor) {
        Some((factor, prefix)) => (three_digits(value, *factor), prefix),
        None => (value.to_string(), ""),
    }
}

/// `count / factor` with three digits, cut and never rounded up into a fourth.
pub fn three_digits(count: u64, factor: u64) -> String {
    let (whole, rest) = (count / factor, count % factor);
    match whole {
        0..10 => format!("{whole}.{:02}", rest * 100 / factor),
        10..100 => format!("{whole}.{}", rest * 10 / factor),
        _ => whole.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_at_their_bounds() {
        assert_eq!(
            [0, 999, 1_000, 999_999].map(|value| scaled(value, "B")),
            ["0 B", "999 B", "1.00 kB", "999.99 kB"]
        );
        assert_eq!(duration(9_999_999), "9999 us");
        assert_eq!(duration(1_500_000_000), "1.5 s");
        assert_eq!(duration(180_000_000_000), "3 min");
    }

    #[test]
    fn three_digits_are_enough_for_people() {
        let values = [0, 999, 1_000, 48_250_000, 482_400_000, 4_824_000_000];
        assert_eq!(
            values.map(|value| short(value, "bit/s")),
            ["0 bit/s", "999 bit/s", "1.00 kbit/s", "48.2 Mbit/s", "482 Mbit/s", "4.82 Gbit/s"]
        );
    }
}
