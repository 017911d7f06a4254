//! Takes one sample of every figure on one path, built for it and taken down again.

use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::figure::{Figure, Figures};
use super::path::{Carrier, Path};
use tabane_kit::bundle::Bundle;
use tabane_kit::counters;
use tabane_kit::cpu::Usage;
use tabane_kit::topology::Topology;
use tabane_kit::workload::iperf::{Flow, Kind, Server};
use tabane_kit::workload::{datagrams, home, ping_pong};

/// Time that a flow gets to reach its speed before round trips beside it are measured.
const SETTLE: Duration = Duration::from_millis(300);
/// Payload of the small datagrams.
const SMALL_BYTES: usize = 64;

/// Measures `path` with flows of `seconds` and adds a sample of every figure to `figures`.
pub(super) fn take(path: &Path, daemon: &FilePath, seconds: u32, figures: &mut Figures) -> Result<()> {
    let topology = path.lay()?;
    let bundles = path.start(&topology, daemon)?;
    let bench = Bench { path, topology: &topology, seconds };
    if path.carrier == Carrier::UnixPair {
        return bench.at_home(figures);
    }
    bench.throughput(&bundles, figures)?;
    bench.round_trips(figures)?;
    if path.carrier != Carrier::Mptcp {
        bench.datagrams(figures)?;
    }
    path.check(&topology).context(path.label)
}

struct Bench<'a> {
    path: &'a Path,
    topology: &'a Topology,
    seconds: u32,
}

impl Bench<'_> {
    fn throughput(&self, bundles: &[Bundle<'_>], figures: &mut Figures) -> Result<()> {
        let (client, server) = self.path.hosts(self.topology);
        let _server = Server::start(server, self.path.stream())?;
        let pids: Vec<u32> = bundles.iter().filter_map(Bundle::pid).collect();
        let resent = counters::protocol(client, "Tcp", "RetransSegs")?;
        let before = Usage::now(&pids)?;
        let outcome = self.flow(self.seconds).run(client)?;
        let used = Usage::now(&pids)?.since(before);
        let gigabytes = outcome.bytes as f64 / 1e9;
        let resent = counters::protocol(client, "Tcp", "RetransSegs")? - resent;
        figures.push(Figure::Throughput, outcome.gbps);
        figures.push(Figure::Retransmits, resent as f64);
        figures.push(Figure::Cpu, used.machine_seconds / gigabytes);
        if !pids.is_empty() {
            figures.push(Figure::DaemonCpu, used.processes_seconds / gigabytes);
        }
        let four = Flow { connections: 4, ..self.flow(self.seconds) }.run(client)?;
        figures.push(Figure::FourFlows, four.gbps);
        Ok(())
    }

    fn round_trips(&self, figures: &mut Figures) -> Result<()> {
        let idle = self.ping_pong(Duration::from_secs(1))?;
        figures.push(Figure::IdleMedian, idle.p50_us);
        figures.push(Figure::IdleTail, idle.p99_us);

        let _server = Server::start(self.path.hosts(self.topology).1, self.path.stream())?;
        let seconds = self.seconds.min(2);
        let load = self.flow(seconds).start(self.topology.host(0))?;
        thread::sleep(SETTLE);
        let loaded = self.ping_pong(Duration::from_secs(seconds.into()) - 2 * SETTLE)?;
        load.finish()?;
        figures.push(Figure::LoadedMedian, loaded.p50_us);
        figures.push(Figure::LoadedTail, loaded.p99_us);
        Ok(())
    }

    fn datagrams(&self, figures: &mut Figures) -> Result<()> {
        let (client, server) = self.path.hosts(self.topology);
        let outcome = datagrams::blast(client, server, self.any_port(), SMALL_BYTES, Duration::from_secs(1))?;
        figures.push(Figure::DatagramsSent, outcome.sent_per_second);
        figures.push(Figure::DatagramsReceived, outcome.received_per_second);
        figures.push(Figure::DatagramsLost, outcome.lost * 100.0);
        Ok(())
    }

    /// Between two threads of this process; there is no kernel's stack to count anything.
    fn at_home(&self, figures: &mut Figures) -> Result<()> {
        let duration = Duration::from_secs(self.seconds.into());
        let before = Usage::now(&[])?;
        let bytes = home::stream(duration)? as f64;
        let used = Usage::now(&[])?.since(before);
        figures.push(Figure::Throughput, bytes * 8.0 / 1e9 / duration.as_secs_f64());
        figures.push(Figure::Cpu, used.machine_seconds / (bytes / 1e9));
        let idle = ping_pong::play_at_home(Duration::from_secs(1))?;
        figures.push(Figure::IdleMedian, idle.p50_us);
        figures.push(Figure::IdleTail, idle.p99_us);
        Ok(())
    }

    fn flow(&self, seconds: u32) -> Flow {
        Flow { kind: Kind::Tcp(self.path.stream()), ..Flow::tcp(self.path.server(), seconds) }
    }

    fn ping_pong(&self, duration: Duration) -> Result<ping_pong::RoundTrips> {
        let (client, server) = self.path.hosts(self.topology);
        ping_pong::play(client, server, self.any_port(), self.path.stream(), duration)
    }

    fn any_port(&self) -> SocketAddr {
        SocketAddr::new(self.path.server(), 0)
    }
}
