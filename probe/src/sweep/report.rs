//! The report on a sweep: a row for each combination.

use serde::Serialize;

use super::cell::{Cell, Load, Outcome, Protocol};
use crate::Error;
use crate::clock;
use crate::connection::Server;
use crate::machine::Machine;
use crate::output::{self, figure, percent, table};

/// The report on all combinations; the schema of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    measurement: &'static str,
    server: Server,
    machine: Machine,
    /// Combinations that were to be measured.
    planned: usize,
    rows: Vec<Row>,
}

/// One combination; the schema of a line of `--csv`.
#[derive(Debug, Serialize)]
pub(super) struct Row {
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
    /// The row of `cell`.
    pub(super) fn new(cell: &Cell, load: Load, outcome: Result<Outcome, Error>) -> Row {
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
    pub(super) fn new(server: Server, machine: Machine, planned: usize, rows: Vec<Row>) -> Report {
        Report { measurement: "sweep", server, machine, planned, rows }
    }
}

impl output::Report for Report {
    fn text(&self) -> String {
        let Report { server, machine, planned, rows, .. } = self;
        let mut text = format!("throughput to {}, payload that arrived\n{}", server.line(), machine.line());
        if rows.len() < *planned {
            text += &format!("ended early: {} of {planned} combinations were measured\n", rows.len());
        }
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
