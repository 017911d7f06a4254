//! `tabane probe sweep`: throughput over message sizes, MTUs, connections and protocols (P1.sweep, P3.size, P3.mtu,
//! P3.conns).
//!
//! An MTU is imitated by TCP segments that fit into it (TCP_MAXSEG): so it needs no rights, and touches no device.

mod cell;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};

use crate::clock::Clock;
use crate::connection::Server;
use crate::machine::Machine;
use crate::output::Report as _;
use crate::output::{Interruption, Progress};
use crate::wire::ECHO_MAX;
use crate::{Error, trace};
pub(crate) use cell::{Cell, Load, Mtu, Protocol};
use report::{Report, Row};

/// Most cells of a sweep.
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

/// Measures every combination and reports.
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

/// A duration for a value parser.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.1, 3_600.0).ok_or_else(|| "allowed: 0.1 to 3600 seconds".to_owned())
}

/// A load for a value parser.
pub(crate) fn mbit(text: &str) -> Result<f64, String> {
    within(text, 0.001, 1e6).ok_or_else(|| "allowed: 0.001 to 1000000 Mbit/s".to_owned())
}

fn within(text: &str, least: f64, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
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
    fn every_combination_is_measured_once() {
        let axes = ["--sizes", "64,1024", "--mtus", "1500,device", "--connections", "1,2,4"];
        let cells = cells(&axes).unwrap();
        assert_eq!(cells.iter().filter(|cell| cell.protocol == Protocol::Tcp).count(), 12);
        assert_eq!(cells.iter().filter(|cell| cell.protocol == Protocol::Udp).count(), 6);
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
