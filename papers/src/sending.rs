//! P0.send: what single calls of `send()` in a long stream cost.
//!
//! A call copies into the socket's buffer; now and then one moves what is there into the driver's ring; and now and then one waits
//! until the NIC has drained it. How many calls lie between two of these is a matter of the buffers' sizes.

use anyhow::{Context, Result};
use serde_json::Value;

use super::outcome::Outcome;
use super::setting::Setting;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::topology::{LinkPlan, Plan, Topology, address};
use tabane_kit::workload::probe::Probe;

/// Published mean durations in milliseconds: copy, ring, drain.
const MEANS: [(&str, f64); 3] = [("copy", 0.0029), ("ring", 0.027), ("drain", 27.40)];
/// Published: a call waits for the NIC so seldom.
const DRAIN_EVERY: f64 = 328.0;
/// The paper's calls of 1 KB, but fewer, and in the same place among them those that count.
const CALLS: &str = "200000";
const WINDOW: &str = "100001-105000";
/// Most calls that are waits, and least part of the time that they take, where the finding holds.
const FEW: f64 = 0.05;
const MOST: f64 = 0.5;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::paced(Bitrate::mbit(100))]))?;
    let there = address(0, 1);
    let [mut classes, mut fast, mut slow, mut every, mut calls, mut time] =
        ["classes", "ms", "ms", "calls", "%", "%"].map(|unit| Samples::new(unit, Vec::new()));
    for _ in 0..setting.rounds {
        let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there.into())?;
        let report = probe.measure(&["send", &there.to_string()], &["--calls", CALLS, "--window", WINDOW])?;
        probe.stop()?;
        let found = report["classes"].as_array().context("classes")?;
        let (first, last) = (found.first().context("a class")?, found.last().context("a class")?);
        let number = |value: &Value| value.as_f64().with_context(|| format!("a figure in {report}"));
        classes.push(found.len() as f64);
        fast.push(number(&first["duration_us"]["mean"])? / 1e3);
        slow.push(number(&last["duration_us"]["mean"])? / 1e3);
        calls.push(100.0 * number(&last["share_of_calls"])?);
        time.push(100.0 * number(&last["share_of_time"])?);
        // A class that comes once has no distances.
        if let Some(median) = last["every_calls"]["median"].as_f64() {
            every.push(median);
        }
    }
    let mut outcome = Outcome::default();
    outcome.finding(
        "most calls only copy, and few, which wait for the NIC, take most of the time",
        classes.median() >= 2.0 && calls.median() <= 100.0 * FEW && time.median() >= 100.0 * MOST,
        format!(
            "{:.0} classes; the slowest is {:.2} % of the calls and {:.0} % of the time",
            classes.median(),
            calls.median(),
            time.median()
        ),
    );
    outcome.row("classes of calls", MEANS.len() as f64, classes);
    outcome.compared("the fastest class: mean", &MEANS[..1], fast);
    outcome.compared("the slowest class: mean", &MEANS[2..], slow);
    outcome.row("the slowest class comes every", DRAIN_EVERY, every);
    Ok(outcome)
}
