//! One engine at one load, and its samples.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tabane_engine::receive::Method;

use super::{choose, daemons_seconds};
use crate::figures::{Sheet, quantities};
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::topology::Topology;
use tabane_kit::workload::echoes;

/// After a change of engine: what came before is over.
const SETTLE: Duration = Duration::from_millis(200);

quantities! {
    /// What is measured.
    Figure {
        P50: "p50_us", "round trip p50, µs", "µs";
        P99: "p99_us", "round trip p99, µs", "µs";
        /// Of one processor, by both daemons together.
        Cpu: "cpu_percent", "CPU of both daemons, %", "%";
        /// Datagrams that came back.
        Returned: "returned_per_s", "came back, 1/s", "1/s";
    }
}

/// One of them.
pub(super) struct Cell {
    /// Datagrams that are offered, per second.
    pub(super) load: u64,
    pub(super) engine: Method,
    pub(super) figures: Sheet<Figure>,
}

impl Cell {
    pub(super) fn new(load: u64, engine: Method) -> Cell {
        Cell { load, engine, figures: Sheet::default() }
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
        self.figures.push(Figure::P50, outcome.trips.p50_us);
        self.figures.push(Figure::P99, outcome.trips.p99_us);
        self.figures.push(Figure::Cpu, 100.0 * used / start.elapsed().as_secs_f64());
        self.figures.push(Figure::Returned, outcome.returned_per_second);
        Ok(())
    }
}
