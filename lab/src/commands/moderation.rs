//! Two virtual machines whose e1000e NICs gather their interrupts, and what becomes of the order of packets over two.
//!
//! A NIC that waits before it interrupts hands over many packets at once. Over two NICs these are two heaps, and who takes
//! packets as they come takes one heap first: P2 names that as the main cause of reordering. Each is a [`guest`]; the
//! cables between them are sockets of the two QEMUs.
//!
//! ```text
//!   guest 0 ──── control ──── guest 1
//!        flows ═══ eth1 ═══> counts what comes, in which order, at how many interrupts
//!              ═══ eth2 ═══>
//! ```
//!
//! 1. [`node`]: what each guest does, and how the one asks the other.
//! 2. [`path`]: one link, a bond or a bundle, at one end.
//! 3. [`summary`]: how each fares, the longer the NICs wait.

mod node;
mod path;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::{Deserialize, Serialize};

use path::Way;
use tabane_kit::guest::{self, Model, pair};
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{BUSYBOX, ETHTOOL, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::report::Report;
use tabane_kit::workload::sequence::Pace;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3, ETHTOOL];
/// Modules of the guests.
const MODULES: [&str; 2] = ["e1000e", "bonding"];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1200);
/// Links that are used together.
const LINKS: usize = 2;
/// Datagrams that all ways have room for on emulated processors: 22 Mbit/s.
const PACE: Pace = Pace { per_second: 2_000, bytes: 1_400 };
/// How long the NICs wait before they interrupt, in microseconds; 0: not at all.
const WAITS_US: [u32; 3] = [0, 250, 1000];

/// Two virtual machines with e1000e NICs that gather interrupts: one link, balance-rr and the bundle; about 6 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// Rounds; medians are taken over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
    /// Seconds of each flow, of which there are two in a trial
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(2..=60))]
    seconds: u32,
    /// Which of the two guests this is
    #[arg(long, hide = true, requires = guest::HERE)]
    side: Option<usize>,
}

/// Flows to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trial {
    way: Way,
    /// How long the NICs wait before they interrupt, in microseconds.
    wait_us: u32,
}

/// What became of datagrams at a steady pace, and what they took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Paced {
    sent: u64,
    lost: u64,
    /// Those that came after one that was sent later.
    overtaken: u64,
    /// Interrupts of both links.
    interrupts: u64,
    /// Bytes that both links received, in 10^6.
    megabytes: f64,
}

/// One trial: datagrams at a steady pace, and a connection as fast as it can.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measured {
    trial: Trial,
    paced: Paced,
    /// Payload per second of the connection, in Mbit/s.
    mbit: f64,
    /// Segments of it that were sent again.
    retransmits: u64,
}

impl Options {
    /// Whether this is the work of one of the guests.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.side.is_some()
    }

    /// All flows, in the order in which they are measured.
    fn trials(&self) -> impl Iterator<Item = Trial> {
        let round = |_| WAITS_US.into_iter().flat_map(|wait_us| Way::ALL.map(|way| Trial { way, wait_us }));
        (0..self.rounds).flat_map(round)
    }
}

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(side) = options.side {
        return node::work(options, side).map(|()| ExitCode::SUCCESS);
    }
    let common = &options.common;
    let sockets = tempfile::tempdir().context("a directory for the cables")?;
    let (guest, daemon) = (options.guest.guest()?.with_processors(1), common.daemon()?);
    let boot = |side: usize| {
        let arguments = [
            "moderation".to_string(),
            format!("--side={side}"),
            format!("--rounds={}", options.rounds),
            format!("--seconds={}", options.seconds),
            format!("--seed={}", common.seed),
        ];
        let cables = pair::cables(sockets.path(), side, LINKS, Model::E1000e);
        guest.clone().with_cables(cables).start(&arguments, &MODULES, &daemon)
    };
    let (first, other) = (boot(0)?, boot(1)?);
    let measured: Vec<Measured> = first.finish(LIMIT)?;
    drop(other);
    let mut report = Report::new("moderation", common.seed);
    report.field("guest_kernel", guest.version());
    summary::write(&mut report, &measured);
    report.finish(common.json.as_deref())
}
