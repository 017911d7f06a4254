//! Bundles over Ethernet links: NICs without any IP address, a link that dies, a daemon that is replaced, links that leave
//! and join, and beside a network.

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Bundle, DEVICE, Options, address};
use tabane_kit::status::Questions;
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, nic};

use crate::traffic::faults::{carry, deaths_are_noticed};
use crate::traffic::stage::{
    FAST, cells_sent, lost_little, options, options_with, plan, ready, send_both_ways, send_file,
    under_a_file, with_links,
};
use crate::traffic::{Case, Need};

const LINKS: usize = 2;
/// The engine that works everywhere, and lets the NIC's queueing discipline do what it should.
const ENGINE: &str = ",engine=packet";
/// Bytes of each transfer.
const FILE: u64 = 8 << 20;
/// Bytes between the Ethernet header and a cell.
const HEAD: u32 = 4;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("cells_cross_nics_without_ip_addresses", Need::Daemon, no_addresses),
        Case::alone("a_black_hole_among_ethernet_links", Need::Daemon, black_hole),
        Case::new("an_ethernet_link_beside_a_network_under_rr", Need::Daemon, beside_a_network),
        Case::new("a_daemon_with_ethernet_links_is_replaced", Need::Daemon, replacement),
        Case::new("ethernet_links_leave_and_join", Need::Daemon, leave_and_join),
        Case::new("cells_follow_the_mtu_of_an_ethernet_link", Need::Daemon, mtu),
        Case::new("cells_cross_by_af_xdp", Need::DaemonAndXdp, || by_xdp(1500)),
        Case::new("long_cells_cross_by_af_xdp", Need::DaemonAndXdp, || by_xdp(9000)),
        Case::new("a_daemon_with_af_xdp_is_replaced", Need::DaemonAndXdp, xdp_replacement),
    ]
}

/// Links of Ethernet frames over all NICs, with these parts.
fn ether_links(parts: &str) -> Vec<String> {
    (0..LINKS).map(|link| format!("ether:{}{parts}", nic(link))).collect()
}

/// Runs `test` over two bundles with these links over NICs without addresses.
fn over_shaped(
    links: &[String],
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    over(plan(&vec![FAST; links.len()]), links, options, test)
}

/// The same over these NICs.
fn over(
    plan: Plan,
    links: &[String],
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    let topology = Topology::build(plan)?;
    for host in topology.hosts() {
        for (number, _) in links.iter().enumerate().filter(|(_, link)| link.starts_with("ether:")) {
            host.set(&format!("net/ipv6/conf/{}/disable_ipv6", nic(number)), "1")?;
        }
    }
    with_links(&topology, links, options, test)
}

/// A transfer from the first host to the second; `meanwhile` happens to it.
fn during_a_transfer(topology: &Topology, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    under_a_file(topology, FILE, meanwhile).map(drop)
}

fn no_addresses() -> Result<()> {
    over_shaped(&ether_links(ENGINE), &options()?, |topology, bundles| {
        for (host, link) in topology.hosts().iter().flat_map(|host| (0..LINKS).map(move |link| (host, link)))
        {
            let addresses = host.ip(&format!("-brief address show {}", nic(link)))?;
            ensure!(addresses.split_whitespace().count() == 2, "an address: {addresses}");
        }
        send_both_ways(topology, FILE)?;
        for bundle in bundles {
            let status = bundle.status()?;
            ensure!(status.cell_bytes == 1500 - HEAD, "cells of {} B", status.cell_bytes);
            for link in &status.peers[0].paths {
                ensure!(link.endpoint.starts_with("[100::6574:200:1:"), "the peer is at {}", link.endpoint);
                ensure!(link.cells_sent > 1_000 && lost_little(link), "{link:?}");
            }
        }
        Ok(())
    })
}

fn black_hole() -> Result<()> {
    const VICTIM: usize = 1;
    over_shaped(&ether_links(ENGINE), &options()?, |topology, bundles| {
        let (kill, revive) = (
            |topology: &Topology| topology.kill_switch(VICTIM),
            |topology: &Topology| topology.revive_switch(VICTIM),
        );
        deaths_are_noticed(topology, bundles, VICTIM, kill, revive)
    })
}

