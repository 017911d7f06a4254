//! P1.bounce: the header and the first clusters of a packet copied into one buffer, under both ways of reclaim (figure 9).
//!
//! The paper does not say how buffers were reclaimed meanwhile. With interrupts, each fragment costs one more.
//!
//! Beside it, measured: frames in pieces of a cell, handed to a TAP device of this machine, as a daemon delivers them, and what the
//! daemon's measurement at start, which has no device yet, says of them.

use tabane_engine::fragments::{Costs, Fragments};
use tabane_engine::reclaim::Method;
use tabane_io::bounce::{measure, measure_through};
use tabane_io::{Offload, Tap, TapSpec};

use super::swept::{ADAPTIVE, gain, is_about, one, send, send_dummy};
use crate::device::oc48;
use crate::device::sender::MESSAGE_MAX;
use crate::prelude::*;

const SIZES: [usize; 7] = [213, 1_024, SHORT, 9_216, 16_384, 32_768, MESSAGE_MAX];
const SHORT: usize = 4_096;
/// Published gains in percent: 3 or 4 clusters at 4 KB, and at 64 KB.
const AT_SHORT: f64 = 10.0;
const AT_LONG: f64 = 0.0;
/// Less is as fast, in percent.
const LEVEL: f64 = 3.0;
/// By how much another copy may beat what was chosen at start, in percent: a copy that gains less is not taken
/// (`tabane_engine::fragments`).
const WORTH: f64 = 4.0;

/// Bytes of a frame in a sealed cell, at an MTU of 1,500.
const PIECE: usize = 1_406;
const FRAMES: [usize; 6] = [2_048, SHORT, 8_192, 16_384, 32_768, 65_536];
/// How many more rounds than of other figures: one takes a few milliseconds.
const ROUNDS: usize = 3;
const DEVICE: &str = "bounce";

const COPIES: [(&str, usize); 3] = [("k = 3", 3), ("k = 4", 4), ("all", usize::MAX)];

fn gains(reclaim: Method) -> [[f64; COPIES.len()]; SIZES.len()] {
    SIZES.map(|size| {
        let run = |fragments| send(&oc48::FREEBSD, reclaim, &fragments, size).kpps();
        let base = run(Fragments::ScatterGather);
        // The header is a fragment before the clusters.
        COPIES.map(|(_, first)| gain(run(Fragments::CopyFirst(first.saturating_add(1))), base))
    })
}

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let ways = [("by interrupt", gains(Method::Interrupt)), ("adaptively", gains(ADAPTIVE))];
    for (way, gains) in &ways {
        for (size, gains) in SIZES.iter().zip(gains) {
            for (copy, ((name, _), gain)) in COPIES.iter().zip(gains).enumerate() {
                let (published, fitted) = match (*size, copy, *way) {
                    (SHORT, 0, "by interrupt") => (Some(AT_SHORT), " (fitted)"),
                    (SHORT, 0 | 1, _) => (Some(AT_SHORT), ""),
                    (MESSAGE_MAX, 0 | 1, _) => (Some(AT_LONG), ""),
                    _ => (None, ""),
                };
                outcome.simulated(format!("{size} B {way}: {name}{fitted}"), published, one("%", *gain));
            }
        }
    }
    let place = |wanted: usize| SIZES.iter().position(|size| *size == wanted).unwrap_or_default();
    let both = |size: usize, copy: usize| ways.map(|(_, gains)| gains[place(size)][copy]);
    let said = |[first, second]: [f64; 2]| format!("{first:+.1} % by interrupt, {second:+.1} % adaptively");
    let short = both(SHORT, 0);
    outcome.finding(
        "a copy of the first three or four clusters gains about 10 % at 4 KB",
        short.iter().all(|gain| *gain > 0.0) && short.iter().any(|gain| is_about(*gain, AT_SHORT)),
        format!("{}; the first was fitted", said(short)),
    );
    let few = both(MESSAGE_MAX, 0);
    outcome.finding(
        "at 64 KB a copy of three or four makes no difference",
        few.iter().all(|gain| gain.abs() < LEVEL),
        format!("predicted: {}", said(few)),
    );
    let all = both(MESSAGE_MAX, 2);
    outcome.finding(
        "at 64 KB a copy of everything loses",
        all.iter().all(|gain| *gain < 0.0),
        format!("predicted: {}", said(all)),
    );
    priced(setting, &mut outcome)?;
    Ok(outcome)
}

