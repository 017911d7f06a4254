//! The kernel path: frames cross by programs, and no process touches them.

use std::net::IpAddr;

use anyhow::{Result, ensure};
use tabane_kernel::Policy;
use tabane_kit::bundle::{address, address_v6};
use tabane_kit::kernel_path::{self, Device};
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring};

use crate::datagrams::exchange;
use crate::stage::send_file;
use crate::{Case, Need};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("kernel_path_carries_tcp_and_udp_over_two_links", Need::Programs, carries)]
}

/// Two hosts and two cables as fast as the machine.
fn topology() -> Result<Topology> {
    let links = vec![LinkPlan::unshaped(); 2];
    Topology::build(Plan { wiring: Wiring::Cable, addressed: false, ..Plan::two_hosts(links) })
}

fn carries() -> Result<()> {
    let topology = topology()?;
    let devices = kernel_path::join(&topology, Policy::Hash)?;
    let (first, second) = (topology.host(0), topology.host(1));
    for server in [address(1), address_v6(1)] {
        let before = sent(&devices[0]);
        send_file(first, second, server, 16 << 20)?;
        exchange(first, second, server, &[1, 64, payload_max(server)], 100)?;
        ensure!(sent(&devices[0]) - before > 16 << 20, "not all went by the programs");
    }
    Ok(())
}
