//! The binary `tabane-manuals`: writes manual pages and completions into a directory, as a step of the build.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("tabane-manuals: no directory is given; allowed: tabane-manuals DIRECTORY");
        return ExitCode::from(2);
    };
    match tabane_manuals::write(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tabane-manuals: {}: {error}", Path::new(&directory).display());
            ExitCode::FAILURE
        }
    }
}
