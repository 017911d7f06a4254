//! Three hosts in one bundle as a user runs them: everyone reaches everyone, with a switch dead and alive again.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("mesh_of_3_hosts_survives_a_dead_switch", Need::Daemon, dead_switch)]
}

/// No connection suffers, and even a busy machine fills most of such slow links.
fn dead_switch() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("mesh.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["mesh", "--nodes", "3", "--rate", "20", "--seconds", "1", "--tabane"]);
    command.arg(bundle::program(None)?).arg("--json").arg(&path);
    let ending = Process::start(command)?.wait(Duration::from_secs(90))?;

    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    let report: Value = serde_json::from_str(&report)?;
    ensure!(report["lost"] == serde_json::json!([]), "connections were lost: {}", report["lost"]);
    ensure!(report["noticed_ms"].is_f64() && report["whole_after_ms"].is_f64(), "events: {report}");
    for (phase, links) in report["phases"].as_array().context("phases")?.iter().zip([2.0, 1.0, 2.0]) {
        let can_carry = phase["can_carry_mbit"].as_f64().context("what links can carry")?;
        ensure!((can_carry - 3.0 * 20.0 * links * 1_448.0 / 1_514.0).abs() < 0.1, "{phase}");
        ensure!(
            phase["mbit"].as_f64() > Some(can_carry / 2.0),
            "less than half of what links carry: {phase}"
        );
    }
    let mut verdicts = report["verdicts"].as_array().context("verdicts")?.iter();
    ensure!(verdicts.any(|verdict| verdict["id"] == "connections_damaged" && verdict["ok"] == true));
    Ok(())
}
