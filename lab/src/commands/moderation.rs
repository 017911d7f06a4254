//! Two virtual machines whose e1000e NICs gather their interrupts, and what becomes of the order of packets over two.
//!
//! A NIC that waits before it interrupts hands over many packets at once. Over two NICs these are two heaps, and who takes
//! packets as they come takes one heap first: P2 names that as the main cause of reordering. [`super::pair`] joins the guests.
//!
//! 1. [`node`]: what each guest does, and how the one asks the other.
//! 2. [`summary`]: how each way fares, the longer the NICs wait.

mod node;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

pub use super::pair::Options;
use super::pair::Way;
use tabane_kit::guest::Model;
use tabane_kit::prerequisites::{BUSYBOX, ETHTOOL, IPERF3, MODPROBE, QEMU, Tool};
use tabane_kit::report::Report;
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
    summary::write(&mut report, &measured);
    report.finish(options.common.json.as_deref())
}
