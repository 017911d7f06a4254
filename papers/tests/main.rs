//! The papers' measurements as a user runs them, as short as they can be, and what only they run. Each trial has a sandbox.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tabane_kit::counters::exact_seconds;
use tabane_kit::prelude::*;
use tabane_kit::prerequisites::{require, require_daemon};
use tabane_kit::sandbox::{self, Side};
use tabane_kit::topology::address;
use tabane_papers::cgroup::Cgroup;
use tabane_papers::workload::exchange::{Class, Kernel, Step};
use tabane_papers::workload::ranks::Ranks;
use tabane_papers::workload::returned;

const FAST: Bitrate = Bitrate::mbit(200);
fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1); // they share the names of the sandbox
    let lack = match sandbox::enter(&[]) {
        Ok(Side::Outside(code)) => return Ok(code),
        Ok(Side::Inside) => None,
        Err(error) => Some(format!("{error:#}")),
    };
    let missing = || {
        require_daemon(&bundle::program(None)?)?;
        Ok(require(&[IPERF3])?)
    };
    let lacking = |missing: Result<()>| lack.clone().or(missing.err().map(|error| format!("{error:#}")));
    let trial = |name: &str, lack: Option<String>, test: fn() -> Result<()>| -> Trial {
        let test = move || Ok(test().map_err(|error| format!("{error:#}"))?);
        tabane_kit::prerequisites::trial(name, lack.as_deref(), test)
    };
    let trials = vec![
        trial("papers_are_repeated_beside_their_figures", lacking(missing()), repeated),
        trial("what_parallel_programs_exchange_goes_over_the_network", lacking(Ok(())), exchange),
        trial("stream_comes_back_at_the_rate_of_the_link", lacking(Ok(())), returned),
        trial("group_has_its_part_of_a_processor", lacking(Ok(())), part_of_a_processor),
    ];
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn report(arguments: &[&str]) -> Result<Value> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("report.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-papers"));
    command.args(arguments).arg("--tabane").arg(bundle::program(None)?).arg("--json").arg(&path);
    let ending = Process::start(command)?.wait(Duration::from_secs(60))?;
    let report = fs::read_to_string(&path).with_context(|| ending.last_words())?;
    Ok(serde_json::from_str(&report)?)
}

fn median(report: &Value, key: &str) -> Result<f64> {
    report["samples"][key]["median"].as_f64().with_context(|| format!("{key}: {report}"))
}

fn repeated() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let page = directory.path().join("results.md");
    let which = ["P1.bounce", "P2.acks", "P3.mtu", "P4.anomaly"];
    let short = ["--rounds", "1", "--seconds", "1", "--markdown"];
    let page_name = page.to_str().context("a path that is no text")?;
    let report = report(&[&which[..], &short, &[page_name]].concat())?;
    for what in ["single link", "two links"] {
        // 10^9 bytes in segments of at most 1,448 bytes, or in cells; all that comes on top is control.
        let sent = median(&report, &format!("P2.acks {what}: sent"))?;
        ensure!((690_000.0..900_000.0).contains(&sent), "{what}: {report}");
    }
    for experiment in report["experiments"].as_array().context("experiments")? {
        let rows = experiment["outcome"]["rows"].as_array().context("rows")?;
        let simulated = rows.iter().filter(|row| row["source"] == "simulated").count();
        let (id, all) = (&experiment["id"], rows.len());
        let (none, every) = (id == "P2.acks", id == "P4.anomaly");
        ensure!(none == (simulated == 0), "{simulated} of {all} rows of {id}");
        ensure!(every == (simulated == all), "{simulated} of {all} rows of {id}");
        if id == "P1.bounce" || id == "P2.acks" {
            continue; // What is found there is a result of the simulation, or of a busy machine, and may be another.
        }
        let findings = experiment["outcome"]["findings"].as_array().context("findings")?;
        // What is found by measuring tells of the machine, and may be another.
        let is_measured =
            |finding: &Value| finding["sentence"].as_str().is_some_and(|said| said.starts_with("measured"));
        ensure!(
            !findings.is_empty()
                && findings.iter().all(|finding| finding["holds"] == true || is_measured(finding)),
            "{experiment}"
        );
    }
    let page = fs::read_to_string(page)?;
    ensure!(page.contains("## P2.acks") && page.contains("bonding 741530, RI2N 376004"), "{page}");
    Ok(())
}

/// Each kernel once on four hosts: as many bytes come in at each as its steps say, and headers on top.
fn exchange() -> Result<()> {
    let topology = Topology::build(Plan { hosts: 4, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) })?;
    let addresses: Vec<_> = (0..4).map(|host| address(0, host).into()).collect();
    let ranks = Ranks::connect(topology.hosts(), &addresses)?;
    for kernel in Kernel::ALL {
        let steps: Vec<_> = (0..4).map(|rank| Arc::new(kernel.steps(Class::W, 4, rank))).collect();
        let came = || -> Result<Vec<u64>> {
            topology.hosts().iter().map(|host| Ok(received_bytes(host, [&nic(0)])?[0])).collect()
        };
        let before = came()?;
        ranks.run(&steps, 1)?;
        for ((before, after), steps) in before.into_iter().zip(came()?).zip(&steps) {
            let payload: usize =
                steps.iter().map(|step| if let Step::Receive(_, bytes) = step { *bytes } else { 0 }).sum();
            let came = usize::try_from(after - before)?;
            ensure!(came > payload, "{}: {came} bytes came, {payload} were received", kernel.name());
        }
    }
    Ok(())
}

fn returned() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST)]))?;
    let at = SocketAddr::new(address(0, 1).into(), 7_510);
    let came = returned::stream(topology.host(0), topology.host(1), at, 2)?;
    let mbit = came.iter().sum::<f64>() * 8.0 / 2.0;
    ensure!(came.len() == 2 && (50.0..=205.0).contains(&mbit), "{came:?} MB came back over a link of {FAST}");
    Ok(())
}

fn part_of_a_processor() -> Result<()> {
    let group = Cgroup::with_processor(20)?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec yes >/dev/null"]);
    let busy = Process::start(command)?;
    let pid = busy.pid();
    group.add(pid)?;
    let (began, before) = (Instant::now(), exact_seconds(pid)?);
    let used = wait_for("a tenth of a second of computing", Duration::from_secs(5), || {
        let used = exact_seconds(pid)? - before;
        Ok((used >= 0.1).then_some(used))
    })?;
    let share = used / began.elapsed().as_secs_f64();
    busy.stop()?;
    ensure!(share < 0.3, "{share:.2} of a processor");
    Ok(())
}
