//! What the kernel itself makes of several links: a device that gathers them on each host, bonding or team; and MPTCP.
//!
//! Each link keeps the switch of its own that it has for everyone, with two exceptions: LACP needs switches that pass its
//! frames on, and balance-tlb and balance-alb, whose NICs send for one another, need switches that are joined.

use crate::counters;
use crate::topology::{self, Topology, nic};
use crate::usual::*;

const DEVICE: &str = "agg0";
/// How bonds look after their NICs' carrier, every so many milliseconds: the kernel's documentation proposes it.
const MONITOR: &str = "miimon 100";
/// How long a bond may take to be whole; LACP waits some seconds for partners.
const WHOLE_WITHIN: Duration = Duration::from_secs(20);
/// Frames for 01:80:C2:00:00:02, where LACP speaks (IEEE 802.1AX), as a bridge port's mask says it.
const LACP_FRAMES: &str = "0x4";

pub fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 2, 0, u8::try_from(host + 1).expect("a plan has at most 99 hosts"))
}

pub fn bond(topology: &Topology, mode: &str) -> Result<()> {
    for (number, host) in topology.hosts().iter().enumerate() {
        host.ip(&format!("link add {DEVICE} type bond {MONITOR} mode {mode}"))?;
        gather(host, number, &topology.nics())?;
    }
    let links = topology.nics().len();
    topology.hosts().iter().try_for_each(|host| wait_until_whole(host, links))
}

/// Takes the device of `host` away, and leaves its NICs as they were before.
pub fn remove(host: &Namespace, nics: &[String]) -> Result<()> {
    host.ip(&format!("link delete {DEVICE}"))?;
    nics.iter().try_for_each(|nic| host.ip(&format!("link set {nic} up")).map(drop))
}

/// balance-tlb or balance-alb. Frames for one NIC come from all of them, so the switches are joined by cables without limit.
pub fn balancing(topology: &Topology, mode: &str) -> Result<()> {
    let centre = topology.switch(0);
    for link in 1..topology.nics().len() {
        let (switch, trunk) = (topology.switch(link), format!("trunk{}", link + 1));
        centre.ip(&format!("link add {trunk} type veth peer name trunk1 netns {}", switch.name()))?;
        centre.ip(&format!("link set {trunk} master br0 up"))?;
        switch.ip("link set trunk1 master br0 up")?;
    }
    bond(topology, &format!("{mode} xmit_hash_policy layer3+4"))
}

/// 802.3ad with the short timeout. Each link's switch passes LACP's frames on, as a media converter does.
pub fn lacp(topology: &Topology) -> Result<()> {
    for link in 0..topology.nics().len() {
        for host in 1..=topology.hosts().len() {
            let port = format!("port{host}");
            topology
                .switch(link)
                .ip(&format!("link set {port} type bridge_slave group_fwd_mask {LACP_FRAMES}"))?;
        }
    }
    bond(topology, "802.3ad lacp_rate fast xmit_hash_policy layer3+4")
}

/// Teams in mode roundrobin; the kernel leaves out NICs without carrier.
pub fn team(topology: &Topology) -> Result<()> {
    for (number, host) in topology.hosts().iter().enumerate() {
        host.ip(&format!("link add {DEVICE} type team"))?;
        process::run(host.command("teamnl").args([DEVICE, "setoption", "mode", "roundrobin"]))?;
        gather(host, number, &topology.nics())?;
    }
    Ok(())
}

fn gather(host: &Namespace, number: usize, nics: &[String]) -> Result<()> {
    for nic in nics {
        host.ip(&format!("link set {nic} down"))?;
        host.ip(&format!("link set {nic} master {DEVICE}"))?;
    }
    host.ip(&format!("address add {}/24 dev {DEVICE}", address(number)))?;
    host.ip(&format!("link set {DEVICE} up")).map(drop)
}

/// Waits until all links of a bond are up, and with LACP in one aggregate.
fn wait_until_whole(host: &Namespace, links: usize) -> Result<()> {
    let path = format!("/proc/thread-self/net/bonding/{DEVICE}");
    wait_for(&format!("a bond of {} to {}", nic(0), nic(links - 1)), WHOLE_WITHIN, || {
        let state = host.enter(|| fs::read_to_string(&path))?.context(path.clone())?;
        Ok(is_whole(&state, links).then_some(()))
    })
}

fn is_whole(state: &str, links: usize) -> bool {
    let up = state.matches("MII Status: up").count();
    let aggregated = state.lines().find_map(|line| line.trim().strip_prefix("Number of ports: "));
    up == links + 1 && aggregated.is_none_or(|ports| ports == links.to_string())
}

/// MPTCP: every connection gets a subflow per bare link. Has the second host announce its further addresses, and the first open a subflow to each.
pub fn announce_subflows(topology: &Topology) -> Result<()> {
    let (client, server) = (topology.host(0), topology.host(1));
    let further = topology.plan().links.len() - 1;
    for host in [client, server] {
        host.ip(&format!("mptcp limits set subflow {further} add_addr_accepted {further}"))?;
    }
    (1..=further).try_for_each(|link| {
        server
            .ip(&format!("mptcp endpoint add {} dev {} signal", topology::address(link, 1), nic(link)))
            .map(drop)
    })
}

/// Checks afterwards that connections had more than one subflow.
pub fn check_subflows(topology: &Topology) -> Result<()> {
    let joins = counters::protocol(topology.host(0), "MPTcpExt", "MPJoinSynAckRx")?;
    ensure!(joins > 0, "MPTCP used one link only: the kernel joined no second subflow");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bond_is_whole_when_all_links_are_up_and_aggregated() {
        let up = "MII Status: up\n";
        assert!(is_whole(&up.repeat(3), 2) && !is_whole(&up.repeat(2), 2));
        let lacp = |ports: usize| format!("{}\tNumber of ports: {ports}\n", up.repeat(3));
        assert!(is_whole(&lacp(2), 2) && !is_whole(&lacp(1), 2));
    }
}
