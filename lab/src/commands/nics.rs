//! Two virtual machines and the drivers of real NICs between them: a bare link, and a bundle over two by the kernel path and by
//! cells.
//!
//! Over a veth a superframe stays whole from one stack to the other. Here it is cut into segments in front of the cable, by the NIC
//! or by the kernel for it, and what comes is segments. Each is a [`guest`]; the cables are sockets of the two QEMUs.
//!
//! ```text
//!   guest 0 ──── control ──── guest 1
//!     flows ═══ eth1 ═══> counts what comes
//!           ═══ eth2 ═══>
//! ```
//!
//! 1. [`node`]: what each guest does, and how the one asks the other.
//! 2. [`path`]: a bare link or a bundle, at one end.
//! 3. [`summary`]: how each fares, beside the bare link.

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
use tabane_kit::machine::processors;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{BUSYBOX, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::report::Report;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1800);
/// Links of the bundle.
const LINKS: usize = 2;
/// Connections at once.
const CONNECTIONS: [u8; 2] = [1, 4];

/// Two virtual machines with e1000e and with virtio NICs: a bare link, the kernel path and cells; about 10 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// NICs to measure
    #[arg(long = "nic", value_name = "NIC", default_values = ["e1000e", "virtio-net"])]
    models: Vec<Model>,
    /// Rounds; medians are taken over them
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
    /// Seconds of each measurement, of which there are two in a trial
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=60))]
    seconds: u32,
    /// Which of the two guests this is
    #[arg(long, hide = true, requires = guest::HERE)]
    side: Option<usize>,
}

/// How fast so many connections were.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Speed {
    connections: u8,
    /// Payload per second, in Mbit/s.
    mbit: f64,
    /// Segments that were sent again.
    retransmits: u64,
    /// Time of the processors of both guests for 10^9 bytes, in seconds.
    cpu_s_per_gb: f64,
}

/// What left and came, at both ends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Crossed {
    /// Packets of all links that one guest sent and the other received.
    packets: [u64; 2],
    /// Frames and bytes that programs gave to the links, and those that programs at the other end handed on.
    by_programs: [[u64; 2]; 2],
    /// Frames that travelled in cells.
    in_cells: u64,
}

/// One trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    way: Way,
    speeds: Vec<Speed>,
    /// Files whose SHA-256 was the same at both ends, of [`CONNECTIONS`] at once each.
    whole: u64,
    crossed: Crossed,
}

impl Options {
    /// Whether this is the work of one of the guests.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.side.is_some()
    }

    /// All ways, in the order in which they are measured.
    fn trials(&self) -> impl Iterator<Item = Way> {
        (0..self.rounds).flat_map(|_| Way::ALL)
    }
}

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(side) = options.side {
        return node::work(options, side).map(|()| ExitCode::SUCCESS);
    }
    let mut report = Report::new("nics", options.common.seed);
    report.field("guest_kernel", options.guest.guest()?.version());
    for model in &options.models {
        summary::write(&mut report, *model, &measure(options, *model)?);
    }
    report.show("  emulated processors: speeds compare with each other only");
    report.finish(options.common.json.as_deref())
}

/// Measures over NICs of this kind.
fn measure(options: &Options, model: Model) -> Result<Vec<Measured>> {
    let sockets = tempfile::tempdir().context("a directory for the cables")?;
    // Both guests are busy at once.
    let half = (processors()?.len() / 2).max(1);
    let (guest, daemon) = (options.guest.guest()?.with_processors(half), options.common.daemon()?);
    let boot = |side: usize| {
        let arguments = [
            "nics".to_string(),
            format!("--side={side}"),
            format!("--rounds={}", options.rounds),
            format!("--seconds={}", options.seconds),
            format!("--seed={}", options.common.seed),
        ];
        let cables = pair::cables(sockets.path(), side, LINKS, model);
        guest.clone().with_cables(cables).begin(&arguments, &[model.module()], &daemon)
    };
    let (first, other) = (boot(0)?, boot(1)?);
    first.finish(LIMIT).with_context(|| format!("the other guest said last: \"{}\"", other.last_words()))
}
