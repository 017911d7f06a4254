//! The papers' measurements, repeated here: published figures beside those of this machine, and whether each finding holds.
//!
//! Both hosts are on this machine, and the links are shaped to the papers' rates. Rates can be compared with the published
//! ones; times and shares of the processor tell of this machine. Machines that nobody has any more are simulated
//! (`tabane_sim::device`), and every row says whether it is.
//!
//! ```text
//! an experiment per file ── outcome ── summary ── report, Markdown
//!                                     └─ page ──── HTML
//! base, matrix, sending, skew (P0) · reclaim, gathering, bounce (P1) · acks, bidirectional, parallel, nfs (P2)
//! sizes, mtus, connections (P3) · anomaly, round_trips (P4)
//! ```

mod acks;
mod anomaly;
mod base;
mod bidirectional;
mod bounce;
mod connections;
mod gathering;
mod matrix;
mod mtus;
mod nfs;
mod outcome;
mod page;
mod parallel;
mod reclaim;
mod round_trips;
mod sending;
mod setting;
mod simulated;
mod sizes;
mod skew;
mod summary;
mod swept;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use crate::guest;
use crate::options::Common;
use crate::prerequisites::{BONNIE, BUSYBOX, HPCC, IPERF3, MODPROBE, MPIRUN, QEMU, Tool};
use crate::progress;
use crate::rate::Bitrate;
use crate::report::{Report, Verdict};
use outcome::Outcome;
use setting::Setting;

/// The papers' measurements, repeated: published figures, those of this machine, and whether the findings hold
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    guest: guest::Flags,
    /// Which of them [default: all]
    #[arg(value_name = "ID")]
    experiments: Vec<Experiment>,
    /// How often each figure is measured
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
    /// Length of each flow
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = RangedU64ValueParser::<u32>::new().range(1..=300))]
    seconds: u32,
    /// Nodes of P2.npb
    #[arg(long, default_value_t = 4, value_parser = RangedU64ValueParser::<u8>::new().range(2..=8))]
    nodes: u8,
    /// Rate of each of their links, in Mbit/s; at 1,000, as in the paper, four nodes keep two processors busier than the links
    #[arg(long, default_value_t = 250, value_parser = RangedU64ValueParser::<u64>::new().range(10..=10_000))]
    mbit: u64,
    /// Run the NAS Parallel Benchmarks in this directory (is.B.4 or is.B.x, and so on) for P2.npb, in place of HPC Challenge
    #[arg(long, value_name = "DIRECTORY")]
    npb: Option<PathBuf>,
    /// Write the tables here, too, as Markdown
    #[arg(long, value_name = "PATH")]
    markdown: Option<PathBuf>,
    /// Write them here, too, as a page with charts that works without a network
    #[arg(long, value_name = "PATH")]
    html: Option<PathBuf>,
}

/// A measurement of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// What single calls of `send()` cost in a long stream
    #[value(name = "P0.send")]
    Sending,
    /// One sender over one NIC of 100 Mbit/s and of 1 Gbit/s
    #[value(name = "P0.base")]
    Base,
    /// Several senders over several NICs, under round robin and under transmit load balancing
    #[value(name = "P0.matrix")]
    Matrix,
    /// A sender that starts before three others, under transmit load balancing
    #[value(name = "P0.skew")]
    Skew,
    /// Messages of 64 B to 64 KB, their buffers reclaimed by interrupt, lazily, or adaptively
    #[value(name = "P1.sweep")]
    Reclaim,
    /// What it costs to gather a packet from many fragments
    #[value(name = "P1.cost")]
    Gathering,
    /// The first fragments copied into one buffer
    #[value(name = "P1.bounce")]
    Bounce,
    /// Packets that it takes to send 1 GB
    #[value(name = "P2.acks")]
    Acks,
    /// Both directions at once over two links
    #[value(name = "P2.bidir")]
    Bidirectional,
    /// Parallel programs over one link and over two
    #[value(name = "P2.npb")]
    Parallel,
    /// NFS over one link and over two, in a guest
    #[value(name = "P2.nfs")]
    Nfs,
    /// Messages of 1 KB to 64 KB through a memory-slot NIC, with and without its bug
    #[value(name = "P3.size")]
    Sizes,
    /// Packets of 1 KB to 64 KB through a memory-slot NIC
    #[value(name = "P3.mtu")]
    Mtus,
    /// 1 to 16 connections through a memory-slot NIC, and over gigabit Ethernet
    #[value(name = "P3.conns")]
    Connections,
    /// Round trips of messages of 1 B and 1 KB
    #[value(name = "P4.rtt")]
    RoundTrips,
    /// Larger messages that are faster than any smaller one
    #[value(name = "P4.anomaly")]
    Anomaly,
}

