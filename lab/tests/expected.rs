//! The list of limits names commands and scenarios that there are.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use tabane_kit::report::Limits;

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    tests![every_row_names_a_command, every_row_of_a_scenario_names_a_file]
}

/// Whether this is a command of `tabane-lab`.
fn is_command(name: &str) -> bool {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
    lab.args([name, "--help"]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

fn every_row_names_a_command() {
    assert!(is_command("run") && is_command("bench") && !is_command("bank"));
    let list = Limits::checked_in().unwrap();
    let unknown: BTreeSet<&str> = list.commands().into_iter().filter(|name| !is_command(name)).collect();
    assert!(unknown.is_empty(), "docs/limits.md names what is no command: {unknown:?}");
}

fn every_row_of_a_scenario_names_a_file() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let list = Limits::checked_in().unwrap();
    for name in list.scenarios() {
        assert!(scenarios.join(name).with_extension("toml").exists(), "lab/scenarios has no {name}.toml");
    }
}
