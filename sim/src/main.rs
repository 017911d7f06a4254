//! `tabane-sim`: runs seeds of the swarm, replays one with a line per event, or measures links whose delay varies.

#![forbid(unsafe_code)]

mod varying;

use clap::Parser;
use core::ops::Range;
use core::time::Duration;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;
use tabane_sim::many::{self, Outcome};
use tabane_sim::run::run;
use tabane_sim::statistics::Statistics;
use tabane_sim::surroundings::Violation;
use tabane_sim::swarm::Plan;

/// From one line of progress to the next.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Worlds that follow from seeds.
///
/// Exit status: 0, everything held; 1, something did not; 2, the command cannot be understood.
#[derive(Parser)]
#[command(name = "tabane-sim", arg_required_else_help = true)]
struct Arguments {
    /// Replays one run, a line per event
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "nightly", "varying"])]
    seed: Option<u64>,
    /// Runs the seeds from A up to, without, B, up to the first that fails
    #[arg(long, value_name = "A..B", value_parser = many::seeds, conflicts_with_all = ["nightly", "varying"])]
    seeds: Option<Range<u64>>,
    /// Runs them on all processors, and goes on after those that fail
    #[arg(long, value_name = "A..B", value_parser = many::seeds, conflicts_with = "varying")]
    nightly: Option<Range<u64>>,
    /// What links carry whose delay varies, over N seeds
    #[arg(long, value_name = "N")]
    varying: Option<u64>,
    /// Only in the cases with this in their names
    #[arg(requires = "varying", conflicts_with_all = ["seed", "seeds", "nightly"], default_value = "", hide_default_value = true)]
    word: String,
}

fn main() -> ExitCode {
    let Arguments { seed, seeds, nightly, varying, word } = Arguments::parse();
    let is_fine = match varying {
        Some(seeds) => {
            varying::table(&word, seeds).inspect_err(|reason| eprintln!("tabane-sim: {reason}")).is_ok()
        }
        None => {
            seed.is_none_or(replay)
                && seeds.is_none_or(|seeds| run_many(seeds, 1, 1))
                && nightly.is_none_or(|seeds| run_many(seeds, many::processors(), usize::MAX))
        }
    };
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed with a line per event; returns whether everything held.
fn replay(seed: u64) -> bool {
    let mut out = BufWriter::new(io::stdout().lock());
    // A reader that has seen enough closes the pipe; the run goes on without one.
    let mut write = |line: core::fmt::Arguments<'_>| _ = writeln!(out, "{line}");
    write(format_args!("{}", Plan::new(seed)));
    let report = run(seed, Some(&mut write));
    let mut statistics = Statistics::default();
    statistics.add(&report);
    write(format_args!("{statistics}"));
    if let Some(violation) = &report.violation {
        write(format_args!("{}", failure(seed, violation)));
    }
    report.violation.is_none()
}

fn failure(seed: u64, violation: &Violation) -> String {
    format!("seed {seed} FAILED: {violation}\nreplay: make sim SEED={seed}")
}

/// Runs seeds until so many have failed, and tells of them; returns whether everything held.
fn run_many(seeds: Range<u64>, threads: usize, failures: usize) -> bool {
    let (began, count) = (Instant::now(), seeds.end - seeds.start);
    let reported = Mutex::new(began);
    let tell = |seed: u64, outcome: &Outcome| {
        if let Some(violation) = outcome.failed.get(&seed) {
            println!("{}", failure(seed, violation));
        }
        let mut reported = reported.lock().expect("runs do not panic");
        if reported.elapsed() >= PROGRESS_EVERY {
            *reported = Instant::now();
            let (done, seconds) = (outcome.statistics.runs, began.elapsed().as_secs_f64());
            let left = seconds / done as f64 * (count - done) as f64;
            println!("{done} of {count} seeds, {seconds:.0} s, {left:.0} s left");
        }
    };
    let Outcome { statistics, failed } = many::run(seeds, threads, failures, tell);
    println!("{statistics}\n{:.1} s, {} seeds failed", began.elapsed().as_secs_f64(), failed.len());
    failed.keys().for_each(|seed| println!("make sim SEED={seed}"));
    failed.is_empty()
}
