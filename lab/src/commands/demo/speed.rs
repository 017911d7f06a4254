//! The speed of one CUBIC connection: over one bare link and the bundle of both in turn, and by the kernel path.

use std::net::IpAddr;
use std::path::Path;

use anyhow::Result;

use tabane_kit::bundle::{self, Bundle, Options};
use tabane_kit::cpu::used_during;
use tabane_kit::progress;
use tabane_kit::report::Report;
use tabane_kit::topology::{Topology, address};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

/// Length of a measurement.
const SECONDS: u32 = 4;

/// Measures `single`, one link alone, and `bundle`, both, in turn, `rounds` times, from the first host to the second.
pub(super) fn measure(topology: &Topology, rounds: usize, report: &mut Report) -> Result<()> {
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    for round in 1..=rounds {
        let bare = IpAddr::V4(address(0, 1));
        measure_flow(topology, &format!("one link alone, {round} of {rounds}"), bare, "single", report)?;
        let what = format!("the bundle, {round} of {rounds}");
        measure_flow(topology, &what, bundle::address(1), "bundle", report)?;
    }
    Ok(())
}

/// Measures `kernel`: bundles whose frames are carried by programs in the kernel, or says why this machine has none.
pub(super) fn measure_kernel_path(
    topology: &Topology,
    daemon: &Path,
    rounds: usize,
    report: &mut Report,
) -> Result<Option<String>> {
    let mut bundles = {
        let _step = progress::step("starting bundles whose frames are carried by programs in the kernel");
        Bundle::start_all(topology, &Options::by_programs(daemon, "auto"))?
    };
    let why_not = bundles[0].status()?.cells_because;
    if why_not.is_none() {
        Bundle::wait_for_programs(&mut bundles)?;
        let _server = Server::start(topology.host(1), Stream::Tcp)?;
        for round in 1..=rounds {
            let what = format!("the kernel path, {round} of {rounds}");
            measure_flow(topology, &what, bundle::address(1), "kernel", report)?;
        }
    }
    Bundle::stop_all(bundles)?;
    Ok(why_not)
}

/// Measures one connection to `server` over `path`: payload that arrived, TCP segments sent again, and CPU time of the whole machine.
fn measure_flow(
    topology: &Topology,
    what: &str,
    server: IpAddr,
    path: &str,
    report: &mut Report,
) -> Result<()> {
    let step = progress::step(what);
    let (outcome, used) = used_during(&[], || Flow::tcp(server, SECONDS).run(topology.host(0)))?;
    drop(step);
    println!("  {what:<26} {:5.2} Gbit/s, {} retransmits", outcome.gbps, outcome.retransmits);
    report.push(format!("{path}_gbps"), "Gbit/s", outcome.gbps);
    report.push(format!("retransmits_{path}"), "segments", outcome.retransmits as f64);
    report.push(format!("{path}_cpu_s_per_gb"), "s/GB", used.machine_seconds * 1e9 / outcome.bytes as f64);
    Ok(())
}
