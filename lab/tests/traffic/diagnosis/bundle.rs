//! Faults around a running bundle, planted one after the other, each mended before the next.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::Socket;
use tabane_kit::bundle::{Bundle, DEVICE};
use tabane_kit::clock::wait_for;
use tabane_kit::netns::Namespace;
use tabane_kit::status::{PathState, PathStatus, Status};
use tabane_kit::tool;
use tabane_kit::topology::{Topology, nic};

use super::{doctor, named};
use crate::stage::{FAST, options, options_with, plan, ready, with_bundles};
use crate::{Case, Need};

const LINKS: usize = 2;
/// The link that is broken.
const BROKEN: usize = 1;
const PORT: u16 = 7420;

/// Changes something, and waits until the bundle has met it.
type Deed = fn(&Topology, &mut [Bundle<'_>]) -> Result<()>;

/// A fault as the page names it, how it is planted, and how it is mended.
type Fault = (&'static str, Deed, Deed);

/// Links that carry nothing.
const SILENT: [Fault; 6] = [
    (
        "a NIC that is down",
        |topology, _| topology.set_nic(0, BROKEN, false),
        |topology, _| topology.set_nic(0, BROKEN, true),
    ),
    (
        "a cable that is pulled",
        |topology, _| topology.pull_cable(0, BROKEN).map(drop),
        |topology, _| topology.plug_cable(0, BROKEN).map(drop),
    ),
    ("a switch that swallows everything", kill, |topology, _| topology.revive_switch(BROKEN).map(drop)),
    (
        "UDP port closed by nftables here",
        |topology, bundles| close(topology, bundles, 0, "drop"),
        |topology, _| open(topology, 0),
    ),
    (
        "UDP port closed by nftables at the peer, which drops",
        |topology, bundles| close(topology, bundles, 1, "drop"),
        |topology, _| open(topology, 1),
    ),
    (
        "UDP port closed by nftables at the peer, which rejects",
        |topology, bundles| close(topology, bundles, 1, "reject"),
        |topology, _| open(topology, 1),
    ),
];

/// Sizes, buffers and wires that cost speed.
const COSTLY: [Fault; 6] = [
    (
        "unequal MTUs of the NICs",
        |topology, bundles| resize(topology, bundles, 0, 1_400),
        |topology, bundles| resize(topology, bundles, 0, 1_500),
    ),
    (
        "a small MTU of the peer's NIC",
        |topology, bundles| resize(topology, bundles, 1, 1_400),
        |topology, bundles| resize(topology, bundles, 1, 1_500),
    ),
    (
        "a tiny receive buffer of a link",
        |_, bundles| receive_buffer(&bundles[0], 4_096),
        |_, bundles| receive_buffer(&bundles[0], 7 << 20),
    ),
    (
        "a tiny receive buffer of TCP",
        |topology, _| tcp_buffer(topology.host(0), 32 << 10),
        |topology, _| tcp_buffer(topology.host(0), 6 << 20),
    ),
    (
        "a queueing discipline on the device",
        |topology, _| qdisc(topology, "pfifo limit 100"),
        |topology, _| qdisc(topology, "noqueue"),
    ),
    (
        "both links on one switch",
        |topology, _| join(topology),
        |topology, _| topology.switch(0).ip("link delete trunk").map(drop),
    ),
];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("doctor_names_links_that_carry_nothing", Need::DaemonAndNft, || one_by_one(&SILENT)),
        Case::new("doctor_names_sizes_and_buffers", Need::Daemon, || one_by_one(&COSTLY)),
        Case::new("doctor_names_a_bundle_without_gro", Need::Daemon, without_gro),
    ]
}

fn without_gro() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options_with(&["--no-gro"])?, |topology, _| {
        named("a bundle without GRO", "doctor", &doctor(topology.host(0), &[DEVICE])?)
    })
}

