//! `tabane-lab`: one subcommand per experiment, each in a sandbox of its own.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tabane_lab::prerequisites::{Missing, Tool};
use tabane_lab::sandbox::{self, Side};
use tabane_lab::{aggregate, attack, bench, demo, failover, loss, mesh, netem, peers, skew, soak};

/// Experiments with bundles in network namespaces; nothing outside them is touched.
///
/// Every command prints a table, writes target/lab/NAME.json, and ends with code 0 when all verdicts are ok,
/// 1 when one is not or something failed, 2 when the machine lacks something or an argument is wrong.
#[derive(Parser)]
#[command(name = "tabane-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Options),
    Bench(bench::Options),
    Failover(failover::Options),
    Aggregate(aggregate::Options),
    Loss(loss::Options),
    Mesh(mesh::Options),
    Skew(skew::Options),
    Soak(soak::Options),
    Attack(attack::Options),
    Peers(peers::Options),
    Netem(netem::Options),
}

impl Command {
    fn tools(&self) -> &'static [Tool] {
        match self {
            Command::Demo(_) => demo::TOOLS,
            Command::Bench(_) => bench::TOOLS,
            Command::Failover(_) => failover::TOOLS,
            Command::Aggregate(_) => aggregate::TOOLS,
            Command::Loss(_) => loss::TOOLS,
            Command::Mesh(_) => mesh::TOOLS,
            Command::Skew(_) => skew::TOOLS,
            Command::Soak(_) => soak::TOOLS,
            Command::Attack(_) => attack::TOOLS,
            Command::Peers(_) => peers::TOOLS,
            Command::Netem(_) => netem::TOOLS,
        }
    }

    fn run(&self) -> Result<ExitCode> {
        match self {
            Command::Demo(options) => demo::run(options),
            Command::Bench(options) => bench::run(options),
            Command::Failover(options) => failover::run(options),
            Command::Aggregate(options) => aggregate::run(options),
            Command::Loss(options) => loss::run(options),
            Command::Mesh(options) => mesh::run(options),
            Command::Skew(options) => skew::run(options),
            Command::Soak(options) => soak::run(options),
            Command::Attack(options) => attack::run(options),
            Command::Peers(options) => peers::run(options),
            Command::Netem(options) => netem::run(options),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = sandbox::enter(arguments.command.tools()).and_then(|side| match side {
        Side::Inside => arguments.command.run(),
        Side::Outside(code) => Ok(code),
    });
    ended.unwrap_or_else(|error| {
        eprintln!("tabane-lab: {error:#}");
        if error.is::<Missing>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}
