//! Unequal links add up: plain TCP, and QUIC, through a bundle over two links of different rates and delays.
//!
//! Every case is measured in both directions: a file of 16 MiB, a sustained flow and a stream of QUIC, first over the
//! best of its links alone, then through the bundle. The host's NICs send at the rate of the link, frame by frame where it is slow, and
//! hold back who sends faster; an emulated wire adds the delay, a switch stands in its place where there is none.
//!
//! 1. [`case`]: which links there are, and what is wanted of them.
//! 2. [`measure`]: one case, from the topology to the figures.
//! 3. [`summary`]: a row per case and direction, against what is wanted.

mod case;
mod measure;
mod summary;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use case::Case;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{IPERF3, Tool};
use tabane_kit::progress;
use tabane_kit::report::Report;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3];
/// Seconds of a sustained flow unless told otherwise, and when it has to be quick.
const SECONDS: u32 = 10;
const SECONDS_QUICK: u32 = 3;

/// TCP and QUIC over two links of unequal rate and delay, beside the best of them alone: about 11 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rates in Mbit/s and delays of each way in ms, for example 30,10,1,50; can be repeated [default: all cases]
    #[arg(long = "case", value_name = "R1,R2,D1,D2")]
    cases: Vec<Case>,
    /// Seconds of each sustained flow
    #[arg(long, default_value_t = SECONDS, value_parser = RangedU64ValueParser::<u32>::new().range(1..=600))]
    seconds: u32,
    /// Two cases and short flows: about a minute
    #[arg(long, conflicts_with_all = ["cases", "seconds"])]
    quick: bool,
}

/// Runs the wanted cases.
///
/// # Errors
/// A missing prerequisite; what fails within a case is part of the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let (cases, seconds) = match (options.quick, &options.cases[..]) {
        (true, _) => (case::QUICK.to_vec(), SECONDS_QUICK),
        (false, []) => (case::ALL.to_vec(), options.seconds),
        (false, named) => (named.to_vec(), options.seconds),
    };
    let mut report = Report::new("aggregate", common.seed);
    let mut seen = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let _step = progress::step(&format!("{} of {}: {case}", number + 1, cases.len()));
        let measured = measure::run(*case, &daemon, seconds, common.seed);
        seen.push((*case, measured.map_err(|error| format!("{error:#}"))));
    }
    summary::write(&mut report, &seen, seconds);
    report.finish(common.json.as_deref())
}
