//! The program `tabane` without a bundle of its own: what it refuses, the programs beside it, and who may ask and is asked. Bundles with
//! traffic are in `lab/tests/traffic`.

/// Tests by their names.
macro_rules! trials {
    ($($test:ident),* $(,)?) => { &[$((stringify!($test), $test)),*] };
}

mod bad_input;
mod control_access;
mod programs;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use tabane_netns::needs::{SETPRIV, require, trial};

fn main() -> ExitCode {
    if let Some(ended) = control_access::as_impostor() {
        return ended;
    }
    let plain = |&(name, test): &(&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let is_root = rustix::process::getuid().is_root();
    let missing = if is_root { require(&[SETPRIV]).err() } else { None };
    let missing = missing.map(|missing| missing.to_string()).or((!is_root).then(|| "needs root".to_owned()));
    let mut trials: Vec<Trial> = bad_input::TRIALS.iter().map(plain).collect();
    trials.extend(control_access::TRIALS.iter().map(|(name, test)| trial(name, missing.as_deref(), *test)));
    // What one thread forks holds open for a moment the program that another copies, and what is being written cannot run.
    let one_by_one = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    if !one_by_one.list {
        programs::build();
    }
    libtest_mimic::run(&one_by_one, trials).exit_code()
}
