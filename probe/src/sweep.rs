//! `tabane probe sweep`: throughput over message sizes, MTUs, connections and protocols (P1.sweep, P3.size, P3.mtu,
//! P3.conns).
//!
//! An MTU is imitated by TCP segments that fit into it (TCP_MAXSEG): so it needs no rights, and touches no device.

mod cell;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use serde::Serialize;

use crate::clock::{self, Clock};
use crate::connection::Server;
use crate::machine::Machine;
use crate::output::{self, Interruption, Progress, Report as _, figure, percent, table};
use crate::wire::ECHO_MAX;
use crate::{Error, trace};
use cell::Outcome;
pub(crate) use cell::{Cell, Load, Mtu, Protocol};

const CELLS_MAX: usize = 10_000;
/// Longest UDP payload over IPv4, in bytes.
const DATAGRAM_MAX: u32 = 65_507;

/// Throughput over sizes, MTUs, connections and protocols
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Machine on which `tabane probe serve` runs
    #[arg(value_name = "HOST[:PORT]")]
    server: String,
    /// Sizes of the message in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [64, 256, 1024, 4096, 16_384, 65_507], value_parser = RangedI64ValueParser::<u32>::new().range(1..=i64::from(ECHO_MAX)))]
    sizes: Vec<u32>,
    /// MTUs to which TCP keeps, 148 to 32807 bytes, or `device`: as large as the device's
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "device")]
    mtus: Vec<Mtu>,
    /// How many connections send at once
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1], value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    connections: Vec<usize>,
    /// What carries the messages
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "tcp,udp")]
    protocols: Vec<Protocol>,
    /// Send each message of a connection when the one before was answered, by one byte; TCP alone
    #[arg(long)]
    answered: bool,
    /// How long each combination is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Load to be offered by all connections together [default: as much as goes]
    #[arg(long, value_name = "MBIT/S", value_parser = mbit)]
    mbit: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a line per combination to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let cells = options.cells()?;
    let server = Server::find(&options.server)?;
    let (clock, interruption) = (Clock::start(), Interruption::listen()?);
    let machine = Machine::now(clock);
    let load = Load { duration: Duration::from_secs_f64(options.seconds), mbit: options.mbit };
    let progress = Progress::of("sweep".to_owned(), cells.len());
    let mut rows = Vec::new();
    for cell in &cells {
        if interruption.came() {
            break;
        }
        rows.push(Row::new(cell, load, cell.measure(&server, load, &interruption)));
        progress.reached(rows.len());
    }
    drop(progress);
    if let Some(path) = &options.csv {
        trace::write(path, &rows)?;
    }
    Report::new(server, machine, cells.len(), rows).print(options.json)
}

impl Options {
    /// All combinations. UDP has no segments, so it is measured once for all MTUs.
    fn cells(&self) -> Result<Vec<Cell>, Error> {
        if self.answered && self.protocols.contains(&Protocol::Udp) {
            return Err(Error::Refused(
                "--answered does not go with datagrams, which may be lost; allowed: --protocols tcp"
                    .to_owned(),
            ));
        }
        let mut cells = Vec::new();
        for &protocol in &self.protocols {
            let mtus = if protocol == Protocol::Udp { &[Mtu::Device][..] } else { &self.mtus };
            for &size in &self.sizes {
                if protocol == Protocol::Udp && size > DATAGRAM_MAX {
                    return Err(Error::Refused(format!(
                        "--sizes {size} does not fit into a UDP datagram; allowed: 1 to {DATAGRAM_MAX}, or --protocols tcp"
                    )));
                }
                let one = |(mtu, connections): (&Mtu, &usize)| Cell {
                    protocol,
                    size,
                    mtu: *mtu,
                    connections: *connections,
                    answered: self.answered,
                };
                let pairs =
                    mtus.iter().flat_map(|mtu| self.connections.iter().map(move |count| (mtu, count)));
                cells.extend(pairs.map(one));
            }
        }
        let count = cells.len();
        let too_many = || Error::Refused(format!("{count} combinations are too many; allowed: {CELLS_MAX}"));
        (count <= CELLS_MAX).then_some(cells).ok_or_else(too_many)
    }
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.1, 3_600.0).ok_or_else(|| "allowed: 0.1 to 3600 seconds".to_owned())
}

pub(crate) fn mbit(text: &str) -> Result<f64, String> {
    within(text, 0.001, 1e6).ok_or_else(|| "allowed: 0.001 to 1000000 Mbit/s".to_owned())
}

fn within(text: &str, least: f64, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

// The report on a sweep: a row for each combination.

/// The report on all combinations; the schema of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    measurement: &'static str,
    server: Server,
    machine: Machine,
    /// Combinations that were to be measured.
    planned: usize,
    rows: Vec<Row>,
}

