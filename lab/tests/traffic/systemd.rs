//! The unit that is installed with the program, under systemd itself: it starts, reloads, ends and is restarted, and is what
//! docs/security.md says.

mod names;
pub(crate) mod page;

use tabane_kit::prerequisites::{STRACE, SYSTEMD};
use tempfile::NamedTempFile;

use crate::traffic::page::require_web;
use crate::traffic::stage::*;

const UNIT: &[u8] = include_bytes!("../../../packaging/tabane@.service");
pub(crate) const SERVICE: &str = "tabane@tb0.service";
pub(crate) const KEY: &str = "736572766963657320617265207374617274656420627920612073657276616e";
/// A further link, which leads nowhere: the service may start the process that resolves names.
const NAMED: &str = "[[link]]\nnic = \"lo\"\npeers = [\"localhost:9\"]\n";
/// The first reload has the same program take over, the second one the next version's.
const RELOADS: usize = 2;
/// The version of the programs here, and where the daemon of another one lies until it is installed.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const NEXT: &str = "tabaned.next";
const LONG_FILE: u64 = 96 << 20;
/// In place of the unit's, so that the trial is brief.
const WATCHED: &[u8] = b"[Service]\nWatchdogSec=2\nRestartSec=100ms\n";
/// The next system call begins 6 s late, in microseconds: longer than the service manager waits.
const HELD_UP: &str = "inject=all:delay_enter=6000000";
/// Exposure to which docs/security.md commits the unit, in tenths.
const EXPOSURE_MAX: &str = "--threshold=19";

pub(crate) const NEEDS: &[Need] =
    &[Daemon, Tool(SYSTEMD), Tool(SETPRIV), Tool(STRACE), That(tabane_kit::systemd::require)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("systemd_starts_reloads_restarts_and_stops_the_unit", NEEDS, unit),
        Case::new("systemd_restarts_a_daemon_whose_worker_hangs", NEEDS, hung),
        Case::new(
            "systemd_serves_the_page_to_who_may_only_look",
            [NEEDS, &[That(require_web)]].concat(),
            page::unit,
        ),
        Case::new(
            "systemd_keeps_who_resolves_names_from_all_else_when_it_is_taken_over",
            [NEEDS, names::NEEDS].concat(),
            names::taken_over,
        ),
    ]
}

fn unit() -> Result<()> {
    let (next, version) = relabelled(&fs::read(daemon()?)?)?;
    with_machine(&addressed(), &[(&format!("usr/bin/{NEXT}"), &next, 0o755)], |topology, systemd| {
        with_peer(topology, |peer| lives(topology, systemd, peer, &version))
    })
}

fn lives(topology: &Topology, systemd: &Systemd, peer: &mut Bundle<'_>, next_version: &str) -> Result<()> {
    let host = topology.host(0);
    analysed(systemd, SERVICE, EXPOSURE_MAX)?;

    systemd.systemctl(&format!("start {SERVICE}"))?;
    ensure!(has_device(host)?, "active before its device");
    let first = main_process(systemd)?;
    let status = systemd.systemctl(&format!("status {SERVICE}"))?;
    ensure!(
        status.contains("active (running)") && status.contains(&format!("Main PID: {first} ")),
        "{status}"
    );
    has_no_rights_of_root(systemd, first)?;
    wait_for("the addresses of a name", WITHIN, || {
        let events = process::run(systemd.command("tabane").args(["events", DEVICE]))?;
        Ok(events.contains("name-resolved localhost is ").then_some(()))
    })?;
    whole(peer)?;
    reloads(topology, systemd, peer, first, next_version)?;
    read_again(systemd)?;
    send_file(host, topology.host(1), address(1), FILE)?;

    let killed = main_process(systemd)?;
    process::run(systemd.command("kill").args(["-KILL", &killed.to_string()]))?;
    is_restarted(systemd, killed)?;
    whole(peer)?;
    send_file(topology.host(1), host, address(0), FILE)?;

    systemd.systemctl(&format!("stop {SERVICE}"))?;
    ensure!(!has_device(host)?, "{DEVICE} outlived its service");
    let state = ["ActiveState", "Result"].map(|name| systemd.property(SERVICE, name));
    ensure!(
        matches!(&state, [Ok(state), Ok(result)] if state == "inactive" && result == "success"),
        "{state:?}"
    );
    Ok(())
}

fn is_restarted(systemd: &Systemd, before: u32) -> Result<()> {
    wait_for("another daemon", WITHIN, || {
        let is_active = systemd.property(SERVICE, "ActiveState")? == "active";
        Ok((is_active && systemd.property(SERVICE, "NRestarts")? == "1").then_some(()))
    })?;
    ensure!(main_process(systemd)? != before, "{before} has the bundle");
    Ok(())
}

/// The worker is held up in a system call, as by a driver that does not return, while its process lives. Before that, signs of
/// life come from a process that has taken the bundle over.
fn hung() -> Result<()> {
    let watched = ("etc/systemd/system/tabane@.service.d/watched.conf", WATCHED, 0o644);
    with_machine(&addressed(), &[watched], |topology, systemd| {
        with_peer(topology, |peer| hangs(topology, systemd, peer))
    })
}

