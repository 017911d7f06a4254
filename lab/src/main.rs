//! `tabane-lab`: one subcommand per experiment, each in a sandbox of its own; what runs scenarios; and what compares reports.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tabane_kit::prerequisites::{Missing, Tool};
use tabane_kit::report::Expected;
use tabane_kit::sandbox::{self, Side};
use tabane_lab::commands::{
    aggregate, apps, attack, bench, compare, demo, engines, failover, guests, loss, mesh, moderation, netem,
    rivals, soak, vlan,
};
use tabane_lab::scenario;
use tabane_papers::{self as papers, skew};

/// Experiments with bundles in network namespaces; nothing outside them is touched.
///
/// Every command prints a table, writes target/lab/NAME.json, and ends with code 0 when all verdicts are as expected:
/// ok, or known to fall short and no worse than lab/expected.toml says. It ends with code 1 when one is worse, or better
/// than its line there, or when something failed; 2 when the machine lacks something or an argument is wrong.
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
    Run(scenario::Options),
    Compare(compare::Options),
}

/// What runs in a sandbox.
#[derive(Subcommand)]
enum Experiment {
    Demo(demo::Options),
    Bench(bench::Options),
    Engines(engines::Options),
    Failover(failover::Options),
    Aggregate(aggregate::Options),
    Loss(loss::Options),
    Mesh(mesh::Options),
    Skew(skew::Options),
    Soak(soak::Options),
    Attack(attack::Options),
    Rivals(rivals::Options),
    Netem(netem::Options),
    Guests(guests::Options),
    Moderation(moderation::Options),
    Vlan(vlan::Options),
    #[command(visible_alias = "paper")]
    Papers(papers::Options),
    P1(papers::P1Options),
    P3(papers::P3Options),
    Apps(apps::Options),
}

impl Experiment {
    fn tools(&self) -> Vec<Tool> {
        let tools = match self {
            Experiment::Demo(_) => demo::TOOLS,
            Experiment::Bench(_) => bench::TOOLS,
            Experiment::Engines(_) => engines::TOOLS,
            Experiment::Failover(_) => failover::TOOLS,
            Experiment::Aggregate(_) => aggregate::TOOLS,
            Experiment::Loss(_) => loss::TOOLS,
            Experiment::Mesh(_) => mesh::TOOLS,
            Experiment::Skew(_) => skew::TOOLS,
            Experiment::Soak(_) => soak::TOOLS,
            Experiment::Attack(_) => attack::TOOLS,
            Experiment::Rivals(_) => rivals::TOOLS,
            Experiment::Netem(_) => netem::TOOLS,
            Experiment::Guests(_) => guests::TOOLS,
            Experiment::Moderation(_) => moderation::TOOLS,
            Experiment::Vlan(_) => vlan::TOOLS,
            Experiment::Papers(options) => return options.tools(),
            Experiment::P1(_) | Experiment::P3(_) => &[],
            Experiment::Apps(_) => apps::TOOLS,
        };
        tools.to_vec()
    }

    /// Runs it where it does no harm.
    fn run(&self) -> Result<ExitCode> {
        // The NICs of a guest are not in a sandbox; nor is anything else in the guest that could come to harm.
        if let Experiment::Moderation(options) = self
            && options.is_inside()
        {
            return self.run_inside();
        }
        match sandbox::enter(&self.tools())? {
            Side::Inside => self.run_inside(),
            Side::Outside(code) => Ok(code),
        }
    }

    fn run_inside(&self) -> Result<ExitCode> {
        match self {
            Experiment::Demo(options) => demo::run(options),
            Experiment::Bench(options) => bench::run(options),
            Experiment::Engines(options) => engines::run(options),
            Experiment::Failover(options) => failover::run(options),
            Experiment::Aggregate(options) => aggregate::run(options),
            Experiment::Loss(options) => loss::run(options),
            Experiment::Mesh(options) => mesh::run(options),
            Experiment::Skew(options) => skew::run(options),
            Experiment::Soak(options) => soak::run(options),
            Experiment::Attack(options) => attack::run(options),
            Experiment::Rivals(options) => rivals::run(options),
            Experiment::Netem(options) => netem::run(options),
            Experiment::Guests(options) => guests::run(options),
            Experiment::Moderation(options) => moderation::run(options),
            Experiment::Vlan(options) => vlan::run(options),
            Experiment::Papers(options) => papers::run(options),
            Experiment::P1(options) => papers::p1(options),
            Experiment::P3(options) => papers::p3(options),
            Experiment::Apps(options) => apps::run(options),
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    // Nothing is measured whose report could not be judged.
    Expected::checked_in()?;
    match command {
        Command::Experiment(experiment) => experiment.run(),
        Command::Run(options) => scenario::run(options),
        Command::Compare(options) => compare::run(options),
    }
}

fn main() -> ExitCode {
    run(&Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("tabane-lab: {error:#}");
        if error.is::<Missing>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}
