//! `tabane-sim`: runs seeds of the swarm, replays one with a line per event, or measures links whose delay varies.
//!
//! Exit status: 0, everything held; 1, something did not; 2, the command cannot be understood.

#![forbid(unsafe_code)]

mod many;
mod varying;

use core::ops::Range;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use tabane_sim::run::{Report, run};
use tabane_sim::statistics::Statistics;
use tabane_sim::surroundings::Trace;
use tabane_sim::swarm::Plan;

const USAGE: &str = "\
usage: tabane-sim --seed N       replays one run, a line per event
       tabane-sim --seeds A..B   runs the seeds from A up to, without, B
       tabane-sim --nightly A..B runs them on all processors, and goes on after those that fail
       tabane-sim --varying N [WORD]  what links carry whose delay varies, over N seeds, in the cases with WORD in their names";

/// A command.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Help,
    Replay(u64),
    Swarm(Range<u64>),
    Nightly(Range<u64>),
    Varying(u64, String),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match parse(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(Command::Help) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Command::Replay(seed)) => replay(seed),
        Ok(Command::Swarm(seeds)) => many::run(&seeds, false),
        Ok(Command::Nightly(seeds)) => many::run(&seeds, true),
        Ok(Command::Varying(seeds, word)) => match varying::table(&word, seeds) {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => {
                eprintln!("tabane-sim: {reason}");
                ExitCode::FAILURE
            }
        },
        Err(reason) => {
            eprintln!("tabane-sim: {reason}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Parses the command line.
fn parse(words: &[&str]) -> Result<Command, String> {
    match words {
        ["--help" | "-h"] => Ok(Command::Help),
        ["--seed", seed] => parse_seed(seed).map(Command::Replay),
        ["--seeds", range] => parse_seeds(range).map(Command::Swarm),
        ["--nightly", range] => parse_seeds(range).map(Command::Nightly),
        ["--varying", seeds, word @ ..] if word.len() < 2 => {
            Ok(Command::Varying(parse_seed(seeds)?, word.concat()))
        }
        _ => Err(format!("expected --seed N or --seeds A..B, not '{}'", words.join(" "))),
    }
}

fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a seed: expected a number from 0 to {}", u64::MAX))
}

fn parse_seeds(range: &str) -> Result<Range<u64>, String> {
    let (first, end) = range.split_once("..").ok_or(format!("'{range}': expected A..B, as 0..2000"))?;
    let seeds = parse_seed(first)?..parse_seed(end)?;
    if seeds.is_empty() { Err(format!("there is no seed in {seeds:?}")) } else { Ok(seeds) }
}

/// Runs one seed with a line per event.
fn replay(seed: u64) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    // A reader that has seen enough closes the pipe; the run goes on without one.
    let mut write = |line: core::fmt::Arguments<'_>| _ = writeln!(out, "{line}");
    write(format_args!("{}", Plan::new(seed)));
    let report = run(seed, Some(&mut write));
    let mut statistics = Statistics::default();
    statistics.add(&report);
    write(format_args!("{statistics}"));
    verdict(seed, &report, &mut write)
}

fn verdict(seed: u64, report: &Report, write: Trace<'_>) -> ExitCode {
    let Some(violation) = &report.violation else { return ExitCode::SUCCESS };
    write(format_args!("seed {seed} FAILED: {violation}\nreplay: make sim SEED={seed}"));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood_or_refused_with_what_is_allowed() {
        assert_eq!(parse(&["--seed", "7"]), Ok(Command::Replay(7)));
        assert_eq!(parse(&["--seeds", "5..9"]), Ok(Command::Swarm(5..9)));
        for (words, what) in [
            (&["--seed", "x"][..], "'x' is not a seed"),
            (&["--seeds", "7"], "expected A..B"),
            (&["--seeds", "9..5"], "there is no seed"),
            (&["--sed"], "expected --seed N"),
            (&[], "expected --seed N"),
        ] {
            let reason = parse(words).unwrap_err();
            assert!(reason.contains(what), "{reason}");
        }
    }
}
