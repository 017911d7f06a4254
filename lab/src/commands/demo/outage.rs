//! Phase 2: a switch dies as a black hole while an iperf3 connection and a checksummed transfer use the bundle.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::scenario::{Faults, Figure, Measure};
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::counters::received_bytes;
use tabane_kit::netns::Namespace;
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::status::{LINK_DOWN, Questions};
use tabane_kit::strip::Strip;
use tabane_kit::topology::{Moment, Topology};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{self, Flow, Server};
use tabane_kit::workload::transfer::{self, Source, Transfer};

/// The link whose switch dies.
const VICTIM: usize = 1;
/// The device, and the NICs of both links.
const NICS: [&str; 3] = [bundle::DEVICE, "eth1", "eth2"];
/// Length of a sample of the strip chart.
const TICK: Duration = Duration::from_millis(100);
/// Samples before the switch dies.
const TICKS_BEFORE: u32 = 30;
/// Samples while it is dead.
const TICKS_DEAD: u32 = 30;
/// Samples after its revival.
const TICKS_AFTER: u32 = 30;
/// Size of the file that is sent, again and again, through the outage.
const FILE_BYTES: u64 = 64 << 20;

/// What the outage did.
#[derive(Debug)]
pub(super) struct Outage {
    /// What the bundles tell of it, and of false alarms since they were started.
    told: Vec<Measure>,
    /// What the daemon that noticed first saw.
    pub(super) reason: String,
    /// The checksummed transfer.
    pub(super) transfer: transfer::Outcome,
    /// The iperf3 connection, or why it was lost.
    pub(super) flow: Result<iperf::Outcome, String>,
    /// From the black hole to the start of the transfer's longest stall, in milliseconds; negative: before it.
    pub(super) stall_after_kill_ms: f64,
    /// Mean of what the device received while the switch was dead, Gbit/s.
    pub(super) gbps_while_dead: f64,
}

impl Outage {
    /// A figure that the bundles tell.
    pub(super) fn told(&self, figure: Figure) -> Option<f64> {
        self.told.iter().find(|measure| measure.figure == figure).map(|measure| measure.value)
    }
}

/// Runs the phase from the first host to the second; the bundles were started at `since_ns`.
pub(super) fn run(
    topology: &Topology,
    bundles: &[Bundle<'_>],
    link: Bitrate,
    since_ns: u64,
    seed: u64,
) -> Result<Outage> {
    let (client, receiver) = (topology.host(0), topology.host(1));
    let source = {
        let _step = progress::step("writing a file of random bytes");
        Source::random(FILE_BYTES, seed)
    };
    let _server = Server::start(receiver, Stream::Tcp)?;
    let transfer = Transfer::start(client, receiver, SocketAddr::new(bundle::address(1), 0), source)?;
    let duration = TICK * (TICKS_BEFORE + TICKS_DEAD + TICKS_AFTER);
    let flow = Flow::tcp(bundle::address(1), u32::try_from(duration.as_secs())?).start(client)?;

    println!("\n  The bundle while switch s{} dies and returns:\n", VICTIM + 1);
    let mut strip = Strip::new(&rows(link), TICK.as_secs_f64());
    let changes = watch(topology, receiver, &mut strip)?;
    let [killed, revived] = changes.each_ref().map(|change| change.moment);

    let _step = progress::step("letting both connections end");
    let flow = flow.finish().map_err(|error| format!("{error:#}"));
    let transfer = transfer.finish()?;
    let ends = bundles.iter().map(Bundle::status).collect::<Result<Vec<_>>>()?;
    let notices = ends.iter().filter_map(|end| end.first_event(LINK_DOWN, VICTIM, killed.before_ns));
    let first = notices.min_by_key(|event| event.at_ns);
    Ok(Outage {
        told: Faults::death(VICTIM, killed, revived).figures(bundles, NICS.len() - 1, since_ns)?,
        reason: first.map(|event| event.detail.clone()).unwrap_or_default(),
        stall_after_kill_ms: (transfer.gaps.longest().at_ns as f64 - killed.after_ns as f64) / 1e6,
        gbps_while_dead: mean_gbps(&changes),
        transfer,
        flow,
    })
}

/// Label of each row of the strip chart and its full bar in Gbit/s.
fn rows(link: Bitrate) -> [(&'static str, f64); 3] {
    let link = link.bits_per_second() as f64 / 1e9;
    let [device, first, second] = NICS;
    [(device, 2.0 * link), (first, link), (second, link)]
}

/// A change of the switch and what the device had received by then.
struct Change {
    moment: Moment,
    bytes: u64,
}

/// Shows what arrives, a sample per tick, and kills and revives the switch on the way.
fn watch(topology: &Topology, receiver: &Namespace, strip: &mut Strip) -> Result<[Change; 2]> {
    let mut sampler = Sampler::start(receiver)?;
    sampler.show(strip, TICKS_BEFORE)?;
    let killed = Change { moment: topology.kill_switch(VICTIM)?, bytes: sampler.bytes()?[0] };
    strip.mark("s2 dead");
    sampler.show(strip, TICKS_DEAD)?;
    let revived = Change { moment: topology.revive_switch(VICTIM)?, bytes: sampler.bytes()?[0] };
    strip.mark("s2 alive");
    sampler.show(strip, TICKS_AFTER)?;
    Ok([killed, revived])
}

/// Reads the receiver's counters tick by tick.
struct Sampler<'a> {
    receiver: &'a Namespace,
    bytes: [u64; 3],
    at: Instant,
}

impl Sampler<'_> {
    fn start(receiver: &Namespace) -> Result<Sampler<'_>> {
        let at = Instant::now();
        Ok(Sampler { receiver, bytes: received_bytes(receiver, NICS)?, at })
    }

    fn bytes(&self) -> Result<[u64; 3]> {
        received_bytes(self.receiver, NICS)
    }

    fn show(&mut self, strip: &mut Strip, ticks: u32) -> Result<()> {
        for _ in 0..ticks {
            thread::sleep((self.at + TICK).saturating_duration_since(Instant::now()));
            let (bytes, at) = (self.bytes()?, Instant::now());
            let seconds = at.duration_since(self.at).as_secs_f64();
            let speed = |(now, before): (u64, u64)| (now - before) as f64 * 8e-9 / seconds;
            let gbps: Vec<f64> = bytes.into_iter().zip(self.bytes).map(speed).collect();
            strip.push(&gbps);
            (self.bytes, self.at) = (bytes, at);
        }
        Ok(())
    }
}

/// What the device received between two changes, in 10^9 bits per second.
fn mean_gbps([from, to]: &[Change; 2]) -> f64 {
    (to.bytes - from.bytes) as f64 * 8.0 / (to.moment.after_ns - from.moment.after_ns) as f64
}
