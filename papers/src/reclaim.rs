//! P1.sweep: messages of 64 B to 64 KB, their buffers reclaimed by interrupt, lazily, or adaptively.
//!
//! On the paper's sender, simulated; what this machine sends over a bare veth, whose driver has no such choice; and over rings
//! that have it ([`super::rings`]).

use anyhow::Result;
use tabane_engine::fragments::Fragments;
use tabane_engine::reclaim::Method;
use tabane_sim::device::oc48;
use tabane_sim::device::sender::MESSAGE_MAX;

use super::outcome::Outcome;
use super::rings;
use super::setting::Setting;
use super::simulated::{ADAPTIVE, gain, is_about, one, send};
use super::swept;
use tabane_kit::report::Verdict;
use tabane_kit::topology::{LinkPlan, Plan, Topology};

/// Bytes of a message.
const SIZES: [usize; 8] = [64, 213, 256, 1_024, 4_096, 16_384, 32_768, MESSAGE_MAX];
/// Published gain without interrupts, on short packets, in percent.
const GAIN: f64 = 70.0;
/// Published Mbit/s by interrupt at 64 KB.
const LONG: f64 = 1_900.0;
/// Less is no gain, in percent.
const LEVEL: f64 = 3.0;

/// What adaptive reclaim keeps of the best of the others at each size, at least, in percent.
const ADAPTIVE_KEEPS_MIN: f64 = 95.0;

/// What a size showed.
struct Seen {
    size: usize,
    gain: f64,
    /// Adaptive reclaim, in percent of the best of the others.
    kept: f64,
    lazy_stalls: bool,
    adaptive_stalls: bool,
}

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let seen: Vec<Seen> = SIZES.iter().map(|size| simulate(&mut outcome, *size)).collect();
    judge(&mut outcome, &seen);
    measure(setting, &mut outcome)?;
    rings::measure(setting, &mut outcome, &SIZES)?;
    Ok(outcome)
}

fn simulate(outcome: &mut Outcome, size: usize) -> Seen {
    let run = |method| send(&oc48::FREEBSD, method, &Fragments::ScatterGather, size);
    let [by_interrupt, lazy, adaptive] = [Method::Interrupt, Method::Lazy, ADAPTIVE].map(run);
    let is_long = size == MESSAGE_MAX;
    for (name, sent) in [("by interrupt", by_interrupt), ("lazily", lazy), ("adaptively", adaptive)] {
        if sent.interval.is_none() {
            let what = format!("{size} B {name}: STALLS after {} packets", sent.packets);
            outcome.simulated(what, None, one("kpps", sent.kpps()));
            continue;
        }
        outcome.simulated(format!("{size} B {name}"), None, one("kpps", sent.kpps()));
        let is_fitted = is_long && name == "by interrupt";
        let fitted = if is_fitted { " (fitted)" } else { "" };
        let mbit = one("Mbit/s", sent.mbit());
        outcome.simulated(format!("{size} B {name}{fitted}: payload"), is_fitted.then_some(LONG), mbit);
        outcome.simulated(format!("{size} B {name}: CPU"), None, one("%", 100.0 * sent.busy));
    }
    let gain = gain(adaptive.kpps(), by_interrupt.kpps());
    let published = (size == SIZES[0]).then_some(GAIN);
    outcome.simulated(format!("{size} B: gain of adaptive"), published, one("%", gain));
    Seen {
        size,
        gain,
        kept: 100.0 * adaptive.kpps() / by_interrupt.kpps().max(lazy.kpps()),
        lazy_stalls: lazy.interval.is_none(),
        adaptive_stalls: adaptive.interval.is_none(),
    }
}

fn judge(outcome: &mut Outcome, seen: &[Seen]) {
    let sizes = |pick: fn(&Seen) -> bool| {
        let sizes: Vec<String> =
            seen.iter().filter(|seen| pick(seen)).map(|seen| seen.size.to_string()).collect();
        if sizes.is_empty() { "none".to_string() } else { format!("{} B", sizes.join(", ")) }
    };
    let (short, longer): (Vec<&Seen>, _) = seen.iter().partition(|seen| seen.size <= oc48::CLUSTERS_FROM);
    let most = |seen: &[&Seen]| seen.iter().map(|seen| seen.gain).fold(f64::NEG_INFINITY, f64::max);
    let (best, best_longer) = (most(&short), most(&longer));
    outcome.finding(
        "without interrupts short packets gain most",
        best > best_longer,
        format!("{best:.0} % up to 213 B, at most {best_longer:.0} % beyond"),
    );
    outcome.finding(
        "that gain is about 70 % at most",
        is_about(best, GAIN),
        format!("{best:.0} %; the interrupt's cost follows from two published rates of long packets"),
    );
    let next = longer.first().map_or(f64::NAN, |seen| seen.gain);
    outcome.finding(
        "just beyond 213 B, where clusters begin, the gain is gone",
        next.abs() < LEVEL,
        format!("{next:.0} % at 256 B; the simulation knows no reason for it"),
    );
    let long = seen.last().map_or(f64::NAN, |seen| seen.gain);
    outcome.finding("long packets gain, too", long > LEVEL, format!("{long:.0} % at 64 KB"));
    let (lazy, adaptive) = (sizes(|seen| seen.lazy_stalls), sizes(|seen| seen.adaptive_stalls));
    outcome.finding(
        "reclaim without interrupts alone ends in a deadlock with long packets, adaptive reclaim never does",
        seen.last().is_some_and(|seen| seen.lazy_stalls) && seen.iter().all(|seen| !seen.adaptive_stalls),
        format!("lazy stalls at: {lazy}; adaptive at: {adaptive}"),
    );
    let stalls = seen.iter().filter(|seen| seen.adaptive_stalls).count();
    outcome.verdicts.push(Verdict::equals("P1.sweep.stalls_of_adaptive", stalls, 0));
    let kept = seen.iter().map(|seen| seen.kept).fold(f64::INFINITY, f64::min);
    outcome.verdicts.push(Verdict::at_least("P1.sweep.adaptive_of_best_percent", kept, ADAPTIVE_KEEPS_MIN));
}

fn measure(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::unshaped()]))?;
    let sizes = SIZES.map(|size| size.to_string()).join(",");
    let swept = swept::sweep(setting, &topology, &["--protocols", "udp", "--sizes", &sizes])?;
    for (size, own) in SIZES.iter().zip(swept) {
        outcome.own(format!("{size} B over veth"), own.kpps);
        outcome.own(format!("{size} B over veth: payload"), own.mbit);
        outcome.own(format!("{size} B over veth: CPU"), own.cpu);
    }
    Ok(())
}
