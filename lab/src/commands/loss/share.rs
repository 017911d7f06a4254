//! A share of frames that a link loses.

use std::fmt;
use std::str::FromStr;

/// Percent, 0 to 50.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share(f64);

/// The losses of the whole comparison.
pub(super) const ALL: [Share; 4] = [Share(0.0), Share(0.01), Share(0.1), Share(1.0)];
/// The first and the last of them.
pub(super) const QUICK: [Share; 2] = [ALL[0], ALL[3]];

impl Share {
    /// 0 to 50.
    pub(super) const fn percent(self) -> f64 {
        self.0
    }

    /// 0 to 0.5.
    pub(super) const fn probability(self) -> f64 {
        self.0 / 100.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} %", self.0)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let percent = text.parse().ok().filter(|percent| (0.0..=50.0).contains(percent));
        percent.map(Share).ok_or_else(|| "a number of percent from 0 to 50 is wanted".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent() {
        let share: Share = "0.1".parse().unwrap();
        assert_eq!((share, share.to_string()), (ALL[2], "0.1 %".to_string()));
        assert!((share.probability() - 0.001).abs() < 1e-12);
        assert!(["51", "-1", "NaN", "some"].iter().all(|text| text.parse::<Share>().is_err()));
    }
}
