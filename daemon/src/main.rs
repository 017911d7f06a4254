//! The program `tabaned`: a configuration in, one exit code out. Everything else is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tabaned::main(std::env::args_os().skip(1))
}
