//! The commands of `tabane probe`.

use std::net::{Ipv6Addr, SocketAddr};

use clap::{Args, Subcommand};

use crate::error::Error;
use crate::interruption::Interruption;
use crate::output::print;
use crate::serve::{Delay, Limits, Server};
use crate::stream::sender;
use crate::wire::PORT;
use crate::{rtt, send, stream, sweep};

/// What `tabane probe` can measure.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Answer the probes of other machines, until Ctrl-C
    Serve(ServeOptions),
    /// Time round trips of messages of several sizes, and find larger ones that are faster
    Rtt(rtt::Options),
    /// Time each send() of a stream, and find which kinds of calls there are
    Send(send::Options),
    /// Measure several sender processes over time, and the processors while all run
    Stream(stream::Options),
    /// Measure throughput over message sizes, MTUs, connections and protocols
    Sweep(sweep::Options),
    /// A process of `tabane probe stream`
    #[command(hide = true)]
    Sender(sender::Options),
}

/// How to serve.
#[derive(Clone, Debug, Args)]
pub struct ServeOptions {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)))]
    listen: SocketAddr,
    /// For tests of `rtt`: answer messages of fewer than BYTES so many microseconds later
    #[arg(long, value_name = "BYTES,MICROS")]
    delay_below: Option<Delay>,
}

impl Command {
    /// Does what the command line asks.
    ///
    /// # Errors
    /// What was asked cannot be done, or failed while running.
    pub fn execute(&self) -> Result<(), Error> {
        match self {
            Command::Serve(options) => serve(options),
            Command::Rtt(options) => rtt::run(options),
            Command::Send(options) => send::run(options),
            Command::Stream(options) => stream::run(options),
            Command::Sender(options) => sender::run(options),
            Command::Sweep(options) => sweep::run(options),
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
