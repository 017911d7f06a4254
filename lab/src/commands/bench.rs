//! What bundling costs: every path side by side in one run, links as fast as the machine, rounds interleaved.
//!
//! Paths ([`path`]) are built anew for every sample; figures are measured one after the other on a path ([`sample`]). The receive
//! engines have rows of their own ([`crate::commands::engines`]). Nothing is pinned: client, server, daemons and kernel
//! share the machine's CPUs as they come.

mod path;
mod sample;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::commands::engines;
use path::{BUNDLE_1, MEMORY_PATHS, PATHS};
use tabane_kit::bundle::Common;
use tabane_kit::prerequisites::{IPERF3, MPTCPIZE, Tool};
use tabane_kit::progress;
use tabane_kit::report::Report;

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
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let (seconds, rounds) = if options.quick { (1, 1) } else { (options.seconds, options.rounds) };
    let daemon = common.daemon()?;
    let mut report = Report::new("bench", common.seed);
    for round in 1..=rounds {
        for path in PATHS.iter().chain(&MEMORY_PATHS) {
            let _step = progress::step(&format!("round {round} of {rounds}: {}", path.label));
            sample::take(path, &daemon, seconds, &mut report)?;
        }
        let _step = progress::step(&format!("round {round} of {rounds}: receive engines"));
        let topology = PATHS[BUNDLE_1].lay()?;
        let bundles = PATHS[BUNDLE_1].start(&topology, &daemon)?;
        engines::take_waiting(&topology, &bundles, &mut report)?;
    }
    report.cover_part(options.quick);
    report.field("seconds", seconds);
    report.field("rounds", rounds);
    report.field("pinning", "none");
    sample::write(&mut report);
    report
        .show(format!("  medians of {rounds} rounds, flows of {seconds} s, links unshaped, nothing pinned"));
    report.finish(common.json.as_deref())
}
