//! The command line of `tabane-lab`: one subcommand per experiment, each in a sandbox of its own; what runs scenarios; and what compares
//! reports.

use clap::{CommandFactory, Parser, Subcommand};
use tabane_kit::report::Limits;
use tabane_kit::sandbox::{self, Side};

use crate::commands::{attack, bench, compare, demo, engines, figures, guests, nics};
use crate::prelude::*;
use crate::scenario::{self, Known};

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
}

/// Makes [`Experiment`] of a table: variant, module, and what it needs besides the sandbox's own tools.
macro_rules! experiments {
    ($($variant:ident: $module:ident, $tools:expr;)*) => {
        #[derive(Subcommand)]
        enum Experiment {
            $($variant($module::Options),)*
        }

        impl Experiment {
            fn tools(&self) -> &'static [Tool] {
                match self { $(Experiment::$variant(_) => $tools,)* }
            }

            fn run(&self) -> Result<ExitCode> {
                match self { $(Experiment::$variant(options) => $module::run(options),)* }
            }
        }
    };
}

experiments! {
    Demo: demo, demo::TOOLS;
    Bench: bench, bench::TOOLS;
    Engines: engines, &[];
    Attack: attack, &[];
    Guests: guests, guests::TOOLS;
    Nics: nics, nics::TOOLS;
}

impl Experiment {
    /// Runs it where it does no harm.
    fn run_apart(&self) -> Result<ExitCode> {
        // The NICs of a guest are not in a sandbox; nor is anything else in the guest that could come to harm.
        let is_inside = matches!(self, Experiment::Nics(options) if options.is_inside());
        if !is_inside && let Side::Outside(code) = sandbox::enter(self.tools())? {
            return Ok(code);
        }
        self.run()
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    // Nothing is measured whose report could not be judged.
    Limits::checked_in()?;
    match command {
        Command::Experiment(experiment) => experiment.run_apart(),
        Command::Known(known) => known.run(),
        Command::Run(options) => scenario::run(options),
        Command::Compare(options) => compare::run(options),
        Command::Figures(options) => figures::run(options),
    }
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the command line asks.
pub fn main() -> ExitCode {
    run(&Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("tabane-lab: {error:#}");
        if error.is::<Missing>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

#[cfg(test)]
mod tests {
    /// The parser finds out when it is built, and only where debug assertions are on.
    #[test]
    fn no_option_of_a_command_stands_in_the_way_of_another() {
        super::command().debug_assert();
    }
}
