//! Wires with flaws that no NIC shows: a router that carries less, a cable that loses frames.

use anyhow::Result;
use tabane_kit::bundle::{Bundle, DEVICE};
use tabane_kit::emulator::Impairment;
use tabane_kit::status::{PathState, Status};
use tabane_kit::topology::{LinkPlan, Plan, Wiring, nic};

use super::{doctor, named};
use crate::routed::{Ip, end, lay, start};
use crate::stage::{options, with_bundles};
use crate::{Case, Need};

/// The link that is broken.
const BROKEN: usize = 1;
/// Share of the frames that the cable loses.
const LOSS: f64 = 0.06;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("doctor_names_a_router_that_carries_less", Need::Daemon, narrow),
        Case::new("doctor_names_a_reverse_path_filter", Need::Daemon, filtered),
        Case::new("doctor_names_a_cable_that_loses_frames", Need::Daemon, lossy),
    ]
}

fn narrow() -> Result<()> {
    const PACKET: u16 = 1_400;
    let (hosts, router) = lay(Ip::V4)?;
    for host in 0..2 {
        router.ip(&format!("link set port{host}{BROKEN} mtu {PACKET}"))?;
    }
    let mut bundles = start(&hosts, |host, link| end(Ip::V4, host, link))?;
    let found = |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].mtu == Some(PACKET));
    bundles[0].wait_until("the path's MTU", found)?;
    named("a router between that carries 1400 bytes", "doctor", &doctor(&hosts[0], &[DEVICE])?)?;
    Bundle::stop_all(bundles)
}

/// The answer to what arrives at one NIC would leave by the other.
fn filtered() -> Result<()> {
    let (hosts, _router) = lay(Ip::V4)?;
    let mut bundles = start(&hosts, |host, link| end(Ip::V4, host, link))?;
    hosts[0].set(&format!("net/ipv4/conf/{}/rp_filter", nic(BROKEN)), "1")?;
    hosts[0].ip(&format!("route replace 10.2.{}.0/24 via 10.1.1.99 dev {}", BROKEN + 1, nic(0)))?;
    let down = |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].rx == PathState::Down);
    bundles[0].wait_until("a path that is filtered", down)?;
    let fault = "a strict reverse path filter, and the route over the other NIC";
    named(fault, "doctor", &doctor(&hosts[0], &[DEVICE])?)?;
    Bundle::stop_all(bundles)
}

fn lossy() -> Result<()> {
    let links = vec![LinkPlan::unshaped(); 2];
    let plan = Plan { wiring: Wiring::Emulator, addressed: false, ..Plan::two_hosts(links) };
    with_bundles(plan, &options()?, |topology, bundles| {
        topology.impair_both(BROKEN, Impairment::loss(LOSS))?;
        // The rule of the doctor, who looks for a moment only: losses have to be measured by then.
        let measured =
            |status: &Status| status.peers.iter().all(|peer| peer.paths[BROKEN].loss_percent > 2.0);
        bundles[0].wait_until("losses", measured)?;
        named("a cable that loses a part of the frames", "doctor", &doctor(topology.host(0), &[DEVICE])?)
    })
}
