//! Two virtual machines and the drivers of real NICs between them: a bare link, and a bundle over two by the kernel path and by
//! cells.
//!
//! Over a veth a superframe stays whole from one stack to the other. Here it is cut into segments in front of the cable, by the NIC
//! or by the kernel for it, and what comes is segments. [`super::pair`] joins the guests.
//!
//! 1. [`node`]: what each guest does, and how the one asks the other.
//! 2. [`summary`]: how each way fares, beside the bare link.

mod node;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::pair::{self, Way};
use tabane_kit::guest::Model;
use tabane_kit::machine::processors;
use tabane_kit::prerequisites::{BUSYBOX, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::report::Report;

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

/// Two virtual machines with e1000e and with virtio NICs: a bare link, the kernel path and cells; about 10 minutes
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pair: pair::Options,
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
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.pair.is_inside()
    }
}

/// All ways, in the order in which they are measured.
fn trials(options: &pair::Options) -> impl Iterator<Item = Way> + use<> {
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
        summary::write(&mut report, *model, &measured);
    }
    report.show("  emulated processors: speeds compare with each other only");
    report.finish(pair.common.json.as_deref())
}
