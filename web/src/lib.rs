//! `tabane web`: the page in the browser, and the metrics, of the bundles that are up on this machine.
//!
//! ```text
//!   browser ──┐                       ┌─ the page, built from page/src
//!             ├─ serve ── guard ── routes ── bundles ──┐
//!   scraper ──┘    who may ask        └─ live ─────────┴─ control sockets ══ tabane up
//!                                        a thread per bundle, while somebody looks
//! ```
//!
//! A process of its own that opens no device and holds no key: it asks bundles as `tabane status` does, and before it reads a
//! byte of a stranger it has given up files and all sockets but these. The program `tabane`, which opens devices, links no
//! HTTP.

pub mod bundles;
mod guard;
mod live;
mod routes;
mod serve;
mod socket;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use tabane::cli::print;
use tabane_api::Present;
use tabane_io::Signals;

use guard::{Guard, Token};
use live::Live;
use routes::Shared;
use socket::Socket;

/// Does what the command line `arguments` asks; the first one is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    tabane::cli::run("tabane", "tabane web", Options::try_parse_from(arguments), |options| run(&options))
}

/// Serves until SIGTERM or SIGINT.
fn run(options: &Options) -> anyhow::Result<()> {
    // Before any thread starts, so that none takes the signals.
    let signals = Signals::block().context("cannot wait for signals")?;
    let token = options.token()?;
    let socket = Socket::open(options)?;
    let present = Present::open().context("the kernel's list of sockets")?;
    print(&format!("{}\n", socket.invitation(token.as_ref()))).context("standard output")?;
    socket.warn();
    let guard = Guard::new(token, options.hosts.clone());
    tabane_process::sandbox::confine_web(options.allow_actions)?;
    let live = Live::start(present).context("cannot start a thread")?;
    let shared = Arc::new(Shared { live, actions: options.allow_actions });
    serve::until_a_signal(&signals, socket, routes::router(shared, Arc::new(guard)))
}

impl Options {
    /// The token that requests have to carry; `None`: the modes of the socket's file say who may ask.
    fn token(&self) -> anyhow::Result<Option<Token>> {
        match &self.token_file {
            Some(file) => Ok(Some(Token::read(file)?)),
            None if self.socket.is_some() && !self.allow_actions => Ok(None),
            None => Ok(Some(Token::new()?)),
        }
    }
}

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
pub fn command() -> clap::Command {
    Options::command()
}
