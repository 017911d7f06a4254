//! Two virtual machines and the drivers of real NICs between them: a bare link, and a bundle over two by the kernel path and by
//! cells.
//!
//! Over a veth a superframe stays whole from one stack to the other. Here it is cut into segments in front of the cable, by the NIC
//! or by the kernel for it, and what comes is segments. [`super::pair`] joins the guests.

use tabane_kit::guest::Model;
use tabane_kit::machine::processors;

use super::pair::{Caller, Measured, Way};
use crate::prelude::*;

pub use super::pair::PairOptions as Options;

/// What the command needs besides the sandbox's own tools.
pub const TOOLS: &[Tool] = &[QEMU, MODPROBE, BUSYBOX, IPERF3];
/// Longest that both guests may take.
const LIMIT: Duration = Duration::from_secs(1800);
const CONNECTIONS: [u8; 2] = [1, 4];
/// The ways, with their names in reports and for people.
const WAYS: [(Way, &str, &str); 3] = [
    (Way::Link, "bare", "one bare link"),
    (Way::Kernel, "kernel", "kernel path, hash"),
    (Way::Cells, "cells", "cells, hash"),
];
/// Ends of keys, with their units; others have none. Processor time is that of both guests.
const UNITS: [(&str, &str); 5] = [
    ("throughput", "Mbit/s"),
    ("cpu", "s/GB"),
    ("retransmits", "segments"),
    ("frame_bytes_sent", "bytes"),
    ("frame_bytes_received", "bytes"),
];

/// Bytes that no segment has: the links carry packets of 1,500.
const SUPERFRAME_MIN: f64 = 3_000.0;
/// Most frames in cells beside files by the kernel path: neighbours' questions.
const FEW: f64 = 100.0;

/// Measures.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(side) = options.side {
        return options.work(side, |caller| WAYS.into_iter().try_for_each(|way| measure(caller, way)));
    }
    let mut report = Report::new("nics", options.common.seed);
    report.field("guest_kernel", options.guest.guest()?.version());
    // Both guests are busy at once.
    let half = (processors()?.len() / 2).max(1);
    for model in [Model::E1000e, Model::VirtioNet] {
        let measured = options.ask("nics", (model, &[]), half, LIMIT)?;
        write(&mut report, model, &measured);
    }
    report.show("  emulated processors: speeds compare with each other only");
    report.finish(options.common.json.as_deref())
}

/// Fills a way by connections, and sends files over it.
fn measure(caller: &mut Caller<'_>, (way, key, label): (Way, &str, &str)) -> Result<()> {
    let _step = progress::step(label);
    caller.make(way, None)?;
    for connections in CONNECTIONS {
        let before = caller.counted()?;
        let flow = caller.fill(connections)?;
        let after = caller.counted()?;
        let used: f64 =
            [0, 1].map(|end| after[end].machine_seconds - before[end].machine_seconds).iter().sum();
        caller.push(format!("{key}.{connections}.throughput"), 1e3 * flow.gbps);
        caller.push(format!("{key}.{connections}.cpu"), used * 1e9 / flow.bytes as f64);
        caller.push(format!("{key}.{connections}.retransmits"), flow.retransmits as f64);
    }
    let before = caller.counted()?;
    for connections in CONNECTIONS {
        let whole = caller.send_files(connections)?;
        caller.push(format!("{key}.files_damaged"), f64::from(connections) - whole as f64);
    }
    let after = caller.counted()?;
    if way == Way::Kernel {
        // What programs gave to the links, and what those at the other end handed on.
        for (end, name) in ["sent", "received"].into_iter().enumerate() {
            let [frames, bytes] =
                [0, 1].map(|which| after[end].by_programs[end][which] - before[end].by_programs[end][which]);
            caller.push(format!("{key}.frame_bytes_{name}"), bytes as f64 / frames as f64);
        }
        caller.push(format!("{key}.in_cells"), (after[0].in_cells - before[0].in_cells) as f64);
    }
    caller.end()
}

/// Writes what was measured over NICs of this kind into `report`.
fn write(report: &mut Report, model: Model, measured: &Measured) {
    let of = |key: &str| format!("{}.{key}", model.module());
    for (key, value) in measured {
        let unit = UNITS.into_iter().find(|(end, _)| key.ends_with(end)).map_or("", |(_, unit)| unit);
        report.push(of(key), unit, *value);
    }
    let mut table = Table::new([
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
        let frames =
            ["sent", "received"].map(|end| report.measured(&of(&format!("{key}.frame_bytes_{end}"))));
        let damaged = report.measured(&of(&format!("{key}.files_damaged"))).max();
        report.verdict(Verdict::at_most(&of(&format!("{key}.files_damaged")), damaged, 0.0));
        if way == Way::Kernel {
            // What arrives is segments again, unless the kernel gathers them.
            let sent = frames[0].min();
            report.verdict(Verdict::at_least(&of("kernel.frame_bytes"), sent, SUPERFRAME_MIN));
            let in_cells = report.measured(&of("kernel.in_cells")).max();
            report.verdict(Verdict::at_most(&of("kernel.in_cells"), in_cells, FEW));
        }
        for connections in CONNECTIONS {
            let mut row = vec![label.to_string(), connections.to_string()];
            for figure in ["throughput", "cpu"] {
                let own = of(&format!("{key}.{connections}.{figure}"));
                let ratio = report.ratio(&own, &of(&format!("bare.{connections}.{figure}")));
                row.extend([format!("{:.1}", report.median(&own)), format!("{ratio:.2}")]);
                report.push(format!("{own}_ratio"), "", ratio);
            }
            row.push(number(report.median(&of(&format!("{key}.{connections}.retransmits")))));
            row.extend(frames.each_ref().map(|bytes| number(bytes.median())));
            table.row(row);
        }
    }
    report.show(table);
}
