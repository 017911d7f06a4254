//! One case of the aggregation as a user runs it: it works, and what it finds can be read.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("aggregate_of_links_of_unequal_rate_and_delay", Need::DaemonAndIperf, unequal)]
}

/// On a busy machine a bundle is not the sum of its links; it is no wreck of the better one either.
fn unequal() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("aggregate.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["aggregate", "--case", "180,60,1,10", "--seconds", "1", "--tabane"]);
    command.arg(bundle::program(None)?).arg("--json").arg(&path);
    let ending = Process::start(command)?.wait(Duration::from_secs(90))?;

    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    let report: Value = serde_json::from_str(&report)?;
    let case = &report["cases"][0];
    ensure!(case["case"] == "180,60,1,10" && case["failed"].is_null(), "the case failed: {case}");
    for direction in 0..2 {
        let pair = &case["figures"]["directions"][direction];
        let alone = pair["link"]["file_s"].as_f64();
        ensure!(alone > Some(0.7), "16 MiB in {alone:?} s: the link has no rate: {pair}");
        for figure in ["mbps", "quic_mbps"] {
            let [bundle, link] = ["bundle", "link"].map(|path| pair[path][figure].as_f64());
            ensure!(bundle > link.map(|link| link / 2.0), "{figure} of half the better link: {pair}");
        }
    }
    Ok(())
}
