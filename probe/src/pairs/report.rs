//! The report on all pairs: a line for each, what stands out, and the files that were asked for.

use std::fs;

use serde::Serialize;

use super::rank::Direction;
use super::{Found, Options, picture};
use crate::output::{self, Report as _, figure, table};
use crate::stats::{quantile, sorted};
use crate::{Error, trace};

/// A direction that carries less than this part of the median stands out.
const SLOW: f64 = 0.8;
/// One whose round trips take this many times the median does, too.
const LATE: f64 = 1.5;

/// The report; the schema of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    measurement: &'static str,
    hosts: Vec<String>,
    /// Directions that were to be measured.
    planned: usize,
    rows: Vec<Row>,
}

/// One direction; the schema of a line of `--csv`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) from: String,
    pub(super) to: String,
    /// Median of the round trips, in microseconds.
    pub(super) rtt_us: Option<f64>,
    /// Their 99th percentile.
    pub(super) rtt_p99_us: Option<f64>,
    /// Payload of one TCP connection that arrived.
    pub(super) mbit: Option<f64>,
    /// Why there are no figures.
    pub(super) failed: Option<String>,
}

/// Writes the files and prints the report.
pub(super) fn write(options: &Options, directions: &[Direction]) -> Result<(), Error> {
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
        if self.rows.len() < self.planned {
            text +=
                &format!("ended early: {} of {} directions were measured\n", self.rows.len(), self.planned);
        }
        for sentence in remarks(&self.rows) {
            text += &format!("{sentence}\n");
        }
        text
    }
}

/// What stands out among the directions.
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
