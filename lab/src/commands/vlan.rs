//! A VLAN on the device beside the device itself: the kernel's own VLAN driver (8021q) over a bundle.
//!
//! The driver is in the [`guest`]'s kernel. Its frames pass through the device with a tag, as superframes as long as those of
//! the device's own sockets. Links are as fast as the machine, so that what the way costs is seen.
//!
//! On emulated processors TCP's probes (RFC 8985, 7) often come before the acknowledgement that they wait for. What is sent
//! again for nothing shows at the sender (RFC 2883), and is no loss.
//!
//! ```text
//!  sockets ───────────┐
//!  sockets ── tb0.5 ──┴── h1.tb0 ══ links ══ h2.tb0 ──┬── sockets
//!                                                     └── tb0.5 ── sockets
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::{Deserialize, Serialize};

use tabane_kit::bundle::{self, Bundle, DEVICE};
use tabane_kit::counters;
use tabane_kit::guest;
use tabane_kit::netns::Namespace;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{BUSYBOX, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::progress;
use tabane_kit::report::{Report, Samples, Table, Verdict};
use tabane_kit::topology::{LinkPlan, Plan, Topology};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::transfer::{Source, Transfer};

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3, QEMU, MODPROBE, BUSYBOX];
/// The module of the kernel's VLAN driver.
const MODULES: [&str; 1] = ["8021q"];
/// Longest that the guest may take to boot and to end, and for each round.
const BOOT_MAX: Duration = Duration::from_secs(300);
const ROUND_MAX: Duration = Duration::from_secs(60);
/// Bytes of the file that passes through the VLAN.
const FILE_BYTES: u64 = 4 << 20;
/// The VLAN.
const VLAN: u16 = 5;
/// Least part of the device's own throughput.
const PART_MIN: f64 = 0.9;
/// Least mean length of the frames that the device is given, in bytes; segmented ones have 1,518.
const FRAME_MIN: f64 = 20_000.0;

/// A VLAN on the device beside the device itself, in a guest; about 3 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// Seconds of each flow
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<u32>::new().range(1..=60))]
    seconds: u32,
    /// Rounds over both ways; the median of their ratios counts
    #[arg(long, default_value_t = 15, value_parser = RangedU64ValueParser::<u32>::new().range(1..=99))]
    rounds: u32,
}

/// How sockets reach the other host.
#[derive(Clone, Copy, Debug)]
enum Way {
    Device,
    Vlan,
}

/// What one connection at a time showed over one way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Figures {
    /// Payload in each round, in Mbit/s.
    mbps: Vec<f64>,
    /// Mean length of the frames that the sender's device was given in each round.
    frame_bytes: Vec<f64>,
    /// TCP segments sent again in all rounds, and those of them that had arrived before.
    resent: u64,
    in_vain: u64,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    device: Figures,
    vlan: Figures,
    /// Whether a file came through the VLAN whole.
    sha256_ok: bool,
}

/// Measures both ways.
///
/// # Errors
/// A missing prerequisite, or a guest that does not boot, fails or takes too long.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    if options.guest.is_inside() {
        options.guest.hand_over(&options.measure(&daemon)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let guest = options.guest.guest()?;
    let arguments = [
        "vlan".to_string(),
        format!("--seed={}", common.seed),
        format!("--seconds={}", options.seconds),
        format!("--rounds={}", options.rounds),
    ];
    let seen: Seen = guest.run(&arguments, &MODULES, &daemon, BOOT_MAX + ROUND_MAX * options.rounds)?;
    let mut report = Report::new("vlan", common.seed);
    report.field("guest_kernel", guest.version());
    write(&mut report, &seen);
    report.finish(common.json.as_deref())
}

impl Options {
    /// In the guest: round after round, each over both ways.
    fn measure(&self, daemon: &Path) -> Result<Seen> {
        let links = vec![LinkPlan::unshaped(); 2];
        let topology = Topology::build(Plan { addressed: false, ..Plan::two_hosts(links) })?;
        let bundles = Bundle::start_all(&topology, &bundle::Options::new(daemon))?;
        let (client, server) = (topology.host(0), topology.host(1));
        for (number, host) in topology.hosts().iter().enumerate() {
            add_vlan(host, number)?;
        }
        let source = Source::random(FILE_BYTES, self.common.seed)?;
        let at = SocketAddr::new(Way::Vlan.address(1), 0);
        let file = Transfer::start(client, server, at, source)?.finish()?;
        let sha256_ok = file.sha256_ok && file.bytes == FILE_BYTES;

        let mut seen = Seen { device: Figures::default(), vlan: Figures::default(), sha256_ok };
        let _server = Server::start(server, Stream::Tcp)?;
        for round in 1..=self.rounds {
            let mut ways = [(Way::Device, &mut seen.device), (Way::Vlan, &mut seen.vlan)];
            // Who comes first changes, for what else this machine does changes as well.
            if round.is_multiple_of(2) {
                ways.reverse();
            }
            for (way, figures) in ways {
                let _step = progress::step(&format!("round {round} of {}: {}", self.rounds, way.label()));
                figures.add_round(Flow::tcp(way.address(1), self.seconds), client, &bundles[0])?;
            }
        }
        for bundle in bundles {
            bundle.stop()?.success("a daemon told to stop")?;
        }
        Ok(seen)
    }
}

