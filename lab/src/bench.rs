//! What bundling costs: every path side by side in one run, links as fast as the machine, rounds interleaved.
//!
//! Paths ([`path`]) are built anew for every sample; figures ([`figure`]) are measured one after the other on a path
//! ([`sample`]). Nothing is pinned: client, server, daemons and kernel share the machine's CPUs as they come.

mod figure;
mod path;
mod sample;
mod summary;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::options::Common;
use crate::prerequisites::{IPERF3, MPTCPIZE, Tool};
use crate::progress;
use crate::report::Report;
use figure::Figures;
use path::PATHS;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3, MPTCPIZE];

/// Throughput, CPU, round trips and small datagrams: bare veth, bundles and MPTCP side by side
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Seconds per throughput measurement
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u32>::new().range(1..=600))]
    seconds: u32,
    /// Samples per path
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    rounds: u32,
    /// One round of one second: does it work, not how fast
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    quick: bool,
}

/// Runs the comparison.
///
/// # Errors
/// A missing prerequisite, or a tool or daemon that fails.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let (seconds, rounds) = if options.quick { (1, 1) } else { (options.seconds, options.rounds) };
    let daemon = common.daemon()?;
    let mut report = Report::new("bench", common.seed);
    let mut figures: Vec<Figures> = PATHS.iter().map(|_| Figures::default()).collect();
    for round in 1..=rounds {
        for (path, figures) in PATHS.iter().zip(&mut figures) {
            let _step = progress::step(&format!("round {round} of {rounds}: {}", path.label));
            sample::take(path, &daemon, seconds, figures)?;
        }
    }
    summary::write(&mut report, &figures, seconds, rounds);
    report.finish(common.json.as_deref())
}
