//! One cell of the failover matrix as a user runs it: it works, and what it finds can be read.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("failover_of_2_links_by_a_black_hole", Need::Daemon, black_hole)]
}

/// Times and counts are no matter of a test on a busy machine; that there are some is.
fn black_hole() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("failover.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["failover", "--links", "2", "--fault", "black-hole", "--mode", "on", "--rounds", "1"]);
    command.arg("--tabane");
    command.arg(bundle::program(None)?).arg("--json").arg(&path);
    let ending = Process::start(command)?.wait(Duration::from_secs(60))?;

    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    let report: Value = serde_json::from_str(&report)?;
    let trial = &report["trials"][0];
    let figures = &trial["figures"];
    ensure!(trial["failed"].is_null(), "the trial failed: {trial}");
    ensure!(figures["tcp_lost"].is_null() && figures["sha256_ok"] == true, "TCP was hurt: {figures}");
    ensure!(figures["udp_sent"].as_u64() > Some(1000) && figures["udp_damaged"] == 0, "UDP: {figures}");
    ensure!(figures["unnoticed"] == 0 && figures["unrecovered"] == 0, "the fault was missed: {figures}");
    ensure!(figures["detected_idle_ms"][0].is_f64(), "nobody noticed in quiet: {figures}");
    Ok(())
}
