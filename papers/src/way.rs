//! What joins the hosts where bundles are compared with Linux bonding: one link, a bond, or a bundle.

use crate::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Single,
    Bonding,
    Bundle,
}

/// In the order of the papers' columns.
pub(super) const WAYS: [Way; 3] = [Way::Single, Way::Bonding, Way::Bundle];

pub(super) struct Joined<'a> {
    way: Way,
    topology: &'a Topology,
    bundles: Vec<Bundle<'a>>,
    pub(super) addresses: Vec<IpAddr>,
}

/// Hosts for each way in turn: with two NICs of this rate, which send frame by frame. The single link is the first one.
pub(super) fn hosts(count: usize, rate: Bitrate) -> Result<Topology> {
    Topology::build(Plan { hosts: count, ..Plan::two_hosts(vec![LinkPlan::paced(rate); 2]) })
}

/// The same with receiving NICs that gather frames, and hand over each for itself.
pub(super) fn moderated_hosts(count: usize, rate: Bitrate) -> Result<Topology> {
    let topology = hosts(count, rate)?;
    topology.moderate()?;
    for host in topology.hosts() {
        let one_by_one = |nic: &String| host.ip(&format!("link set {nic} gso_max_segs 1")).map(drop);
        topology.nics().iter().try_for_each(one_by_one)?;
    }
    Ok(topology)
}

impl Way {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Way::Single => "one link",
            Way::Bonding => "balance-rr",
            Way::Bundle => "bundle",
        }
    }

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
        Ok(Joined { way: self, topology, bundles, addresses })
    }
}

impl Joined<'_> {
    pub(super) fn bundle_pid(&self, host: usize) -> Option<u32> {
        self.bundles.get(host).and_then(Bundle::pid)
    }

    /// Ends what joins them, which has to end well, and leaves the links as they were.
    pub(super) fn end(self) -> Result<()> {
        if self.way == Way::Bonding {
            self.topology.hosts().iter().try_for_each(|host| bonding::remove(host, &self.topology.nics()))?;
        }
        Bundle::stop_all(self.bundles)
    }
}
