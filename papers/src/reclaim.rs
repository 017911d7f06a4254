//! P1.sweep: messages of 64 B to 64 KB, their buffers reclaimed by interrupt, lazily, or adaptively (figure 7).
//!
//! On the paper's sender, simulated; and over rings of this machine that have that choice ([`super::rings`]).

use tabane_engine::fragments::Fragments;
use tabane_engine::reclaim::Method;

use super::rings;
use super::swept::{ADAPTIVE, gain, is_about, one, send};
use crate::device::oc48;
use crate::device::sender::MESSAGE_MAX;
use crate::prelude::*;

const SIZES: [usize; 11] =
    [64, BELOW, 213, ABOVE, 1_024, TWO, 4_096, LINUX_UP_TO, 16_384, 32_768, MESSAGE_MAX];
/// Around the length from which FreeBSD takes clusters.
const BELOW: usize = 200;
const ABOVE: usize = 256;
const TWO: usize = 2_048;
const MEASURED: [usize; 8] = [64, BELOW, ABOVE, 1_024, TWO, 4_096, 16_384, MESSAGE_MAX];
/// Published gain without interrupts, on short packets, in percent.
const GAIN: f64 = 70.0;
/// Published gain of Linux, at most, and the length from which it has none.
const LINUX_GAIN: f64 = 50.0;
const LINUX_UP_TO: usize = 9_216;
/// Published Mbit/s by interrupt at 64 KB.
const LONG: f64 = 1_900.0;
/// Less is no gain, in percent.
const LEVEL: f64 = 3.0;

/// What adaptive reclaim keeps of the best of the others at each size, at least, in percent.
const ADAPTIVE_KEEPS_MIN: f64 = 95.0;

struct Seen {
    size: usize,
    kpps: f64,
    gain: f64,
    gain_of_linux: f64,
    /// Adaptive reclaim, in percent of the best of the others.
    kept: f64,
    lazy_stalls: bool,
    adaptive_stalls: bool,
}

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let seen: Vec<Seen> = SIZES.iter().map(|size| simulate(&mut outcome, *size)).collect();
    judge(&mut outcome, &seen);
    if let Some(kpps) = rings::measure(setting, &mut outcome, &MEASURED)? {
        judge_jump(&mut outcome, &kpps);
    }
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
    }
    let gain = gain(adaptive.kpps(), by_interrupt.kpps());
    let published = (size == SIZES[0]).then_some(GAIN);
    let fitted = if published.is_some() { " (fitted)" } else { "" };
    outcome.simulated(format!("{size} B: gain of adaptive{fitted}"), published, one("%", gain));
    let linux = |method| send(&oc48::LINUX, method, &Fragments::ScatterGather, size).kpps();
    let gain_of_linux = self::gain(linux(ADAPTIVE), linux(Method::Interrupt));
    let published = (size == SIZES[0]).then_some(LINUX_GAIN);
    outcome.simulated(format!("{size} B: gain of adaptive, Linux"), published, one("%", gain_of_linux));
    Seen {
        size,
        kpps: adaptive.kpps(),
        gain,
        gain_of_linux,
        kept: 100.0 * adaptive.kpps() / by_interrupt.kpps().max(lazy.kpps()),
        lazy_stalls: lazy.interval.is_none(),
        adaptive_stalls: adaptive.interval.is_none(),
    }
}

fn judge(outcome: &mut Outcome, seen: &[Seen]) {
    let (short, longer): (Vec<&Seen>, _) = seen.iter().partition(|seen| seen.size <= oc48::CLUSTERS_FROM);
    let most = |seen: &[&Seen]| seen.iter().map(|seen| seen.gain).fold(f64::NEG_INFINITY, f64::max);
    let (best, best_longer) = (most(&short), most(&longer));
    outcome.finding(
        "without interrupts short packets gain most, about 70 %",
        best > best_longer && is_about(best, GAIN),
        format!("{best:.0} % up to 213 B, to which the model was fitted; at most {best_longer:.0} % beyond"),
    );
    let of = |size: usize| seen.iter().find(|seen| seen.size == size);
    let next = of(ABOVE).map_or(f64::NAN, |seen| seen.gain);
    outcome.finding(
        "just beyond 213 B, where clusters begin, the gain is gone",
        next.abs() < LEVEL,
        format!("{next:.0} % at {ABOVE} B: a cluster takes as many interrupts as a small buffer, and the paper gives no other cause"),
    );
    let jump =
        gain(of(ABOVE).map_or(f64::NAN, |seen| seen.kpps), of(BELOW).map_or(f64::NAN, |seen| seen.kpps));
    outcome.finding(
        "from 200 B on, where clusters begin, more packets go than with less in them",
        jump > LEVEL,
        format!("{jump:+.0} % at {ABOVE} B against {BELOW} B, simulated: both lie in one buffer behind their header"),
    );
    let long = seen.last().map_or(f64::NAN, |seen| seen.gain);
    outcome.finding(
        "long packets gain, too; those of Linux below 9 KB alone",
        long > LEVEL && seen.iter().all(|seen| (seen.gain_of_linux > LEVEL) == (seen.size < LINUX_UP_TO)),
        format!("predicted: {long:.0} % at 64 KB; Linux: {}", gains_of_linux(seen)),
    );
    deadlock(outcome, seen);
    let kept = seen.iter().map(|seen| seen.kept).fold(f64::INFINITY, f64::min);
    outcome.verdicts.push(Verdict::at_least("P1.sweep.adaptive_of_best_percent", kept, ADAPTIVE_KEEPS_MIN));
}

fn gains_of_linux(seen: &[Seen]) -> String {
    let gains = seen.iter().map(|seen| format!("{:.0} % at {} B", seen.gain_of_linux, seen.size));
    gains.collect::<Vec<_>>().join(", ")
}

fn deadlock(outcome: &mut Outcome, seen: &[Seen]) {
    let sizes = |pick: fn(&Seen) -> bool| {
        let sizes: Vec<String> =
            seen.iter().filter(|seen| pick(seen)).map(|seen| seen.size.to_string()).collect();
        if sizes.is_empty() { "none".to_string() } else { format!("{} B", sizes.join(", ")) }
    };
    let (lazy, adaptive) = (sizes(|seen| seen.lazy_stalls), sizes(|seen| seen.adaptive_stalls));
    outcome.finding(
        "reclaim without interrupts alone ends in a deadlock with long packets, adaptive reclaim never does",
        seen.last().is_some_and(|seen| seen.lazy_stalls) && seen.iter().all(|seen| !seen.adaptive_stalls),
        format!("lazy stalls at: {lazy}; adaptive at: {adaptive}"),
    );
    let stalls = seen.iter().filter(|seen| seen.adaptive_stalls).count();
    outcome.verdicts.push(Verdict::equals("P1.sweep.stalls_of_adaptive", stalls, 0));
}

/// Adds what is measured around the length from which FreeBSD takes clusters. `kpps`: of [`MEASURED`], by interrupt.
fn judge_jump(outcome: &mut Outcome, kpps: &[Samples]) {
    let none = Samples::new("kpps", Vec::new());
    let of = |wanted: usize| MEASURED.iter().position(|size| *size == wanted).map_or(&none, |at| &kpps[at]);
    let pairs = of(ABOVE).values().iter().zip(of(BELOW).values());
    let jump = Samples::new("%", pairs.map(|(above, below)| gain(*above, *below)).collect());
    outcome.finding(
        "measured: messages of 256 B go in greater number than those of 200 B",
        jump.median() > LEVEL,
        format!("{} %: Linux keeps both in one piece", spread(&jump, 0)),
    );
}
