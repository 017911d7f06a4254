//! One engine at one load, and its samples.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tabane_engine::receive::Method;

use super::{choose, daemons_seconds};
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::report::Samples;
use tabane_kit::topology::Topology;
use tabane_kit::workload::echoes;

/// After a change of engine: what came before is over.
const SETTLE: Duration = Duration::from_millis(200);

/// What is measured.
pub(super) struct Cell {
    /// Datagrams that are offered, per second.
    pub(super) load: u64,
    pub(super) engine: Method,
    pub(super) p50: Samples,
    pub(super) p99: Samples,
    /// Of one processor, by both daemons together.
    pub(super) cpu: Samples,
    /// Datagrams that came back.
    pub(super) returned: Samples,
}

impl Cell {
    pub(super) fn new(load: u64, engine: Method) -> Cell {
        let empty = |unit| Samples::new(unit, Vec::new());
        let (p50, p99) = (empty("µs"), empty("µs"));
        Cell { load, engine, p50, p99, cpu: empty("%"), returned: empty("1/s") }
    }

    /// Measures once.
    pub(super) fn sample(&mut self, topology: &Topology, bundles: &[Bundle<'_>], seconds: u32) -> Result<()> {
        choose(self.engine, bundles)?;
        thread::sleep(SETTLE);
        let (client, server) = (topology.host(0), topology.host(1));
        let at = SocketAddr::new(bundle::address(1), 0);
        let (start, before) = (Instant::now(), daemons_seconds(bundles)?);
        let duration = Duration::from_secs(seconds.into());
        let outcome = echoes::offer(client, server, at, self.load, duration)?;
        let used = daemons_seconds(bundles)? - before;
        self.p50.push(outcome.trips.p50_us);
        self.p99.push(outcome.trips.p99_us);
        self.cpu.push(100.0 * used / start.elapsed().as_secs_f64());
        self.returned.push(outcome.returned_per_second);
        Ok(())
    }
}
