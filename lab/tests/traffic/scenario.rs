//! A scenario as a user writes and runs it: simulated and measured side by side, and what is wrong with a file.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::process::Ending;

use crate::experiments::{lab_ends, median};
use crate::{Case, Need};

/// Slow links, so that any machine reaches their rates; a fault, so that both places change something under way.
const SCENARIO: &str = r#"
about = "a pulled cable"
duration = "1500 ms"
warm_up = "300 ms"
repeats = 1
[[link]]
count = 2
rate = "20 Mbit/s"
[[flow]]
kind = "tcp"
[[flow]]
kind = "udp"
pps = 200
from = 2
to = 1
[[flow]]
kind = "ping-pong"
[[fault]]
kind = "cable"
link = 2
begins = "900 ms"
[[want]]
figure = "lost_percent"
contestant = "adaptive"
at_most = 5
[[want]]
figure = "noticed_ms"
at_most = 500
"#;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("scenario_runs_simulated_and_measured_side_by_side", Need::Daemon, side_by_side),
        Case::new("scenario_with_an_error_names_line_and_key", Need::Nothing, wrong),
        Case::new("scenario_that_a_place_cannot_run_says_why", Need::Nothing, unable),
    ]
}

/// Runs `scenario`.
fn run(scenario: &str, flags: &[&str]) -> Result<(Ending, Option<Value>)> {
    let directory = tempfile::tempdir()?;
    let [file, path] = ["scenario.toml", "report.json"].map(|name| directory.path().join(name));
    fs::write(&file, scenario)?;
    let file = file.to_str().context("a path that is no text")?;
    let ending = lab_ends(&[&["run", file], flags].concat(), &path, Duration::from_secs(90))?;
    Ok((ending, fs::read_to_string(path).ok().map(|report| serde_json::from_str(&report)).transpose()?))
}

fn side_by_side() -> Result<()> {
    let (ending, report) = run(SCENARIO, &[])?;
    let report = report.with_context(|| ending.last_words())?;
    for place in ["sim", "namespaces"] {
        for contestant in ["best-link", "adaptive"] {
            let figure = |name: &str| median(&report, &format!("{place}.{contestant}.{name}"));
            ensure!((5.0..45.0).contains(&figure("flow1.mbps")?), "{place}, {contestant}: {report}");
            ensure!(figure("flow3.rtt_ms")? > 0.0, "{place}, {contestant}: {report}");
        }
        // Of the cable that is out, both have less than two links.
        ensure!(median(&report, &format!("{place}.adaptive.flow1.ratio"))? < 2.0, "{place}: {report}");
        ensure!(median(&report, &format!("{place}.adaptive.noticed_ms"))? < 500.0, "{place}: {report}");
    }
    ensure!(report["scenario"].as_str().is_some_and(|text| text.contains("20 Mbit/s")), "{report}");
    let verdicts = report["verdicts"].as_array().context("no verdicts")?;
    ensure!(verdicts.len() == 5 && verdicts[0]["id"] == "runs_failed" && verdicts[0]["got"] == 0, "{report}");
    Ok(())
}

fn wrong() -> Result<()> {
    let (ending, _) = run(&SCENARIO.replace("pps = 200", "pbs = 200"), &[])?;
    let said = ending.last_words();
    ensure!(ending.status.code() == Some(2), "{ending:?}");
    ensure!(said.contains("scenario.toml:13: flow.pbs: unknown key (did you mean `pps`?)"), "{said}");
    Ok(())
}

fn unable() -> Result<()> {
    let scenario = SCENARIO.replace("kind = \"tcp\"", "kind = \"quic\"");
    let (ending, _) = run(&scenario, &["--in", "sim"])?;
    let shown = ending.success("a scenario for another place")?;
    ensure!(shown.contains("not in `sim`: the simulator has no QUIC"), "{shown}");
    Ok(())
}
