//! `tabane probe pairs`: round trips and throughput between all pairs of a cluster, one direction at a time.
//!
//! ```text
//!   mpirun ── starts a rank on each host
//!   rank 0    tells one rank after the other whom to measure, gathers the answers, reports     pairs/conductor.rs
//!   rank i    serves at its own address, measures whom it is told to                           pairs/rank.rs
//! ```
//!
//! A launcher starts the ranks and says each one's number; MPI itself carries nothing. So what is measured is TCP, and any
//! launcher that sets such a variable will do. One pair at a time: pairs that share a link would measure each other.

mod picture;
mod rank;
mod report;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::{Deserialize, Serialize};

use crate::connection::Server;
use crate::output::Interruption;
use crate::stats::{quantile, sorted};
use crate::sweep::{Cell, Load, Mtu, Protocol, seconds};
use crate::wire::PORT;
use crate::{Error, rtt};
use rank::Rank;

/// Hosts at most: a picture shows them, and their pairs take a day.
const HOSTS_MAX: usize = 256;
/// Longest reason why there are no figures, in characters.
const REASON_MAX: usize = 100;
/// Bytes of a write of the stream.
const WRITE: u32 = 64 << 10;

/// All pairs of a cluster, started by `mpirun` or `srun` with a rank on each host
///
/// `mpirun --host a,b,c tabane-probe pairs 10.9.0.1 10.9.0.2 10.9.0.3` measures each way between three hosts, which have these
/// addresses in the order of their ranks. A message of 1 byte makes the round trips, one TCP connection the throughput.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The hosts' addresses in the network that is measured, that of rank 0 first
    #[arg(value_name = "ADDRESS", required = true, num_args = 2..=HOSTS_MAX)]
    hosts: Vec<IpAddr>,
    /// Names of the hosts for the report, as many [default: their addresses]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    names: Vec<String>,
    /// Round trips of each pair and direction
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = RangedU64ValueParser::<usize>::new().range(10..=1_000_000))]
    rounds: usize,
    /// How long the stream of each pair and direction lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// TCP and UDP port of each rank's server; rank 0 listens at the next one, too
    #[arg(long, value_name = "N", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..65_535))]
    port: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a line per pair and direction to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a heat map to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What a rank found out about one other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Found {
    /// Figures.
    Pair {
        /// Median and 99th percentile of the round trips, in microseconds.
        rtt_us: f64,
        rtt_p99_us: f64,
        /// Payload that arrived, in Mbit/s.
        mbit: f64,
    },
    /// None, and why.
    Failed(String),
}

/// Takes part as the rank that the launcher has made this process.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let rank = Rank::of_launcher(options.hosts.len())?;
    options.check()?;
    let interruption = Interruption::listen()?;
    rank::serve(options, rank, |measure| {
        if rank.is_first() {
            let found = rank::conduct(options, measure, &interruption)?;
            report::write(options, &found)
        } else {
            rank::obey(options, rank, measure, &interruption)
        }
    })
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        let named = self.names.len();
        if named != 0 && named != self.hosts.len() {
            let hosts = self.hosts.len();
            return Err(Error::Refused(format!(
                "--names has {named} names; allowed: {hosts}, one for each address"
            )));
        }
        let twice = self.hosts.iter().enumerate().find(|(place, host)| self.hosts[..*place].contains(host));
        twice.map_or(Ok(()), |(_, host)| {
            Err(Error::Refused(format!("{host} is there twice; allowed: one address of each host")))
        })
    }

    /// What the report calls a host.
    fn name(&self, host: usize) -> String {
        self.names.get(host).cloned().unwrap_or_else(|| self.hosts[host].to_string())
    }

    /// Measures the host `to` from here.
    fn measure(&self, to: usize, interruption: &Interruption) -> Found {
        let measured = || {
            let server = Server::find(&std::net::SocketAddr::new(self.hosts[to], self.port).to_string())?;
            let times = sorted(&rtt::times(&server, self.rounds, interruption)?);
            let (protocol, mtu, connections, answered) = (Protocol::Tcp, Mtu::Device, 1, false);
            let cell = Cell { protocol, size: WRITE, mtu, connections, answered };
            let load = Load { duration: Duration::from_secs_f64(self.seconds), mbit: None };
            let mbit = cell.measure(&server, load, interruption)?.received.mbit();
            Ok::<_, Error>(Found::Pair {
                rtt_us: quantile(&times, 0.5),
                rtt_p99_us: quantile(&times, 0.99),
                mbit,
            })
        };
        // An answer is a line of the protocol.
        measured().unwrap_or_else(|error| Found::Failed(error.to_string().chars().take(REASON_MAX).collect()))
    }
}
