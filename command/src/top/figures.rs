//! Figures as a screen has room for: three digits, and a prefix or a unit behind them.

use tabane_api::status::figures::{prefixed, three_digits};

/// A dash stands for what is not known.
pub(super) const UNKNOWN: &str = "-";

/// A count, of bits per second or of bytes, with a decimal prefix: `0`, `87`, `1.23k`, `47.2M`.
pub(super) fn scaled(count: u64) -> String {
    let (figure, prefix) = prefixed(count);
    figure + prefix
}

/// A time: `85us`, `1.25ms`, `42.0ms`, `1.50s`.
pub(super) fn time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}us"),
        1_000..1_000_000 => three_digits(micros, 1_000) + "ms",
        _ => three_digits(micros, 1_000_000) + "s",
    }
}

/// How long ago something was: `now`, `12s`, `3m`, `5h`, `2d`.
pub(super) fn age(ns: u64) -> String {
    match ns / 1_000_000_000 {
        0 => "now".to_owned(),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// A share in percent with a digit behind the point, but for whole ones.
pub(super) fn percent(share: f64) -> String {
    if share == 0.0 || share >= 10.0 { format!("{share:.0}%") } else { format!("{share:.1}%") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_at_their_bounds() {
        assert_eq!(
            [0, 999, 1_000, 9_999, 10_000, 99_999, 999_999, 47_250_000].map(scaled),
            ["0", "999", "1.00k", "9.99k", "10.0k", "99.9k", "999k", "47.2M"]
        );
        assert_eq!(scaled(u64::MAX), "18446744T");
        assert_eq!([999, 1_000, 42_000, 1_500_000].map(time), ["999us", "1.00ms", "42.0ms", "1.50s"]);
        let seconds = [0, 1, 59, 60, 3_600, 86_400].map(|seconds: u64| age(seconds * 1_000_000_000));
        assert_eq!(seconds, ["now", "1s", "59s", "1m", "1h", "1d"]);
        assert_eq!([0.0, 0.04, 3.13, 50.0].map(percent), ["0%", "0.0%", "3.1%", "50%"]);
    }
}
