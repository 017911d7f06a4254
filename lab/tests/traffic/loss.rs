//! One loss as a user asks for it: frames get lost, and what that costs can be read.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

/// What a link carries, in Mbit/s.
const LINK_RATE: &str = "50";
const LINK_MBPS: f64 = 50.0;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("loss_of_1_percent", Need::DaemonAndIperf, one_percent)]
}

/// With repair two links carry more than one could without any loss, also on a busy machine. A flow lasts for longer than the
/// second that a lost superframe can cost TCP without repair.
fn one_percent() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("loss.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["loss", "--loss", "1", "--rate", LINK_RATE, "--seconds", "3", "--rounds", "1", "--tabane"]);
    command.arg(bundle::program(None)?).arg("--json").arg(&path);
    let ending = Process::start(command)?.wait(Duration::from_secs(90))?;

    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    let report: Value = serde_json::from_str(&report)?;
    let loss = &report["losses"][0];
    ensure!(loss["loss_percent"] == 1.0 && loss["failed"].is_null(), "it failed: {loss}");
    for row in 0..2 {
        for path in ["bare", "unrepaired", "repaired"] {
            let speed = &loss["rows"][row][path];
            let least = if path == "repaired" { LINK_MBPS } else { LINK_MBPS / 20.0 };
            ensure!(speed["mbps"].as_f64() > Some(least), "{path}: not {least} Mbit/s: {loss}");
            ensure!(speed["frames_lost"].as_u64() > Some(0), "no frame was lost: {path}: {loss}");
        }
        let repaired = &loss["rows"][row]["repaired"]["counters"]["cells_repaired"];
        ensure!(repaired.as_u64() > Some(0), "no cell was sent again: {loss}");
    }
    Ok(())
}
