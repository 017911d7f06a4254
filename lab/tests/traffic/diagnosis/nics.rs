//! Faults of NICs, looked at before there is a bundle, `tabane doctor --nic eth1 --nic eth2`, and of NICs that are not veth.

use std::io::{IoSlice, IoSliceMut, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tabane_io::packet::FRAME_MAX;
use tabane_io::{Offload, Tap, TapQueue, TapSpec};
use tabane_kit::prerequisites::require_priority;
use tempfile::NamedTempFile;

use super::bundle::ethtool;
use super::{Group, Said, Way, doctor, named};
use crate::traffic::routed::{Ip, end, lay, start};
use crate::traffic::stage::*;

const ADJUSTABLE: &str = "eth9";
const ONE_NIC: (&str, &str) = ("two MACVLANs over one NIC", "same-nic");
const HALF: (&str, &str) = ("a NIC at 100 Mbit/s, half duplex", "half-duplex");

pub(super) fn groups() -> Vec<Group> {
    vec![
        Group::new("doctor", "links_that_share_a_nic", [ONE_NIC].into_iter(), Way::BOTH, shared),
        Group::new("doctor", "half_duplex", [HALF].into_iter(), Way::BOTH, half_duplex),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        // Exercises: doctor --nic --json
        Case::new("doctor_names_faults_of_nics_before_a_bundle", DAEMON, before_a_bundle),
        Case::new(
            "doctor_says_what_a_user_without_rights_cannot_see",
            [Daemon, That(|| Ok(require_priority()?))],
            without_rights,
        ),
    ]
}

fn look(host: &Namespace, nics: [&str; 2]) -> Result<Said> {
    doctor(host, &["--nic", nics[0], "--nic", nics[1]])
}

fn before_a_bundle() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let (host, nics) = (topology.host(0), [&*nic(0), &*nic(1)]);
    let said = look(host, nics)?;
    ensure!(said.names.is_empty(), "two sound NICs: {:#}", said.answer);
    host.set(&format!("net/ipv6/conf/{}/disable_ipv6", nics[1]), "1")?;
    named("a NIC with IPv6 switched off", "doctor", &look(host, nics)?)?;
    let file = configuration(&nics)?;
    let path = file.path().display().to_string();
    named("a NIC with IPv6 switched off", "doctor", &doctor(host, &[&path])?)?;
    let missing = look(host, [nics[0], "eth7"])?;
    ensure!(missing.names.contains("nic-missing") && missing.names.len() == 1, "{:#}", missing.answer);
    Ok(())
}

fn shared(way: Way) -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let nics = ["mac1", "mac2"];
    for host in topology.hosts() {
        for name in nics {
            host.ip(&format!("link add {name} link {} type macvlan mode bridge", nic(0)))?;
            host.ip(&format!("link set {name} up"))?;
        }
    }
    with_links(&topology, &nics.map(str::to_owned), &way.options(&[])?, |topology, bundles| {
        way.ready(bundles, nics.len())?;
        named(ONE_NIC.0, "doctor", &doctor(topology.host(0), &[DEVICE])?)
    })
}

fn without_rights() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let mut command = topology.host(0).command("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program(None)?);
    let answer = process::run(command.args(["doctor", "--nic", &nic(0), "--nic", &nic(1)]))?;
    ensure!(!answer.contains("finding"), "{answer}");
    for unseen in ["what the device takes", "whether flows have gates", "whether the links share a switch"] {
        ensure!(answer.contains(unseen), "{unseen} is not said to be unseen: {answer}");
    }
    Ok(())
}

fn configuration(nics: &[&str]) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::with_suffix(".toml")?;
    writeln!(file, "security = \"none\"")?;
    nics.iter().try_for_each(|nic| writeln!(file, "[[link]]\nnic = \"{nic}\""))?;
    Ok(file)
}

fn half_duplex(way: Way) -> Result<()> {
    let topology = Topology::build(plan(&[FAST]))?;
    let mut queues = Vec::new();
    let mut devices = Vec::new();
    for host in topology.hosts() {
        let spec = TapSpec { name: ADJUSTABLE.to_owned(), queues: 1, offload: Offload::ALL };
        let (device, queue) = host.enter(|| Tap::open(&spec))?.context("a TAP device")?;
        host.ip(&format!("link set {ADJUSTABLE} mtu 1500 up"))?;
        devices.push(device);
        queues.extend(queue);
    }
    let wire = Running::start(topology.host(0), "wire", move |end| carry(&queues, end))?;
    let links = [nic(0), ADJUSTABLE.to_owned()];
    let done = with_links(&topology, &links, &way.options(&[])?, |topology, bundles| {
        way.ready(bundles, links.len())?;
        ethtool(topology.host(0), &format!("-s {ADJUSTABLE} speed 100 duplex half autoneg off"))?;
        named(HALF.0, "doctor", &doctor(topology.host(0), &[DEVICE])?)
    });
    done.and(wire.end())
}

