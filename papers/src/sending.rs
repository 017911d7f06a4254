//! P0.send: what single calls of `send()` in a long stream cost (figure 4 and table 2).
//!
//! A call copies into the socket's buffer; now and then one moves what is there into the driver's ring; and now and then one waits
//! until the NIC has drained it. How many calls lie between two of these is a matter of the buffers' sizes.

use serde_json::Value;

use crate::prelude::*;

/// Classes of calls, fastest first, and what is published of each in milliseconds: longest, shortest, median, mean, standard deviation.
const CLASSES: [(&str, [f64; 5]); 3] = [
    ("copy", [0.0059, 0.0017, 0.0027, 0.0029, 8.65e-4]),
    ("ring", [0.094, 0.0060, 0.028, 0.027, 1.67e-2]),
    ("drain", [27.48, 27.27, 27.45, 27.40, 8.39e-2]),
];
const STATISTICS: [&str; 5] = ["max", "min", "median", "mean", "sd"];
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
    let mut table = Vec::new();
    let [mut classes, mut fast, mut slow, mut every, mut calls, mut time] =
        ["classes", "ms", "ms", "calls", "%", "%"].map(|unit| Samples::new(unit, Vec::new()));
    for _ in 0..setting.rounds {
        let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there.into())?;
        let report = probe.measure(&["send", &there.to_string()], &["--calls", CALLS, "--window", WINDOW])?;
        probe.stop()?;
        let found = report["classes"].as_array().context("classes")?;
        let (first, last) = (found.first().context("a class")?, found.last().context("a class")?);
        let number = |value: &Value| value.as_f64().with_context(|| format!("a figure in {report}"));
        // One round's table: means of several would have no spread that anybody measured.
        table = rows(found)?;
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
    outcome.grid("One call of send() (table 2), ms", &STATISTICS, table);
    outcome.finding(
        "3.4: calls of send() are of three classes: copying, filling the driver's ring, waiting for the NIC",
        (classes.median() - CLASSES.len() as f64).abs() < 0.5,
        format!("{:.0} classes", classes.median()),
    );
    outcome.finding(
        "3.4: most calls only copy, and few, which wait for the NIC, take most of the time",
        classes.median() >= 2.0 && calls.median() <= 100.0 * FEW && time.median() >= 100.0 * MOST,
        format!(
            "{:.0} classes; the slowest is {:.2} % of the calls and {:.0} % of the time",
            classes.median(),
            calls.median(),
            time.median()
        ),
    );
    let mean = |class: usize| [(CLASSES[class].0, CLASSES[class].1[3])];
    outcome.row("classes of calls", CLASSES.len() as f64, classes);
    outcome.compared("the fastest class: mean", &mean(0), fast);
    outcome.compared("the slowest class: mean", &mean(2), slow);
    outcome.row("the slowest class comes every", DRAIN_EVERY, every);
    Ok(outcome)
}

fn rows(found: &[Value]) -> Result<Vec<(String, Vec<Option<f64>>)>> {
    let published =
        CLASSES.iter().map(|(name, of)| Ok((format!("{name}, published"), of.map(Some).to_vec())));
    let own = found.iter().enumerate().map(|(number, class)| {
        let figure = |name: &str| Some(class["duration_us"][name].as_f64()? / 1e3);
        let figures = STATISTICS.map(figure).to_vec();
        ensure!(figures.iter().all(Option::is_some), "a class without figures: {class}");
        Ok((format!("class {} here", number + 1), figures))
    });
    published.chain(own).collect()
}
