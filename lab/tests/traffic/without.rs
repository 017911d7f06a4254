//! Features that a bundle is told to go without: the kernel's tables, counters and sockets show that it does, and that it
//! would use them else.

use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use tabane_kit::workload::sequence::Outcome;

use crate::traffic::stage::*;

/// Files that are looked at: on a busy machine one may leave in single cells.
const FILES: usize = 5;
/// No frame is longer without superframes: an MTU of 1500, the Ethernet header, and a VLAN tag.
const FRAME_MAX: u64 = 1_518;
const LOSS: f64 = 0.03;
const PACE: Pace = Pace { per_second: 4_000, bytes: 200 };
const TIMED: Duration = Duration::from_millis(700);

pub(crate) fn cases() -> Vec<Case> {
    let offloads = ["nothing", "gso", "gro", "tso", "uso", "checksum"].map(|which| {
        // Exercises: up --no-gso --no-gro --no-tso --no-uso --no-checksum
        Case::new(format!("a_bundle_works_without_{which}"), [Daemon, Tool(ETHTOOL)], move || without(which))
    });
    let others = [
        // Exercises: up --no-repair
        Case::new("without_repair_what_links_lose_is_lost", DAEMON, repair),
        // Exercises: up --no-preempt
        Case::new("without_preemption_the_other_link_is_kept", DAEMON, preemption),
        // Exercises: up --no-sandbox
        Case::new("without_sandbox_rights_are_kept", DAEMON, sandbox),
    ];
    offloads.into_iter().chain(others).collect()
}

/// All that it is not told to go without is in use.
fn without(which: &'static str) -> Result<()> {
    let flag = format!("--no-{which}");
    let flags: &[&str] = if which == "nothing" { &[] } else { &[&flag] };
    with_bundles(plan(&[FAST; 2]), &options_with(flags)?, |topology, bundles| {
        let longest = [longest_mean_frame(topology, &nic(0))?, longest_mean_frame(topology, DEVICE)?];
        for (host, bundle) in topology.hosts().iter().zip(&*bundles) {
            let table = process::run(host.command("ethtool").args(["-k", DEVICE]))?;
            let is_on = |feature: &str| table.contains(&format!("{feature}: on"));
            let seen = [
                ("gso", longest[0] > FRAME_MAX),
                ("gro", coalesces(bundle)?),
                ("tso", is_on("tcp-segmentation-offload") && longest[1] > FRAME_MAX),
                ("uso", is_on("tx-udp-segmentation")),
                ("checksum", is_on("tx-checksumming")),
            ];
            for (feature, is_used) in seen {
                let needs_checksums = which == "checksum" && matches!(feature, "tso" | "uso");
                let expected = which != feature && !needs_checksums;
                ensure!(is_used == expected, "{which}: {feature} is used: {is_used}; {longest:?}\n{table}");
            }
        }
        send_file(topology.host(1), topology.host(0), address(0), FILE).map(drop)
    })
}

/// Of some files, the most that [`mean_frame`] says; the first that is longer than an MTU suffices.
fn longest_mean_frame(topology: &Topology, device: &str) -> Result<u64> {
    let mut longest = 0;
    for _ in 0..FILES {
        longest = longest.max(mean_frame(topology, device)?);
        if longest > FRAME_MAX {
            break;
        }
    }
    Ok(longest)
}

/// Bytes of a frame that the second host's `device` receives, or sends to its kernel, of a file to it, on average.
fn mean_frame(topology: &Topology, device: &str) -> Result<u64> {
    let count = |what: &str| -> Result<u64> {
        let path = format!("/sys/class/net/{device}/statistics/{what}");
        Ok(process::run(topology.host(1).command("cat").arg(path))?.trim().parse()?)
    };
    let before = (count("rx_bytes")?, count("rx_packets")?);
    send_file(topology.host(0), topology.host(1), address(1), FILE)?;
    Ok((count("rx_bytes")? - before.0) / (count("rx_packets")? - before.1).max(1))
}

