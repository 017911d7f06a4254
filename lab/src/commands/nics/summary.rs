//! A row for each way, beside the bare link, and what is wanted of the kernel path.

use super::{CONNECTIONS, Measured, Speed, WAYS};
use crate::commands::pair::Way;
use tabane_kit::guest::Model;
use tabane_kit::report::{Report, Table, Verdict};

/// Bytes that no segment has: the links carry packets of 1,500.
const SUPERFRAME_MIN: f64 = 3_000.0;
/// Most frames in cells beside files by the kernel path: neighbours' questions.
const FEW: f64 = 100.0;

/// Figures of so many connections: key, unit, and how they are computed.
const FIGURES: [(&str, &str, fn(&Speed) -> f64); 3] = [
    ("throughput", "Mbit/s", |speed| speed.mbit),
    ("cpu", "s/GB", |speed| speed.cpu_s_per_gb),
    ("retransmits", "segments", |speed| speed.retransmits as f64),
];

/// Writes what was measured over NICs of this kind into `report`.
pub(super) fn write(report: &mut Report, model: Model, measured: &[Measured]) {
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