fn hangs(topology: &Topology, systemd: &Systemd, peer: &mut Bundle<'_>) -> Result<()> {
    systemd.systemctl(&format!("start {SERVICE}"))?;
    systemd.systemctl(&format!("reload {SERVICE}"))?;
    let hangs = main_process(systemd)?;
    let sign = || systemd.property(SERVICE, "WatchdogTimestampMonotonic");
    let last = sign()?;
    wait_for("a sign of life", WITHIN, || Ok((sign()? != last).then_some(())))?;
    let threads = process::run(systemd.command("sh").args([
        "-c",
        "grep -l '^worker 0$' /proc/$0/task/*/comm",
        &hangs.to_string(),
    ]))?;
    let worker = threads.trim().split('/').nth(4).context("a worker")?;
    ensure!(systemd.property(SERVICE, "NRestarts")? == "0", "a daemon whose workers answer was restarted");

    let mut strace = systemd.command("strace");
    strace.args(["-qq", "-o", "/dev/null", "-p", worker, "-e", "trace=all", "-e", HELD_UP]);
    let strace = Process::start(strace)?;
    wait_for("the watchdog of systemd", WITHIN, || {
        Ok((systemd.property(SERVICE, "SubState")? == "stop-watchdog").then_some(()))
    })?;
    // A worker that is held up outlives the signal that ends its process.
    strace.wait(WITHIN)?;
    is_restarted(systemd, hangs)?;
    let said = systemd.said()?;
    ensure!(said.contains("workers do not answer"), "{said}");
    whole(peer)?;
    send_file(topology.host(1), topology.host(0), address(0), FILE).map(drop)
}

