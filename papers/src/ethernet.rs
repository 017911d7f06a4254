//! Gigabit Ethernet as P3 had it beside its device: one link, and NICs that neither segment nor merge.

use anyhow::Result;

use super::setting::Setting;
use super::swept::{self, Swept};
use tabane_kit::rate::Bitrate;
use tabane_kit::tool;
use tabane_kit::topology::{LinkPlan, Plan, Topology, nic};

/// Measures every combination of `flags` over a link of this MTU, in bytes.
pub(super) fn sweep(setting: &Setting, mtu: u32, flags: &[&str]) -> Result<Vec<Swept>> {
    swept::sweep(setting, &hosts(2, mtu)?, flags)
}

/// So many hosts on such a link.
pub(super) fn hosts(count: usize, mtu: u32) -> Result<Topology> {
    let link = LinkPlan { mtu, ..LinkPlan::shaped(Bitrate::gbit(1)) };
    let topology = Topology::build(Plan { hosts: count, ..Plan::two_hosts(vec![link]) })?;
    for host in topology.hosts() {
        let mut ethtool = host.command("ethtool");
        tool::run(ethtool.args(["-K", &nic(0), "tso", "off", "gso", "off", "gro", "off"]))?;
    }
    Ok(topology)
}
