//! Takes one sample of every figure on one path, built for it and taken down again.

use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::path::{Carrier, Path};
use super::summary::FIGURES;
use tabane_kit::bundle::Bundle;
use tabane_kit::counters;
use tabane_kit::cpu::used_during;
use tabane_kit::report::Report;
use tabane_kit::topology::Topology;
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::{datagrams, ping_pong};

/// Time that a flow gets to reach its speed before round trips beside it are measured.
const SETTLE: Duration = Duration::from_millis(300);
/// Payload of the small datagrams.
const SMALL_BYTES: usize = 64;

/// Measures `path` with flows of `seconds` and adds a sample of every figure to `report`.
pub(super) fn take(path: &Path, daemon: &FilePath, seconds: u32, report: &mut Report) -> Result<()> {
    let topology = path.lay()?;
    let bundles = path.start(&topology, daemon)?;
    let mut bench = Bench { path, topology: &topology, seconds, report };
    if path.carrier == Carrier::UnixPair {
        return bench.at_home();
    }
    bench.throughput(&bundles)?;
    bench.round_trips()?;
    if path.carrier != Carrier::Mptcp {
        bench.datagrams()?;
    }
    path.check(&topology).context(path.label)
}

struct Bench<'a> {
    path: &'a Path,
    topology: &'a Topology,
    seconds: u32,
    report: &'a mut Report,
}

impl Bench<'_> {
    fn throughput(&mut self, bundles: &[Bundle<'_>]) -> Result<()> {
        let (client, server) = self.path.hosts(self.topology);
        let _server = Server::start(server, self.path.stream())?;
        let pids = Bundle::pids(bundles);
        let resent = counters::protocol(client, "Tcp", "RetransSegs")?;
        let (outcome, used) = used_during(&pids, || self.flow(self.seconds).run(client))?;
        let gigabytes = outcome.bytes as f64 / 1e9;
        let resent = counters::protocol(client, "Tcp", "RetransSegs")? - resent;
        self.push("gbps", outcome.gbps);
        self.push("retransmits", resent as f64);
        self.push("cpu_s_per_gb", used.machine_seconds / gigabytes);
        if !pids.is_empty() {
            self.push("daemon_cpu_s_per_gb", used.processes_seconds / gigabytes);
        }
        let four = Flow { connections: 4, ..self.flow(self.seconds) }.run(client)?;
        self.push("four_gbps", four.gbps);
        Ok(())
    }

    fn round_trips(&mut self) -> Result<()> {
        let idle = self.ping_pong(Duration::from_secs(1))?;
        self.push("rtt_idle_p50_us", idle.p50_us);
        self.push("rtt_idle_p99_us", idle.p99_us);

        let _server = Server::start(self.path.hosts(self.topology).1, self.path.stream())?;
        let seconds = self.seconds.min(2);
        let load = self.flow(seconds).start(self.topology.host(0))?;
        thread::sleep(SETTLE);
        let loaded = self.ping_pong(Duration::from_secs(seconds.into()) - 2 * SETTLE)?;
        load.finish()?;
        self.push("rtt_loaded_p50_us", loaded.p50_us);
        self.push("rtt_loaded_p99_us", loaded.p99_us);
        Ok(())
    }

    fn datagrams(&mut self) -> Result<()> {
        let (client, server) = self.path.hosts(self.topology);
        let outcome = datagrams::blast(client, server, self.any_port(), SMALL_BYTES, Duration::from_secs(1))?;
        self.push("udp64_sent_per_s", outcome.sent_per_second);
        self.push("udp64_received_per_s", outcome.received_per_second);
        self.push("udp64_lost_percent", outcome.lost * 100.0);
        Ok(())
    }

    /// Between two threads of this process; there is no kernel's stack to count anything.
    fn at_home(&mut self) -> Result<()> {
        let duration = Duration::from_secs(self.seconds.into());
        let (bytes, used) = used_during(&[], || Ok(ping_pong::stream_at_home(duration)? as f64))?;
        self.push("gbps", bytes * 8.0 / 1e9 / duration.as_secs_f64());
        self.push("cpu_s_per_gb", used.machine_seconds / (bytes / 1e9));
        let idle = ping_pong::play_at_home(Duration::from_secs(1))?;
        self.push("rtt_idle_p50_us", idle.p50_us);
        self.push("rtt_idle_p99_us", idle.p99_us);
        Ok(())
    }

    fn push(&mut self, figure: &str, value: f64) {
        let unit = FIGURES.iter().find(|known| known.0 == figure).map_or("", |known| known.2);
        self.report.push(format!("{}.{figure}", self.path.key), unit, value);
    }

    fn flow(&self, seconds: u32) -> Flow {
        Flow { stream: self.path.stream(), ..Flow::tcp(self.path.server(), seconds) }
    }

    fn ping_pong(&self, duration: Duration) -> Result<ping_pong::RoundTrips> {
        let (client, server) = self.path.hosts(self.topology);
        ping_pong::play(client, server, self.any_port(), self.path.stream(), duration)
    }

    fn any_port(&self) -> SocketAddr {
        SocketAddr::new(self.path.server(), 0)
    }
}
