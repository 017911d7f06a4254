//! What a running bundle may still do, and that it does all its work with that, as do processes that take it over.

use std::collections::BTreeSet;

use tabane_kit::sandbox::Hosts;

use crate::traffic::data_path::wrapped;
use crate::traffic::environment::{NOBODY, lone, say};
use crate::traffic::stage::*;

/// What the rights of a thread are in the kernel's words.
const LINES: [&str; 9] =
    ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp"];
/// CAP_NET_ADMIN and CAP_NET_RAW, bits 12 and 13; the same with CAP_NET_BIND_SERVICE, bit 10; and none.
const TWO: &str = "0000000000003000";
const WITH_LOW_PORTS: &str = "0000000000003400";
const NONE: &str = "0000000000000000";
const STRANGERS: &[Need] = &[Daemon, Tool(SETPRIV)];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("all_threads_keep_two_capabilities_and_nothing_else", DAEMON, threads),
        // Exercises: up --user
        Case::new("the_daemon_becomes_the_named_user_and_goes_on_working", STRANGERS, named_user),
        // Exercises: upgrade
        Case::new("a_process_that_takes_over_keeps_no_more_and_the_bundle_as_it_is", DAEMON, replaced),
        Case::new("capabilities_are_enough_to_start_it", STRANGERS, without_root),
        Case::new(
            "the_process_that_resolves_names_keeps_no_capability_and_ends_with_the_daemon",
            DAEMON,
            resolver,
        ),
    ]
}

/// What a thread says of its rights, a line each.
type Rights = BTreeSet<String>;

/// The rights of a sandboxed thread.
fn sandboxed(user: &str, capabilities: &str) -> Rights {
    let ids = format!("{user} {user} {user} {user}");
    let values = [&ids, &ids, "", NONE, capabilities, capabilities, NONE, "1", "2"];
    LINES.iter().zip(values).map(|(name, value)| format!("{name}: {value}").trim_end().to_owned()).collect()
}

/// The rights of all threads of a process but for the one that asks NICs for their speeds, and those of that one.
fn rights(pid: u32) -> Result<[Rights; 2]> {
    let mut found = [Rights::new(), Rights::new()];
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let asks = fs::read_to_string(task.join("comm"))? == "speeds\n";
        let status = fs::read_to_string(task.join("status"))?;
        let lines = status.lines().filter(|line| LINES.contains(&line.split(':').next().unwrap_or_default()));
        let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        found[usize::from(asks)].extend(lines);
    }
    Ok(found)
}

/// A thread gives up its rights as the first thing that it does, which may be after the daemon has answered.
fn keeps(bundle: &Bundle<'_>, user: &str, capabilities: &str) -> Result<()> {
    let pid = bundle.pid().context("a running daemon")?;
    let wanted = [capabilities, NONE].map(|capabilities| sandboxed(user, capabilities));
    let mut found = Default::default();
    let kept = wait_for("the rights of all threads", WITHIN, || {
        found = rights(pid)?;
        if user == "0" {
            // Root keeps the groups that who tests has.
            for rights in &mut found {
                rights.retain(|line| !line.starts_with("Groups:"));
                rights.insert("Groups:".to_owned());
            }
        }
        Ok((found == wanted).then_some(()))
    });
    kept.with_context(|| format!("{found:?}"))
}

/// Main, log, control, two workers, and who asks NICs; and a third capability for low ports. They run ahead of applications as far as
/// who tests may, and has not chosen another niceness.
fn threads() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let allowed = "if [ $(nice) = 0 ]; then nice -n -10 nice; else nice; fi 2>/dev/null";
    let allowed = process::run(topology.host(0).command("sh").args(["-c", allowed]))?;
    for (flag, value, count, capabilities) in
        [("--workers", "2", 6, TWO), ("--port", "1000", 5, WITH_LOW_PORTS)]
    {
        let bundle = lone(&topology, &nic(0), &[flag, value])?;
        keeps(&bundle, "0", capabilities)?;
        let tasks: Vec<_> = fs::read_dir(format!("/proc/{}/task", bundle.status()?.pid))?.collect();
        ensure!(tasks.len() == count, "{} threads", tasks.len());
        for task in tasks {
            let stat = fs::read_to_string(task?.path().join("stat"))?;
            let niceness = stat.rsplit(')').next().unwrap_or_default().split(' ').nth(17);
            ensure!(niceness == Some(allowed.trim()), "{stat}, and {allowed} is allowed");
        }
        say(topology.host(0), &[("link add tb0 eth2", "link 1 joined\n")])?;
        bundle.stop()?.success("a daemon told to stop")?;
    }
    Ok(())
}

fn as_nobody(host: &Namespace, words: &[&str]) -> Result<String> {
    let mut command = host.command(SETPRIV.program);
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(program(None)?);
    let output = command.args(words).current_dir("/").output()?;
    Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
}

