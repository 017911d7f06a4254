//! Which of the measured values count: those in the middle, after the first ones have warmed everything up.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::Serialize;

use crate::Error;

/// The first and the last value that count, from 1 on, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    All,
    Part { first: usize, last: usize },
}

impl Window {
    /// Checks that the window lies within `count` values, given by the flag `flag`.
    pub(crate) fn check(self, count: usize, flag: &str) -> Result<(), Error> {
        match self {
            Window::Part { last, .. } if last > count => Err(Error::Refused(format!(
                "--window {self} reaches beyond {flag} {count}; allowed: a window up to {count}, or `all`"
            ))),
            _ => Ok(()),
        }
    }

    /// The places of the values that count, of `count` that were measured: of a run that was ended early, those of the
    /// window that are there, or all when there are none.
    pub(crate) fn places(self, count: usize) -> Range<usize> {
        match self {
            Window::Part { first, last } if first <= count => first - 1..last.min(count),
            _ => 0..count,
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::All => out.write_str("all"),
            Window::Part { first, last } => write!(out, "{first}-{last}"),
        }
    }
}

impl Serialize for Window {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let part = || {
            let (first, last) = text.split_once('-')?;
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (1 <= first && first <= last).then_some(Window::Part { first, last })
        };
        if text == "all" {
            return Ok(Window::All);
        }
        part().ok_or_else(|| "allowed: the first and the last, from 1 on, such as 201-400, or all".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_and_written() {
        for text in ["all", "201-400", "1-1"] {
            assert_eq!(text.parse::<Window>().unwrap().to_string(), text);
        }
        for text in ["", "0-4", "5-4", "5", "a-b", "1-2-3", "-5"] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_run_that_ended_early_counts_as_far_as_it_came() {
        let window: Window = "201-400".parse().unwrap();
        assert_eq!(window.places(1_000), 200..400);
        assert_eq!(window.places(300), 200..300);
        assert_eq!(window.places(150), 0..150);
        assert_eq!(Window::All.places(7), 0..7);
    }

    #[test]
    fn a_window_beyond_the_run_is_refused() {
        let window: Window = "201-400".parse().unwrap();
        assert!(window.check(400, "--rounds").is_ok() && Window::All.check(1, "--rounds").is_ok());
        assert_eq!(
            window.check(399, "--rounds").unwrap_err().to_string(),
            "--window 201-400 reaches beyond --rounds 399; allowed: a window up to 399, or `all`"
        );
    }
}
