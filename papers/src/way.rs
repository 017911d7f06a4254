//! What joins the hosts where bundles are compared with Linux bonding: one link, a bond, or a bundle.

use std::net::IpAddr;

use anyhow::Result;

use super::setting::Setting;
use tabane_kit::bonding;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology, address};

/// What joins the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Single,
    Bonding,
    Bundle,
}

/// In the order of the papers' columns.
pub(super) const WAYS: [Way; 3] = [Way::Single, Way::Bonding, Way::Bundle];

/// Hosts that are joined.
pub(super) struct Joined<'a> {
    bundles: Vec<Bundle<'a>>,
    /// The hosts' addresses.
    pub(super) addresses: Vec<IpAddr>,
}

impl Way {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Way::Single => "one link",
            Way::Bonding => "balance-rr",
            Way::Bundle => "bundle",
        }
    }

    /// Hosts with the links that it needs: NICs of this rate that send frame by frame.
    pub(super) fn topology(self, hosts: usize, rate: Bitrate) -> Result<Topology> {
        let links = vec![LinkPlan::paced(rate); if self == Way::Single { 1 } else { 2 }];
        Topology::build(Plan { hosts, addressed: self == Way::Single, ..Plan::two_hosts(links) })
    }

    /// The same with receiving NICs that gather frames, and hand over each for itself.
    pub(super) fn moderated(self, hosts: usize, rate: Bitrate) -> Result<Topology> {
        let topology = self.topology(hosts, rate)?;
        topology.moderate()?;
        for host in topology.hosts() {
            let one_by_one = |nic: &String| host.ip(&format!("link set {nic} gso_max_segs 1")).map(drop);
            topology.nics().iter().try_for_each(one_by_one)?;
        }
        Ok(topology)
    }

    /// Joins all hosts of `topology`.
    pub(super) fn join<'a>(self, setting: &Setting, topology: &'a Topology) -> Result<Joined<'a>> {
        let hosts = 0..topology.hosts().len();
        let (bundles, addresses) = match self {
            Way::Single => (Vec::new(), hosts.map(|host| address(0, host).into()).collect()),
            Way::Bonding => {
                bonding::bond(topology, "balance-rr")?;
                (Vec::new(), hosts.map(|host| bonding::address(host).into()).collect())
            }
            Way::Bundle => (setting.bundles(topology, "adaptive")?, hosts.map(bundle::address).collect()),
        };
        Ok(Joined { bundles, addresses })
    }
}

impl Joined<'_> {
    /// Process id of the bundle on `host`, where that is what joins it.
    pub(super) fn bundle_pid(&self, host: usize) -> Option<u32> {
        self.bundles.get(host).and_then(Bundle::pid)
    }

    /// Ends what joins them, which has to end well.
    pub(super) fn end(self) -> Result<()> {
        Bundle::stop_all(self.bundles)
    }
}
