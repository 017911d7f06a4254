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

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::{Deserialize, Serialize};

use crate::connection::Server;
use crate::output::{self, Interruption, Report as _, figure, table};
use crate::stats::{quantile, sorted};
use crate::sweep::{Cell, Load, Mtu, Protocol, seconds};
use crate::wire::PORT;
use crate::{Error, rtt, trace};
use rank::{Direction, Rank};

/// Hosts at most: a picture shows them, and their pairs take a day.
const HOSTS_MAX: usize = 256;
/// Longest reason why there are no figures, in characters.
const REASON_MAX: usize = 100;
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Found {
    Pair {
        /// Median and 99th percentile of the round trips, in microseconds.
        rtt_us: f64,
        rtt_p99_us: f64,
        /// Payload that arrived, in Mbit/s.
        mbit: f64,
    },
    Failed(String),
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let rank = Rank::of_launcher(options.hosts.len())?;
    options.check()?;
    let interruption = Interruption::listen()?;
    rank::serve(options, rank, |measure| {
        if rank.is_first() {
            let found = rank::conduct(options, measure, &interruption)?;
            write(options, &found)
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

    fn name(&self, host: usize) -> String {
        self.names.get(host).cloned().unwrap_or_else(|| self.hosts[host].to_string())
    }

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

// The report on all pairs: a line for each, what stands out, and the files that were asked for.

/// A direction that carries less than this part of the median stands out.
const SLOW: f64 = 0.8;
/// One whose round trips take this many times the median does, too.
const LATE: f64 = 1.5;

/// The report; the schema of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    measurement: &'static str,
    hosts: Vec<String>,
    planned: usize,
    rows: Vec<Row>,
}

/// One direction; the schema of a line of `--csv`.
#[derive(Clone, Debug, Serialize)]
struct Row {
    from: String,
    to: String,
    /// Median of the round trips, in microseconds.
    rtt_us: Option<f64>,
    /// Their 99th percentile.
    rtt_p99_us: Option<f64>,
    /// Payload of one TCP connection that arrived.
    mbit: Option<f64>,
    /// Why there are no figures.
    failed: Option<String>,
}

fn write(options: &Options, directions: &[Direction]) -> Result<(), Error> {
    let hosts: Vec<String> = (0..options.hosts.len()).map(|host| options.name(host)).collect();
    let rows: Vec<Row> = directions.iter().map(|direction| Row::of(direction, &hosts)).collect();
    if let Some(path) = &options.csv {
        trace::write(path, &rows)?;
    }
    if let Some(path) = &options.svg {
        let doing = Error::doing(format!("writing {}", path.display()));
        fs::write(path, picture::draw(&hosts, &rows)).map_err(doing)?;
    }
    let planned = hosts.len() * (hosts.len() - 1);
    Report { measurement: "pairs", hosts, planned, rows }.print(options.json)
}

impl Row {
    fn of(direction: &Direction, hosts: &[String]) -> Row {
        let (from, to) = (hosts[direction.from].clone(), hosts[direction.to].clone());
        match &direction.found {
            Found::Pair { rtt_us, rtt_p99_us, mbit } => {
                let (rtt_us, rtt_p99_us) = (Some(*rtt_us), Some(*rtt_p99_us));
                Row { from, to, rtt_us, rtt_p99_us, mbit: Some(*mbit), failed: None }
            }
            Found::Failed(why) => {
                Row { from, to, rtt_us: None, rtt_p99_us: None, mbit: None, failed: Some(why.clone()) }
            }
        }
    }
}

impl output::Report for Report {
    fn text(&self) -> String {
        let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
        let cells = |row: &Row| {
            let way = format!("{} to {}", row.from, row.to);
            vec![way, or_dash(row.rtt_us), or_dash(row.rtt_p99_us), or_dash(row.mbit)]
        };
        let mut text = table(&["", "RTT p50 µs", "p99 µs", "Mbit/s"], self.rows.iter().map(cells));
        text += &output::ended_early(self.rows.len(), self.planned, "directions were measured");
        for sentence in remarks(&self.rows) {
            text += &format!("{sentence}\n");
        }
        text
    }
}

fn remarks(rows: &[Row]) -> Vec<String> {
    let median =
        |of: fn(&Row) -> Option<f64>| quantile(&sorted(&rows.iter().filter_map(of).collect::<Vec<_>>()), 0.5);
    let (rtt, mbit) = (median(|row| row.rtt_us), median(|row| row.mbit));
    let mut found = Vec::new();
    for row in rows {
        let way = format!("{} to {}", row.from, row.to);
        if let Some(why) = &row.failed {
            found.push(format!("{way}: {why}"));
        }
        if let Some(own) = row.mbit.filter(|own| *own < SLOW * mbit) {
            found.push(format!("{way} carries {} Mbit/s; the median is {}", figure(own), figure(mbit)));
        }
        if let Some(own) = row.rtt_us.filter(|own| *own > LATE * rtt) {
            found.push(format!("{way} takes {} µs; the median is {}", figure(own), figure(rtt)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_the_late_and_the_dead_stand_out() {
        let row = |to: &str, rtt_us, mbit, failed: Option<&str>| Row {
            from: "a".to_owned(),
            to: to.to_owned(),
            rtt_us,
            rtt_p99_us: rtt_us,
            mbit,
            failed: failed.map(str::to_owned),
        };
        let rows = [
            row("b", Some(100.0), Some(1_000.0), None),
            row("c", Some(100.0), Some(700.0), None),
            row("d", Some(200.0), Some(1_000.0), None),
            row("e", None, None, Some("no route")),
            row("f", Some(100.0), Some(900.0), None),
        ];
        let remarks = remarks(&rows);
        assert_eq!(
            remarks,
            [
                "a to c carries 700.0 Mbit/s; the median is 950.0",
                "a to d takes 200.0 µs; the median is 100.0",
                "a to e: no route",
            ]
        );
    }
}
