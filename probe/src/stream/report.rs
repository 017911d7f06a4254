//! The report on streams: throughput of each sender and NIC over time, and the processors while all senders ran.

use serde::Serialize;

use super::{Options, Reading, Run};
use crate::clock;
use crate::machine::{Machine, Shares};
use crate::output::{self, figure, percent, table};
use crate::wire::Received;

/// The report on a run; the schema of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    measurement: &'static str,
    servers: Vec<String>,
    machine: Machine,
    size_bytes: u32,
    interval_seconds: f64,
    /// Intervals that were to be measured.
    planned: usize,
    senders: Vec<Sender>,
    nics: Vec<Nic>,
    /// Whether this process could sample which NIC carries which sender.
    sampled: bool,
    /// Part of the processors that was busy in each interval, 0 to 1.
    busy: Vec<Option<f64>>,
    /// While all senders ran.
    all: All,
}

#[derive(Debug, Serialize)]
struct Sender {
    name: String,
    /// Local port of its connection.
    port: u16,
    /// What its socket took in each interval.
    mbit: Vec<f64>,
    /// The NICs that carried it in each interval, as parts of it, 0 to 1; empty where nothing of it was seen.
    nics: Vec<Vec<f64>>,
    received: Received,
    received_mbit: f64,
    offered_mbit: Option<f64>,
    /// Whether the offered load arrived.
    reached: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Nic {
    name: String,
    /// What left it in each interval, headers included.
    mbit: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct All {
    /// The first one and the one behind the last, from 0 on.
    intervals: (usize, usize),
    mbit: f64,
    cpu: Option<Shares>,
}

/// One sender in one interval; the schema of a line of `--csv`.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    start_seconds: f64,
    sender: String,
    mbit: f64,
    cpu: Option<f64>,
}

impl Report {
    /// The report on a `run` of which `planned` intervals were to be measured.
    pub(super) fn new(options: &Options, machine: Machine, planned: usize, run: &Run) -> Report {
        let readings = &run.readings;
        let senders: Vec<Sender> =
            (0..run.done.len()).map(|number| Sender::new(options, number, run)).collect();
        let nic = |(place, name): (usize, &String)| Nic {
            name: name.clone(),
            mbit: readings
                .windows(2)
                .map(|pair| options.mbit_of(pair[1].sent[place] - pair[0].sent[place]))
                .collect(),
        };
        let busy =
            readings.windows(2).map(|pair| pair[1].ticks.since(pair[0].ticks).map(|shares| shares.busy()));
        Report {
            measurement: "stream",
            servers: options.servers.clone(),
            machine,
            size_bytes: options.size,
            interval_seconds: options.interval,
            planned,
            nics: options.nics.iter().enumerate().map(nic).collect(),
            sampled: run.seen.is_some(),
            busy: busy.collect(),
            all: All::new(options, readings, &senders),
            senders,
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let line = |(number, sender, mbit): (usize, &Sender, f64)| Line {
            start_seconds: number as f64 * self.interval_seconds,
            sender: sender.name.clone(),
            mbit,
            cpu: self.busy[number],
        };
        let of = |sender| self.busy.iter().enumerate().map(move |(number, _)| (number, sender));
        let all = self.senders.iter().flat_map(of);
        all.map(|(number, sender)| line((number, sender, sender.mbit[number]))).collect()
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.busy.iter().enumerate().map(|(number, busy)| {
            let mut row = vec![self.span(number)];
            row.extend(self.senders.iter().map(|sender| figure(sender.mbit[number])));
            row.push(figure(self.senders.iter().map(|sender| sender.mbit[number]).sum()));
            row.push(busy.map_or("-".to_owned(), percent));
            row.extend(self.nics.iter().map(|nic| figure(nic.mbit[number])));
            row
        })
    }

    fn seats(&self) -> String {
        let title = "\nwhich NIC carried which sender";
        if self.nics.is_empty() {
            return String::new();
        }
        if !self.sampled {
            return format!("{title}: not known, it takes CAP_NET_RAW to sample frames\n");
        }
        if self.senders.iter().all(|sender| sender.nics.iter().all(Vec::is_empty)) {
            return format!(
                "{title}: not known, no frame shows a sender (they are of a bundle, or go elsewhere)\n"
            );
        }
        let rows = (0..self.busy.len()).map(|number| {
            let seats = self.senders.iter().map(|sender| self.seat(&sender.nics[number]));
            [self.span(number)].into_iter().chain(seats).collect()
        });
        let head = ["seconds"].into_iter().chain(self.senders.iter().map(|sender| sender.name.as_str()));
        format!("{title}\n{}", table(&head.collect::<Vec<&str>>(), rows))
    }

    fn seat(&self, shares: &[f64]) -> String {
        let used = self.nics.iter().zip(shares).filter(|(_, share)| **share > 0.0);
        let part = |(nic, share): (&Nic, &f64)| format!("{} {:.0} %", nic.name, share * 100.0);
        let parts: Vec<String> = used.map(part).collect();
        if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
    }

    fn span(&self, number: usize) -> String {
        let at = |number: usize| number as f64 * self.interval_seconds;
        format!("{}-{}", at(number), at(number + 1))
    }

    fn sender_rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.senders.iter().map(|sender| {
            vec![
                sender.name.clone(),
                sender.port.to_string(),
                sender.received.bytes.to_string(),
                figure(sender.received_mbit),
                clock::verdict(sender.offered_mbit, sender.received_mbit),
            ]
        })
    }
}

impl output::Report for Report {
    fn text(&self) -> String {
        let Report { servers, machine, size_bytes, planned, busy, all, .. } = self;
        let mut text =
            format!("streams to {}, {size_bytes} B a call\n{}", servers.join(", "), machine.line());
        text += &output::ended_early(busy.len(), *planned, "intervals were measured");
        let mut head = vec!["seconds".to_owned()];
        head.extend(self.senders.iter().map(|sender| format!("{} Mbit/s", sender.name)));
        head.extend(["all".to_owned(), "CPU".to_owned()]);
        head.extend(self.nics.iter().map(|nic| format!("{} sent", nic.name)));
        text += &table(&head.iter().map(String::as_str).collect::<Vec<&str>>(), self.rows());
        text += &self.seats();
        text += "\nwhat arrived\n";
        text += &table(&["sender", "port", "bytes", "Mbit/s", "offered Mbit/s"], self.sender_rows());
        if let (Some(cpu), (first, end)) = (all.cpu, all.intervals) {
            let kinds = [cpu.user, cpu.system, cpu.irq, cpu.softirq, cpu.steal, cpu.idle].map(percent);
            let when =
                format!("{}-{} s", first as f64 * self.interval_seconds, end as f64 * self.interval_seconds);
            let row = [vec![when, figure(all.mbit), percent(cpu.busy())], kinds.to_vec()].concat();
            text += "\nwhile all senders ran\n";
            let head = ["", "Mbit/s", "CPU", "user", "system", "irq", "softirq", "steal", "idle"];
            text += &table(&head, [row]);
        }
        text
    }
}

impl Sender {
    fn new(options: &Options, number: usize, run: &Run) -> Sender {
        let (done, intervals) = (&run.done[number], run.readings.len().saturating_sub(1));
        let mut mbit: Vec<f64> = done.bytes.iter().map(|bytes| options.mbit_of(*bytes)).collect();
        mbit.resize(intervals, 0.0);
        let seen =
            |interval: usize| run.seen.as_ref().and_then(|seen| seen.get(interval)).map(|seen| &seen[number]);
        let received_mbit = done.received.mbit();
        Sender {
            name: name(number),
            port: run.ports[number],
            mbit,
            nics: (0..intervals)
                .map(|interval| seen(interval).map_or(Vec::new(), |bytes| parts(bytes)))
                .collect(),
            received: done.received,
            received_mbit,
            offered_mbit: options.mbit,
            reached: options.mbit.map(|offered| clock::is_reached(offered, received_mbit)),
        }
    }
}

/// What each one is of all; empty when all are nothing.
fn parts(bytes: &[u64]) -> Vec<f64> {
    let all: u64 = bytes.iter().sum();
    let part = |one: &u64| *one as f64 / all as f64;
    if all == 0 { Vec::new() } else { bytes.iter().map(part).collect() }
}

impl All {
    fn new(options: &Options, readings: &[Reading], senders: &[Sender]) -> All {
        let end = readings.len().saturating_sub(1);
        let first =
            (0..end).find(|number| *number as f64 * options.interval >= options.stagger().as_secs_f64());
        let first = first.unwrap_or(end);
        let sum: f64 = senders.iter().flat_map(|sender| &sender.mbit[first..end]).sum();
        All {
            intervals: (first, end),
            mbit: sum / (end - first).max(1) as f64,
            cpu: (first < end).then(|| readings[end].ticks.since(readings[first].ticks)).flatten(),
        }
    }
}

impl Options {
    fn mbit_of(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / 1e6 / self.interval
    }
}

/// A, B, C and so on, then A2, B2.
fn name(number: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(number % 26).unwrap_or(0));
    let round = number / 26 + 1;
    if round == 1 { letter.to_string() } else { format!("{letter}{round}") }
}
