//! The whole: bundles with real traffic, and the pages, metrics and rules of the repository beside the code.

/// Trials of functions that panic when something is wrong.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        vec![$(crate::trial(stringify!($test), || { $test(); Ok(()) })),*]
    };
}

mod dissector;
mod documents;
mod expected;
mod metrics;
mod security;
mod tidy;
mod traffic;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};
use tabane_kit::sandbox::{self, Side};

fn main() -> Result<ExitCode> {
    if let Some(done) = traffic::in_guest() {
        return done.map(|()| ExitCode::SUCCESS);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1); // they share the names of the sandbox
    let wanted = arguments.filter.clone().filter(|_| arguments.exact);
    let mut trials: Vec<Trial> =
        without_traffic().filter(|case| case.is(wanted.as_deref())).map(Plain::trial).collect();
    if wanted.as_ref().is_none_or(|name| trials.iter().all(|trial| trial.name() != name)) {
        if !arguments.list && !sandbox::is_inside() {
            traffic::fresh::build()?;
        }
        let lack = match sandbox::enter(&[]) {
            Ok(Side::Outside(code)) => return Ok(code),
            Ok(Side::Inside) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        trials.extend(traffic::trials(wanted.as_deref(), lack.as_deref()));
    }
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// A named trial that needs no sandbox.
struct Plain {
    name: String,
    /// Why it cannot run here; asked only where it is to run.
    lack: fn() -> Option<String>,
    run: fn() -> Result<()>,
}

impl Plain {
    /// Whether this is the one that is wanted, whose name may say why it cannot run; without a name, all are.
    fn is(&self, wanted: Option<&str>) -> bool {
        wanted.is_none_or(|name| name.split(" [").next() == Some(&self.name))
    }

    fn trial(self) -> Trial {
        let run = self.run;
        let test = move || Ok(run().map_err(|error| format!("{error:#}"))?);
        tabane_io::trial::trial(&self.name, (self.lack)().as_deref(), test)
    }
}

/// What needs no sandbox.
fn without_traffic() -> impl Iterator<Item = Plain> {
    let groups = [
        dissector::trials(),
        documents::trials(),
        expected::trials(),
        metrics::trials(),
        security::trials(),
        tidy::trials(),
    ];
    groups.into_iter().flatten()
}

fn trial(name: &str, run: fn() -> Result<()>) -> Plain {
    Plain { name: name.to_owned(), lack: || None, run }
}
