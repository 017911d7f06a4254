//! One case: the best link alone, then the bundle, both ways.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::case::Case;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::clock::monotonic_ns;
use tabane_kit::counters;
use tabane_kit::emulator::{Direction, Impairment};
use tabane_kit::netns::Namespace;
use tabane_kit::status::{Event, LINK_DOWN};
use tabane_kit::topology::{Topology, Wiring, address, nic};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::transfer::{Carrier, Outcome, Source, Transfer};

/// The file.
pub(super) const FILE_BYTES: u64 = 16 << 20;
/// Most that the buffers of a connection may grow to: far more than any case has on the way.
const BUFFER_BYTES_MAX: u32 = 32 << 20;
/// What QUIC sends again and again: small, so that the last copy ends soon.
const QUIC_BYTES: u64 = 1 << 20;
/// Most seconds of QUIC.
const QUIC_SECONDS_MAX: u32 = 5;

/// What was measured in one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// From the first host to the second, and back.
    pub(super) directions: [Pair; 2],
    /// What the daemons counted, added up.
    pub(super) counters: BTreeMap<String, u64>,
    /// Frames that emulated wires had no room for, or could not hand over: flaws of the measurement, if any.
    pub(super) frames_refused: u64,
    /// Each time that a link was taken for dead, with the signal that fired; all of them are sound.
    pub(super) false_alarms: Vec<String>,
}

/// One direction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Pair {
    /// The best link alone.
    pub(super) link: Speed,
    /// The bundle.
    pub(super) bundle: Speed,
}

/// One path in one direction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Speed {
    /// Seconds from the request to connect to the arrival of the file's last byte.
    pub(super) file_s: f64,
    /// Payload of the sustained flow, in Mbit/s.
    pub(super) mbps: f64,
    /// TCP segments sent again in both.
    pub(super) retransmits: u64,
    /// Payload of a stream of QUIC, in Mbit/s.
    pub(super) quic_mbps: f64,
}

impl Pair {
    /// Speed of the bundle as a multiple of the link's, the worse of file and flow.
    pub(super) fn gain(&self) -> f64 {
        (self.link.file_s / self.bundle.file_s).min(self.bundle.mbps / self.link.mbps)
    }

    /// The same for QUIC.
    pub(super) fn quic_gain(&self) -> f64 {
        self.bundle.quic_mbps / self.link.quic_mbps
    }
}

/// Measures `case`.
///
/// # Errors
/// A tool or daemon fails, or a file arrives wrong.
pub(super) fn run(case: Case, daemon: &Path, seconds: u32, seed: u64) -> Result<Figures> {
    let topology = Topology::build(case.plan(seed))?;
    for (link, delay) in case.delays().into_iter().flatten().enumerate() {
        topology.impair_both(link, Impairment::delay(delay))?;
    }
    for host in topology.hosts() {
        host.set("net/ipv4/tcp_rmem", &format!("4096 131072 {BUFFER_BYTES_MAX}"))?;
        host.set("net/ipv4/tcp_wmem", &format!("4096 16384 {BUFFER_BYTES_MAX}"))?;
    }
    let bench = Bench { topology: &topology, seconds, seed };
    let best = case.best_link();
    let alone = bench.both_ways("the best link alone", |host| address(best, host).into())?;
    let bundles = Bundle::start_all(&topology, &bundle::Options::new(daemon))?;
    let bundled = bench.both_ways("the bundle", bundle::address)?;
    let mut figures = Figures {
        directions: pairs(alone, bundled),
        counters: BTreeMap::new(),
        frames_refused: frames_refused(&topology)?,
        false_alarms: Vec::new(),
    };
    for bundle in &bundles {
        figures.add_daemon(bundle)?;
    }
    for bundle in bundles {
        bundle.stop()?.success("a daemon told to stop")?;
    }
    Ok(figures)
}

/// Frames that the wires did not pass although nothing told them so.
fn frames_refused(topology: &Topology) -> Result<u64> {
    let mut refused = 0;
    for link in (0..topology.nics().len()).filter(|_| topology.plan().wiring == Wiring::Emulator) {
        for direction in Direction::BOTH {
            let counted = topology.emulator(link)?.counters(direction)?;
            refused += counted.dropped + counted.refused;
        }
    }
    Ok(refused)
}