/// For each fault: plants it, asks the doctor of the first host, mends it, and waits until all links carry again.
fn one_by_one(faults: &[Fault]) -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        for (name, plant, mend) in faults {
            plant(topology, bundles).with_context(|| format!("planting {name}"))?;
            named(name, "doctor", &doctor(topology.host(0), &[DEVICE])?)?;
            mend(topology, bundles).with_context(|| format!("mending {name}"))?;
            ready(bundles, LINKS)?;
        }
        let said = doctor(topology.host(0), &[DEVICE])?;
        ensure!(said.names.is_empty(), "all is mended: {:#}", said.answer);
        Ok(())
    })
}

/// Waits until the first host sees the broken path so.
fn until(bundles: &mut [Bundle<'_>], wanted: fn(&PathStatus) -> bool) -> Result<()> {
    let seen = |status: &Status| {
        status
            .peers
            .iter()
            .any(|peer| peer.paths.iter().any(|path| path.link as usize == BROKEN && wanted(path)))
    };
    bundles[0].wait_until("the broken path", seen).map(drop)
}

fn kill(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    topology.kill_switch(BROKEN)?;
    until(bundles, |path| path.tx == PathState::Down && path.rx == PathState::Down)
}

fn nft(host: &Namespace, arguments: &str) -> Result<()> {
    let mut command = host.command("nft");
    tool::run(command.args(arguments.split(' '))).map(drop)
}

fn close(topology: &Topology, bundles: &mut [Bundle<'_>], host: usize, verdict: &str) -> Result<()> {
    let at = topology.host(host);
    nft(at, "add table inet filter")?;
    nft(at, "add chain inet filter input { type filter hook input priority 0 ; }")?;
    nft(at, &format!("add rule inet filter input iifname {} udp dport {PORT} {verdict}", nic(BROKEN)))?;
    until(
        bundles,
        if host == 0 { |path| path.rx == PathState::Down } else { |path| path.tx == PathState::Down },
    )
}

fn open(topology: &Topology, host: usize) -> Result<()> {
    nft(topology.host(host), "delete table inet filter")
}

/// Sets the MTU of a NIC, and waits until both ends know it.
fn resize(topology: &Topology, bundles: &mut [Bundle<'_>], host: usize, mtu: u16) -> Result<()> {
    topology.host(host).ip(&format!("link set {} mtu {mtu}", nic(BROKEN)))?;
    until(bundles, if mtu == 1_500 { |path| path.mtu == Some(1_500) } else { |path| path.mtu == Some(1_400) })
}

fn tcp_buffer(host: &Namespace, most: u32) -> Result<()> {
    host.set("net/ipv4/tcp_rmem", &format!("4096 16384 {most}"))
}

fn qdisc(topology: &Topology, discipline: &str) -> Result<()> {
    topology.host(0).tc(&format!("qdisc replace dev {DEVICE} root {discipline}"))
}

/// Joins the switches of both links.
fn join(topology: &Topology) -> Result<()> {
    let (one, other) = (topology.switch(0), topology.switch(1));
    one.ip(&format!("link add trunk type veth peer name trunk netns {}", other.name()))?;
    [one, other].iter().try_for_each(|switch| switch.ip("link set trunk master br0 up").map(drop))?;
    wait_for("a trunk that forwards", Duration::from_secs(5), || {
        let ends = [one, other].map(|switch| switch.ip("-details link show trunk"));
        let forwarding = ends.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(forwarding.iter().all(|end| end.contains("state forwarding")).then_some(()))
    })
}

/// Sets the receive buffer of the daemon's socket on the broken link.
fn receive_buffer(bundle: &Bundle<'_>, bytes: usize) -> Result<()> {
    let pid = bundle.pid().context("it runs")?;
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid)?).context("a pid")?, PidfdFlags::empty())?;
    let nic = nic(BROKEN);
    for file in fs::read_dir(PathBuf::from(format!("/proc/{pid}/fd")))? {
        let number: i32 = file?.file_name().to_string_lossy().parse()?;
        let Ok(file) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        let socket = Socket::from(file);
        let port = socket.local_addr().ok().and_then(|local| local.as_socket()).map(|local| local.port());
        let is_bound = socket.device().is_ok_and(|device| device.as_deref() == Some(nic.as_bytes()));
        if port == Some(PORT) && is_bound {
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, bytes / 2)?;
            return Ok(());
        }
    }
    anyhow::bail!("the daemon has no socket on {nic}")
}
