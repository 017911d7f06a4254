//! Some attacks as a user runs them: the harness works. What they achieve against an unsealed bundle is no matter here.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

/// One of each sort: made of what is heard, under the attacker's own address, and by a node.
const ATTACKS: [&str; 3] = ["truncated", "handshakes", "wrong-key"];
/// Least speed beside these, in Mbit/s: half of what the links carry.
const MBPS_MIN: f64 = 92.0;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("attacks_are_tried_and_told_of", Need::Daemon, attacks)]
}

fn attacks() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("attack.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["attack", "--seconds", "1", "--tabane"]);
    command.arg(bundle::program(None)?).arg("--json").arg(&path);
    command.args(ATTACKS.iter().flat_map(|attack| ["--attack", attack]));
    let ending = Process::start(command)?.wait(Duration::from_secs(240))?;

    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    let report: Value = serde_json::from_str(&report)?;
    let attacks = report["attacks"].as_array().context("attacks")?;
    ensure!(attacks.len() == ATTACKS.len(), "{} attacks", attacks.len());
    for attack in attacks {
        let figures = &attack["figures"];
        ensure!(figures["tried"].as_u64() > Some(0) && figures["dropped"].as_u64() > Some(0), "{attack}");
        for speed in ["calm_mbps", "attacked_mbps"] {
            ensure!(figures[speed].as_f64() > Some(MBPS_MIN), "{speed} below {MBPS_MIN}: {attack}");
        }
        ensure!(figures["forged_frames"] == 0 && figures["lost"].is_null(), "{attack}");
    }
    Ok(())
}
