//! P3.conns: 1 to 16 connections at messages of 1 KB and of 64 KB, through a memory-slot NIC and over gigabit Ethernet.
//!
//! The NIC is simulated. Beside it, measured in the same run: Ethernet, a veth shaped to 1 Gbit/s, and a window of memory, each
//! message when the one before it on its connection was answered.

use super::memory::{self, Hosts};
use super::swept::{self, Swept, add_round, exchange, is_about};
use crate::device::exchange::{WITH_BUG, WITHOUT_BUG};
use crate::prelude::*;

const COUNTS: [usize; 5] = [1, 2, 4, 8, 16];
/// KB (2^10 bytes) of a message, and published MB/s for each of [`COUNTS`]: with the bug, and over gigabit Ethernet.
const PUBLISHED: [(usize, [f64; 5], [f64; 5]); 2] = [
    (1, [3.58, 3.03, 2.60, 2.46, 2.36], [7.16, 6.91, 5.90, 4.15, 2.57]),
    (64, [8.01, 4.53, 3.60, 3.49, 3.37], [43.74, 27.67, 21.18, 19.42, 10.53]),
];
/// Predicted there for 64 KB without the bug, however many.
const FLAT: f64 = 270.0;
const MTU: usize = 65_536;
/// How much faster than gigabit Ethernet the NIC's wire is; so much faster it is to be from two connections on.
const WIRES: f64 = 8.0;
/// What sixteen connections over a window of memory keep of the most that fewer carry, at least, in percent.
const KEPT_MIN: f64 = 90.0;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut by_size = Vec::new();
    for (size, published, _) in PUBLISHED {
        let mut with = Vec::new();
        for (count, published) in COUNTS.into_iter().zip(published) {
            let own = exchange(&WITH_BUG, size << 10, MTU, count, setting.rounds);
            with.push(own.median());
            let fitted = if (size, count) == (64, 1) { " (fitted)" } else { "" };
            outcome.simulated(format!("{size} KB x {count}, with the bug{fitted}"), Some(published), own);
        }
        by_size.push(with);
    }
    let mut without = Vec::new();
    for count in COUNTS {
        let own = exchange(&WITHOUT_BUG, 64 << 10, MTU, count, setting.rounds);
        without.push(own.median());
        outcome.simulated(format!("64 KB x {count}, without"), Some(FLAT), own);
    }
    outcome.finding(
        "with the bug more connections are slower together",
        by_size.iter().all(|rates| kept(rates) < 100.0),
        format!(
            "sixteen have {:.0} % of one at 1 KB and {:.0} % at 64 KB; here their work overlaps, and nothing grows with them",
            kept(&by_size[0]),
            kept(&by_size[1])
        ),
    );
    outcome.finding(
        "without it 64 KB stays at about 270 MB/s, however many connections there are",
        without.iter().all(|own| is_about(*own, FLAT)),
        format!("{:.0} MB/s of one, {:.0} of two, {:.0} of sixteen", without[0], without[1], without[4]),
    );
    measure(setting, &mut outcome)?;
    Ok(outcome)
}

/// What sixteen have of one, in percent.
fn kept(rates: &[f64]) -> f64 {
    100.0 * rates[COUNTS.len() - 1] / rates[0]
}

fn medians(swept: &[Swept]) -> Vec<f64> {
    swept.iter().map(|own| own.megabytes().median()).collect()
}

fn measure(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    for (size, _, published) in PUBLISHED {
        let flags = flags(size);
        let flags = flags.each_ref().map(String::as_str);
        let ethernet = swept::sweep_ethernet(setting, 1_500, &flags)?;
        let beside = medians(&ethernet);
        for ((count, published), own) in COUNTS.into_iter().zip(published).zip(&ethernet) {
            let what = format!("{size} KB x {count} over 1 Gbit/s");
            outcome.compared(what, &[("Ethernet", published)], own.megabytes());
        }
        let swept = memory::sweep(setting, &flags)?;
        let own = medians(&swept);
        for (place, count) in COUNTS.into_iter().enumerate() {
            let predicted = (size == 64).then_some(("predicted", FLAT));
            let (name, megabytes) = (format!("{size} KB x {count} over mem"), swept[place].megabytes());
            let ratio = predicted.map(|(of, value)| (of, value / published[place]));
            let ratios = megabytes.values().iter().map(|own| own / beside[place]).collect();
            outcome.compared(&name, predicted.as_slice(), megabytes);
            outcome.compared(format!("{name}, of Ethernet"), ratio.as_slice(), Samples::new("times", ratios));
        }
        judge(outcome, size, &own, &beside);
    }
    Ok(())
}

/// Adds what the paper expects without the bug of messages of 64 KB, and what is wanted of both sizes.
fn judge(outcome: &mut Outcome, size: usize, own: &[f64], ethernet: &[f64]) {
    if size == 64 {
        let times: Vec<f64> = own.iter().zip(ethernet).map(|(own, ethernet)| own / ethernet).collect();
        outcome.finding(
            "measured without the bug: from two connections on messages of 64 KB go at eight times the rate of Ethernet",
            times[1..].iter().all(|times| *times >= WIRES),
            format!(
                "sixteen have {:.0} % of one, over Ethernet {:.0} %; {} times Ethernet",
                kept(own),
                kept(ethernet),
                times.iter().map(|times| format!("{times:.2}")).collect::<Vec<_>>().join(", ")
            ),
        );
    }
    let id = format!("P3.conns.kept_of_the_most_percent_at_{size}_KB");
    let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    outcome.verdicts.push(Verdict::at_least(&id, 100.0 * own[COUNTS.len() - 1] / most, KEPT_MIN));
}

fn flags(size: usize) -> [String; 7] {
    let counts = COUNTS.map(|count| count.to_string()).join(",");
    ["--answered", "--protocols", "tcp", "--sizes", &(size << 10).to_string(), "--connections", &counts]
        .map(str::to_string)
}

// P3.poll: how often a worker looks into the window, and by which timer.
//
// The paper polls from a hook of the timer's interrupt, each 20 us when it measures and 32 us by its design, and not by way of
// the kernel's general timers, each 10 ms. Here the hook is a timer that fires in time; the general path are timers as late as Linux
// lets them be by itself (50 us), and an interval of 10 ms.

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
const POLLS_KEPT_MIN: f64 = 20.0 / 32.0;

pub(super) fn run_polls(setting: &Setting) -> Result<Outcome> {
    let sizes = SIZES.map(|size| (size << 10).to_string()).join(",");
    let flags = ["--answered", "--protocols", "tcp", "--sizes", &sizes];
    let mut swept = WAYS.map(|_| Vec::new());
    for _ in 0..setting.rounds {
        for ((_, micros, in_time), swept) in WAYS.into_iter().zip(&mut swept) {
            let interval = Duration::from_micros(micros);
            let hosts = Hosts { interval, in_time, ..Hosts::two() };
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
    judge_polls(&mut outcome, &swept);
    Ok(outcome)
}

fn judge_polls(outcome: &mut Outcome, swept: &[Vec<Swept>; WAYS.len()]) {
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
    outcome.verdicts.push(Verdict::at_least("P3.poll.kept_at_32_us", kept, POLLS_KEPT_MIN));
}
