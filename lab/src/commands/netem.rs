//! The lab's emulated wire beside the kernel's own: the same flaws through both, the same measurements over both.
//!
//! netem is in the [`guest`]'s kernel, so both are measured there, one after the other between two hosts. Superframes
//! are cut before either, for netem delays and loses what it is given, whole.
//!
//! 1. [`case`]: which flaws, and how netem is told of them.
//! 2. [`measure`]: one case over one wire, in some rounds.
//! 3. [`summary`]: both wires side by side, and how far they may be apart.

mod case;
mod measure;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::{Deserialize, Serialize};

use case::{CASES, Case};
use measure::{Figures, Wire};
use tabane_kit::guest;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{BUSYBOX, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::progress;
use tabane_kit::report::Report;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3, QEMU, MODPROBE, BUSYBOX];
/// The module of the kernel's emulator.
const MODULES: [&str; 1] = ["sch_netem"];
/// Longest that the guest may take.
const LIMIT: Duration = Duration::from_secs(1_800);

/// The lab's wire emulator beside netem, in a guest: delay, rate, loss; about 9 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=60))]
    seconds: u32,
    /// Rounds over both wires; medians are shown
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u32>::new().range(1..=9))]
    rounds: u32,
}

/// A case over both wires, or why there are no figures.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    /// Name of the case.
    key: String,
    /// The lab's emulator, then netem.
    outcome: Result<[Figures; 2], String>,
}

/// Compares.
///
/// # Errors
/// A missing prerequisite, or a guest that does not boot; what fails within a case is part of the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    if options.guest.is_inside() {
        options.guest.hand_over(&options.measure())?;
        return Ok(ExitCode::SUCCESS);
    }
    let common = &options.common;
    let daemon = common.daemon()?;
    let guest = options.guest.guest()?;
    let arguments = vec![
        "netem".to_string(),
        format!("--seed={}", common.seed),
        format!("--seconds={}", options.seconds),
        format!("--rounds={}", options.rounds),
    ];
    let seen: Vec<Seen> = guest.run(&arguments, &MODULES, &daemon, LIMIT)?;
    let mut report = Report::new("netem", common.seed);
    report.field("guest_kernel", guest.version());
    summary::write(&mut report, &seen, (options.seconds, options.rounds));
    report.finish(common.json.as_deref())
}

impl Options {
    fn measure(&self) -> Vec<Seen> {
        let both = |case: &Case| -> Result<[Figures; 2]> {
            let mut figures = [Figures::default(), Figures::default()];
            for round in 0..self.rounds {
                for (wire, figures) in [Wire::Emulator, Wire::Netem].into_iter().zip(&mut figures) {
                    let _step = progress::step(&format!("{} over {}", case.label, wire.label()));
                    figures.add_round(case, wire, self.seconds, self.common.seed + u64::from(round))?;
                }
            }
            Ok(figures)
        };
        let seen = |case: &Case| Seen {
            key: case.key.to_string(),
            outcome: both(case).map_err(|error| progress::failed(case.label, &error)),
        };
        CASES.iter().map(seen).collect()
    }
}
