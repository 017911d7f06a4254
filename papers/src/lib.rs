//! The papers' measurements, repeated here: published figures beside those of this machine, and whether each finding holds.
//!
//! Both hosts are on this machine, and the links are shaped to the papers' rates. Rates can be compared with the published
//! ones; times and shares of the processor tell of this machine. Machines that nobody has any more are simulated
//! (`crate::device`), and every row says whether it is.
//!
//! ```text
//! an experiment per file ── outcome ── summary ── report, Markdown
//! matrix, balancing, sending, latecomers, policies (P0) · systems, reclaim, bounce (P1)
//! bidirectional, parallel, beside, nfs, rates (P2) · sizes, connections, packet, programs (P3)
//! anomaly, round_trips (P4)
//! ```
//!
//! What the papers compare with Linux bonding is compared with it in a guest, whose kernel has it: `balancing`, `beside` and `nfs`.
//!
//! [`device`] has models of machines that nobody has any more; [`workload`] is what only these measurements run.

mod anomaly;
mod balancing;
mod beside;
mod bidirectional;
mod bounce;
pub mod cgroup;
mod connections;
mod latecomers;
mod matrix;
mod memory;
mod nfs;
mod outcome;
mod packet;
mod parallel;
mod plot;
mod policies;
mod prelude;
mod programs;
mod rates;
mod reclaim;
mod replay;
mod rings;
mod round_trips;
mod sending;
mod setting;
mod sizes;
mod skew;
mod streams;
mod summary;
mod swept;
mod systems;
mod way;

/// Models of the papers' machines: the costs of their devices and processors, with the project's engines at work on them.
///
/// Nobody has these machines any more. Each is a set of figures with their sources (`oc48`, `exchange`): most are
/// from the papers or from the standards that they name, some are assumed, and some are fitted to a published figure; a
/// test says to which. The other figures of a model are predictions, and are compared with the other published figures.
/// `ping_pong` is no paper's machine: seeds draw its parameters, to try what judges round trips.
///
/// ```text
///   sender: a processor that sends packets ── engine (tabane_engine) ── card: descriptors, bus, memory, line     (P1)
///   exchange: two hosts that poll ── slot: units written and read through a window, a wire                      (P3)
///   ping_pong: two hosts, NICs that moderate interrupts and write by lines of memory, a switch                  (P4)
/// ```
pub mod device {
    mod card;
    pub mod exchange;
    pub mod oc48;
    pub mod ping_pong;
    pub mod sender;
    mod slot;

    pub use slot::SlotSettings;
}

/// What runs through a path in these measurements, and nowhere else.
pub mod workload {
    pub mod bonnie;
    pub mod exchange;
    pub mod nfs;
    pub mod ranks;
    pub mod returned;
}

use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::prelude::*;
use setting::Emulated;
pub use setting::Options;
use tabane_kit::prerequisites::{BONNIE, GANESHA, NFS_CAT};

/// A measurement of a paper.
#[derive(Clone, Copy, Debug)]
struct Experiment {
    id: &'static str,
    title: &'static str,
    tools: &'static [Tool],
    run: fn(&Setting) -> Result<Outcome>,
    /// What is done in the guest of one that is measured there.
    in_guest: Option<fn(&Setting) -> Result<()>>,
}

