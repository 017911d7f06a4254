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
pub mod device;
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
pub mod workload;

use std::process::ExitCode;

use clap::ValueEnum;

use crate::prelude::*;
use setting::Emulated;
pub use setting::Options;
use tabane_kit::prerequisites::{BONNIE, GANESHA, NFS_CAT};

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
    /// The same with less and less of a processor for the receiving side
    #[value(name = "P0.budget")]
    Budget,
    /// Linux bonding beside bundles, several senders over several NICs, in a guest
    #[value(name = "P0.bonding")]
    Balancing,
    /// A sender that starts before three others, under transmit load balancing
    #[value(name = "P0.skew")]
    Skew,
    /// Today's policies over 2 to 8 links, with 1 to 64 senders
    #[value(name = "P0.policies")]
    Policies,
    /// FreeBSD beside Linux, and one processor budget beside another
    #[value(name = "P1.systems")]
    Systems,
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
    /// What parallel programs exchange, over one link and over two, on 4 and 8 nodes
    #[value(name = "P2.npb")]
    Parallel,
    /// The same exchange, simulated on 4 to 64 nodes
    #[value(name = "P2.scaling")]
    Scaling,
    /// Linux bonding beside bundles: both directions, packets for 1 GB, parallel programs, in a guest
    #[value(name = "P2.bonding")]
    Beside,
    /// NFS over one link and over two, in a guest
    #[value(name = "P2.nfs")]
    Nfs,
    /// Reordering, and how soon a dead link is noticed, at up to 100 Gbit/s
    #[value(name = "P2.rates")]
    Rates,
    /// Messages of 1 KB to 64 KB through a memory-slot NIC, with and without its bug
    #[value(name = "P3.size")]
    Sizes,
    /// Packets of 1 KB to 64 KB through a memory-slot NIC
    #[value(name = "P3.mtu")]
    Mtus,
    /// 1 to 16 connections through a memory-slot NIC, and over gigabit Ethernet
    #[value(name = "P3.conns")]
    Connections,
    /// How often a worker looks into the window, and by which timer
    #[value(name = "P3.poll")]
    Polls,
    /// Where the time of one packet goes
    #[value(name = "P3.packet")]
    Packet,
    /// What parallel programs exchange, and NFS, through a window of memory
    #[value(name = "P3.mpi")]
    Programs,
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

    fn tools(self) -> &'static [Tool] {
        match self {
            Experiment::Programs => &[ETHTOOL, GANESHA, NFS_CAT],
            Experiment::Sizes | Experiment::Mtus | Experiment::Connections => &[ETHTOOL],
            Experiment::Nfs => &[BONNIE, QEMU, MODPROBE, BUSYBOX],
            Experiment::Balancing => &[QEMU, MODPROBE, BUSYBOX],
            Experiment::Beside => &[QEMU, MODPROBE, BUSYBOX, ETHTOOL, IPERF3],
            Experiment::Acks | Experiment::Rates => &[IPERF3],
            _ => &[],
        }
    }

    fn is_of(self, paper: &str) -> bool {
        self.id().split('.').next() == Some(paper)
    }

    fn run(self, setting: &Setting) -> Result<Outcome> {
        match self {
            Experiment::Sending => sending::run(setting),
            Experiment::Base => matrix::run_base(setting),
            Experiment::Matrix => matrix::run(setting),
            Experiment::Budget => matrix::run_budget(setting),
            Experiment::Balancing => balancing::run(setting),
            Experiment::Skew => latecomers::run(setting),
            Experiment::Policies => policies::run(setting),
            Experiment::Systems => systems::run(setting),
            Experiment::Reclaim => reclaim::run(setting),
            Experiment::Gathering => Ok(bounce::run_gathering()),
            Experiment::Bounce => bounce::run(setting),
            Experiment::Acks => bidirectional::run_acks(setting),
            Experiment::Bidirectional => bidirectional::run(setting),
            Experiment::Parallel => parallel::run(setting),
            Experiment::Scaling => parallel::run_scaling(),
            Experiment::Beside => beside::run(setting),
            Experiment::Nfs => nfs::run(setting),
            Experiment::Rates => rates::run(setting),
            Experiment::Sizes => sizes::run(setting),
            Experiment::Mtus => sizes::run_mtus(setting),
            Experiment::Connections => connections::run(setting),
            Experiment::Polls => connections::run_polls(setting),
            Experiment::Packet => packet::run(setting),
            Experiment::Programs => programs::run(setting),
            Experiment::RoundTrips => round_trips::run(setting),
            Experiment::Anomaly => anomaly::run(),
        }
    }

    fn hand_over(self, setting: &Setting) -> Result<()> {
        match self {
            Experiment::Balancing => setting.guest.hand_over(&Emulated::of(balancing::measure(setting)?)?),
            Experiment::Beside => setting.guest.hand_over(&Emulated::of(beside::measure(setting)?)?),
            _ => setting.guest.hand_over(&Emulated::of(nfs::measure(setting)?)?),
        }
    }
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
        return chosen.iter().try_for_each(|of| of.hand_over(&setting)).map(|()| ExitCode::SUCCESS);
    }
    let mut report = Report::new("papers", common.seed);
    let commit = report.machine().commit.clone();
    let manner = options.manner();
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for experiment in &chosen {
        let id = experiment.id();
        let kept = options.resume.then(|| Outcome::kept(&id, &manner)).flatten();
        let title = format!("{id}: {}", experiment.title());
        let _step = progress::step_within(&title, progress::STEP_MAX * u32::try_from(*rounds)?);
        match kept.map_or_else(|| experiment.run(&setting), Ok) {
            Ok(mut outcome) => {
                outcome.commit = outcome.commit.or_else(|| commit.clone());
                outcome.keep(&id, &manner);
                found.push((*experiment, outcome));
            }
            Err(error) => failed.push(format!("{id}: {}", progress::failed(&id, &error))),
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
