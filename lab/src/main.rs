//! `tabane-lab`: see [`tabane_lab::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    tabane_lab::cli::main()
}