fn pairs(alone: [Speed; 2], bundled: [Speed; 2]) -> [Pair; 2] {
    let ([forward, backward], [bundle_forward, bundle_backward]) = (alone, bundled);
    [Pair { link: forward, bundle: bundle_forward }, Pair { link: backward, bundle: bundle_backward }]
}

impl Figures {
    fn add_daemon(&mut self, bundle: &Bundle<'_>) -> Result<()> {
        let status = bundle.status()?;
        let alarms = status.events.iter().filter(|event| event.what == LINK_DOWN);
        let sentence = |event: &Event| {
            let nic = event.link.map_or("all links".to_string(), nic);
            format!("{nic} of {}: {}", status.node, event.detail)
        };
        self.false_alarms.extend(alarms.map(sentence));
        for (name, count) in status.counters.into_iter().filter(|(_, count)| *count > 0) {
            *self.counters.entry(name).or_default() += count;
        }
        Ok(())
    }
}

struct Bench<'a> {
    topology: &'a Topology,
    seconds: u32,
    seed: u64,
}

impl Bench<'_> {
    /// Both directions of a path on which hosts have these addresses.
    fn both_ways(&self, path: &str, address: impl Fn(usize) -> IpAddr) -> Result<[Speed; 2]> {
        let way = |direction: Direction| {
            let (from, to) = (direction as usize, 1 - direction as usize);
            let measured = self.one_way(self.topology.host(from), self.topology.host(to), address(to));
            measured.with_context(|| format!("{path} from {}", self.topology.host(from).name()))
        };
        Ok([way(Direction::Forward)?, way(Direction::Backward)?])
    }

    fn one_way(&self, from: &Namespace, to: &Namespace, at: IpAddr) -> Result<Speed> {
        let before = counters::protocol(from, "Tcp", "RetransSegs")?;
        let file_s = self.file(from, to, at)?;
        let _server = Server::start(to, Stream::Tcp)?;
        let flow = Flow::tcp(at, self.seconds).run(from)?;
        let retransmits = counters::protocol(from, "Tcp", "RetransSegs")? - before;
        let quic_mbps = self.quic(from, to, at)?;
        Ok(Speed { file_s, mbps: flow.gbps * 1e3, retransmits, quic_mbps })
    }

    /// Sends the file and returns its seconds.
    fn file(&self, from: &Namespace, to: &Namespace, at: IpAddr) -> Result<f64> {
        let source = Source::random(FILE_BYTES, self.seed)?;
        let start_ns = monotonic_ns()?;
        let outcome = Transfer::start(from, to, SocketAddr::new(at, 0), source)?.finish()?;
        arrived_whole(&outcome)?;
        ensure!(outcome.copies == 1, "{} files arrived", outcome.copies);
        Ok(outcome.gaps.until_last(start_ns).as_secs_f64())
    }

    /// Sends by QUIC for a while and returns the Mbit/s of payload.
    fn quic(&self, from: &Namespace, to: &Namespace, at: IpAddr) -> Result<f64> {
        let source = Source::random(QUIC_BYTES, self.seed)?;
        let start_ns = monotonic_ns()?;
        let transfer = Transfer::over(Carrier::Quic, from, to, SocketAddr::new(at, 0), source)?;
        thread::sleep(Duration::from_secs(quic_seconds(self.seconds).into()));
        let outcome = transfer.finish().context("QUIC")?;
        arrived_whole(&outcome).context("QUIC")?;
        Ok(outcome.bytes as f64 * 8e-6 / outcome.gaps.until_last(start_ns).as_secs_f64())
    }
}

/// Seconds of QUIC beside sustained flows of `seconds`.
pub(super) fn quic_seconds(seconds: u32) -> u32 {
    seconds.min(QUIC_SECONDS_MAX)
}

fn arrived_whole(outcome: &Outcome) -> Result<()> {
    ensure!(outcome.lost.is_none(), "the connection was lost: {outcome:?}");
    ensure!(outcome.sha256_ok, "the file arrived wrong: {outcome:?}");
    Ok(())
}
