//! MPTCP over the bare links of two hosts: every connection gets a subflow per link.

use anyhow::{Result, ensure};

use crate::counters;
use crate::topology::{Topology, address, nic};

/// Has the second host announce its further addresses, and the first open a subflow to each.
pub fn announce(topology: &Topology) -> Result<()> {
    let (client, server) = (topology.host(0), topology.host(1));
    let further = topology.plan().links.len() - 1;
    for host in [client, server] {
        host.ip(&format!("mptcp limits set subflow {further} add_addr_accepted {further}"))?;
    }
    (1..=further).try_for_each(|link| {
        server.ip(&format!("mptcp endpoint add {} dev {} signal", address(link, 1), nic(link))).map(drop)
    })
}

/// Checks afterwards that connections had more than one subflow.
pub fn check(topology: &Topology) -> Result<()> {
    let joins = counters::protocol(topology.host(0), "MPTcpExt", "MPJoinSynAckRx")?;
    ensure!(joins > 0, "MPTCP used one link only: the kernel joined no second subflow");
    Ok(())
}
