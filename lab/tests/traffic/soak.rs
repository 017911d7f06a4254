//! A short soak as a user runs it: nothing is lost, damaged or leaked.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("soak_of_3_hosts_loses_nothing", Need::Daemon, faults)]
}

/// Memory is no matter of so short a run.
fn faults() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("soak.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["soak", "--minutes", "0.1", "--faults", "7", "--hosts", "3", "--tabane"]);
    command.arg(bundle::program(None)?).arg("--json").arg(&path);
    let ending = Process::start(command)?.wait(Duration::from_secs(120))?;

    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    let report: Value = serde_json::from_str(&report)?;
    for connection in report["connections"].as_array().context("connections")? {
        ensure!(connection["lost"].is_null() && connection["damaged"] == 0, "{connection}");
        ensure!(connection["bytes"].as_u64() > Some(100_000), "nothing arrived: {connection}");
    }
    for verdict in report["verdicts"].as_array().context("verdicts")? {
        ensure!(verdict["ok"] == true || verdict["id"] == "h1.memory_growth", "{verdict}");
    }
    Ok(())
}
