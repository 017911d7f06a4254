//! The paths that are compared: how each is built, from bare cables to a bundle over them, and what stays in memory.

use std::net::Ipv4Addr;
use std::path::Path as FilePath;

use crate::prelude::*;

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
    /// The same, whose frames are carried by programs in the kernel.
    Programs,
    /// A bundle whose cells are Ethernet frames, moved by this engine; they are sealed.
    Ether(&'static str),
    /// The kernel's own stack over all cables.
    Mptcp,
    /// A bundle over a window of memory that both hosts share.
    Window {
        /// Whether its cells are sealed.
        is_sealed: bool,
    },
    /// The kernel's own stack within one host.
    Loopback,
    /// A pair of Unix sockets.
    UnixPair,
}

/// Where the bundle over one link stands in [`PATHS`].
pub(super) const BUNDLE_1: usize = 1;

/// All paths in the order of the table.
pub(super) const PATHS: [Path; 10] = [
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
    Path { key: "unsealed1", label: "unsealed, 1", links: 1, carrier: Carrier::Unsealed(None) },
    Path { key: "kernel1", label: "kernel path", links: 1, carrier: Carrier::Programs },
];

/// Paths that leave no machine, in the order of their table.
pub(super) const MEMORY_PATHS: [Path; 4] = [
    Path { key: "mem", label: "mem", links: 1, carrier: Carrier::Window { is_sealed: true } },
    Path {
        key: "mem_unsealed",
        label: "mem, unsealed",
        links: 1,
        carrier: Carrier::Window { is_sealed: false },
    },
    Path { key: "loopback", label: "loopback TCP", links: 1, carrier: Carrier::Loopback },
    Path { key: "unix", label: "Unix pair", links: 1, carrier: Carrier::UnixPair },
];

impl Path {
    /// Lays the cables.
    pub(super) fn lay(&self) -> Result<Topology> {
        let plan = Plan { wiring: Wiring::Cable, ..Plan::two_hosts(vec![LinkPlan::unshaped(); self.links]) };
        let topology = Topology::build(plan)?;
        if self.carrier == Carrier::Mptcp {
            bonding::announce_subflows(&topology)?;
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
            Carrier::Programs => {
                let mut bundles =
                    Bundle::start_all(topology, &bundle::Options::by_programs(daemon, "kernel"))?;
                Bundle::wait_for_programs(&mut bundles)?;
                Ok(bundles)
            }
            Carrier::Window { is_sealed } => {
                let protection = if is_sealed { Protection::LabKey } else { Protection::None };
                // Its name is needed no more once both daemons have it open.
                let window = Window::new()?;
                Bundle::start_over(topology, &[window.link()], &bundle::Options { protection, ..sealed })
            }
            Carrier::Bare | Carrier::Mptcp | Carrier::Loopback | Carrier::UnixPair => Ok(Vec::new()),
        }
    }

    /// The host that asks, and the one that answers.
    pub(super) fn hosts<'a>(&self, topology: &'a Topology) -> (&'a Namespace, &'a Namespace) {
        let server = if self.carrier == Carrier::Loopback { 0 } else { 1 };
        (topology.host(0), topology.host(server))
    }

    /// Address of the host that answers on this path.
    pub(super) fn server(&self) -> IpAddr {
        match self.carrier {
            Carrier::Sealed
            | Carrier::Unsealed(_)
            | Carrier::Programs
            | Carrier::Ether(_)
            | Carrier::Window { .. } => bundle::address(1),
            Carrier::Bare | Carrier::Mptcp => address(0, 1).into(),
            Carrier::Loopback | Carrier::UnixPair => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// What carries its byte streams.
    pub(super) fn stream(&self) -> Stream {
        if self.carrier == Carrier::Mptcp { Stream::Mptcp } else { Stream::Tcp }
    }

    /// Checks afterwards that the path was what its name says.
    pub(super) fn check(&self, topology: &Topology) -> Result<()> {
        if self.carrier == Carrier::Mptcp {
            bonding::check_subflows(topology)?;
        }
        Ok(())
    }
}
