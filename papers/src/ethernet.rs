//! Gigabit Ethernet as P3 had it beside its device: one link, and NICs that neither segment nor merge.

use anyhow::Result;

use super::setting::Setting;
use super::swept::{self, Swept};
use tabane_kit::rate::Bitrate;
use tabane_kit::tool;
use tabane_kit::topology::{LinkPlan, Plan, Topology, nic};

/// Measures every combination of `flags` over a link of this MTU, in bytes.
pub(super) fn sweep(setting: &Setting, mtu: u32, flags: &[&str]) -> Result<Vec<Swept>> {
    let link = LinkPlan { mtu, ..LinkPlan::shaped(Bitrate::gbit(1)) };
    let topology = Topology::build(Plan::two_hosts(vec![link]))?;
    for host in topology.hosts() {
        let mut ethtool = host.command("ethtool");
        tool::run(ethtool.args(["-K", &nic(0), "tso", "off", "gso", "off", "gro", "off"]))?;
    }
    swept::sweep(setting, &topology, flags)
}
