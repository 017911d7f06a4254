//! The paths that are compared: how each is built, from bare cables to a bundle over them.

use std::net::IpAddr;
use std::path::Path as FilePath;

use anyhow::Result;

use crate::bundle::{self, Bundle, Protection};
use crate::mptcp;
use crate::topology::{LinkPlan, Plan, Topology, Wiring, address};
use crate::workload::Stream;

/// A way from the first host to the second.
pub(super) struct Path {
    /// Name in the file.
    pub(super) key: &'static str,
    /// Name for people.
    pub(super) label: &'static str,
    /// Number of cables between the hosts.
    links: usize,
    /// What uses them.
    pub(super) carrier: Carrier,
}

/// What makes a path of cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// The kernel's own stack over one cable.
    Bare,
    /// A bundle; its cells are sealed.
    Sealed,
    /// A bundle without sealing, whose device has this MTU; `None`: the default.
    Unsealed(Option<u32>),
    /// A bundle whose cells are Ethernet frames, moved by this engine; they are sealed.
    Ether(&'static str),
    /// The kernel's own stack over all cables.
    Mptcp,
}

/// Where the bare cable stands in [`PATHS`].
pub(super) const BARE: usize = 0;
/// Where the bundle over two links stands in [`PATHS`].
pub(super) const BUNDLE_2: usize = 2;
/// Where the same without sealing stands in [`PATHS`].
pub(super) const UNSEALED_2: usize = 3;
/// Where the bundle of large MTU stands in [`PATHS`].
pub(super) const UNSEALED_JUMBO: usize = 4;

/// All paths in the order of the table.
pub(super) const PATHS: [Path; 8] = [
    Path { key: "veth", label: "bare veth", links: 1, carrier: Carrier::Bare },
    Path { key: "bundle1", label: "bundle of 1", links: 1, carrier: Carrier::Sealed },
    Path { key: "bundle2", label: "bundle of 2", links: 2, carrier: Carrier::Sealed },
    Path { key: "unsealed2", label: "unsealed", links: 2, carrier: Carrier::Unsealed(None) },
    Path {
        key: "unsealed2_mtu65000",
        label: "and MTU 65000",
        links: 2,
        carrier: Carrier::Unsealed(Some(65000)),
    },
    Path { key: "ether1", label: "ether of 1", links: 1, carrier: Carrier::Ether("packet") },
    // By AF_XDP where it can be had.
    Path { key: "ether1_auto", label: "engine auto", links: 1, carrier: Carrier::Ether("auto") },
    Path { key: "mptcp2", label: "MPTCP of 2", links: 2, carrier: Carrier::Mptcp },
];

impl Path {
    /// Lays the cables.
    pub(super) fn lay(&self) -> Result<Topology> {
        let plan = Plan { wiring: Wiring::Cable, ..Plan::two_hosts(vec![LinkPlan::unshaped(); self.links]) };
        let topology = Topology::build(plan)?;
        if self.carrier == Carrier::Mptcp {
            mptcp::announce(&topology)?;
        }
        Ok(topology)
    }

    /// Starts the daemons that the path needs.
    pub(super) fn start<'a>(&self, topology: &'a Topology, daemon: &FilePath) -> Result<Vec<Bundle<'a>>> {
        let sealed = bundle::Options::new(daemon);
        match self.carrier {
            Carrier::Sealed => Bundle::start_all(topology, &sealed),
            Carrier::Ether(engine) => {
                let links: Vec<_> =
                    topology.nics().iter().map(|nic| format!("ether:{nic},engine={engine}")).collect();
                Bundle::start_over(topology, &links, &sealed)
            }
            Carrier::Unsealed(mtu) => {
                let protection = Protection::None;
                Bundle::start_all(topology, &bundle::Options { mtu, protection, ..sealed })
            }
            Carrier::Bare | Carrier::Mptcp => Ok(Vec::new()),
        }
    }

    /// Address of the second host on this path.
    pub(super) fn server(&self) -> IpAddr {
        match self.carrier {
            Carrier::Sealed | Carrier::Unsealed(_) | Carrier::Ether(_) => bundle::address(1),
            Carrier::Bare | Carrier::Mptcp => address(0, 1).into(),
        }
    }

    /// What carries its byte streams.
    pub(super) fn stream(&self) -> Stream {
        if self.carrier == Carrier::Mptcp { Stream::Mptcp } else { Stream::Tcp }
    }

    /// Checks afterwards that the path was what its name says.
    pub(super) fn check(&self, topology: &Topology) -> Result<()> {
        if self.carrier == Carrier::Mptcp {
            mptcp::check(topology)?;
        }
        Ok(())
    }
}
