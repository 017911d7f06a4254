//! The rates that a link may state: one for both directions, or one for each.

use std::fmt;

use super::problem::Problem;
use super::rule::take_value;
use super::settings::Values;
use super::units::{BITRATE_ALLOWED, parse_bitrate, print_bitrate};

/// What [`LinkRate`] is read from, for error sentences.
pub(super) const RATE_ALLOWED: &str =
    "a rate such as \"50 Mbit/s\", or { down = \"50 Mbit/s\", up = \"20 Mbit/s\" }";

/// The most that a link carries, as the user states it, in bits per second with the headers of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRate {
    /// What this node sends, to all peers together; `None`: measured.
    pub up: Option<u64>,
    /// What each peer is asked to send at most; `None`: the peers measure.
    pub down: Option<u64>,
}

pub(super) fn resolve_rate(problems: &mut Vec<Problem>, typed: &Values) -> LinkRate {
    let each = typed.first(&["rate.down", "rate.up"]);
    if let (Some(_), Some(place)) = (typed.place("rate"), each) {
        let what = "the rate is given twice";
        problems.push(Problem::new(place, what, "`rate` for both directions, or `down` and `up`"));
    }
    let mut read = |key| take_value(problems, typed.get(key), BITRATE_ALLOWED, parse_bitrate);
    let (both, down, up) = (read("rate"), read("rate.down"), read("rate.up"));
    LinkRate { up: up.or(both), down: down.or(both) }
}

impl LinkRate {
    pub(crate) fn words(self) -> String {
        let part = |rate: Option<u64>, way: &str| Some(format!("{} {way}", print_bitrate(rate?)));
        match (self.down, self.up) {
            (None, None) => "measured".to_owned(),
            (Some(down), up) if up == Some(down) => print_bitrate(down),
            (down, up) => {
                let parts: Vec<_> = [part(down, "down"), part(up, "up")].into_iter().flatten().collect();
                parts.join(" and ")
            }
        }
    }
}

/// As the value of the key `rate`; nothing where none is stated.
impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(up), true) = (self.up, self.up == self.down) {
            return write!(f, "\"{}\"", print_bitrate(up));
        }
        let part = |key, rate: Option<u64>| Some(format!("{key} = \"{}\"", print_bitrate(rate?)));
        let parts: Vec<_> = [part("down", self.down), part("up", self.up)].into_iter().flatten().collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "{{ {} }}", parts.join(", ")) }
    }
}
