//! Failure without loss: what each kind of fault of one link costs the flows of a bundle.
//!
//! A matrix of links, faults and modes of repair. Each of its trials is a bundle of its own over links of
//! 1 Gbit/s, switched where that is enough for the fault, else emulated, with one TCP flow (CUBIC, checksummed) and one
//! flow of numbered datagrams at once.
//!
//! 1. [`matrix`]: which trials there are, and which of them are wanted.
//! 2. [`fault`]: how a link is broken and mended.
//! 3. [`trial`]: one of them, from the start of the daemons to the figures ([`figures`]).
//! 4. [`summary`]: a row per trial, against what is wanted.

mod fault;
mod figures;
mod matrix;
mod summary;
mod trial;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use fault::Fault;
use figures::Figures;
use matrix::{Mode, Trial};
use tabane_kit::options::Common;
use tabane_kit::prerequisites::Tool;
use tabane_kit::progress;
use tabane_kit::report::Report;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[];
/// What a trial takes, before one has been seen to its end.
const TRIAL_TAKES: Duration = Duration::from_secs(8);

/// What a failing link costs: faults x links x repair, with TCP and UDP under way
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Number of links of the bundle; can be repeated [default: 2, 3 and 4]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = RangedU64ValueParser::<u8>::new().range(2..=8))]
    links: Vec<u8>,
    /// What happens to one link; can be repeated [default: all]
    #[arg(long = "fault", value_name = "FAULT", value_delimiter = ',', value_enum)]
    faults: Vec<Fault>,
    /// Repair of lost cells; can be repeated [default: all]
    #[arg(long = "mode", value_name = "MODE", value_delimiter = ',', value_enum)]
    modes: Vec<Mode>,
    /// How often each fault is inflicted [default: 3 times what kills a link at once, once what does not]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    rounds: Option<u32>,
    /// Two links; a pulled cable, a black hole and a dead direction; repair off and on: about a minute
    #[arg(long, conflicts_with_all = ["links", "faults", "modes"])]
    quick: bool,
}

/// Runs the wanted part of the matrix.
///
/// # Errors
/// A missing prerequisite; what fails within a trial is part of the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let daemon = common.daemon()?;
    let mut report = Report::new("failover", common.seed);
    let trials = if options.quick {
        matrix::quick()
    } else {
        matrix::wanted(&options.links, &options.faults, &options.modes)
    };
    let started = Instant::now();
    let mut seen: Vec<(Trial, Result<Figures, String>)> = Vec::new();
    for (number, trial) in trials.iter().enumerate() {
        let left = time_left(started.elapsed(), number, trials.len());
        let _step = progress::step(&format!("{} of {}, {left}: {trial}", number + 1, trials.len()));
        let figures =
            trial::run(trial, &daemon, options.rounds, common.seed).map_err(|error| format!("{error:#}"));
        seen.push((*trial, figures));
    }
    summary::write(&mut report, &seen);
    report.finish(common.json.as_deref())
}

/// How long the rest will take if it goes on as so far, for people.
fn time_left(elapsed: Duration, done: usize, of: usize) -> String {
    let done_count = u32::try_from(done).unwrap_or(u32::MAX);
    let each = elapsed.checked_div(done_count).unwrap_or(TRIAL_TAKES);
    let seconds = (each.as_secs_f64() * (of - done) as f64).round();
    if seconds < 100.0 {
        format!("{seconds} s left")
    } else {
        format!("{} min left", (seconds / 60.0).round())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_what_was_seen() {
        assert_eq!(time_left(Duration::ZERO, 0, 72), "10 min left");
        assert_eq!(time_left(Duration::from_secs(60), 6, 8), "20 s left");
    }
}