/// One combination; the schema of a line of `--csv`.
#[derive(Debug, Serialize)]
struct Row {
    protocol: Protocol,
    size_bytes: u32,
    mtu: String,
    connections: usize,
    /// Whether each message waited until the one before was answered.
    answered: bool,
    /// Payload that arrived.
    mbit: Option<f64>,
    /// Messages that arrived, in thousands per second.
    kpps: Option<f64>,
    /// Part of the messages that did not arrive, 0 to 1.
    lost: Option<f64>,
    /// Part of the machine's processors that was busy, 0 to 1, and the part of softirq in it.
    cpu: Option<f64>,
    softirq: Option<f64>,
    offered_mbit: Option<f64>,
    /// Whether the offered load arrived.
    reached: Option<bool>,
    /// Why there are no figures.
    failed: Option<String>,
}

impl Row {
    fn new(cell: &Cell, load: Load, outcome: Result<Outcome, Error>) -> Row {
        let mut row = Row {
            protocol: cell.protocol,
            size_bytes: cell.size,
            mtu: cell.mtu.to_string(),
            connections: cell.connections,
            answered: cell.answered,
            mbit: None,
            kpps: None,
            lost: None,
            cpu: None,
            softirq: None,
            offered_mbit: load.mbit,
            reached: None,
            failed: None,
        };
        match outcome {
            Ok(outcome) => row.fill(&outcome),
            Err(error) => row.failed = Some(error.to_string()),
        }
        row
    }

    fn fill(&mut self, outcome: &Outcome) {
        let received = outcome.received;
        let messages = received.bytes as f64 / f64::from(self.size_bytes);
        let seconds = received.elapsed_ns as f64 / 1e9;
        let mbit = received.mbit();
        self.mbit = Some(mbit);
        self.kpps = (seconds > 0.0).then(|| messages / seconds / 1e3);
        self.lost = (outcome.sent > 0).then(|| (1.0 - messages / outcome.sent as f64).max(0.0));
        self.cpu = outcome.cpu.map(|shares| shares.busy());
        self.softirq = outcome.cpu.map(|shares| shares.softirq);
        self.reached = self.offered_mbit.map(|offered| clock::is_reached(offered, mbit));
    }

    fn cells(&self) -> Vec<String> {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let offered = match self.mbit {
            Some(mbit) => clock::verdict(self.offered_mbit, mbit),
            None => "FAILED".to_owned(),
        };
        vec![
            format!("{:?}", self.protocol).to_lowercase(),
            self.size_bytes.to_string(),
            self.mtu.clone(),
            self.connections.to_string(),
            or_dash(self.mbit.map(figure)),
            or_dash(self.kpps.map(figure)),
            or_dash(self.lost.map(percent)),
            or_dash(self.cpu.map(percent)),
            or_dash(self.softirq.map(percent)),
            offered,
        ]
    }
}

impl Report {
    fn new(server: Server, machine: Machine, planned: usize, rows: Vec<Row>) -> Report {
        Report { measurement: "sweep", server, machine, planned, rows }
    }
}

impl output::Report for Report {
    fn text(&self) -> String {
        let Report { server, machine, planned, rows, .. } = self;
        let mut text = format!("throughput to {}, payload that arrived\n{}", server.line(), machine.line());
        text += &output::ended_early(rows.len(), *planned, "combinations were measured");
        let head =
            ["", "bytes", "MTU", "connections", "Mbit/s", "kpps", "lost", "CPU", "softirq", "offered Mbit/s"];
        text += &table(&head, rows.iter().map(Row::cells));
        for row in rows {
            if let Some(failed) = &row.failed {
                text += &format!("{:?}, {} B: {failed}\n", row.protocol, row.size_bytes);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn cells(flags: &[&str]) -> Result<Vec<Cell>, Error> {
        let line = ["sweep", "host"].into_iter().chain(flags.iter().copied());
        Line::try_parse_from(line).expect("well formed").options.cells()
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = cells(&["--sizes", "65508"]).unwrap_err().to_string();
        assert!(refused.starts_with("--sizes 65508 does not fit into a UDP datagram; allowed:"), "{refused}");
        assert!(cells(&["--sizes", "65508", "--protocols", "tcp"]).is_ok());
        let refused = cells(&["--answered"]).unwrap_err().to_string();
        assert!(refused.ends_with("allowed: --protocols tcp"), "{refused}");
        for flags in [["--mtus", "147"], ["--mtus", "32808"], ["--seconds", "0"], ["--mbit", "NaN"]] {
            let line = ["sweep", "host"].into_iter().chain(flags);
            assert!(Line::try_parse_from(line).is_err(), "{flags:?}");
        }
    }
}
