//! The command line of `tabane-web`: what it serves, where, and who may do what.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{CommandFactory, Parser};

/// Show the bundles of this machine in a browser, and their figures to Prometheus; `tabane web` is the same.
#[derive(Debug, Parser)]
#[command(name = "tabane-web", version)]
pub(crate) struct Options {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7480", conflicts_with = "socket")]
    pub(crate) listen: SocketAddr,
    /// Listen on a Unix socket instead: who may open it sees everything without a token
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// File with the token that requests have to carry, one line of 32 to 256 characters [default: a new one, printed at the start]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Name by which browsers may ask, besides addresses and `localhost`; can be repeated
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Let who has the token drain and resume links, and change the policy
    #[arg(long)]
    pub(crate) allow_actions: bool,
}

/// The definition of the command line, from which manual pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Options::command()
}

/// What the command line says.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Options, clap::Error> {
    Options::try_parse_from(arguments)
}