impl Way {
    /// Name for people.
    const fn label(self) -> &'static str {
        match self {
            Way::Device => "the device",
            Way::Vlan => "a VLAN on it",
        }
    }

    /// Address of host `number`.
    fn address(self, number: usize) -> IpAddr {
        match (self, bundle::address(number)) {
            (Way::Vlan, IpAddr::V4(address)) => {
                let [.., host] = address.octets();
                Ipv4Addr::new(10, 78, 0, host).into()
            }
            (_, address) => address,
        }
    }
}

/// Puts the VLAN on the device of host `number`.
fn add_vlan(host: &Namespace, number: usize) -> Result<()> {
    let name = format!("{DEVICE}.{VLAN}");
    host.ip(&format!("link add link {DEVICE} name {name} type vlan id {VLAN}"))?;
    host.ip(&format!("address add {}/24 dev {name}", Way::Vlan.address(number)))?;
    host.ip(&format!("link set {name} up")).map(drop)
}

impl Figures {
    fn add_round(&mut self, flow: Flow, client: &Namespace, bundle: &Bundle<'_>) -> Result<()> {
        let counters = || {
            let status = bundle.status()?;
            let [frames, bytes] = ["frames_sent", "frame_bytes_sent"].map(|name| status.counters[name]);
            let resent = counters::protocol(client, "Tcp", "RetransSegs")?;
            anyhow::Ok([frames, bytes, resent, counters::protocol(client, "TcpExt", "TCPDSACKRecvSegs")?])
        };
        let before = counters()?;
        let outcome = flow.run(client)?;
        let after = counters()?;
        let [frames, bytes, resent, in_vain] =
            std::array::from_fn(|counter| after[counter] - before[counter]);
        self.mbps.push(outcome.gbps * 1e3);
        self.frame_bytes.push(bytes as f64 / frames.max(1) as f64);
        self.resent += resent;
        self.in_vain += in_vain;
        Ok(())
    }

    /// Segments that had to be sent again, for they were lost.
    fn lost(&self) -> u64 {
        self.resent.saturating_sub(self.in_vain)
    }

    fn speeds(&self) -> Samples {
        Samples::new("Mbit/s", self.mbps.clone())
    }

    fn frames(&self) -> Samples {
        Samples::new("bytes", self.frame_bytes.clone())
    }
}

/// Writes everything into `report`.
fn write(report: &mut Report, seen: &Seen) {
    let mut table = Table::new(&["", "TCP", "frames", "resent", "in vain"]);
    for (key, way, figures) in [("device", Way::Device, &seen.device), ("vlan", Way::Vlan, &seen.vlan)] {
        let (speeds, frames) = (figures.speeds(), figures.frames());
        table.row(vec![
            way.label().to_string(),
            format!("{:.1} Mbit/s", speeds.median()),
            format!("{:.0} bytes", frames.median()),
            figures.resent.to_string(),
            figures.in_vain.to_string(),
        ]);
        report.samples(format!("{key}.speed"), speeds);
        report.samples(format!("{key}.frame_bytes"), frames);
    }
    report.show(table);
    report.show("  medians; resent: TCP segments of all rounds; in vain: they had arrived");
    report.show("  emulated processors: speeds compare with each other only");
    let parts = seen.vlan.mbps.iter().zip(&seen.device.mbps).map(|(vlan, device)| vlan / device).collect();
    let parts = Samples::new("", parts);
    report.verdict(Verdict::equals("vlan.sha256_equal", seen.sha256_ok, true));
    report.verdict(Verdict::at_least("vlan.speed_part", parts.median(), PART_MIN));
    report.verdict(Verdict::at_least("vlan.frame_bytes", seen.vlan.frames().median(), FRAME_MIN));
    report.verdict(Verdict::equals("vlan.segments_lost", seen.vlan.lost(), 0));
    report.samples("vlan.speed_part", parts);
}
