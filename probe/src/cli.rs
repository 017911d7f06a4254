//! The command line of `tabane-probe`: which commands there are, and how each ends.
//!
//! 0: it succeeded; 1: it failed while running; 2: what was asked cannot be done. An error is one sentence.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::output::{Interruption, print};
use crate::serve::{self, Delay, Limits, Server};
use crate::stream::{self, sender};
use crate::wire::PORT;
use crate::{Error, pairs, rtt, send, sweep};

const RUN_TIME: u8 = 1;
/// Exit code when what was asked cannot be done.
const BAD_INPUT: u8 = 2;

/// Measures any network, with or without a bundle; `tabane probe` is the same.
#[derive(Debug, Parser)]
#[command(
    name = "tabane-probe",
    version,
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Answer the probes of other machines, until Ctrl-C
    Serve(ServeOptions),
    /// Time round trips of messages of several sizes, and find larger ones that are faster
    ///
    /// Sizes are played in blocks of 10 rounds each, in a random order within the block. A larger message counts as faster
    /// than a smaller one (an anomaly) when its fastest round trip of a block is the faster one in so many of the blocks
    /// that chance has a probability of 0.001 at most (one-sided sign test over the blocks, Dixon and Mood 1946, with
    /// Holm's correction for all pairs of sizes), and by 5 % or more in the median over the blocks. To see the rhythm of
    /// one size, play it alone.
    ///
    /// With --stages the kernels of both machines stamp each message (SO_TIMESTAMPING, in software), and the report says
    /// where slow and fast round trips spent their time: in eight stages, from the call of send() to the end of recv().
    /// What lies between the drivers is one of them, `network`: wires and switches, NICs and how long they wait before they
    /// interrupt; over a bundle also the daemons of both ends.
    Rtt(rtt::Options),
    /// Time each send() of a stream, and find which kinds of calls there are
    Send(send::Options),
    /// Measure several sender processes over time, and the processors while all run
    Stream(stream::Options),
    /// Measure throughput over message sizes, MTUs, connections and protocols
    Sweep(sweep::Options),
    /// Measure all pairs of a cluster, as a rank that `mpirun` or `srun` starts on each host
    Pairs(pairs::Options),
    /// A process of `tabane probe stream`
    #[command(hide = true)]
    Sender(sender::Options),
}

/// How to serve.
#[derive(Clone, Debug, Args)]
struct ServeOptions {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)))]
    listen: SocketAddr,
    /// For tests of `rtt`: answer messages of fewer than BYTES so many microseconds later
    #[arg(long, value_name = "BYTES,MICROS")]
    delay_below: Option<Delay>,
}

/// The definition of the command line, from which manual pages and completions are made.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does what the command line `arguments` asks; the first one is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = match Cli::try_parse_from(arguments) {
        Ok(cli) => serve::start_log().and_then(|()| cli.command.execute()),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print(&error.render().to_string())
        }
        Err(error) => Err(Error::Refused(sentence(&error))),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    // If stderr is closed, the exit code is all that the command can give.
    let _ = writeln!(io::stderr(), "tabane-probe: {}", one_line(&error.to_string()));
    ExitCode::from(if matches!(error, Error::Refused(_)) { BAD_INPUT } else { RUN_TIME })
}

fn sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let parts = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let parts = parts.map(|line| line.trim_start_matches("error: ").replacen("tip: ", "; ", 1));
    let joined = parts.collect::<Vec<_>>().join(" ").replace(" ; ", "; ");
    format!("{joined}; `tabane-probe --help` explains")
}

fn one_line(sentence: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    sentence.chars().map(escaped).collect()
}

impl Command {
    fn execute(&self) -> Result<(), Error> {
        match self {
            Command::Serve(options) => serve(options),
            Command::Rtt(options) => rtt::run(options),
            Command::Send(options) => send::run(options),
            Command::Stream(options) => stream::run(options),
            Command::Sender(options) => sender::run(options),
            Command::Sweep(options) => sweep::run(options),
            Command::Pairs(options) => pairs::run(options),
        }
    }
}

fn serve(options: &ServeOptions) -> Result<(), Error> {
    let interruption = Interruption::listen()?;
    let listen = options.listen;
    let unusable = |error| {
        Error::Refused(format!(
            "--listen {listen}: {error}; allowed: an address of this machine and a free port"
        ))
    };
    let server = Server::bind(listen, Limits::default()).map_err(unusable)?.delayed(options.delay_below);
    let address = server.address().map_err(Error::doing("listening"))?;
    print(&format!("listening on {address}\n"))?;
    server.run(|| interruption.came()).map_err(Error::doing("serving"))
}
