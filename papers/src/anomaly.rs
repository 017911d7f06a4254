//! P4.anomaly: larger messages that are faster than any smaller one, found without looking at a plot.
//!
//! Over traces that are kept with the probe's tests: one that has the anomaly, made after the paper's X550, and two that
//! have not.

use anyhow::{Context, Result};
use tabane_probe::stats::{Inversion, Round, inversion};

use super::outcome::Outcome;
use tabane_kit::report::{Samples, Verdict};

/// Name, published share of inverted round trips in percent, and the trace.
const TRACES: [(&str, f64, &str); 3] = [
    ("X550", 25.5, include_str!("../../probe/tests/traces/synthetic-x550.csv")),
    ("1 GbE", 0.0, include_str!("../../probe/tests/traces/synthetic-gigabit.csv")),
    ("BlueField-2", 0.0, include_str!("../../probe/tests/traces/synthetic-bluefield.csv")),
];

pub(super) fn run() -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut found = Vec::new();
    for (name, published, trace) in TRACES {
        let seen = look(trace).with_context(|| format!("the trace of {name}"))?;
        let what = format!("{name}, trace made after the paper: 1 KB below the least of 1 B");
        outcome.simulated(what, Some(published), Samples::new("%", vec![100.0 * seen.share]));
        if seen.is_anomaly() {
            found.push(name);
        }
    }
    let holds = found == ["X550"];
    outcome.finding(
        "on the X550, and only there, a quarter of the larger messages is faster than any smaller one",
        holds,
        format!("found in: {}", found.join(", ")),
    );
    outcome.verdicts.push(Verdict::equals("P4.anomaly.found_where_it_is", holds, true));
    Ok(outcome)
}

/// The smaller size's round trips against the larger's.
fn look(trace: &str) -> Option<Inversion> {
    let rows = trace.lines().filter_map(|line| {
        let (size, rest) = line.split_once(',')?;
        let (round, time) = rest.split_once(',')?;
        Some((size.parse::<u32>().ok()?, (round.parse().ok()?, time.parse().ok()?)))
    });
    let (small, large): (Vec<_>, Vec<_>) = rows.partition(|(size, _)| *size == 1);
    let rounds = |rows: Vec<(u32, Round)>| rows.into_iter().map(|(_, round)| round).collect::<Vec<_>>();
    inversion(&rounds(small), &rounds(large))
}
