//! Bundles over Ethernet links: NICs without any IP address, a link that dies, a daemon that is replaced, links that leave
//! and join, and beside a network. What moves their cells: the engine that `auto` takes, and falls back to; and each way in which sent
//! frames come back from AF_XDP.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use tabane_kit::status::{CompletionStatus, by_interrupt};

use crate::case::XDP;
use crate::traffic::changes::leaves_and_joins;
use crate::traffic::faults::carry;
use crate::traffic::nics::follow_mtu;
use crate::traffic::stage::*;
use crate::traffic::upgrade::replaced;

/// The engine that works everywhere, and lets the NIC's queueing discipline do what it should.
const ENGINE: &str = ",engine=packet";
/// Bytes between the Ethernet header and a cell.
const HEAD: u32 = 4;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("cells_cross_nics_without_ip_addresses", DAEMON, no_addresses),
        Case::new("an_ethernet_link_beside_a_network_under_rr", DAEMON, beside_a_network),
        Case::new("ethernet_links_die_leave_join_change_and_are_handed_over", DAEMON, changes),
        // Exercises: status --verbose
        Case::new("cells_cross_by_af_xdp", XDP, || by_xdp(1500)),
        Case::new("long_cells_cross_by_af_xdp", XDP, || by_xdp(9000)),
        Case::new("a_daemon_with_af_xdp_is_replaced", XDP, xdp_replacement),
        Case::new("auto_moves_cells_by_af_xdp", XDP, || auto(&options()?, true)),
        Case::new("auto_moves_cells_of_several_workers_by_af_packet", XDP, || {
            auto(&options_with(&["--workers", "2"])?, false)
        }),
        Case::new("auto_falls_back_where_af_xdp_is_refused", XDP, refused),
        // Exercises: link.engine =, link.completion =
        Case::new("frames_that_af_xdp_has_sent_come_back_as_the_link_says", XDP, || {
            ["interrupt", "lazy", "adaptive"].into_iter().try_for_each(completes)
        }),
    ]
}

fn ether_links(parts: &str) -> Vec<String> {
    (0..LINKS).map(|link| format!("ether:{}{parts}", nic(link))).collect()
}

fn over_shaped(
    links: &[String],
    options: &Options,
    test: impl FnOnce(&Topology, &mut [Bundle<'_>]) -> Result<()>,
) -> Result<()> {
    over(plan(&vec![FAST; links.len()]), links, options, test)
}

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
                // A queueing discipline may drop a cell that a packet socket has taken.
                let lost_little = link.cells_lost * 100 < link.cells_received;
                ensure!(link.cells_sent > 1_000 && lost_little, "{link:?}");
            }
        }
        Ok(())
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

fn changes() -> Result<()> {
    over_shaped(&ether_links(ENGINE), &options_with(&["--workers", "2"])?, |topology, bundles| {
        during_a_transfer(topology, || {
            carry(topology, VICTIM)?;
            told(bundles, LINK_DOWN, VICTIM, topology.kill_switch(VICTIM)?.before_ns)?;
            told(bundles, LINK_UP, VICTIM, topology.revive_switch(VICTIM)?.before_ns)?;
            leaves_and_joins(topology, bundles, &ether_links(ENGINE)[VICTIM], LINKS).context("joining")?;
            follow_mtu(topology, bundles, VICTIM, HEAD).context("another MTU")?;
            replaced(topology, bundles, 4).context("replacements")
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
        during_a_transfer(topology, || replaced(topology, bundles, 2))?;
        for bundle in bundles {
            let table = bundle.ask(&["status", DEVICE, "--verbose"])?;
            ensure!(table.matches("ether/packet").count() == LINKS, "{table}");
        }
        Ok(())
    })
}

/// Starts the daemon without the rights that AF_XDP takes; what is asked of it needs none.
const WITHOUT_RIGHTS: &str =
    "#!/bin/sh\nexec setpriv --bounding-set=-bpf,-sys_admin,-perfmon --inh-caps=-bpf,-sys_admin,-perfmon";

/// Whether a program for AF_XDP is at each NIC, as the kernel tells, and the daemon says the same.
fn auto(options: &Options, by_xdp: bool) -> Result<()> {
    over(cables(1500), &ether_links(",engine=auto"), options, |topology, bundles| {
        send_both_ways(topology, FILE)?;
        for (host, bundle) in topology.hosts().iter().zip(bundles) {
            for link in 0..LINKS {
                let shown = host.ip(&format!("link show {}", nic(link)))?;
                ensure!(shown.contains("prog/xdp") == by_xdp, "AF_XDP at {}: {shown}", nic(link));
            }
            let kind = if by_xdp { "ether/xdp" } else { "ether/packet" };
            let status = bundle.status()?;
            ensure!(status.links.iter().all(|link| link.kind.starts_with(kind)), "{:?}", status.links);
            ensure!(status.peers[0].paths.iter().all(|link| link.cells_sent > 1_000), "{:?}", status.peers);
        }
        Ok(())
    })
}

/// A daemon without the rights for AF_XDP falls back under `auto`, and does not start where AF_XDP was insisted on.
fn refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("tabane");
    fs::write(&path, format!("{WITHOUT_RIGHTS} {} \"$@\"\n", program(None)?.display()))?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    auto(&Options { program: path.clone(), ..options()? }, false)?;
    let topology = Topology::build(Plan { addressed: false, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) })?;
    let mut command = topology.host(0).command(&path);
    command.args(["up", "--insecure", "--link", "ether:eth1,engine=xdp"]);
    let ending = Process::start(command)?.wait(Duration::from_secs(10))?;
    ensure!(ending.status.code() == Some(2) && ending.complaint.contains("eth1"), "{ending:?}");
    Ok(())
}

fn completes(way: &str) -> Result<()> {
    over(
        cables(1500),
        &ether_links(&format!(",engine=xdp,completion={way}")),
        &options()?,
        |topology, bundles| {
            send_both_ways(topology, FILE)?;
            for bundle in bundles {
                for link in bundle.status()?.links {
                    let Some(came) = link.completion else { anyhow::bail!("{link:?} tells of no frames") };
                    let CompletionStatus { reclaimed_at_sends, reclaimed_by_interrupts, .. } = came;
                    let all = reclaimed_at_sends + reclaimed_by_interrupts;
                    ensure!(came.method == way && all > 1_000, "{way}: {came:?}");
                    let share = by_interrupt(&came);
                    let is_as_said = match way {
                        "interrupt" => share > 0.9,
                        "lazy" => reclaimed_by_interrupts == 0,
                        _ => true,
                    };
                    ensure!(is_as_said, "{way}: {came:?}");
                }
            }
            Ok(())
        },
    )
}