fn coalesces(bundle: &Bundle<'_>) -> Result<bool> {
    let pid = bundle.pid().context("a running daemon")?;
    let process = Pid::from_raw(i32::try_from(pid)?).context("a process id")?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        if !fs::read_link(entry.path())?.to_string_lossy().starts_with("socket:") {
            continue;
        }
        let number = entry.file_name().to_string_lossy().parse()?;
        let socket = pidfd_getfd(process.as_fd(), number, PidfdGetfdFlags::empty())?;
        // Others than UDP's do not know the option.
        found.extend(getsockopt(&socket, sockopt::UdpGroSegment));
    }
    ensure!(!found.is_empty(), "the daemon has no sockets of UDP");
    Ok(found.contains(&true))
}

fn repair() -> Result<()> {
    let lost = |flags: &[&str]| -> Result<Outcome> {
        let plan = Plan { wiring: Wiring::Emulator, ..plan(&[FAST; 2]) };
        with_bundles(plan, &options_with(flags)?, |topology, _| {
            for link in 0..2 {
                topology.impair(link, Direction::Forward, Impairment::loss(LOSS))?;
            }
            datagrams(topology, PACE, TIMED)?.outcome()
        })
    };
    let (with, without) = (lost(&[])?, lost(&["--no-repair"])?);
    let share = |outcome: &Outcome| outcome.lost_at_ns.len() as f64 / outcome.sent as f64;
    ensure!(share(&without) > LOSS / 3.0, "without repair next to nothing is lost: {without:?}");
    ensure!(share(&with) < share(&without) / 4.0, "with repair {with:?}, without {without:?}");
    Ok(())
}

/// The primary dies and returns: by default traffic returns to it.
fn preemption() -> Result<()> {
    for (flag, link) in [(None, 0), (Some("--no-preempt"), 1)] {
        let flags: Vec<&str> =
            ["--policy", "active-backup", "--primary", "eth1"].into_iter().chain(flag).collect();
        with_bundles(plan(&[FAST; 2]), &options_with(&flags)?, |topology, bundles| {
            let mut first = used(topology)?;
            // Who else uses the processors can have the primary taken for dead; without preemption the other link is kept then.
            if flag.is_some() && first == 1 {
                let killed = topology.kill_switch(1)?;
                told(bundles, "link-down", 1, killed.before_ns)?;
                first = used(topology)?;
                topology.revive_switch(1)?;
                ready(bundles, 2)?;
            }
            ensure!(first == 0, "{flag:?}: the primary is not used at first");
            let killed = topology.kill_switch(0)?;
            told(bundles, "link-down", 0, killed.before_ns)?;
            ensure!(used(topology)? == 1, "{flag:?}: the dead primary is used");
            topology.revive_switch(0)?;
            ready(bundles, 2)?;
            let now = used(topology)?;
            ensure!(now == link, "{flag:?}: when the primary is back, link {now} is used");
            Ok(())
        })?;
    }
    Ok(())
}

fn used(topology: &Topology) -> Result<usize> {
    let bytes = brought(topology.host(1), || {
        send_file(topology.host(0), topology.host(1), address(1), FILE / 4).map(drop)
    })?;
    ensure!(bytes[0].min(bytes[1]) < FILE / 16, "both links carry a part: {bytes:?}");
    Ok(usize::from(bytes[1] > bytes[0]))
}

fn sandbox() -> Result<()> {
    for (flags, filter) in [(&[][..], "2"), (&["--no-sandbox"][..], "0")] {
        with_bundles(plan(&[FAST]), &options_with(flags)?, |topology, bundles| {
            send_file(topology.host(0), topology.host(1), address(1), FILE / 4)?;
            for bundle in bundles {
                let path = format!("/proc/{}/status", bundle.pid().context("a running daemon")?);
                let rights = fs::read_to_string(path)?;
                ensure!(rights.contains(&format!("\nSeccomp:\t{filter}\n")), "{flags:?}: {rights}");
                let confined = rights.contains("\nNoNewPrivs:\t1\n");
                ensure!(confined == flags.is_empty(), "{flags:?}: {rights}");
            }
            Ok(())
        })?;
    }
    Ok(())
}
