//! The program `tabane` as its users meet it: what it refuses, what it may do, and what happens to it on a machine that others use.

/// Tests by their names.
macro_rules! trials {
    ($($test:ident),* $(,)?) => { &[$((stringify!($test), $test as fn())),*] };
}
/// The same on the stage.
macro_rules! staged {
    ($($test:ident),* $(,)?) => { &[$((stringify!($test), $test as crate::stage::Test)),*] };
}

mod bad_input;
mod control_access;
mod environment;
mod first_contact;
mod privileges;
mod protection;
mod robustness;
mod stage;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Tests by their names, which panic when something is wrong.
type Plain = &'static [(&'static str, fn())];
/// Tests by their names, on the stage.
type Staged = &'static [(&'static str, stage::Test)];

/// Tests that any user can run.
const EVERYWHERE: [Plain; 1] = [bad_input::TRIALS];
/// Tests on the stage.
const STAGED: [Staged; 6] = [
    control_access::TRIALS,
    environment::TRIALS,
    first_contact::TRIALS,
    privileges::TRIALS,
    protection::TRIALS,
    robustness::TRIALS,
];

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
    let mut trials: Vec<Trial> = EVERYWHERE.iter().flat_map(|tests| tests.iter().map(plain)).collect();
    trials.extend(STAGED.iter().flat_map(|tests| stage::trials(tests)));
    // What one thread forks holds open for a moment the program that another copies, and what is being written cannot run.
    let one_by_one = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    if !one_by_one.list {
        stage::build();
    }
    libtest_mimic::run(&one_by_one, trials).exit_code()
}
