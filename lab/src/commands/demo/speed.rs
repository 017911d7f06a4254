//! Phase 1: one CUBIC connection over one bare link, and over the bundle of both.

use std::net::IpAddr;

use anyhow::Result;

use tabane_kit::bundle;
use tabane_kit::progress;
use tabane_kit::report::Samples;
use tabane_kit::topology::{Topology, address};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

/// Length of a measurement.
const SECONDS: u32 = 4;

/// Both paths, a sample per round.
#[derive(Debug)]
pub(super) struct Speed {
    /// One link alone.
    pub(super) single: Path,
    /// The bundle over both links.
    pub(super) bundle: Path,
}

/// Samples of one path.
#[derive(Debug)]
pub(super) struct Path {
    /// Payload that arrived, Gbit/s.
    pub(super) gbps: Samples,
    /// TCP segments sent again.
    pub(super) retransmits: Samples,
}

/// Measures both paths in turn, `rounds` times, from the first host to the second.
pub(super) fn measure(topology: &Topology, rounds: usize) -> Result<Speed> {
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    let mut speed = Speed { single: Path::new(), bundle: Path::new() };
    let bare = IpAddr::V4(address(0, 1));
    for round in 1..=rounds {
        measure_path(topology, &format!("one link alone, {round} of {rounds}"), bare, &mut speed.single)?;
        let bundled = bundle::address(1);
        measure_path(topology, &format!("the bundle, {round} of {rounds}"), bundled, &mut speed.bundle)?;
    }
    Ok(speed)
}

fn measure_path(topology: &Topology, what: &str, server: IpAddr, path: &mut Path) -> Result<()> {
    let outcome = {
        let _step = progress::step(what);
        Flow::tcp(server, SECONDS).run(topology.host(0))?
    };
    println!("  {what:<26} {:5.2} Gbit/s, {} retransmits", outcome.gbps, outcome.retransmits);
    path.gbps.push(outcome.gbps);
    path.retransmits.push(outcome.retransmits as f64);
    Ok(())
}

impl Path {
    fn new() -> Path {
        Path { gbps: Samples::new("Gbit/s", Vec::new()), retransmits: Samples::new("segments", Vec::new()) }
    }
}
