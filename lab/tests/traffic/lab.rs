//! The lab itself: faults do what they say, rates hold, and nothing is seen of the machine's own namespaces.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::netns::Namespace;
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, address};

use crate::traffic::stage::{FAST, send_file};
use crate::traffic::{Case, Need};

/// Time in which a datagram crosses a living switch a thousand times.
const SOON: Duration = Duration::from_millis(200);
/// Time that a datagram may take on the busiest machine.
const AT_LAST: Duration = Duration::from_secs(5);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("lab_black_hole_swallows_at_once_and_keeps_carrier", Need::Nothing, black_hole),
        Case::new("lab_pulled_cable_loses_carrier", Need::Nothing, pulled_cable),
        Case::alone("lab_rate_is_kept", Need::Nothing, rate),
        Case::new("lab_namespaces_are_private_and_go_with_their_value", Need::Nothing, namespaces),
    ]
}

fn black_hole() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST)]))?;
    let crosses_both_ways =
        |within| Ok::<_, anyhow::Error>([crosses(&topology, 0, within)?, crosses(&topology, 1, within)?]);
    ensure!(crosses_both_ways(AT_LAST)? == [true; 2], "a new switch does not forward");
    topology.kill_switch(0)?;
    ensure!(crosses_both_ways(SOON)? == [false; 2], "a dead switch forwards");
    ensure!(has_carrier(topology.host(0))? && has_carrier(topology.host(1))?, "a black hole costs carrier");
    topology.revive_switch(0)?;
    ensure!(crosses_both_ways(AT_LAST)? == [true; 2], "a revived switch does not forward");
    Ok(())
}

fn pulled_cable() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST)]))?;
    topology.pull_cable(0, 0)?;
    ensure!(!has_carrier(topology.host(0))?, "carrier without a cable");
    ensure!(has_carrier(topology.host(1))?, "the other host lost carrier as well");
    topology.plug_cable(0, 0)?;
    ensure!(has_carrier(topology.host(0))?, "no carrier with a cable");
    Ok(())
}

/// 10 MB at 200 Mbit/s take 0.4 s; the bucket of 256 KB gives a head start of 10 ms.
fn rate() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST)]))?;
    let outcome = send_file(topology.host(0), topology.host(1), address(0, 1).into(), 10_000_000)?;
    let mbit = outcome.gbps() * 1e3;
    ensure!((100.0..=205.0).contains(&mbit), "{mbit:.0} Mbit/s over a link of {FAST}");
    Ok(())
}

fn namespaces() -> Result<()> {
    let names = || -> Result<usize> { Ok(fs::read_dir("/run/netns")?.count()) };
    ensure!(names()? == 0, "the machine's namespaces are in sight");
    let cable = Plan { wiring: Wiring::Cable, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) };
    let topology = Topology::build(cable)?;
    ensure!(names()? == 2, "two hosts are {} namespaces", names()?);
    drop(topology);
    ensure!(names()? == 0, "namespaces outlive their topology");
    Ok(())
}

/// Whether a datagram from host `from` reaches the other one over the bare link. Sending never fails.
fn crosses(topology: &Topology, from: usize, within: Duration) -> Result<bool> {
    let to = 1 - from;
    let at = SocketAddr::new(address(0, to).into(), 0);
    let receiver = topology.host(to).enter(|| UdpSocket::bind(at))??;
    receiver.set_read_timeout(Some(within))?;
    let at = receiver.local_addr()?;
    let sender = topology.host(from).enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    sender.send_to(b"across", at)?;
    Ok(receiver.recv(&mut [0; 16]).is_ok())
}

fn has_carrier(host: &Namespace) -> Result<bool> {
    Ok(host.ip("-oneline link show eth1")?.contains("LOWER_UP"))
}
