//! The binary `tabane-manuals`: writes manual pages and completions, or the sources of the book, as a step of the build.

use std::path::Path;
use std::process::ExitCode;

use tabane_manuals::book::lay_out;

const ALLOWED: &str = "tabane-manuals DIRECTORY (manual pages and completions), tabane-manuals --lay-out DIRECTORY (the book's \
                       sources, from the present directory)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (directory, done) = match words[..] {
        ["--lay-out", directory] => (directory, lay_out(Path::new("."), Path::new(directory))),
        [directory] if !directory.starts_with('-') => {
            (directory, tabane_manuals::write(Path::new(directory)))
        }
        _ => {
            eprintln!("tabane-manuals: these arguments are none; allowed: {ALLOWED}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tabane-manuals: {directory}: {error}");
            ExitCode::FAILURE
        }
    }
}