/// Carries frames between two devices, with what virtio says of them, until it is told to end.
fn carry(queues: &[TapQueue], end: &AtomicBool) -> Result<()> {
    let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let mut frame = vec![0; FRAME_MAX];
    while !end.load(Ordering::Relaxed) {
        let mut ready: Vec<PollFd<'_>> =
            queues.iter().map(|queue| PollFd::new(queue, PollFlags::IN)).collect();
        poll(&mut ready, Some(&wait))?;
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(length) = queues[from].read(&mut [IoSliceMut::new(&mut frame)])? {
                // What a device does not take is lost, as on a wire.
                let _ = queues[to].write(&[IoSlice::new(&frame[..length])]);
            }
        }
    }
    Ok(())
}

// Wires with flaws that no NIC shows: a router that carries less, a cable that loses frames.

pub(super) const BROKEN: usize = 1;
const LOSS: f64 = 0.06;

/// A fault as the page calls it, what names it, and a stage on which it is planted, with what is said there.
pub(super) type Staged = (&'static str, &'static str, fn(Way) -> Result<Said>);

const FAULTS: [Staged; 2] = [
    ("a switch between that carries 1400 bytes", "path-mtu", narrow),
    ("a cable that loses a part of the frames", "loss", lossy),
];
const OF_IPV4: [Staged; 1] =
    [("a strict reverse path filter, and the route over the other NIC", "rp-filter", |_| filtered())];

pub(super) fn wire_groups() -> Vec<Group> {
    let mut wire_groups = staged("doctor", Way::BOTH, &FAULTS);
    wire_groups.extend(staged("doctor", &[Way::Cells], &OF_IPV4));
    wire_groups
}

/// Trials of faults that have a stage each; they are called as what names the faults.
pub(super) fn staged(command: &'static str, ways: &'static [Way], faults: &'static [Staged]) -> Vec<Group> {
    let group = |(fault, name, stage): &'static Staged| {
        let trial = name.replace('-', "_");
        Group::new(command, &trial, [(*fault, *name)].into_iter(), ways, move |way| {
            named(fault, command, &stage(way)?)
        })
    };
    faults.iter().map(group).collect()
}

fn narrow(way: Way) -> Result<Said> {
    const PACKET: u16 = 1_400;
    // Programs carry frames that fit into such a packet whole.
    let options = Options { mtu: Some(1_300), ..way.options(&[])? };
    let topology = Topology::build(plan(&[FAST; 2]))?;
    for host in 1..=2 {
        topology.switch(BROKEN).ip(&format!("link set port{host} mtu {PACKET}"))?;
    }
    with_links(&topology, &topology.nics(), &options, |topology, bundles| {
        let found = |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].mtu == Some(PACKET));
        bundles[0].wait_until("the path's MTU", found)?;
        way.ready(bundles, 2)?;
        doctor(topology.host(0), &[DEVICE])
    })
}

/// The answer to what arrives at one NIC would leave by the other.
fn filtered() -> Result<Said> {
    let (hosts, _router) = lay(Ip::V4)?;
    let mut bundles = start(&hosts, |host, link| end(Ip::V4, host, link))?;
    hosts[0].set(&format!("net/ipv4/conf/{}/rp_filter", nic(BROKEN)), "1")?;
    hosts[0].ip(&format!("route replace 10.2.{}.0/24 via 10.1.1.99 dev {}", BROKEN + 1, nic(0)))?;
    let down = |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].rx == PathState::Down);
    bundles[0].wait_until("a path that is filtered", down)?;
    let said = doctor(&hosts[0], &[DEVICE])?;
    Bundle::stop_all(bundles)?;
    Ok(said)
}

fn lossy(way: Way) -> Result<Said> {
    let links = vec![LinkPlan::unshaped(); 2];
    over(Wiring::Emulator, links, &way.options(&[])?, |topology, bundles| {
        way.ready(bundles, 2)?;
        topology.impair_both(BROKEN, Impairment::loss(LOSS))?;
        // The rule of the doctor, who looks for a moment only: losses have to be measured by then.
        let measured =
            |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].loss_percent > 2.0);
        bundles[0].wait_until("losses", measured)?;
        doctor(topology.host(0), &[DEVICE])
    })
}

pub(super) fn over(
    wiring: Wiring,
    links: Vec<LinkPlan>,
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<Said>,
) -> Result<Said> {
    let plan = Plan { wiring, addressed: false, ..Plan::two_hosts(links) };
    let topology = Topology::build(plan)?;
    for host in topology.hosts().iter().filter(|_| wiring == Wiring::Emulator) {
        for nic in topology.nics() {
            // Emulated wires, and the virtio headers by which they take superframes, know none inside of other packets.
            ethtool(host, &format!("-K {nic} tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off"))?;
        }
    }
    with_links(&topology, &topology.nics(), options, test)
}
