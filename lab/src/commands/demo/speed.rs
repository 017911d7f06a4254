//! Phase 1: one CUBIC connection over one bare link, and over the bundle of both.

use std::net::IpAddr;

use anyhow::Result;

use tabane_kit::bundle;
use tabane_kit::cpu::Usage;
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
    pub(super) single: Flows,
    /// The bundle over both links.
    pub(super) bundle: Flows,
}

/// Samples of one path.
#[derive(Debug)]
pub(super) struct Flows {
    /// Payload that arrived, Gbit/s.
    pub(super) gbps: Samples,
    /// TCP segments sent again.
    pub(super) retransmits: Samples,
    /// CPU time of the whole machine, for 10^9 bytes.
    pub(super) cpu: Samples,
}

/// Measures both paths in turn, `rounds` times, from the first host to the second.
pub(super) fn measure(topology: &Topology, rounds: usize) -> Result<Speed> {
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    let mut speed = Speed { single: Flows::new(), bundle: Flows::new() };
    let bare = IpAddr::V4(address(0, 1));
    for round in 1..=rounds {
        measure_flow(topology, &format!("one link alone, {round} of {rounds}"), bare, &mut speed.single)?;
        let bundled = bundle::address(1);
        measure_flow(topology, &format!("the bundle, {round} of {rounds}"), bundled, &mut speed.bundle)?;
    }
    Ok(speed)
}

/// Measures one connection to `server`.
pub(super) fn measure_flow(topology: &Topology, what: &str, server: IpAddr, flows: &mut Flows) -> Result<()> {
    let before = Usage::now(&[])?;
    let outcome = {
        let _step = progress::step(what);
        Flow::tcp(server, SECONDS).run(topology.host(0))?
    };
    println!("  {what:<26} {:5.2} Gbit/s, {} retransmits", outcome.gbps, outcome.retransmits);
    let used = Usage::now(&[])?.since(before).machine_seconds;
    flows.gbps.push(outcome.gbps);
    flows.retransmits.push(outcome.retransmits as f64);
    flows.cpu.push(used / (outcome.bytes as f64 / 1e9));
    Ok(())
}

impl Flows {
    pub(super) fn new() -> Flows {
        let [gbps, retransmits, cpu] =
            ["Gbit/s", "segments", "s/GB"].map(|unit| Samples::new(unit, Vec::new()));
        Flows { gbps, retransmits, cpu }
    }
}
