//! One case: the path is made for it, watched at full speed, and then loses a link.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::bench::Bench;
use super::case::{Case, Timing};
use super::death;
use super::figures::{Figures, RoundTrips, Speed};
use tabane_kit::counters;
use tabane_kit::cpu::Usage;
use tabane_kit::mptcp;
use tabane_kit::topology::Topology;
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Kind, Outcome, Server};
use tabane_kit::workload::ping_pong;

/// Time that a flow gets to reach its speed before round trips beside it are measured.
const SETTLE: Duration = Duration::from_millis(500);

/// Measures `case`.
///
/// # Errors
/// A tool or daemon fails, or the kernel lacks something.
pub(super) fn run(case: Case, daemon: &Path, timing: Timing, seed: u64) -> Result<Figures> {
    let topology = Topology::build(case.plan(seed))?;
    let way = case.contender.start(&topology, daemon)?;
    let bench = Bench { case, topology: &topology, timing, seed };
    let (one, loaded) = bench.one_flow().context("one connection")?;
    let four = bench.four_flows().context("four connections")?;
    let [cable, black_hole] = death::of_a_link(&bench)?;
    if case.contender.stream() == Stream::Mptcp {
        mptcp::check(&topology)?;
    }
    way.stop()?;
    Ok(Figures { one, four, loaded, cable, black_hole })
}

impl Bench<'_> {
    /// One connection, and round trips beside it.
    fn one_flow(&self) -> Result<(Speed, RoundTrips)> {
        let stream = self.case.contender.stream();
        let _server = Server::start(self.server(), stream)?;
        let mut trips = None;
        let speed = self.speed(1, || {
            thread::sleep(SETTLE);
            let duration = Duration::from_secs(self.timing.seconds.into()) - 2 * SETTLE;
            trips = Some(ping_pong::play(self.client(), self.server(), self.at(0), stream, duration)?);
            Ok(())
        })?;
        let trips = trips.context("no round trips")?;
        Ok((speed, RoundTrips { p50_ms: trips.p50_us / 1e3, p99_ms: trips.p99_us / 1e3 }))
    }

    fn four_flows(&self) -> Result<Speed> {
        let _server = Server::start(self.server(), self.case.contender.stream())?;
        self.speed(4, || Ok(()))
    }

    /// Runs connections to the server and does `meanwhile` beside them.
    fn speed(&self, connections: u8, meanwhile: impl FnOnce() -> Result<()>) -> Result<Speed> {
        let kind = Kind::Tcp(self.case.contender.stream());
        let flow =
            Flow { connections, kind, ..Flow::tcp(self.case.contender.address(1), self.timing.seconds) };
        let resent = || counters::protocol(self.client(), "Tcp", "RetransSegs");
        let (resent_before, before) = (resent()?, Usage::now(&[])?);
        let running = flow.start(self.client())?;
        meanwhile()?;
        let outcome: Outcome = running.finish()?;
        let used = Usage::now(&[])?.since(before);
        Ok(Speed {
            mbps: outcome.gbps * 1e3,
            retransmits: resent()? - resent_before,
            cpu_s_per_gb: used.machine_seconds / (outcome.bytes as f64 / 1e9),
        })
    }
}