pub(crate) fn with_peer(topology: &Topology, test: impl FnOnce(&mut Bundle<'_>) -> Result<()>) -> Result<()> {
    with_peer_of(topology, KEY, test)
}

pub(crate) fn with_peer_of(
    topology: &Topology,
    key: &str,
    test: impl FnOnce(&mut Bundle<'_>) -> Result<()>,
) -> Result<()> {
    let file = NamedTempFile::new()?;
    fs::write(file.path(), key)?;
    let options = Options { protection: Protection::KeyFile(file.path().to_owned()), ..options()? };
    let mut peer = Bundle::start(topology.host(1), 1, &topology.nics(), &options)?;
    test(&mut peer)?;
    Bundle::stop_all([peer])
}

pub(crate) fn with_machine(
    line: &str,
    files: &[(&str, &[u8], u32)],
    test: impl FnOnce(&Topology, &Systemd) -> Result<()>,
) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let systemd = machine(topology.host(0), line, files)?;
    test(&topology, &systemd).with_context(|| systemd.said().unwrap_or_default())?;
    systemd.systemctl(&format!("stop {SERVICE}")).map(drop)
}

pub(crate) fn addressed() -> String {
    format!("address = [\"{}/24\"]", address(0))
}

/// A machine with the service, this line in its bundle's file, and with these files besides.
pub(crate) fn machine(host: &Namespace, line: &str, files: &[(&str, &[u8], u32)]) -> Result<Systemd> {
    let (tabane, tabaned) = (fs::read(program(None)?)?, fs::read(daemon()?)?);
    let (unit, config) = (format!("{UNITS}/tabane@.service"), config(line));
    let service: [(&str, &[u8], u32); 5] = [
        (&unit, UNIT, 0o644),
        ("usr/bin/tabane", &tabane, 0o755),
        ("usr/bin/tabaned", &tabaned, 0o755),
        ("etc/tabane/tb0.toml", config.as_bytes(), 0o644),
        ("etc/tabane/tb0.key", KEY.as_bytes(), 0o600),
    ];
    Systemd::start(host, &[&service, files].concat())
}

fn config(line: &str) -> String {
    let links: String = (0..LINKS).map(|link| format!("[[link]]\nnic = \"{}\"\n", nic(link))).collect();
    format!("policy = \"adaptive\"\n{line}\n{links}{NAMED}")
}

/// The program that `tabane up` becomes.
fn daemon() -> Result<PathBuf> {
    Ok(program(None)?.with_file_name("tabaned"))
}

/// The program as another version is, and that version: its number stands in for all that differs.
fn relabelled(program: &[u8]) -> Result<(Vec<u8>, String)> {
    let (start, last) = VERSION.split_at(VERSION.len() - 1);
    let other = format!("{start}{}", if last == "9" { "8" } else { "9" });
    let (from, to) = (VERSION.as_bytes(), other.as_bytes());
    let mut changed = program.to_vec();
    let places: Vec<usize> =
        (0..program.len() - from.len()).filter(|at| program[*at..].starts_with(from)).collect();
    ensure!(!places.is_empty() && from.len() == to.len(), "no version {VERSION} in the program");
    places.into_iter().for_each(|at| changed[at..at + to.len()].copy_from_slice(to));
    Ok((changed, other))
}

fn told(systemd: &Systemd, arguments: &[&str]) -> Result<String> {
    process::run(systemd.command("tabane").args(arguments))
}

/// The unit's file is read again under the flags of the unit: its key is the service manager's. What was changed by hand is saved.
fn read_again(systemd: &Systemd) -> Result<()> {
    let status =
        || Ok::<Status, anyhow::Error>(serde_json::from_str(&told(systemd, &["status", DEVICE, "--json"])?)?);
    let by_hand = status()?.changed_by_hand;
    ensure!(by_hand == ["policy rr, in the file adaptive"], "the processes before did it: {by_hand:?}");
    let saved = told(systemd, &["save"])?;
    ensure!(saved == "policy rr, was adaptive\n" && status()?.changed_by_hand.is_empty(), "{saved}");
    let edits = r#"s/policy = "rr"/policy = "adaptive"/; s:/24"\]:/24", "10.78.0.1/24"]:"#;
    process::run(systemd.command("sed").args(["-i", edits, "/etc/tabane/tb0.toml"]))?;
    let changed = told(systemd, &["reload"])?;
    let want = "policy adaptive, was rr\naddress 10.78.0.1/24 added\n";
    ensure!(changed == want && status()?.policy == "adaptive", "{changed}");
    Ok(())
}

/// Another process each time, while the unit stays active and connections in both directions live on; the last one is of another
/// version. What was changed by hand stays.
fn reloads(
    topology: &Topology,
    systemd: &Systemd,
    peer: &mut Bundle<'_>,
    first: u32,
    next: &str,
) -> Result<()> {
    told(systemd, &["policy", "rr"])?;
    let since = systemd.property(SERVICE, "ActiveEnterTimestampMonotonic")?;
    let flows = begin_both_ways(topology, LONG_FILE)?;
    let mut processes = vec![first];
    for reload in 1..=RELOADS {
        if reload == RELOADS {
            // As a package manager does.
            process::run(systemd.command("mv").args([&format!("/usr/bin/{NEXT}"), "/usr/bin/tabaned"]))?;
        }
        systemd.systemctl(&format!("reload {SERVICE}"))?;
        let now = main_process(systemd)?;
        ensure!(!processes.contains(&now), "the bundle stays with process {now}");
        processes.push(now);
        has_no_rights_of_root(systemd, now)?;
        whole(peer)?;
    }
    for flow in flows {
        let outcome = flow.finish()?;
        ensure!(outcome.lost.is_none() && outcome.is_whole, "{outcome:?}");
        println!("through {RELOADS} processes: {} bytes, {:?}", outcome.bytes, outcome.gaps.longest());
    }
    let events = told(systemd, &["events"])?;
    for version in [VERSION, next] {
        ensure!(events.contains(&format!("version {version} took over")), "{version}: {events}");
    }
    let active = [
        systemd.property(SERVICE, "ActiveState")? == "active",
        systemd.property(SERVICE, "ActiveEnterTimestampMonotonic")? == since,
        systemd.property(SERVICE, "NRestarts")? == "0",
    ];
    ensure!(active == [true; 3], "not active all the time: {active:?}");
    Ok(())
}

fn main_process(systemd: &Systemd) -> Result<u32> {
    let followed = systemd.property(SERVICE, "MainPID")?.parse()?;
    let answer = process::run(systemd.command("tabane").args(["status", DEVICE, "--json"]))?;
    let status: Status = serde_json::from_str(&answer)?;
    ensure!(status.pid == followed, "systemd follows {followed}, and {} has the bundle", status.pid);
    Ok(followed)
}

fn has_no_rights_of_root(systemd: &Systemd, pid: u32) -> Result<()> {
    let rights = process::run(systemd.command("cat").arg(format!("/proc/{pid}/status")))?;
    let line = |name: &str| rights.lines().find(|line| line.starts_with(name)).context(name.to_owned());
    let is_root = line("Uid:")?.split_whitespace().skip(1).any(|id| id == "0");
    ensure!(!is_root && line("Seccomp:")?.ends_with('2') && line("NoNewPrivs:")?.ends_with('1'), "{rights}");
    Ok(())
}

fn analysed(systemd: &Systemd, unit: &str, exposure: &str) -> Result<()> {
    let analyse = |arguments: &[&str]| {
        let mut command = systemd.command("systemd-analyze");
        command.args(arguments).arg(unit);
        Process::start(command)?.wait(WITHIN)
    };
    let verified = analyse(&["verify"])?;
    let said = format!("{}{}", verified.output, verified.complaint);
    ensure!(verified.status.success() && said.trim().is_empty(), "systemd-analyze verify: {said}");
    let rated = analyse(&["security", "--no-pager", exposure])?;
    let figure = rated.output.lines().last().unwrap_or_default().to_owned();
    println!("{figure}");
    ensure!(
        rated.status.success() && figure.contains("Overall exposure level"),
        "{figure}: {}",
        rated.complaint
    );
    Ok(())
}

fn has_device(host: &Namespace) -> Result<bool> {
    Ok(host.ip("-brief link")?.contains(DEVICE))
}

pub(crate) fn whole(peer: &mut Bundle<'_>) -> Result<()> {
    peer.wait_until("all links", |status| status.is_ready(1, LINKS)).map(drop)
}
