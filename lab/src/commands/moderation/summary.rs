//! A row for each way and wait, against what is wanted of a bundle.

use super::{Measured, Trial, WAITS_US, WAYS};
use crate::commands::pair::Way;
use tabane_kit::report::{Report, Table, Verdict};

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

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, measured: &[Measured]) {
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
