//! The lab's experiments as a user runs them, as short as they can be: each works, and what it finds can be read. Times and
//! counts are no matter of a test on a busy machine; that there are some is.

use std::process::Command;

use tabane_kit::process::Ending;

use crate::traffic::stage::*;

/// Demonstrations, of which all but one have to keep their promise on time: who else uses the CPUs can stall any.
const ROUNDS: usize = 3;
const RATIO_MIN: f64 = 1.85;
const NOTICED_MS_MAX: f64 = 10.0;
/// Segments that a connection sends again because of it.
const RESENT_MAX: u64 = 10;
/// Attacks of each sort: made of what is heard, under the attacker's own address, and by a node.
const ATTACKS: [&str; 3] = ["truncated", "handshakes", "wrong-key"];
const MBPS_MIN: f64 = 92.0;

pub(crate) fn cases() -> Vec<Case> {
    let case =
        |name, needs, test: fn() -> Result<()>| Case::nightly(format!("experiment_{name}"), needs, test);
    let demo_name = "two_links_are_as_fast_as_both_and_a_dead_switch_costs_nothing";
    vec![
        case(demo_name, IPERF, demo),
        case("mesh_of_3_hosts_survives_a_dead_switch", DAEMON, mesh),
        case("attacks_are_tried_and_told_of", DAEMON, attack),
        case("soak_of_3_hosts_loses_nothing", DAEMON, soak),
    ]
}

pub(crate) fn lab_command(arguments: &[&str], report: &Path) -> Result<Command> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    command.args(arguments).arg("--tabane").arg(bundle::program(None)?).arg("--json").arg(report);
    Ok(command)
}

pub(crate) fn lab_ends(arguments: &[&str], report: &Path, within: Duration) -> Result<Ending> {
    Process::start(lab_command(arguments, report)?)?.wait(within)
}

pub(crate) fn lab(arguments: &[&str], within: Duration) -> Result<(Ending, Value)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("report.json");
    let ending = lab_ends(arguments, &path, within)?;
    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    Ok((ending, serde_json::from_str(&report)?))
}

fn report(arguments: &[&str], seconds: u64) -> Result<Value> {
    lab(arguments, Duration::from_secs(seconds)).map(|(_, report)| report)
}

pub(crate) fn median(report: &Value, key: &str) -> Result<f64> {
    report["samples"][key]["median"].as_f64().with_context(|| format!("{key}: {report}"))
}

fn verdict<'a>(report: &'a Value, id: &str) -> Result<&'a Value> {
    let verdicts = report["verdicts"].as_array().context("no verdicts")?;
    verdicts.iter().find(|verdict| verdict["id"] == id).with_context(|| format!("{id}: {report}"))
}

fn demo() -> Result<()> {
    let mut late = Vec::new();
    for _ in 0..ROUNDS {
        let report = report(&["demo", "--mbit", "100", "--rounds", "1"], 120)?;
        let outage = &report["outage"];
        let said = || format!("{outage}, ratio {}", report["ratio"]);
        ensure!(report["whole"] == true && outage["connections_lost"] == 0, "{}", said());
        if crate::traffic::data_path::require_programs().is_ok() {
            median(&report, "kernel_gbps")?;
        }
        let is_fast = report["ratio"].as_f64() >= Some(RATIO_MIN);
        let is_noticed = outage["detected_ms"].as_f64().is_some_and(|ms| ms <= NOTICED_MS_MAX);
        let is_repaired = outage["retransmits"].as_u64().is_some_and(|resent| resent <= RESENT_MAX);
        if !(is_fast && is_noticed && is_repaired) {
            late.push(said());
        }
        ensure!(late.len() < 2, "{}", late.join("; "));
    }
    Ok(())
}

/// No connection suffers, and even a busy machine fills most of such slow links.
fn mesh() -> Result<()> {
    let report = report(&["mesh", "--quick", "--set", r#"duration = "9 s""#], 120)?;
    for met in ["runs_failed", "connections_lost", "unnoticed", "not_whole_again"] {
        ensure!(verdict(&report, met)?["ok"] == true, "{met}: {report}");
    }
    for (phase, links) in [("whole", 1.0), ("dead", 0.5), ("again", 1.0)] {
        let share = median(&report, &format!("{phase}.namespaces.adaptive.flow1.share"))?;
        ensure!(share > links / 2.0 && share < links, "{phase}: {share} of what links carry: {report}");
    }
    Ok(())
}

/// The harness works; what attacks achieve against an unsealed bundle is no matter here.
fn attack() -> Result<()> {
    let attacks: Vec<&str> = ATTACKS.iter().flat_map(|attack| ["--attack", attack]).collect();
    let report = report(&[&["attack", "--seconds", "1"], &attacks[..]].concat(), 240)?;
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

/// Nothing is lost, damaged or leaked. Memory is no matter of so short a run.
fn soak() -> Result<()> {
    let short = [r#"duration = "12 s""#, "random_faults = 7", "hosts = 3"].map(|set| ["--set", set]).concat();
    let report = report(&[&["soak"], &short[..]].concat(), 180)?;
    for flow in 1..=4 {
        let speed = median(&report, &format!("namespaces.adaptive.flow{flow}.mbps"))?;
        ensure!(speed > 0.1, "nothing arrived: flow {flow}: {report}");
    }
    for verdict in report["verdicts"].as_array().context("verdicts")? {
        ensure!(verdict["ok"] == true || verdict["id"] == "memory_growth", "{verdict}: {report}");
    }
    Ok(())
}
