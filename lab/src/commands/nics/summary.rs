//! A row for each way, beside the bare link, and what is wanted of the kernel path.

use super::path::Way;
use super::{CONNECTIONS, Measured, Speed};
use tabane_kit::guest::Model;
use tabane_kit::report::{Report, Samples, Table, Verdict};

/// Bytes that no segment has: the links carry packets of 1,500.
const SUPERFRAME_MIN: f64 = 3_000.0;
/// Most frames in cells beside files by the kernel path: neighbours' questions.
const FEW: f64 = 100.0;

/// A figure of so many connections.
type Figure = fn(&Speed) -> f64;

const THROUGHPUT: Figure = |speed| speed.mbit;
const CPU: Figure = |speed| speed.cpu_s_per_gb;
const AGAIN: Figure = |speed| speed.retransmits as f64;

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
    let all = |way, connections, figure: Figure| -> Vec<f64> {
        let speeds = measured.iter().filter(|one| one.way == way).flat_map(|one| &one.speeds);
        speeds.filter(|speed| speed.connections == connections).map(figure).collect()
    };
    for way in Way::ALL {
        let name = format!("{}.{}", model.module(), way.key());
        let frames = frames(report, &name, way, measured);
        for connections in CONNECTIONS {
            let mut row = vec![way.label().to_string(), connections.to_string()];
            for (key, unit, figure) in [("throughput", "Mbit/s", THROUGHPUT), ("cpu", "s/GB", CPU)] {
                let samples = Samples::new(unit, all(way, connections, figure));
                let ratio =
                    samples.median() / Samples::new(unit, all(Way::Bare, connections, figure)).median();
                row.extend([format!("{:.1}", samples.median()), format!("{ratio:.2}")]);
                report.samples(format!("{name}.{connections}.{key}"), samples);
                report.samples(format!("{name}.{connections}.{key}_ratio"), Samples::new("", vec![ratio]));
            }
            let again = Samples::new("segments", all(way, connections, AGAIN));
            row.push(format!("{:.0}", again.median()));
            report.samples(format!("{name}.{connections}.retransmits"), again);
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
    let median = |figure: &dyn Fn(&Measured) -> f64| {
        Samples::new("bytes", trials.iter().map(|one| figure(one)).collect())
    };
    let mean = |end: usize| {
        median(&|one| {
            let [frames, bytes] = one.crossed.by_programs[end];
            bytes as f64 / frames as f64
        })
    };
    let (sent, received) = (mean(0), mean(1));
    let in_cells = median(&|one| one.crossed.in_cells as f64);
    report.verdict(Verdict::at_least(&format!("{name}.frame_bytes"), sent.min(), SUPERFRAME_MIN));
    report.verdict(Verdict::at_most(&format!("{name}.in_cells"), in_cells.max(), FEW));
    let shown = [sent.median(), received.median()];
    report.samples(format!("{name}.frame_bytes_sent"), sent);
    report.samples(format!("{name}.frame_bytes_received"), received);
    shown
}