impl Experiment {
    fn id(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
    }

    fn title(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    fn tools(self, npb: bool) -> &'static [Tool] {
        match self {
            Experiment::Parallel if npb => &[MPIRUN],
            Experiment::Parallel => &[MPIRUN, HPCC],
            Experiment::Nfs => &[BONNIE, QEMU, MODPROBE, BUSYBOX],
            Experiment::Base | Experiment::Matrix | Experiment::Acks | Experiment::Bidirectional => &[IPERF3],
            _ => &[],
        }
    }

    fn run(self, setting: &Setting) -> Result<Outcome> {
        match self {
            Experiment::Sending => sending::run(setting),
            Experiment::Base => base::run(setting),
            Experiment::Matrix => matrix::run(setting),
            Experiment::Skew => skew::run(setting),
            Experiment::Reclaim => reclaim::run(setting),
            Experiment::Gathering => Ok(gathering::run()),
            Experiment::Bounce => Ok(bounce::run()),
            Experiment::Acks => acks::run(setting),
            Experiment::Bidirectional => bidirectional::run(setting),
            Experiment::Parallel => parallel::run(setting),
            Experiment::Nfs => nfs::run(setting),
            Experiment::Sizes => sizes::run(setting),
            Experiment::Mtus => mtus::run(setting),
            Experiment::Connections => connections::run(setting),
            Experiment::RoundTrips => round_trips::run(setting),
            Experiment::Anomaly => anomaly::run(),
        }
    }
}

impl Options {
    /// What the command needs besides the sandbox's own tools.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        self.chosen().iter().flat_map(|experiment| experiment.tools(self.npb.is_some())).copied().collect()
    }

    fn chosen(&self) -> &[Experiment] {
        if self.experiments.is_empty() { Experiment::value_variants() } else { &self.experiments }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Repeats the measurements.
///
/// # Errors
/// A missing prerequisite, or a file that cannot be written; an experiment that fails is part of the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    let common = &options.common;
    let setting = Setting {
        daemon: common.daemon()?,
        guest: options.guest.clone(),
        npb: options.npb.clone(),
        nodes: options.nodes,
        node_rate: Bitrate::mbit(options.mbit),
        rounds: options.rounds,
        seconds: options.seconds,
    };
    if options.guest.is_inside() {
        options.guest.hand_over(&nfs::measure(&setting)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::new("papers", common.seed);
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for experiment in options.chosen() {
        let id = experiment.id();
        let _step = progress::step(&format!("{id}: {}", experiment.title()));
        match experiment.run(&setting) {
            Ok(outcome) => found.push((*experiment, outcome)),
            Err(error) => failed.push(format!("{id}: {}", progress::failed(&id, &error))),
        }
    }
    summary::write(&mut report, &found);
    failed.iter().for_each(|why| report.show(format!("  failed: {why}")));
    report.verdict(Verdict::equals("experiments_failed", failed.len(), 0));
    if let Some(path) = &options.markdown {
        write(path, &summary::markdown(&found, &setting, report.machine()))?;
    }
    if let Some(path) = &options.html {
        write(path, &page::of(&serde_json::to_value(&report)?)?)?;
    }
    report.finish(common.json.as_deref())
}
