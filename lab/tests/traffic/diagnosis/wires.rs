//! Wires with flaws that no NIC shows: a router that carries less, a cable that loses frames.

use anyhow::{Context, Result};
use tabane_kit::bundle::{Bundle, DEVICE, Options};
use tabane_kit::emulator::Impairment;
use tabane_kit::status::{PathState, Status};
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, nic};

use super::bundle::ethtool;
use super::{Group, Said, Way, doctor, named};
use crate::traffic::routed::{Ip, end, lay, start};
use crate::traffic::stage::{FAST, plan, with_links};

/// The link that is broken.
pub(super) const BROKEN: usize = 1;
/// Share of the frames that the cable loses.
const LOSS: f64 = 0.06;

/// A fault as the page calls it, what names it, and a stage on which it is planted, with what is said there.
pub(super) type Staged = (&'static str, &'static str, fn(Way) -> Result<Said>);

const FAULTS: [Staged; 2] = [
    ("a switch between that carries 1400 bytes", "path-mtu", narrow),
    ("a cable that loses a part of the frames", "loss", lossy),
];
/// Faults of links between addresses of IPv4.
const OF_IPV4: [Staged; 1] =
    [("a strict reverse path filter, and the route over the other NIC", "rp-filter", |_| filtered())];

pub(super) fn groups() -> Vec<Group> {
    let mut groups = staged("doctor", Way::BOTH, &FAULTS);
    groups.extend(staged("doctor", &[Way::Cells], &OF_IPV4));
    groups
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
    let mut said = None;
    with_links(&topology, &topology.nics(), &options, |topology, bundles| {
        let found = |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].mtu == Some(PACKET));
        bundles[0].wait_until("the path's MTU", found)?;
        way.ready(bundles, 2)?;
        said = Some(doctor(topology.host(0), &[DEVICE])?);
        Ok(())
    })?;
    said.context("a test that has ended well has an answer")
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

/// Runs `test` over bundles on links that are joined so.
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
    let mut said = None;
    with_links(&topology, &topology.nics(), options, |topology, bundles| {
        said = Some(test(topology, bundles)?);
        Ok(())
    })?;
    said.context("a test that has ended well has an answer")
}
