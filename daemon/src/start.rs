//! What the program is started for: `tabane` hands it a [`Start`] on its standard input, and the daemon starts it to resolve names.
//!
//! `tabane` becomes this program with the words that `ps` is to show, which are not read.

mod privileges;
mod run;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use tabane_api::{Start, Told};
use tabane_config::Config;
use tabane_config::problem::BadInput;
use tabane_process::exit::report;
use tabane_process::{start_log, stderr};
use zeroize::Zeroize;

use crate::main_thread::names;

pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let done = match words.split_first() {
        // The process that resolves names says nothing but answers.
        Some((first, words)) if first == names::RESOLVE => names::serve(words),
        _ => start_log().map_err(anyhow::Error::new).and_then(|()| begin()),
    };
    let code = done.map_or_else(|error| report("tabane", &error), |()| ExitCode::SUCCESS);
    stderr::flush();
    code
}

fn begin() -> anyhow::Result<()> {
    match received()? {
        Start::Up { told, origin } => run::up(&understood(told)?, origin),
        Start::Upgrade { name, access } => run::upgrade(&name, access),
        Start::Check { told } => Ok(run::check_links(&understood(told)?)?),
    }
}

fn received() -> anyhow::Result<Start> {
    let input = io::stdin();
    if input.is_terminal() {
        let why = "tabaned is no command; allowed: `tabane up`, which starts it and hands it a configuration";
        return Err(BadInput::new(why).into());
    }
    let mut input = File::from(input.as_fd().try_clone_to_owned()?);
    Start::read(&mut input).context("what tabane hands to tabaned is not understood")
}

/// The configuration that is handed over. Its keys stay in it alone.
fn understood(mut told: Told) -> anyhow::Result<Config> {
    let config = told.understood();
    told.keys.zeroize();
    told.node_key.zeroize();
    config.map_err(|why| anyhow!("what tabane hands to tabaned is not understood: {why}"))
}
