//! Phase 3: the same connection by programs in the kernel, or why this machine has none.

use std::path::Path;

use anyhow::Result;

use super::speed::{self, Flows};
use tabane_kit::bundle::{self, Bundle, Options};
use tabane_kit::progress;
use tabane_kit::topology::Topology;
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::Server;

/// What came of it: samples, or why frames travel in cells.
pub(super) type Outcome = Result<Flows, String>;

/// Starts bundles of their own and measures them `rounds` times, from the first host to the second.
pub(super) fn measure(topology: &Topology, daemon: &Path, rounds: usize) -> Result<Outcome> {
    let mut bundles = {
        let _step = progress::step("starting bundles whose frames are carried by programs in the kernel");
        Bundle::start_all(topology, &Options::by_programs(daemon, "auto"))?
    };
    let outcome = match bundles[0].status()?.cells_because {
        Some(why) => Err(why),
        None => {
            Bundle::wait_for_programs(&mut bundles)?;
            let _server = Server::start(topology.host(1), Stream::Tcp)?;
            let mut flows = Flows::new();
            for round in 1..=rounds {
                let what = format!("the kernel path, {round} of {rounds}");
                speed::measure_flow(topology, &what, bundle::address(1), &mut flows)?;
            }
            Ok(flows)
        }
    };
    Bundle::stop_all(bundles)?;
    Ok(outcome)
}