/// Adds what copies gain on this machine, in percent of the time that one frame takes: predicted at start, and at the device.
fn priced(setting: &Setting, outcome: &mut Outcome) -> Result<()> {
    let host = Namespace::create("h1")?;
    let spec = TapSpec { name: DEVICE.to_string(), queues: 1, offload: Offload::NONE };
    let (tap, queues) = host.enter(|| Tap::open(&spec))??;
    host.ip(&format!("link set {DEVICE} up"))?;
    let rounds: Vec<[Costs; 2]> = (0..ROUNDS * setting.rounds)
        .map(|_| {
            let device = measure_through(PIECE, |pieces| queues[0].write(pieces).is_ok(), || true);
            [measure(PIECE), device]
        })
        .collect();
    drop((queues, tap));
    let mut worse = 0;
    for bytes in FRAMES {
        for (name, first) in COPIES {
            for (place, who) in ["predicted at start", "measured at the device"].into_iter().enumerate() {
                let gains = rounds.iter().filter_map(|costs| gain_of(&costs[place], bytes, first));
                let what = format!("{bytes} B in pieces of {PIECE} B, {name}: {who}");
                push(outcome, what, gains.collect());
            }
        }
        let ways = [0].into_iter().chain(COPIES.map(|(_, first)| first));
        let mut beaten = ways.map(|first| {
            let beats = |[start, device]: &[Costs; 2]| {
                Some(gain_of(device, bytes, first)? - gain_of(device, bytes, start.best(bytes))?)
            };
            rounds.iter().filter_map(beats).fold(f64::INFINITY, f64::min)
        });
        worse += usize::from(beaten.any(|least| least.is_finite() && least > WORTH));
    }
    outcome.verdicts.push(Verdict::equals("P1.bounce.choices_beaten_in_all_rounds", worse, 0));
    Ok(())
}

fn push(outcome: &mut Outcome, what: String, gains: Vec<f64>) {
    if !gains.is_empty() {
        outcome.own(what, Samples::new("%", gains));
    }
}

fn gain_of(costs: &Costs, bytes: usize, first: usize) -> Option<f64> {
    let took = |first| {
        let trial = Costs::trials().find(|trial| (trial.bytes, trial.first) == (bytes, first))?;
        Some(costs.took(trial)?.as_secs_f64())
    };
    Some(gain(took(0)?, took(first)?))
}

// P1.cost: what it costs to gather a packet from many fragments, and what the protocols cost apart from that.
//
// The driver sends each packet's header with a payload that lies in one piece, whatever was to be sent: so the card has
// little to gather, and the protocols all of their work. Linux has every packet in one piece.

const GATHERED: [usize; 5] = [2_048, 4_096, MIDDLE, 32_768, MESSAGE_MAX];
const MIDDLE: usize = 16_384;
/// Published, in percent: what one piece gains at 64 KB, and how far it stays behind Linux at 16 KB.
const GATHERING: f64 = 17.0;
const PROTOCOL: f64 = -12.0;

pub(super) fn run_gathering() -> Outcome {
    let mut outcome = Outcome::default();
    let [mut gains, mut behind] = [(); 2].map(|()| Vec::new());
    for size in GATHERED {
        let none = Fragments::ScatterGather;
        let gathered = send(&oc48::FREEBSD, ADAPTIVE, &none, size).mbit();
        let dummy = send_dummy(&oc48::FREEBSD, size).mbit();
        let linux = send(&oc48::LINUX, ADAPTIVE, &none, size).mbit();
        gains.push(gain(dummy, gathered));
        behind.push(gain(dummy, linux));
        for (what, mbit) in [("gathered", gathered), ("in one piece", dummy), ("Linux", linux)] {
            outcome.simulated(format!("{size} B, {what}"), None, one("Mbit/s", mbit));
        }
        let published = (size == MESSAGE_MAX).then_some(GATHERING);
        let fitted = if published.is_some() { " (fitted)" } else { "" };
        let what = format!("{size} B: gain of one piece{fitted}");
        outcome.simulated(what, published, one("%", gain(dummy, gathered)));
        let published = (size == MIDDLE).then_some(PROTOCOL);
        outcome.simulated(
            format!("{size} B: one piece against Linux"),
            published,
            one("%", gain(dummy, linux)),
        );
    }
    let (long, long_behind) = (gains[GATHERED.len() - 1], behind[GATHERED.len() - 1]);
    outcome.finding(
        "gathering costs about 17 % at 64 KB",
        is_about(long, GATHERING),
        format!("one piece gains {long:.1} %, to which the model was fitted"),
    );
    outcome.finding(
        "in one piece, packets of 64 KB go as fast as Linux sends them",
        long_behind.abs() < LEVEL,
        format!("{long_behind:+.1} %"),
    );
    let middle = behind[2];
    outcome.finding(
        "protocols over many buffers cost about 12 % at 16 KB",
        is_about(middle, PROTOCOL),
        format!("{middle:+.1} % against Linux"),
    );
    let least = gains[1..].iter().copied().fold(f64::INFINITY, f64::min);
    outcome.finding(
        "gathering costs something in every packet of more than one cluster",
        least > 0.0,
        format!("at least {least:.1} %"),
    );
    outcome
}
