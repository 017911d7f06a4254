//! A scenario as a user writes and runs it: simulated and measured side by side, and what is wrong with a file.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tabane_kit::process::Ending;

use crate::traffic::experiments::{lab_command, lab_ends, median};
use crate::traffic::sites::NAT;
use crate::traffic::stage::*;

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

/// Routers: one whose rate follows a trace, over which a flow goes past the bundle, and one that translates addresses.
const ROUTERS: &str = r#"
about = "routers"
in = ["namespaces"]
duration = "3 s"
warm_up = "1 s"
repeats = 1
contestants = ["best-link", "adaptive", "mptcp"]
[[link]]
rate = "1 Gbit/s"
router = { trace = "steps.trace", queue = "50 ms" }
[[link]]
rate = "1 Gbit/s"
router = { rate = "20 Mbit/s", queue = "50 ms", nat = true }
[[flow]]
kind = "tcp"
[[flow]]
kind = "tcp"
bare = 1
[[want]]
figure = "mbps"
at_least = 1
"#;

const BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// What shells have for a program that SIGTERM has ended.
const TERMINATED: i32 = 143;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("scenario_ends_by_sigterm_with_all_its_processes", DAEMON, signals),
        Case::new("scenario_has_routers_with_traces_nat_and_flows_of_others", NAT, routers),
        Case::new("scenario_runs_simulated_and_measured_side_by_side", DAEMON, side_by_side),
        Case::new("scenario_with_an_error_names_line_and_key", NOTHING, wrong),
    ]
}

fn write(scenario: &str, directory: &Path) -> Result<String> {
    // 12 Mbit/s for half a second, and twice as much for as long.
    let steps = (1..=500).chain((501..=1_000).flat_map(|time| [time; 2]));
    let steps: String = steps.map(|time| format!("{time}\n")).collect();
    fs::write(directory.join("steps.trace"), steps)?;
    let file = directory.join("scenario.toml");
    fs::write(&file, scenario)?;
    Ok(file.to_str().context("a path that is no text")?.to_owned())
}

fn run(scenario: &str, flags: &[&str]) -> Result<(Ending, Option<Value>)> {
    let directory = tempfile::tempdir()?;
    let (file, path) = (write(scenario, directory.path())?, directory.path().join("report.json"));
    let ending = lab_ends(&[&["run", &file], flags].concat(), &path, Duration::from_secs(90))?;
    Ok((ending, fs::read_to_string(path).ok().map(|report| serde_json::from_str(&report)).transpose()?))
}

fn signals() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = write(&SCENARIO.replace("1500 ms", "10 min"), directory.path())?;
    let arguments = ["run", &file, "--in", "namespaces", "--set", "contestants = [\"adaptive\"]"];
    // The process outside, and process 1 of the sandbox.
    for depth in [0, 1] {
        let lab = Process::start(lab_command(&arguments, &directory.path().join("report.json"))?)?;
        let all = wait_for("the daemons of the run", BEGINS_WITHIN, || {
            let all = descendants(lab.pid())?;
            let daemons = all.iter().filter(|(_, name)| name == "tabaned").count();
            Ok((daemons == 2).then_some(all))
        })?;
        kill(all[depth].0, Signal::SIGTERM)?;
        let ending = lab.wait(WITHIN)?;
        ensure!(ending.status.code() == Some(TERMINATED), "depth {depth}: {ending:?}");
        wait_for("the end of all processes of the run", WITHIN, || {
            let is_gone = |pid: Pid| kill(pid, None).is_err();
            Ok(all.iter().all(|(pid, _)| is_gone(*pid)).then_some(()))
        })?;
    }
    Ok(())
}

/// The process and what it has started, from the outside to the inside, with their names.
fn descendants(root: u32) -> Result<Vec<(Pid, String)>> {
    let mut found: Vec<(Pid, String)> = Vec::new();
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // One that has ended meanwhile is none.
        let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else { continue };
        let (pid, rest) = stat.split_once(" (").context("a process")?;
        let (name, rest) = rest.rsplit_once(") ").context("a name")?;
        let parent = rest.split(' ').nth(1).context("a parent")?.parse()?;
        processes.push((Pid::from_raw(pid.parse()?), Pid::from_raw(parent), name.to_owned()));
    }
    let mut level = vec![Pid::from_raw(i32::try_from(root)?)];
    while !level.is_empty() {
        let names = processes.iter().filter(|(pid, ..)| level.contains(pid));
        found.extend(names.map(|(pid, _, name)| (*pid, name.clone())));
        let below = processes.iter().filter(|(_, parent, _)| level.contains(parent));
        level = below.map(|(pid, ..)| *pid).collect();
    }
    Ok(found)
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

fn routers() -> Result<()> {
    let (ending, report) = run(ROUTERS, &[])?;
    let report = report.with_context(|| ending.last_words())?;
    let speed =
        |contestant: &str, flow: u8| median(&report, &format!("namespaces.{contestant}.flow{flow}.mbps"));
    // The trace lets 18 Mbit/s pass, of which frames of TCP carry 0.956, and the other link 20.
    for contestant in ["best-link", "adaptive", "mptcp"] {
        let (own, bare) = (speed(contestant, 1)?, speed(contestant, 2)?);
        println!("{contestant}: {own:.1} Mbit/s beside {bare:.1}");
        ensure!((2.0..18.0).contains(&bare), "{contestant}: {bare} Mbit/s of 18\n{report}");
        ensure!(
            (28.0..37.0).contains(&(own + bare)),
            "{contestant}: {own} and {bare} Mbit/s of 38\n{report}"
        );
    }
    let alone = speed("best-link", 1)?;
    ensure!((15.0..19.5).contains(&alone), "{alone} Mbit/s of 20\n{report}");
    let bare = speed("best-link", 2)?;
    ensure!((14.0..17.6).contains(&bare), "alone over the trace: {bare} Mbit/s of 18\n{report}");
    Ok(())
}

fn wrong() -> Result<()> {
    let (ending, _) = run(&SCENARIO.replace("pps = 200", "pbs = 200"), &[])?;
    let said = ending.last_words();
    ensure!(ending.status.code() == Some(2), "{ending:?}");
    ensure!(said.contains("scenario.toml:13: pbs = 200: unknown field `pbs`, expected one of "), "{said}");
    Ok(())
}
