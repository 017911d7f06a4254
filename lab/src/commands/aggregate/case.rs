//! Two links, and what a bundle over them has to do.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Wiring};

/// Share of the sum of both rates that the payload of TCP has to reach.
const SHARE_MIN: f64 = 0.9;
/// Time that TCP may take to reach its speed.
const START: f64 = 0.45;

/// Rates and delays of two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// Rate of each, in Mbit/s, 1 to 10,000.
    mbps: [u32; 2],
    /// Time that each takes in each direction, in milliseconds, 0 to 500.
    delay_ms: [u32; 2],
}

/// The cases of the whole comparison.
pub(super) const ALL: [Case; 7] = [
    Case::new([10, 10], [0, 0]),
    Case::new([10, 10], [1, 50]),
    Case::new([30, 10], [0, 0]),
    Case::new([30, 10], [1, 50]),
    Case::new([30, 10], [50, 1]),
    Case::new([1000, 100], [0, 0]),
    Case::new([2500, 1000], [0, 0]),
];
/// One of unequal delay, one of unequal rate.
pub(super) const QUICK: [Case; 2] = [ALL[3], ALL[5]];

impl Case {
    const fn new(mbps: [u32; 2], delay_ms: [u32; 2]) -> Case {
        Case { mbps, delay_ms }
    }

    /// The topology.
    pub(super) fn plan(self, seed: u64) -> Plan {
        let links = self.mbps.map(|mbps| LinkPlan::paced(Bitrate::mbit(mbps.into()))).to_vec();
        let wiring = if self.delay_ms == [0, 0] { Wiring::Switch } else { Wiring::Emulator };
        Plan { wiring, seed, ..Plan::two_hosts(links) }
    }

    /// What each link adds to the way, if anything.
    pub(super) fn delays(self) -> Option<[Duration; 2]> {
        (self.delay_ms != [0, 0]).then(|| self.delay_ms.map(|delay| Duration::from_millis(delay.into())))
    }

    /// The link that is best alone: the faster one, of equals the nearer one.
    pub(super) fn best_link(self) -> usize {
        let rank = |link: usize| (self.mbps[link], u32::MAX - self.delay_ms[link]);
        usize::from(rank(1) > rank(0))
    }

    /// The most seconds that `bytes` of payload may take.
    pub(super) fn seconds_max(self, bytes: u64) -> f64 {
        hundredths(bytes as f64 * 8e-6 / (SHARE_MIN * self.sum_mbps()) + START)
    }

    /// The least Mbit/s of payload in a flow of `seconds`: the same requirement.
    pub(super) fn mbps_min(self, seconds: u32) -> f64 {
        let seconds = f64::from(seconds);
        hundredths(SHARE_MIN * self.sum_mbps() * (seconds - START) / seconds)
    }

    /// Mbit/s of both links.
    pub(super) fn sum_mbps(self) -> f64 {
        f64::from(self.mbps[0]) + f64::from(self.mbps[1])
    }
}

/// Limits are compared as they are shown.
fn hundredths(limit: f64) -> f64 {
    (limit * 100.0).round() / 100.0
}

/// As it is written on the command line.
impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([first, second], [near, far]) = (self.mbps, self.delay_ms);
        write!(out, "{first},{second},{near},{far}")
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let numbers: Option<Vec<u32>> = text.split(',').map(|word| word.trim().parse().ok()).collect();
        let Some(&[first, second, near, far]) = numbers.as_deref() else {
            return Err("four whole numbers are wanted, for example 30,10,1,50".to_string());
        };
        if ![first, second].iter().all(|mbps| (1..=10_000).contains(mbps)) {
            return Err(format!("rates of {first} and {second} Mbit/s: 1 to 10000 are possible"));
        }
        if near.max(far) > 500 {
            return Err(format!("delays of {near} and {far} ms: 0 to 500 are possible"));
        }
        Ok(Case::new([first, second], [near, far]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_they_are_written() {
        for case in ALL {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
    }

    #[test]
    fn a_case_that_cannot_be_is_refused_with_a_reason() {
        let complaint = |text: &str| text.parse::<Case>().unwrap_err();
        assert!(complaint("30,10").contains("four whole numbers"));
        assert!(complaint("0,10,1,1").contains("1 to 10000"));
        assert!(complaint("30,10,1,501").contains("0 to 500"));
    }

    #[test]
    fn the_best_link_is_fast_then_near() {
        let best = |text: &str| text.parse::<Case>().unwrap().best_link();
        assert_eq!(
            [best("10,10,0,0"), best("10,10,50,1"), best("30,10,50,1"), best("10,30,0,0")],
            [0, 1, 0, 1]
        );
    }

    #[test]
    fn both_forms_of_the_requirement_agree() {
        let case = Case::new([30, 10], [1, 50]);
        let megabits = 0.9 * 40.0 * (60.0 - 0.45);
        assert!((case.mbps_min(60) * 60.0 - megabits).abs() < 1.0);
        assert!((case.seconds_max(267_975_000) - 60.0).abs() < 0.01);
    }
}