fn beside_a_network() -> Result<()> {
    let options = options_with(&["--policy", "rr"])?;
    over_shaped(&[nic(0), format!("ether:{}{ENGINE}", nic(1))], &options, |topology, bundles| {
        let before = cells_sent(&bundles[0])?;
        send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        let sent: Vec<u64> =
            cells_sent(&bundles[0])?.iter().zip(before).map(|(now, then)| now - then).collect();
        let (least, most) = (sent.iter().min(), sent.iter().max());
        ensure!(least > Some(&1_000) && least.map(|cells| cells * 2) > most.copied(), "cells: {sent:?}");
        ensure!(bundles[0].status()?.cell_bytes == 1452, "as large as both links take");
        Ok(())
    })
}

fn replacement() -> Result<()> {
    let options = options_with(&["--workers", "2"])?;
    over_shaped(&ether_links(ENGINE), &options, |topology, bundles| {
        during_a_transfer(topology, || {
            for round in 0..4 {
                carry(topology, 0)?;
                bundles[round % 2].upgrade()?;
                ready(bundles, LINKS)?;
            }
            Ok(())
        })
    })
}

fn leave_and_join() -> Result<()> {
    over_shaped(&ether_links(ENGINE), &options()?, |topology, bundles| {
        let link = format!("ether:{}{ENGINE}", nic(1));
        during_a_transfer(topology, || {
            carry(topology, 1)?;
            bundles[0].ask(&["link", "remove", DEVICE, &link])?;
            for bundle in &mut *bundles {
                bundle.wait_until("a link less", |status| status.peers[0].paths.len() == LINKS - 1)?;
            }
            carry(topology, 0)?;
            bundles[0].ask(&["link", "add", DEVICE, &link])?;
            ready(bundles, LINKS)?;
            carry(topology, 1)
        })
    })
}

fn mtu() -> Result<()> {
    over_shaped(&ether_links(ENGINE), &options()?, |topology, bundles| {
        during_a_transfer(topology, || {
            for mtu in [1400, 1500] {
                topology.host(0).ip(&format!("link set {} mtu {mtu}", nic(1)))?;
                for bundle in &mut *bundles {
                    bundle.wait_until(&format!("cells for an MTU of {mtu}"), |status| {
                        status.cell_bytes == mtu - HEAD && status.is_ready(1, LINKS)
                    })?;
                }
            }
            Ok(())
        })
    })
}

/// Cables from host to host, as fast as the machine: what AF_XDP sends passes by a shaper.
fn cables(mtu: u32) -> Plan {
    let links = vec![LinkPlan { mtu, ..LinkPlan::unshaped() }; LINKS];
    Plan { wiring: Wiring::Cable, addressed: false, ..Plan::two_hosts(links) }
}

fn by_xdp(mtu: u32) -> Result<()> {
    over(cables(mtu), &ether_links(",engine=xdp"), &options()?, |topology, bundles| {
        send_both_ways(topology, 4 * FILE)?;
        for (host, bundle) in topology.hosts().iter().zip(&mut *bundles) {
            let status = bundle.status()?;
            ensure!(status.cell_bytes == mtu - HEAD, "cells of {} B", status.cell_bytes);
            let table = bundle.ask(&["status", DEVICE, "--verbose"])?;
            ensure!(table.matches("ether/xdp").count() == LINKS, "{table}");
            ensure!(host.ip("link show")?.matches("xdp").count() >= LINKS, "no programs at the NICs");
            bundle.kill()?;
            let after = host.ip("link show")?;
            ensure!(!after.contains("xdp"), "a program outlived its daemon: {after}");
            bundle.start_again()?;
        }
        ready(bundles, LINKS)
    })
}

fn xdp_replacement() -> Result<()> {
    over(cables(1500), &ether_links(""), &options()?, |topology, bundles| {
        during_a_transfer(topology, || {
            for bundle in &mut *bundles {
                carry(topology, 0)?;
                bundle.upgrade()?;
                bundle.wait_until("all links", |status| status.is_ready(1, LINKS))?;
            }
            Ok(())
        })?;
        for bundle in bundles {
            let table = bundle.ask(&["status", DEVICE, "--verbose"])?;
            ensure!(table.matches("ether/packet").count() == LINKS, "{table}");
        }
        Ok(())
    })
}
