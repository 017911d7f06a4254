//! NICs that change under a connection: another MTU, another address. The connection lives, the file is whole.

use anyhow::{Result, ensure};
use tabane_kit::bundle::Bundle;
use tabane_kit::status::Questions;
use tabane_kit::topology::{Topology, nic};

use crate::traffic::faults::carry;
use crate::traffic::stage::{FAST, options, plan, under_a_file, with_bundles};
use crate::traffic::{Case, Need};

/// The link whose NIC changes, at host 0.
const CHANGED: usize = 1;
const LINKS: usize = 2;
/// Headers of UDP and IPv6 around a cell.
const HEADERS: u32 = 48;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("cells_follow_the_mtu_of_a_nic_under_a_connection", Need::Daemon, || meanwhile(LINKS, mtu)),
        Case::new("cells_follow_the_mtu_of_the_only_nic", Need::Daemon, || meanwhile(1, mtu)),
        Case::new("another_address_of_a_nic_is_learned_under_a_connection", Need::Daemon, || {
            meanwhile(LINKS, readdress)
        }),
    ]
}

/// A transfer over `links` links, and what happens to the NIC of the last one meanwhile.
fn meanwhile(links: usize, change: fn(&Topology, &mut [Bundle<'_>], usize) -> Result<()>) -> Result<()> {
    with_bundles(plan(&vec![FAST; links]), &options()?, |topology, bundles| {
        let meanwhile = || {
            carry(topology, links - 1)?;
            change(topology, bundles, links - 1)?;
            carry(topology, links - 1)
        };
        under_a_file(topology, 4 << 20, meanwhile).map(drop)
    })
}

fn mtu(topology: &Topology, bundles: &mut [Bundle<'_>], link: usize) -> Result<()> {
    for mtu in [1400, 1300, 1500] {
        topology.host(0).ip(&format!("link set {} mtu {mtu}", nic(link)))?;
        for bundle in &mut *bundles {
            bundle.wait_until(&format!("cells for an MTU of {mtu}"), |status| {
                status.cell_bytes == mtu - HEADERS && status.is_ready(1, link + 1)
            })?;
        }
        carry(topology, link)?;
    }
    ensure!(bundles[0].status()?.events_of("nic-mtu", link, 0).count() == 3, "each change is told once");
    Ok(())
}

fn readdress(topology: &Topology, bundles: &mut [Bundle<'_>], link: usize) -> Result<()> {
    for address in ["fe80::1234", "fe80::5678"] {
        let (host, nic) = (topology.host(0), nic(link));
        host.ip(&format!("address flush dev {nic} scope link"))?;
        host.ip(&format!("address add {address}/64 dev {nic}"))?;
        bundles[1].wait_until(address, |status| {
            let endpoint = format!("[{address}");
            status.is_ready(1, LINKS)
                && status.peers[0].paths.iter().any(|link| link.endpoint.starts_with(&endpoint))
        })?;
        carry(topology, CHANGED)?;
    }
    Ok(())
}
