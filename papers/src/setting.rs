//! How the measurements are made: the program, how often and how long, and one loaded flow.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use tabane_kit::bundle::{self, Bundle, Protection};
use tabane_kit::cpu::Usage;
use tabane_kit::guest;
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology};
use tabane_kit::workload::iperf::{Flow, Outcome};

/// How the measurements are made.
pub(super) struct Setting {
    /// The executable `tabane`.
    pub(super) daemon: PathBuf,
    /// The guest in which NFS is measured.
    pub(super) guest: guest::Flags,
    /// Directory of the NAS Parallel Benchmarks, if they are there.
    pub(super) npb: Option<PathBuf>,
    /// Number of hosts that compute.
    pub(super) nodes: u8,
    /// Rate of their links.
    pub(super) node_rate: Bitrate,
    /// How often each figure is measured.
    pub(super) rounds: usize,
    /// Length of each flow.
    pub(super) seconds: u32,
    /// Whether P3's links through memory are also measured as slow as the paper's device.
    pub(super) throttle: bool,
}

/// A flow, and what it cost.
pub(super) struct Loaded {
    pub(super) flow: Outcome,
    /// Share of all CPUs of this machine that were busy, in percent.
    pub(super) busy_percent: f64,
}

impl Loaded {
    /// What arrived, in Mbit/s.
    pub(super) fn mbit(&self) -> f64 {
        self.flow.gbps * 1e3
    }
}

impl Setting {
    /// Runs `flow` from the first host.
    pub(super) fn load(topology: &Topology, flow: Flow) -> Result<Loaded> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (began, before) = (Instant::now(), Usage::now(&[])?);
        let flow = flow.run(topology.host(0))?;
        let busy = Usage::now(&[])?.since(before).machine_seconds / began.elapsed().as_secs_f64();
        Ok(Loaded { flow, busy_percent: 100.0 * busy / cores })
    }

    /// Two hosts with `links` links of `rate`.
    pub(super) fn hosts(links: usize, rate: Bitrate) -> Result<Topology> {
        Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(rate); links]))
    }

    /// Bundles over all links, as the papers' were: without sealing, and knowing the NICs' rate.
    pub(super) fn bundles<'a>(&self, topology: &'a Topology, policy: &str) -> Result<Vec<Bundle<'a>>> {
        let options = bundle::Options {
            rate: topology.plan().links[0].rate,
            protection: Protection::None,
            arguments: vec!["--policy".to_string(), policy.to_string()],
            ..bundle::Options::new(&self.daemon)
        };
        Bundle::start_all(topology, &options)
    }
}
