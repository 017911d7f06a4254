//! The papers' measurements as a user runs them, the shortest of them: figures, findings and a page.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle;
use tabane_kit::process::Process;

use crate::{Case, Need};

/// What the paper's device reads, in MB/s: the stream through it is a part of that.
const DEVICE_MBPS: f64 = 17.0;
/// How much faster memory has to be that is not slowed down.
const SPEEDUP_MIN: f64 = 10.0;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("papers_are_repeated_beside_their_figures", Need::DaemonAndIperf, repeat)]
}

fn repeat() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (path, page) = (directory.path().join("papers.json"), directory.path().join("results.md"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(["papers", "P1.bounce", "P2.acks", "P3.mtu", "P4.anomaly"]);
    command.args(["--rounds", "1", "--seconds", "1", "--throttle", "--tabane"]);
    command.arg(bundle::program(None)?).arg("--json").arg(&path).arg("--markdown").arg(&page);
    let ending = Process::start(command)?.wait(Duration::from_secs(60))?;

    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    let report: Value = serde_json::from_str(&report)?;
    let sent = |what: &str| report["samples"][format!("P2.acks {what}: sent")]["median"].as_f64();
    for what in ["single link", "two links"] {
        // 10^9 bytes in segments of at most 1,448 bytes, or in cells; all that comes on top is control.
        ensure!((690_000.0..900_000.0).contains(&sent(what).context("packets")?), "{what}: {report}");
    }
    let [own, slow] = ["over mem", "over mem with the bug's rates"]
        .map(|memory| report["samples"][format!("P3.mtu MTU 65000 {memory}, a stream")]["median"].as_f64());
    let (own, slow) = (own.context("own")?, slow.context("slow")?);
    ensure!(
        slow > DEVICE_MBPS / 8.0 && slow < DEVICE_MBPS && own > SPEEDUP_MIN * slow,
        "{own} MB/s; {slow} through a device that reads {DEVICE_MBPS} MB/s"
    );
    for experiment in report["experiments"].as_array().context("experiments")? {
        let rows = experiment["outcome"]["rows"].as_array().context("rows")?;
        let simulated = rows.iter().filter(|row| row["source"] == "simulated").count();
        let (id, all) = (&experiment["id"], rows.len());
        let (none, every) = (id == "P2.acks", id == "P4.anomaly");
        ensure!(none == (simulated == 0), "{simulated} of {all} rows of {id}");
        ensure!(every == (simulated == all), "{simulated} of {all} rows of {id}");
        if id == "P1.bounce" {
            continue; // What the paper found there is a result of the simulation, and may be another.
        }
        let findings = experiment["outcome"]["findings"].as_array().context("findings")?;
        ensure!(
            !findings.is_empty() && findings.iter().all(|finding| finding["holds"] == true),
            "{experiment}"
        );
    }
    let page = fs::read_to_string(page)?;
    ensure!(page.contains("## P2.acks") && page.contains("bonding 741530, RI2N 376004"), "{page}");
    Ok(())
}
