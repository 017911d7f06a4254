//! The binary `tabane`: one command line in, one exit code out. Everything else is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tabane::cli::main(std::env::args_os())
}
