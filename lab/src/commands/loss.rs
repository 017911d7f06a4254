//! The price of lost frames: plain TCP over links that lose some at random, bare, bundled, and bundled with repair.
//!
//! Two links of one rate, at which the emulator of the wires passes every frame by itself and is not the limit: that
//! shows where nothing is lost. Each link loses the same share of the frames of each direction.
//!
//! 1. [`share`]: how much is lost.
//! 2. [`measure`]: one such share, all paths and numbers of flows.
//! 3. [`summary`]: a row per share and number of flows, against what is wanted.

mod measure;
mod share;
mod summary;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use measure::Bench;
use share::Share;
use tabane_kit::options::Common;
use tabane_kit::prerequisites::{IPERF3, Tool};
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Report;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[IPERF3];
/// Seconds of a flow unless told otherwise, and when it has to be quick.
const SECONDS: u32 = 6;
const SECONDS_QUICK: u32 = 3;
/// Rounds unless told otherwise.
const ROUNDS: u32 = 3;
/// Numbers of TCP connections at once.
const FLOWS: [u8; 2] = [1, 4];

/// TCP over links that lose frames at random: bare, and bundled without and with repair: about 9 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Share of the frames that each link loses, in percent; can be repeated [default: 0, 0.01, 0.1 and 1]
    #[arg(long = "loss", value_name = "PERCENT", value_delimiter = ',')]
    shares: Vec<Share>,
    /// Rate of each of the two links, in Mbit/s: low, for the emulated wires share the CPUs with all else
    #[arg(long, value_name = "MBPS", default_value_t = 100, value_parser = RangedU64ValueParser::<u32>::new().range(1..=1000))]
    rate: u32,
    /// Seconds of each flow
    #[arg(long, default_value_t = SECONDS, value_parser = RangedU64ValueParser::<u32>::new().range(1..=600))]
    seconds: u32,
    /// Rounds over all paths; medians are shown
    #[arg(long, default_value_t = ROUNDS, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    rounds: u32,
    /// No loss and 1 %, short flows: about a minute
    #[arg(long, conflicts_with_all = ["shares", "seconds", "rounds"])]
    quick: bool,
}

/// Measures at the wanted losses.
///
/// # Errors
/// A missing prerequisite; what fails at one loss is part of the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let (seconds, rounds) =
        if options.quick { (SECONDS_QUICK, 1) } else { (options.seconds, options.rounds) };
    let shares = match (options.quick, &options.shares[..]) {
        (true, _) => share::QUICK.to_vec(),
        (false, []) => share::ALL.to_vec(),
        (false, named) => named.to_vec(),
    };
    let rate = Bitrate::mbit(options.rate.into());
    let bench = Bench { daemon: &daemon, rate, seconds, rounds, seed: common.seed };
    let mut report = Report::new("loss", common.seed);
    let mut seen = Vec::new();
    for (number, share) in shares.iter().enumerate() {
        let _step = progress::step(&format!("{} of {}: {share} lost", number + 1, shares.len()));
        seen.push((*share, bench.run(*share).map_err(|error| format!("{error:#}"))));
    }
    summary::write(&mut report, &seen, rate, (seconds, rounds));
    report.finish(common.json.as_deref())
}
