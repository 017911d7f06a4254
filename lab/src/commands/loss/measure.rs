//! All paths and numbers of flows at one loss.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::FLOWS;
use super::share::Share;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::emulator::{Direction, Impairment};
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, address};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

/// How it is measured.
pub(super) struct Bench<'a> {
    pub(super) daemon: &'a Path,
    /// Rate of each link.
    pub(super) rate: Bitrate,
    /// Length of each flow.
    pub(super) seconds: u32,
    /// How often.
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// One number of flows on all paths.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// Number of TCP connections at once.
    pub(super) flows: u8,
    /// One link without bundle.
    pub(super) bare: Speed,
    /// A bundle of two that does not repair.
    pub(super) unrepaired: Speed,
    /// A bundle of two as it is.
    pub(super) repaired: Speed,
}

/// One path: the round in the middle of all.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Speed {
    /// Payload that arrived, in Mbit/s.
    pub(super) mbps: f64,
    /// The same of every round, in rising order.
    pub(super) mbps_of_rounds: Vec<f64>,
    /// TCP segments sent again.
    pub(super) retransmits: u64,
    /// Frames that the wires lost, both directions.
    pub(super) frames_lost: u64,
    /// What the daemons counted since their start, added up.
    pub(super) counters: BTreeMap<String, u64>,
}

impl Row {
    /// Goodput of the bundle with repair as a multiple of the bare link's.
    pub(super) fn gain(&self) -> f64 {
        self.repaired.mbps / self.bare.mbps
    }
}

impl Speed {
    /// The round in the middle; with two, the better one.
    fn middle(mut rounds: Vec<Self>) -> Option<Self> {
        rounds.sort_by(|one, other| one.mbps.total_cmp(&other.mbps));
        let mbps_of_rounds = rounds.iter().map(|round| round.mbps).collect();
        let middle = rounds.len() / 2;
        Some(Self { mbps_of_rounds, ..rounds.into_iter().nth(middle)? })
    }
}

impl Bench<'_> {
    /// Measures with each link losing `share`.
    ///
    /// # Errors
    /// A tool or daemon fails.
    pub(super) fn run(&self, share: Share) -> Result<Vec<Row>> {
        let links = vec![LinkPlan::paced(self.rate); 2];
        let plan = Plan { wiring: Wiring::Emulator, seed: self.seed, ..Plan::two_hosts(links) };
        let topology = Topology::build(plan)?;
        for link in 0..2 {
            topology.impair_both(link, Impairment::loss(share.probability()))?;
        }
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let bare = self.flows(&topology, &[], address(0, 1).into()).context("the bare link")?;
            let unrepaired =
                self.bundled(&topology, &["--no-repair"]).context("the bundle without repair")?;
            let repaired = self.bundled(&topology, &[]).context("the bundle")?;
            rounds.push([bare, unrepaired, repaired]);
        }
        let row = |(number, flows)| {
            let middle = |path: usize| {
                Speed::middle(rounds.iter().filter_map(|round| round[path].get(number).cloned()).collect())
                    .context("no round was measured")
            };
            Ok(Row { flows, bare: middle(0)?, unrepaired: middle(1)?, repaired: middle(2)? })
        };
        FLOWS.into_iter().enumerate().map(row).collect()
    }

    /// Starts bundles with these further arguments, measures, and stops them.
    fn bundled(&self, topology: &Topology, arguments: &[&str]) -> Result<Vec<Speed>> {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let options = bundle::Options { arguments, ..bundle::Options::new(self.daemon) };
        let bundles = Bundle::start_all(topology, &options)?;
        let speeds = self.flows(topology, &bundles, bundle::address(1))?;
        for bundle in bundles {
            bundle.stop()?.success("a daemon told to stop")?;
        }
        Ok(speeds)
    }

    /// Every number of flows on one path.
    fn flows(&self, topology: &Topology, bundles: &[Bundle<'_>], at: IpAddr) -> Result<Vec<Speed>> {
        let measure = |connections| {
            // The end of the flow before may be lost, too; until it comes, a server takes no other.
            let _server = Server::start(topology.host(1), Stream::Tcp)?;
            let before = frames_lost(topology)?;
            let flow = Flow { connections, ..Flow::tcp(at, self.seconds) };
            let outcome = flow.run(topology.host(0))?;
            let mbps = outcome.gbps * 1e3;
            Ok(Speed {
                mbps,
                mbps_of_rounds: vec![mbps],
                retransmits: outcome.retransmits,
                frames_lost: frames_lost(topology)? - before,
                counters: counters(bundles)?,
            })
        };
        FLOWS.into_iter().map(measure).collect()
    }
}

/// Frames that all wires have lost so far.
fn frames_lost(topology: &Topology) -> Result<u64> {
    let mut lost = 0;
    for link in 0..topology.nics().len() {
        for direction in Direction::BOTH {
            lost += topology.emulator(link)?.counters(direction)?.lost;
        }
    }
    Ok(lost)
}

/// The counters of all daemons that are not zero.
fn counters(bundles: &[Bundle<'_>]) -> Result<BTreeMap<String, u64>> {
    let mut sums = BTreeMap::new();
    for bundle in bundles {
        for (name, count) in bundle.status()?.counters.into_iter().filter(|(_, count)| *count > 0) {
            *sums.entry(name).or_default() += count;
        }
    }
    Ok(sums)
}
