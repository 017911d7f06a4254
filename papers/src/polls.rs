//! P3.poll: how often a worker looks into the window, and by which timer.
//!
//! The paper polls from a hook of the timer's interrupt, each 20 us when it measures and 32 us by its design, and not by way of
//! the kernel's general timers, each 10 ms. Here the hook is a timer that fires in time; the general path are timers as late as Linux
//! lets them be by itself (50 us), and an interval of 10 ms.

use std::time::Duration;

use anyhow::Result;

use super::memory::{Hosts, Speed};
use super::outcome::{Outcome, spread};
use super::setting::Setting;
use super::swept::{Swept, add_round};
use tabane_kit::bundle;
use tabane_kit::report::Verdict;

/// Name, microseconds between two polls, and whether they come in time.
const WAYS: [(&str, u64, bool); 5] = [
    ("hooked, each 20 µs", 20, true),
    ("hooked, each 32 µs", 32, true),
    ("hooked, each 100 µs", 100, true),
    ("general timers, each 20 µs", 20, false),
    ("general timers, each 10 ms", 10_000, false),
];
/// KB (2^10 bytes) of a message.
const SIZES: [usize; 2] = [1, 64];
/// What 32 us keep of the rate of 20 us, at least: less is more than the longer wait of each poll explains.
const KEPT_MIN: f64 = 20.0 / 32.0;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let sizes = SIZES.map(|size| (size << 10).to_string()).join(",");
    let flags = ["--answered", "--protocols", "tcp", "--sizes", &sizes];
    let mut swept = WAYS.map(|_| Vec::new());
    for _ in 0..setting.rounds {
        for ((_, micros, in_time), swept) in WAYS.into_iter().zip(&mut swept) {
            let interval = Duration::from_micros(micros);
            let hosts = Hosts { interval, in_time, ..Hosts::two(Speed::Own) };
            hosts.measure(setting, |topology| {
                add_round(swept, setting, topology, bundle::address(1), &flags)
            })?;
        }
    }
    let mut outcome = Outcome::default();
    for ((name, ..), swept) in WAYS.iter().zip(&swept) {
        for (size, own) in SIZES.iter().zip(swept) {
            outcome.own(format!("{size} KB, {name}"), own.megabytes());
            outcome.own(format!("{size} KB, {name}: CPU"), own.cpu.clone());
        }
    }
    judge(&mut outcome, &swept);
    Ok(outcome)
}

fn judge(outcome: &mut Outcome, swept: &[Vec<Swept>; WAYS.len()]) {
    let rate = |way: usize, size: usize| swept[way][size].megabytes().median();
    let said = |ways: &[usize]| {
        let of = |way: &usize| {
            let [short, long] = [0, 1].map(|size| spread(&swept[*way][size].megabytes(), 1));
            format!("{} {short} and {long} MB/s", WAYS[*way].0)
        };
        format!("1 KB and 64 KB: {}", ways.iter().map(of).collect::<Vec<_>>().join("; "))
    };
    let both = |holds: fn(f64, f64) -> bool, one: usize, other: usize| {
        (0..SIZES.len()).all(|size| holds(rate(one, size), rate(other, size)))
    };
    outcome.finding(
        "a poll each 32 µs is enough for messages of 64 KB",
        rate(1, 1) >= 0.9 * rate(0, 1),
        said(&[0, 1, 2]),
    );
    outcome.finding(
        "a timer of the driver's own is faster than the kernel's general timers at the same interval",
        both(|hooked, general| hooked > general, 0, 3),
        said(&[0, 3]),
    );
    outcome.finding(
        "general timers each 10 ms cost more than half of the rate",
        both(|hooked, general| general < hooked / 2.0, 0, 4),
        said(&[0, 4]),
    );
    let kept = (0..SIZES.len()).map(|size| rate(1, size) / rate(0, size)).fold(f64::INFINITY, f64::min);
    outcome.verdicts.push(Verdict::at_least("P3.poll.kept_at_32_us", kept, KEPT_MIN));
}
