//! `tabane-lab`: one subcommand per experiment, each in a sandbox of its own; what runs scenarios; and what compares reports.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tabane_kit::prerequisites::{Missing, Tool};
use tabane_kit::report::Limits;
use tabane_kit::sandbox::{self, Side};
use tabane_lab::commands::{
    apps, attack, bench, compare, demo, engines, figures, guests, moderation, nics, soak, trace,
};
use tabane_lab::scenario::{self, known::Known};

/// Experiments with bundles in network namespaces; nothing outside them is touched.
///
/// Every command prints a table, writes target/lab/NAME.json, and ends with code 0 when all verdicts are met, or fall short as
/// docs/limits.md says. It ends with code 1 when one is worse, when a row of that page is met or was not judged, or when something
/// failed; 2 when the machine lacks something or an argument is wrong; 128 and the number of the signal that ended it.
#[derive(Parser)]
#[command(name = "tabane-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Experiment(Experiment),
    #[command(flatten)]
    Known(Known),
    Run(scenario::Options),
    Compare(compare::Options),
    Figures(figures::Options),
    Trace(trace::Options),
}

/// What runs in a sandbox.
#[derive(Subcommand)]
enum Experiment {
    Demo(demo::Options),
    Bench(bench::Options),
    Engines(engines::Options),
    Soak(soak::Options),
    Attack(attack::Options),
    Guests(guests::Options),
    /// Two virtual machines with e1000e NICs that gather interrupts: one link, balance-rr and the bundle; about 6 minutes
    Moderation(moderation::Options),
    Nics(nics::Options),
    Apps(apps::Options),
}

impl Experiment {
    /// What it needs, and how it runs.
    fn parts(&self) -> (Vec<Tool>, Box<dyn Fn() -> Result<ExitCode> + '_>) {
        match self {
            Experiment::Demo(options) => (demo::TOOLS.to_vec(), Box::new(|| demo::run(options))),
            Experiment::Bench(options) => (bench::TOOLS.to_vec(), Box::new(|| bench::run(options))),
            Experiment::Engines(options) => (Vec::new(), Box::new(|| engines::run(options))),
            Experiment::Soak(options) => (Vec::new(), Box::new(|| soak::run(options))),
            Experiment::Attack(options) => (Vec::new(), Box::new(|| attack::run(options))),
            Experiment::Guests(options) => (guests::TOOLS.to_vec(), Box::new(|| guests::run(options))),
            Experiment::Moderation(options) => {
                (moderation::TOOLS.to_vec(), Box::new(|| moderation::run(options)))
            }
            Experiment::Nics(options) => (nics::TOOLS.to_vec(), Box::new(|| nics::run(options))),
            Experiment::Apps(options) => (apps::TOOLS.to_vec(), Box::new(|| apps::run(options))),
        }
    }

    /// Runs it where it does no harm.
    fn run(&self) -> Result<ExitCode> {
        let (tools, run) = self.parts();
        // The NICs of a guest are not in a sandbox; nor is anything else in the guest that could come to harm.
        let is_inside = match self {
            Experiment::Moderation(options) => options.is_inside(),
            Experiment::Nics(options) => options.is_inside(),
            _ => false,
        };
        if !is_inside && let Side::Outside(code) = sandbox::enter(&tools)? {
            return Ok(code);
        }
        run()
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    // Nothing is measured whose report could not be judged.
    Limits::checked_in()?;
    match command {
        Command::Experiment(experiment) => experiment.run(),
        Command::Known(known) => known.run(),
        Command::Run(options) => scenario::run(options),
        Command::Compare(options) => compare::run(options),
        Command::Figures(options) => figures::run(options),
        Command::Trace(options) => trace::run(options),
    }
}

fn main() -> ExitCode {
    run(&Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("tabane-lab: {error:#}");
        if error.is::<Missing>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}
