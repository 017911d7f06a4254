//! What Tabane promises, by the command that shows it: `tabane-lab demo`, over links so slow that any machine fills them.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

/// Runs of which one has to keep the promise on time: who else uses the CPUs can stall any.
const ATTEMPTS: usize = 3;
const ENDS_WITHIN: Duration = Duration::from_secs(120);
/// One connection's speed over two links, in parts of its speed over one.
const RATIO_MIN: f64 = 1.85;
/// A switch that is a black hole is noticed within this time.
const NOTICED_MS_MAX: f64 = 10.0;
/// Segments that a connection sends again because of it.
const RESENT_MAX: u64 = 10;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "two_links_are_as_fast_as_both_and_a_dead_switch_costs_nothing",
        Need::DaemonAndIperf,
        demo,
    )]
}

fn demo() -> Result<()> {
    let mut late = Vec::new();
    for _ in 0..ATTEMPTS {
        let report = run()?;
        let outage = &report["outage"];
        let said = || format!("{outage}, ratio {}", report["ratio"]);
        ensure!(report["sha256_ok"] == true && outage["connections_lost"] == 0, "{}", said());
        let is_fast = report["ratio"].as_f64() >= Some(RATIO_MIN);
        let is_noticed = outage["detected_ms"].as_f64().is_some_and(|ms| ms <= NOTICED_MS_MAX);
        let is_repaired = outage["retransmits"].as_u64().is_some_and(|resent| resent <= RESENT_MAX);
        if is_fast && is_noticed && is_repaired {
            return Ok(());
        }
        late.push(said());
    }
    anyhow::bail!("{}", late.join("; "))
}

/// The report of a demonstration.
fn run() -> Result<Value> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("demo.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["demo", "--mbit", "200", "--rounds", "1", "--tabane"]).arg(bundle::program(None)?);
    command.arg("--json").arg(&path);
    let ending = Process::start(command)?.wait(ENDS_WITHIN)?;
    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    Ok(serde_json::from_str(&report)?)
}
