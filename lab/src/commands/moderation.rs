//! Two virtual machines whose e1000e NICs gather their interrupts, and what becomes of the order of packets over two.
//!
//! A NIC that waits before it interrupts hands over many packets at once. Over two NICs these are two heaps, and who takes
//! packets as they come takes one heap first: P2 names that as the main cause of reordering. [`super::pair`] joins the guests.

use tabane_kit::guest::Model;

use super::pair::{Caller, Measured, Way};
use crate::prelude::*;

pub use super::pair::PairOptions as Options;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3, ETHTOOL];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1200);
/// How long the NICs wait before they interrupt, in microseconds; 0: not at all.
const WAITS_US: [u32; 3] = [0, 250, 1000];
const WAYS: [(Way, &str); 3] =
    [(Way::Link, "one link"), (Way::BalanceRr, "balance-rr"), (Way::Bundle, "bundle")];
/// Keys and units.
const FIGURES: [(&str, &str); 5] = [
    ("overtaken", "‰"),
    ("lost", "‰"),
    ("interrupts", "per MB"),
    ("throughput", "Mbit/s"),
    ("retransmits", "segments"),
];

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(side) = options.side {
        let trials = || WAITS_US.into_iter().flat_map(|wait_us| WAYS.map(|way| (wait_us, way)));
        return options
            .work(side, |caller| trials().try_for_each(|(wait_us, way)| measure(caller, way, wait_us)));
    }
    let measured = options.ask("moderation", (Model::E1000e, &["bonding"]), 1, LIMIT)?;
    let mut report = Report::new("moderation", options.common.seed);
    report.field("guest_kernel", options.guest.guest()?.version());
    write(&mut report, &measured);
    report.finish(options.common.json.as_deref())
}

/// One trial: datagrams at a steady pace, and a connection as fast as it can.
fn measure(caller: &mut Caller<'_>, (way, name): (Way, &str), wait_us: u32) -> Result<()> {
    let _step = progress::step(&format!("{name}, interrupts after {wait_us} us"));
    caller.make(way, Some(wait_us))?;
    let [_, before] = caller.counted()?;
    let [sent, received, overtaken] = caller.send_datagrams()?.map(|count| count as f64);
    let [_, after] = caller.counted()?;
    let flow = caller.fill(1)?;
    caller.end()?;
    let megabytes = (after.received_bytes - before.received_bytes) as f64 / 1e6;
    let values = [
        1e3 * overtaken / sent,
        1e3 * (sent - received) / sent,
        (after.interrupts - before.interrupts) as f64 / megabytes,
        1e3 * flow.gbps,
        flow.retransmits as f64,
    ];
    for ((key, _), value) in FIGURES.into_iter().zip(values) {
        caller.push(format!("{name}.{wait_us}.{key}"), value);
    }
    Ok(())
}

/// A row for each way and wait, against what is wanted of a bundle.
fn write(report: &mut Report, measured: &Measured) {
    let head = ["", "NICs wait", "overtaken, ‰", "lost, ‰", "interrupts per MB", "TCP, Mbit/s", "sent again"];
    let mut table = Table::new(head);
    for (wait_us, (way, name)) in WAITS_US.into_iter().flat_map(|wait_us| WAYS.map(|way| (wait_us, way))) {
        let mut row = vec![name.to_string(), format!("{wait_us} us")];
        for (key, unit) in FIGURES {
            let id = format!("{name}.{wait_us}.{key}");
            for (_, value) in measured.iter().filter(|(key, _)| *key == id) {
                report.push(&*id, unit, *value);
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