/// All of them, in the order of the papers.
const EXPERIMENTS: [Experiment; 26] = [
    of("P0.send", "What single calls of `send()` cost in a long stream", sending::run),
    of("P0.base", "One sender over one NIC of 100 Mbit/s and of 1 Gbit/s", matrix::run_base),
    of(
        "P0.matrix",
        "Several senders over several NICs, under round robin and under transmit load balancing",
        matrix::run,
    ),
    of("P0.budget", "The same with less and less of a processor for the receiving side", matrix::run_budget),
    of(
        "P0.bonding",
        "Linux bonding beside bundles, several senders over several NICs, in a guest",
        balancing::run,
    )
    .with(&[QEMU, MODPROBE, BUSYBOX])
    .in_guest(|setting| hand_over(setting, balancing::measure(setting)?)),
    of("P0.skew", "A sender that starts before three others, under transmit load balancing", latecomers::run),
    of("P0.policies", "Today's policies over 2 to 8 links, with 1 to 64 senders", policies::run),
    of("P1.systems", "FreeBSD beside Linux, and one processor budget beside another", systems::run),
    of(
        "P1.sweep",
        "Messages of 64 B to 64 KB, their buffers reclaimed by interrupt, lazily, or adaptively",
        reclaim::run,
    ),
    of("P1.cost", "What it costs to gather a packet from many fragments", |_| Ok(bounce::run_gathering())),
    of("P1.bounce", "The first fragments copied into one buffer", bounce::run),
    of("P2.acks", "Packets that it takes to send 1 GB", bidirectional::run_acks).with(&[IPERF3]),
    of("P2.bidir", "Both directions at once over two links", bidirectional::run),
    of(
        "P2.npb",
        "What parallel programs exchange, over one link and over two, on 4 and 8 nodes",
        parallel::run,
    ),
    of("P2.scaling", "The same exchange, simulated on 4 to 64 nodes", |_| parallel::run_scaling()),
    of(
        "P2.bonding",
        "Linux bonding beside bundles: both directions, packets for 1 GB, parallel programs, in a guest",
        beside::run,
    )
    .with(&[QEMU, MODPROBE, BUSYBOX, ETHTOOL, IPERF3])
    .in_guest(|setting| hand_over(setting, beside::measure(setting)?)),
    of("P2.nfs", "NFS over one link and over two, in a guest", nfs::run)
        .with(&[BONNIE, QEMU, MODPROBE, BUSYBOX])
        .in_guest(|setting| hand_over(setting, nfs::measure(setting)?)),
    of("P2.rates", "Reordering, and how soon a dead link is noticed, at up to 100 Gbit/s", rates::run)
        .with(&[IPERF3]),
    of(
        "P3.size",
        "Messages of 1 KB to 64 KB through a memory-slot NIC, with and without its bug",
        sizes::run,
    )
    .with(&[ETHTOOL]),
    of("P3.mtu", "Packets of 1 KB to 64 KB through a memory-slot NIC", sizes::run_mtus).with(&[ETHTOOL]),
    of(
        "P3.conns",
        "1 to 16 connections through a memory-slot NIC, and over gigabit Ethernet",
        connections::run,
    )
    .with(&[ETHTOOL]),
    of("P3.poll", "How often a worker looks into the window, and by which timer", connections::run_polls),
    of("P3.packet", "Where the time of one packet goes", packet::run),
    of("P3.mpi", "What parallel programs exchange, and NFS, through a window of memory", programs::run)
        .with(&[ETHTOOL, GANESHA, NFS_CAT]),
    of("P4.rtt", "Round trips of messages of 1 B and 1 KB", round_trips::run),
    of("P4.anomaly", "Larger messages that are faster than any smaller one", |_| anomaly::run()),
];

const fn of(id: &'static str, title: &'static str, run: fn(&Setting) -> Result<Outcome>) -> Experiment {
    Experiment { id, title, tools: &[], run, in_guest: None }
}

impl Experiment {
    const fn with(self, tools: &'static [Tool]) -> Experiment {
        Experiment { tools, ..self }
    }

    const fn in_guest(self, measure: fn(&Setting) -> Result<()>) -> Experiment {
        Experiment { in_guest: Some(measure), ..self }
    }

    fn is_of(&self, paper: &str) -> bool {
        self.id.split('.').next() == Some(paper)
    }
}

impl ValueEnum for Experiment {
    fn value_variants<'a>() -> &'a [Experiment] {
        &EXPERIMENTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.id).help(self.title))
    }
}

fn hand_over<T: Serialize>(setting: &Setting, figures: T) -> Result<()> {
    setting.guest.hand_over(&Emulated::of(figures)?)
}

fn write(path: &Path, text: &str) -> Result<()> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("writing {}", path.display()))
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let Options { common, rounds, markdown, guest, .. } = options;
    let setting =
        Setting { daemon: common.daemon()?, guest: guest.clone(), rounds: *rounds, seconds: options.seconds };
    let chosen = options.chosen();
    if guest.is_inside() {
        let mut measured = chosen.iter().filter_map(|experiment| experiment.in_guest);
        return measured.try_for_each(|measure| measure(&setting)).map(|()| ExitCode::SUCCESS);
    }
    let mut report = Report::new("papers", common.seed);
    let commit = report.machine().commit.clone();
    let manner = options.manner();
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for experiment in &chosen {
        let Experiment { id, title, run, .. } = *experiment;
        let kept = options.resume.then(|| Outcome::kept(id, &manner)).flatten();
        let title = format!("{id}: {title}");
        let _step = progress::step_within(&title, progress::STEP_MAX * u32::try_from(*rounds)?);
        match kept.map_or_else(|| run(&setting), Ok) {
            Ok(mut outcome) => {
                outcome.commit = outcome.commit.or_else(|| commit.clone());
                outcome.keep(id, &manner);
                found.push((*experiment, outcome));
            }
            Err(error) => failed.push(format!("{id}: {}", progress::failed(id, &error))),
        }
    }
    summary::write(&mut report, &found);
    failed.iter().for_each(|why| report.show(format!("  failed: {why}")));
    report.verdict(Verdict::equals("experiments_failed", failed.len(), 0));
    let tables = summary::markdown(&found, &setting, report.machine());
    // First what can be computed from and compared: a page that cannot be written shall not take it along.
    let code = report.finish(common.json.as_deref())?;
    if let Some(page) = markdown {
        write(page, &tables)?;
        let directory = page.parent().unwrap_or(Path::new("."));
        let pictures = found.iter().flat_map(|(_, outcome)| &outcome.pictures);
        for picture in pictures {
            write(&directory.join(summary::picture_path(picture)), &picture.svg)?;
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_written_into_directories_that_are_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("docs/results.md");
        write(&path, "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let error = write(&path.join("below a file"), "text").unwrap_err().to_string();
        assert!(error.starts_with("writing "), "{error}");
    }
}
