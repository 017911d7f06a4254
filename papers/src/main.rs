//! `tabane-papers`: the papers' measurements, in a sandbox of its own.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tabane_kit::prelude::*;
use tabane_kit::sandbox::{self, Side};
use tabane_papers::Options;

fn run(options: &Options) -> Result<ExitCode> {
    match sandbox::enter(&options.tools())? {
        Side::Outside(code) => Ok(code),
        Side::Inside => tabane_papers::run(options),
    }
}

fn main() -> ExitCode {
    run(&Options::parse()).unwrap_or_else(|error| {
        eprintln!("tabane-papers: {error:#}");
        if error.is::<Missing>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}
