//! Two virtual machines whose e1000e NICs gather their interrupts, and what becomes of the order of packets over two.
//!
//! A NIC that waits before it interrupts hands over many packets at once. Over two NICs these are two heaps, and who takes
//! packets as they come takes one heap first: P2 names that as the main cause of reordering. [`super::pair`] joins the guests.
//! [`node`] has what each guest does, and how the one asks the other.

mod node;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

pub use super::pair::PairOptions as Options;
use super::pair::Way;
use tabane_kit::guest::Model;
use tabane_kit::prerequisites::{BUSYBOX, ETHTOOL, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::report::{Report, Table, Verdict};
use tabane_kit::workload::sequence::Pace;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3, ETHTOOL];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1200);
/// Datagrams that all ways have room for on emulated processors: 22 Mbit/s.
const PACE: Pace = Pace { per_second: 2_000, bytes: 1_400 };
/// How long the NICs wait before they interrupt, in microseconds; 0: not at all.
const WAITS_US: [u32; 3] = [0, 250, 1000];
/// The ways, with their names.
const WAYS: [(Way, &str); 3] =
    [(Way::Link, "one link"), (Way::BalanceRr, "balance-rr"), (Way::Bundle, "bundle")];

/// Flows to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trial {
    way: Way,
    /// How long the NICs wait before they interrupt, in microseconds.
    wait_us: u32,
}

/// What became of datagrams at a steady pace, and what they took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Paced {
    sent: u64,
    lost: u64,
    /// Those that came after one that was sent later.
    overtaken: u64,
    /// Interrupts of both links.
    interrupts: u64,
    /// Bytes that both links received, in 10^6.
    megabytes: f64,
}

/// One trial: datagrams at a steady pace, and a connection as fast as it can.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measured {
    trial: Trial,
    paced: Paced,
    /// Payload per second of the connection, in Mbit/s.
    mbit: f64,
    /// Segments of it that were sent again.
    retransmits: u64,
}

/// A figure of one trial.
type Figure = fn(&Measured) -> f64;

/// Figures: key, unit, and how they are computed.
const FIGURES: [(&str, &str, Figure); 5] = [
    ("overtaken", "‰", |one| 1e3 * one.paced.overtaken as f64 / one.paced.sent as f64),
    ("lost", "‰", |one| 1e3 * one.paced.lost as f64 / one.paced.sent as f64),
    ("interrupts", "per MB", |one| one.paced.interrupts as f64 / one.paced.megabytes),
    ("throughput", "Mbit/s", |one| one.mbit),
    ("retransmits", "segments", |one| one.retransmits as f64),
];

/// All flows, in the order in which they are measured.
fn trials(options: &Options) -> impl Iterator<Item = Trial> + use<> {
    let of_wait = |wait_us| WAYS.map(|(way, _)| Trial { way, wait_us });
    (0..options.rounds).flat_map(move |_| WAITS_US.into_iter().flat_map(of_wait))
}

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(side) = options.side {
        return node::work(options, side).map(|()| ExitCode::SUCCESS);
    }
    let measured: Vec<Measured> = options.ask("moderation", (Model::E1000e, &["bonding"]), 1, LIMIT)?;
    let mut report = Report::new("moderation", options.common.seed);
    report.field("guest_kernel", options.guest.guest()?.version());
    write(&mut report, &measured);
    report.finish(options.common.json.as_deref())
}

/// A row for each way and wait, against what is wanted of a bundle.
fn write(report: &mut Report, measured: &[Measured]) {
    let head = ["", "NICs wait", "overtaken, ‰", "lost, ‰", "interrupts per MB", "TCP, Mbit/s", "sent again"];
    let mut table = Table::new(&head);
    for (wait_us, (way, name)) in WAITS_US.into_iter().flat_map(|wait_us| WAYS.map(|way| (wait_us, way))) {
        let mut row = vec![name.to_string(), format!("{wait_us} us")];
        for (key, unit, compute) in FIGURES {
            let id = format!("{name}.{wait_us}.{key}");
            for one in measured.iter().filter(|one| one.trial == Trial { way, wait_us }) {
                report.push(&*id, unit, compute(one));
            }
            row.push(format!("{:.1}", report.median(&id)));
            if way == Way::Bundle && key == "overtaken" {
                report.verdict(Verdict::at_most(&id, report.measured(&id).max(), 0.0));
            }
        }
        table.row(row);
    }
    report.show(table);
    report.show("  datagrams at a steady pace, then a connection as fast as it can; emulated processors are busy before two links\n  are full, so speeds compare with each other only");
}