fn named_user() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let host = topology.host(0);
    let bundle = lone(&topology, &nic(0), &["--user", "nobody"])?;
    keeps(&bundle, NOBODY, TWO)?;
    say(
        host,
        &[
            ("link add tb0 eth2,rate=1Gbit/s", "link 1 joined\n"),
            ("policy tb0 rr", "policy rr, was adaptive\n"),
            ("link remove tb0 eth1", "link 0 left\n"),
        ],
    )?;
    host.ip("link delete eth2")?;
    host.ip("link add eth2 type veth peer name other")?;
    host.ip("link set eth2 up")?;
    host.ip("link set other up")?;
    wait_for("the NIC that is back", WITHIN, || {
        Ok(as_nobody(host, &["events"])?.contains("nic-back").then_some(()))
    })?;
    let told: Vec<_> = bundle.status()?.events.into_iter().map(|event| event.what).collect();
    let wanted = ["link-added", "policy", "link-removed", "carrier-lost", "nic-gone", "nic-back"];
    ensure!(told == wanted, "{told:?}");
    let said = as_nobody(host, &["upgrade"])?;
    let sentence =
        "only root and the user who started the bundle may change its keys, reload it or take it over\n";
    ensure!(said == format!("tabane: tb0 refuses: {sentence}"), "{said}");
    bundle.stop()?.success("a daemon told to stop").map(drop)
}

/// Twice in a row: from a process that was started, and from one that took over itself. User, policy, links, device and the numbers
/// of events pass on.
fn replaced() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let host = topology.host(0);
    let mut bundle = lone(&topology, &nic(0), &["--workers", "2", "--user", "nobody"])?;
    say(
        host,
        &[
            ("policy tb0 rr", "policy rr, was adaptive\n"),
            ("link add tb0 eth2,rate=1Gbit/s", "link 1 joined\n"),
        ],
    )?;
    // With its index.
    let device = || host.ip(&format!("-oneline address show {DEVICE}"));
    let before = device()?;
    for round in 0..2 {
        bundle.upgrade()?;
        let status = bundle.wait_until("a bundle that answers", |_| true)?;
        ensure!(Some(status.pid) == bundle.pid(), "process {} has the bundle", status.pid);
        keeps(&bundle, NOBODY, TWO)?;
        let links: Vec<_> = status.links.iter().map(|link| (link.link, link.nic.as_str())).collect();
        ensure!(links == [(0, "eth1"), (1, "eth2")], "{links:?}");
        ensure!((status.policy.as_str(), status.workers) == ("rr", 2), "{status:?}");
        let after = device()?;
        ensure!(after == before, "the device is another after upgrade {round}: {after}, before {before}");
        ensure!(
            status.events.iter().map(|event| event.number).eq(0..status.events.len() as u64),
            "{:?}",
            status.events
        );
        say(host, &[("link remove tb0 eth2", "link 1 left\n"), ("link add tb0 eth2", "link 1 joined\n")])?;
    }
    say(host, &[("down", "")])?;
    bundle.end()?.success("a daemon told to stop").map(drop)
}

fn without_root() -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let directory = tempfile::tempdir()?;
    let script = format!(
        "unshare --mount sh -c 'mount -t tmpfs none /mnt && mknod /mnt/tun c 10 200 && chmod 666 /mnt/tun && \
         mount --bind /mnt/tun /dev/net/tun && exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \
         --inh-caps +net_admin,+net_raw --ambient-caps +net_admin,+net_raw \"$@\"' sh"
    );
    let options =
        Options { program: wrapped(directory.path(), &script)?, protection: Protection::None, ..options()? };
    let bundle = Bundle::start(topology.host(0), 0, &[nic(0)], &options)?;
    wait_for("a bundle that answers", WITHIN, || {
        Ok(as_nobody(topology.host(0), &["status", "--json"])?.contains("\"pid\"").then_some(()))
    })?;
    keeps(&bundle, NOBODY, TWO)?;
    let said = as_nobody(topology.host(0), &["down"])?;
    let ending = bundle.end()?;
    let is_said = ["keeps its user: there is no user", "only root can become"];
    ensure!(is_said.iter().any(|words| ending.complaint.contains(words)), "{said}{ending:?}");
    ending.success("a daemon told to stop").map(drop)
}

fn resolvers() -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).nth(1) == Some(b"resolve-names") {
            found.push(process.file_name().to_string_lossy().parse()?);
        }
    }
    Ok(found)
}

/// It answers what the hosts file says, as the daemon's user; a daemon that is killed takes it along.
fn resolver() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let hosts = Hosts::begin()?;
    hosts.set(&[("office.example.net", "192.0.2.7")])?;
    let mut bundle = lone(&topology, &format!("{},peer=office.example.net", nic(0)), &["--user", "nobody"])?;
    let found = resolvers()?;
    let [pid] = found[..] else { anyhow::bail!("{found:?} resolve names") };
    let [found, _] = rights(pid)?;
    ensure!(found == sandboxed(NOBODY, NONE), "{found:?}");
    let is_resolved = |detail: &str| detail == "office.example.net is 192.0.2.7";
    bundle.wait_until("an address", |status| {
        status.events.iter().any(|event| event.what == "name-resolved" && is_resolved(&event.detail))
    })?;
    say(topology.host(0), &[("link add tb0 eth2,peer=office.example.net", "link 1 joined\n")])?;
    bundle.kill()?;
    wait_for("the end of who resolves names", WITHIN, || Ok(resolvers()?.is_empty().then_some(())))
}
