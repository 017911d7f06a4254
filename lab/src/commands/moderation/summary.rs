//! A row for each way and wait, against what is wanted of a bundle.

use super::path::Way;
use super::{Measured, Trial, WAITS_US};
use tabane_kit::report::{Report, Samples, Table, Verdict};

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
    for wait_us in WAITS_US {
        for way in Way::ALL {
            let trial = Trial { way, wait_us };
            let mut row = vec![way.label().to_string(), format!("{wait_us} us")];
            for (key, unit, compute) in FIGURES {
                let trials = measured.iter().filter(|one| one.trial == trial);
                let samples = Samples::new(unit, trials.map(compute).collect());
                row.push(format!("{:.1}", samples.median()));
                if way == Way::Bundle && key == "overtaken" {
                    report.verdict(Verdict::at_most(
                        &format!("bundle.{wait_us}.overtaken"),
                        samples.max(),
                        0.0,
                    ));
                }
                report.samples(format!("{}.{wait_us}.{key}", way.label()), samples);
            }
            table.row(row);
        }
    }
    report.show(table);
    report.show("  datagrams at a steady pace, then a connection as fast as it can; emulated processors are busy before two links\n  are full, so speeds compare with each other only");
}
