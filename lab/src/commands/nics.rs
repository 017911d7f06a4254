//! Two virtual machines and the drivers of real NICs between them: a bare link, and a bundle over two by the kernel path and by
//! cells.
//!
//! Over a veth a superframe stays whole from one stack to the other. Here it is cut into segments in front of the cable, by the NIC
//! or by the kernel for it, and what comes is segments. [`super::pair`] joins the guests.
//! [`node`] has what each guest does, and how the one asks the other.

mod node;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::pair::{PairOptions, Way};
use tabane_kit::guest::Model;
use tabane_kit::machine::processors;
use tabane_kit::prerequisites::{BUSYBOX, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::report::{Report, Table, Verdict};

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1800);
/// Connections at once.
const CONNECTIONS: [u8; 2] = [1, 4];
/// The ways, with their names in reports and for people.
const WAYS: [(Way, &str, &str); 3] = [
    (Way::Link, "bare", "one bare link"),
    (Way::Kernel, "kernel", "kernel path, hash"),
    (Way::Cells, "cells", "cells, hash"),
];

/// Bytes that no segment has: the links carry packets of 1,500.
const SUPERFRAME_MIN: f64 = 3_000.0;
/// Most frames in cells beside files by the kernel path: neighbours' questions.
const FEW: f64 = 100.0;

/// A figure of so many connections.
type Figure = fn(&Speed) -> f64;

/// All of them: key, unit, and how they are computed.
const FIGURES: [(&str, &str, Figure); 3] = [
    ("throughput", "Mbit/s", |speed| speed.mbit),
    ("cpu", "s/GB", |speed| speed.cpu_s_per_gb),
    ("retransmits", "segments", |speed| speed.retransmits as f64),
];

/// Two virtual machines with e1000e and with virtio NICs: a bare link, the kernel path and cells; about 10 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pair: PairOptions,
    /// NICs to measure
    #[arg(long = "nic", value_name = "NIC", default_values = ["e1000e", "virtio-net"])]
    models: Vec<Model>,
}

/// How fast so many connections were.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Speed {
    connections: u8,
    /// Payload per second, in Mbit/s.
    mbit: f64,
    /// Segments that were sent again.
    retransmits: u64,
    /// Time of the processors of both guests for 10^9 bytes, in seconds.
    cpu_s_per_gb: f64,
}

/// What left and came, at both ends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Crossed {
    /// Packets of all links that one guest sent and the other received.
    packets: [u64; 2],
    /// Frames and bytes that programs gave to the links, and those that programs at the other end handed on.
    by_programs: [[u64; 2]; 2],
    /// Frames that travelled in cells.
    in_cells: u64,
}

/// One trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    way: Way,
    speeds: Vec<Speed>,
    /// Files whose SHA-256 was the same at both ends, of [`CONNECTIONS`] at once each.
    whole: u64,
    crossed: Crossed,
}

impl Options {
    /// Whether this is the work of one of the guests.
    pub fn is_inside(&self) -> bool {
        self.pair.is_inside()
    }
}

/// All ways, in the order in which they are measured.
fn trials(options: &PairOptions) -> impl Iterator<Item = Way> + use<> {
    (0..options.rounds).flat_map(|_| WAYS.map(|(way, ..)| way))
}

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    let pair = &options.pair;
    if let Some(side) = pair.side {
        return node::work(pair, side).map(|()| ExitCode::SUCCESS);
    }
    let mut report = Report::new("nics", pair.common.seed);
    report.field("guest_kernel", pair.guest.guest()?.version());
    // Both guests are busy at once.
    let half = (processors()?.len() / 2).max(1);
    for model in &options.models {
        let measured: Vec<Measured> = pair.ask("nics", (*model, &[]), half, LIMIT)?;
        write(&mut report, *model, &measured);
    }
    report.show("  emulated processors: speeds compare with each other only");
    report.finish(pair.common.json.as_deref())
}

/// Writes what was measured over NICs of this kind into `report`.
fn write(report: &mut Report, model: Model, measured: &[Measured]) {
    let mut table = Table::new(&[
        model.module(),
        "flows",
        "Mbit/s",
        "of bare",
        "CPU, s/GB",
        "of bare",
        "sent again",
        "bytes of a frame sent",
        "received",
    ]);
    for (way, key, label) in WAYS {
        let name = format!("{}.{key}", model.module());
        for one in measured.iter().filter(|one| one.way == way) {
            for (speed, (figure, unit, compute)) in
                one.speeds.iter().flat_map(|speed| FIGURES.map(|figure| (speed, figure)))
            {
                report.push(format!("{name}.{}.{figure}", speed.connections), unit, compute(speed));
            }
        }
        let frames = frames(report, &name, way, measured);
        for connections in CONNECTIONS {
            let mut row = vec![label.to_string(), connections.to_string()];
            for figure in ["throughput", "cpu"] {
                let key = format!("{name}.{connections}.{figure}");
                let ratio = report.ratio(&key, &format!("{}.bare.{connections}.{figure}", model.module()));
                row.extend([format!("{:.1}", report.median(&key)), format!("{ratio:.2}")]);
                report.push(format!("{key}_ratio"), "", ratio);
            }
            row.push(format!("{:.0}", report.median(&format!("{name}.{connections}.retransmits"))));
            row.extend(frames.map(|bytes| if bytes > 0.0 { format!("{bytes:.0}") } else { String::new() }));
            table.row(row);
        }
    }
    report.show(table);
}

/// Judges files and what carried them; returns the mean bytes of frames that programs sent, and handed on.
fn frames(report: &mut Report, name: &str, way: Way, measured: &[Measured]) -> [f64; 2] {
    let trials: Vec<&Measured> = measured.iter().filter(|one| one.way == way).collect();
    let files = CONNECTIONS.iter().map(|connections| u64::from(*connections)).sum::<u64>();
    let whole = trials.iter().all(|one| one.whole == files);
    report.verdict(Verdict::equals(&format!("{name}.whole"), whole, true));
    if way != Way::Kernel {
        return [0.0; 2];
    }
    let mut in_cells = 0.0_f64;
    for one in trials {
        for (end, [frames, bytes]) in ["sent", "received"].into_iter().zip(one.crossed.by_programs) {
            report.push(format!("{name}.frame_bytes_{end}"), "bytes", bytes as f64 / frames as f64);
        }
        in_cells = in_cells.max(one.crossed.in_cells as f64);
    }
    let [sent, received] =
        ["sent", "received"].map(|end| report.measured(&format!("{name}.frame_bytes_{end}")));
    report.verdict(Verdict::at_least(&format!("{name}.frame_bytes"), sent.min(), SUPERFRAME_MIN));
    report.verdict(Verdict::at_most(&format!("{name}.in_cells"), in_cells, FEW));
    [sent.median(), received.median()]
}
