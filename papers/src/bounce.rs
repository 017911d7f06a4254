//! P1.bounce: the header and the first clusters of a packet copied into one buffer, under both ways of reclaim.
//!
//! The paper does not say how buffers were reclaimed meanwhile. With interrupts, each fragment costs one more.
//!
//! Beside it, frames in pieces of a cell handed to this machine's kernel, as the daemon prices them at start.

use tabane_engine::costs::Costs;
use tabane_engine::fragments::Fragments;
use tabane_engine::reclaim::Method;
use tabane_io::bounce::measure;
use tabane_sim::device::oc48;
use tabane_sim::device::sender::MESSAGE_MAX;

use super::outcome::Outcome;
use super::setting::Setting;
use super::simulated::{ADAPTIVE, gain, is_about, one, send};
use tabane_kit::report::{Samples, Verdict};

/// Bytes of a message.
const SIZES: [usize; 4] = [213, SHORT, 16_384, MESSAGE_MAX];
const SHORT: usize = 4_096;
/// Published gains in percent: 3 or 4 clusters at 4 KB, and at 64 KB.
const AT_SHORT: f64 = 10.0;
const AT_LONG: f64 = 0.0;
/// Less is as fast, in percent.
const LEVEL: f64 = 3.0;
/// What was chosen at start may lose so much to measurement, in percent.
const CHOICE_LOSES_MAX: f64 = 1.0;

/// Bytes of a frame in a sealed cell, at an MTU of 1,500.
const PIECE: usize = 1_406;

/// What is copied.
const COPIES: [&str; 4] = ["k = 3", "k = 4", "all", "auto"];

/// Gains in percent under a way of reclaim: for each size, those of [`COPIES`].
fn gains(reclaim: Method) -> [[f64; COPIES.len()]; SIZES.len()] {
    let auto = Fragments::Auto(Box::new(oc48::FREEBSD.costs(reclaim)));
    // The header is a fragment before the clusters.
    let copies = [Fragments::CopyFirst(4), Fragments::CopyFirst(5), Fragments::CopyAll, auto];
    SIZES.map(|size| {
        let run = |fragments| send(&oc48::FREEBSD, reclaim, fragments, size).kpps();
        let base = run(&Fragments::ScatterGather);
        copies.each_ref().map(|copy| gain(run(copy), base))
    })
}

pub(super) fn run(setting: &Setting) -> Outcome {
    let mut outcome = Outcome::default();
    let ways = [("by interrupt", gains(Method::Interrupt)), ("adaptively", gains(ADAPTIVE))];
    for (way, gains) in &ways {
        for (size, gains) in SIZES.iter().zip(gains) {
            for (copy, (name, gain)) in COPIES.iter().zip(gains).enumerate() {
                let published = match (*size, copy) {
                    (SHORT, 0 | 1) => Some(AT_SHORT),
                    (MESSAGE_MAX, 0 | 1) => Some(AT_LONG),
                    _ => None,
                };
                outcome.simulated(format!("{size} B {way}: {name}"), published, one("%", *gain));
            }
        }
    }
    let both = |size: usize, copy: usize| ways.map(|(_, gains)| gains[size][copy]);
    let said = |[first, second]: [f64; 2]| format!("{first:+.1} % by interrupt, {second:+.1} % adaptively");
    let short = both(1, 0);
    outcome.finding(
        "a copy of the first three or four clusters gains about 10 % at 4 KB",
        short.iter().any(|gain| is_about(*gain, AT_SHORT)),
        format!("{}; the simulated processor copies at the same rate from its cache", said(short)),
    );
    let few = both(3, 0);
    outcome.finding(
        "at 64 KB a copy of three or four makes no difference",
        few.iter().all(|gain| gain.abs() < LEVEL),
        said(few),
    );
    let all = both(3, 2);
    outcome.finding("at 64 KB a copy of everything loses", all.iter().all(|gain| *gain < -LEVEL), said(all));
    let auto = ways.iter().flat_map(|(_, gains)| gains).map(|gains| gains[3]).fold(f64::INFINITY, f64::min);
    outcome.verdicts.push(Verdict::at_least("P1.bounce.least_gain_of_auto", auto, -CHOICE_LOSES_MAX));
    priced(setting.rounds, &mut outcome);
    outcome
}

/// Adds what copies gain on this machine, in percent of the time that one frame takes.
fn priced(rounds: usize, outcome: &mut Outcome) {
    // What one measurement chooses is priced by the next.
    let measured: Vec<Costs> = (0..=rounds).map(|_| measure(PIECE)).collect();
    for bytes in [2_048, SHORT, 16_384, 65_536] {
        let trial = |first| Costs::trials().find(|trial| (trial.bytes, trial.first) == (bytes, first));
        let gain_of = |costs: &Costs, first| {
            let took = |first| Some(costs.took(trial(first)?)?.as_secs_f64());
            Some(gain(took(0)?, took(first)?))
        };
        let mut push = |name: &str, gains: Vec<f64>| {
            if gains.is_empty() {
                return;
            }
            let what = format!("{bytes} B in pieces of {PIECE} B, to the kernel: {name}");
            outcome.own(what, Samples::new("%", gains));
        };
        for (name, first) in [("k = 3", 3), ("k = 4", 4), ("all", usize::MAX)] {
            push(name, measured[1..].iter().filter_map(|costs| gain_of(costs, first)).collect());
        }
        let chosen = measured.windows(2).filter_map(|pair| gain_of(&pair[1], pair[0].best(bytes)));
        push("auto", chosen.collect());
    }
}
