//! Makes a trace in Mahimahi's format that looks like a radio link, by the rule of [`MadeUp`].

use std::io::Write;

use tabane_config::units::parse_bitrate;

use crate::prelude::*;
use crate::scenario::MadeUp;

/// A made-up trace of a radio link in Mahimahi's format, for `trace` in scenarios; the same for the same options
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Seed of the fading
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lowest rate
    #[arg(long, value_name = "RATE", default_value = "5 Mbit/s", value_parser = parse_bitrate)]
    low: u64,
    /// Highest rate
    #[arg(long, value_name = "RATE", default_value = "50 Mbit/s", value_parser = parse_bitrate)]
    high: u64,
    /// Milliseconds until it begins anew: the rate falls and rises in a third of that
    #[arg(long, value_name = "MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(6..=600_000))]
    period: u64,
}

/// Prints the trace.
pub fn run(options: &Options) -> Result<ExitCode> {
    let Options { seed, low, high, period } = *options;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for time in (MadeUp { seed, low, high, period }).times() {
        writeln!(out, "{time}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
