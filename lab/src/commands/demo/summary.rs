//! Phase 4: the figures of the demonstration in the common form, with verdicts.

use serde_json::json;

use super::outage::Outage;
use crate::scenario::Figure;
use tabane_kit::report::{Report, Table, Verdict};

/// Least speed-up of two links over one.
const RATIO_MIN: f64 = 1.90;
/// Longest time until a black hole is noticed, in milliseconds: that of a bundle in quiet.
const DETECTED_MS_MAX: f64 = 50.0;
/// Longest time until the link is in use again, in milliseconds.
const RECOVERED_MS_MAX: f64 = 1_000.0;
/// Longest time in which an application may get nothing, in milliseconds.
const STALL_MS_MAX: f64 = 100.0;
/// Sound links taken for dead: none is wanted, and docs/limits.md says why there are some.
const FALSE_ALARMS_MAX: f64 = 6.0;
/// Retransmits that the bundle may have above those of one link.
const RETRANSMITS_ABOVE_MAX: f64 = 10.0;

/// Judges and shows everything; `no_programs`: why this machine has no kernel path.
pub(super) fn write(report: &mut Report, outage: &Outage, no_programs: Option<&str>) {
    let ratio = report.ratio("bundle_gbps", "single_gbps");
    let [single, bundle] = ["retransmits_single", "retransmits_bundle"].map(|key| report.median(key));
    let stall_ms = outage.transfer.gaps.longest().length.as_secs_f64() * 1e3;
    let lost = connections_lost(outage);
    let told = |figure| outage.told(figure).unwrap_or(f64::NAN);
    let (detected_ms, recovered_ms) = (told(Figure::NoticedMs), told(Figure::RecoveredMs));

    report.field("ratio", ratio);
    report.field("outage", outage_fields(outage, stall_ms, lost.len()));
    report.field("recovered_ms", recovered_ms);
    report.field("whole", outage.transfer.is_whole);

    report.verdict(Verdict::at_least("ratio", ratio, RATIO_MIN));
    report.verdict(Verdict::at_most("retransmits_bundle", bundle, single + RETRANSMITS_ABOVE_MAX));
    report.verdict(Verdict::at_most("outage.detected_ms", detected_ms, DETECTED_MS_MAX));
    report.verdict(Verdict::at_most("outage.longest_stall_ms", stall_ms, STALL_MS_MAX));
    report.verdict(Verdict::equals("outage.connections_lost", lost.len(), 0));
    report.verdict(Verdict::at_most("outage.false_alarms", told(Figure::FalseAlarms), FALSE_ALARMS_MAX));
    report.verdict(Verdict::at_most("recovered_ms", recovered_ms, RECOVERED_MS_MAX));
    report.verdict(Verdict::equals("whole", outage.transfer.is_whole, true));

    report.show(speed_table(report, ratio));
    report.show(kernel_words(no_programs));
    report.show(outage_table(outage, stall_ms));
    for loss in lost {
        report.show(format!("  lost: {loss}"));
    }
}

/// What the kernel path is and costs, or why this machine has none.
fn kernel_words(no_programs: Option<&str>) -> String {
    match no_programs {
        None => "  kernel path: programs in the kernel carry frames whole, not sealed, and each connection over one link".to_owned(),
        Some(why) => format!("  no kernel path here: {why}"),
    }
}

fn connections_lost(outage: &Outage) -> Vec<String> {
    let flow = outage.flow.as_ref().err().map(|why| format!("iperf3 connection: {why}"));
    let transfer = outage.transfer.lost.as_ref().map(|why| format!("checksummed transfer: {why}"));
    flow.into_iter().chain(transfer).collect()
}

fn outage_fields(outage: &Outage, stall_ms: f64, lost: usize) -> serde_json::Value {
    json!({
        "detected_ms": outage.told(Figure::NoticedMs),
        "detected_by": outage.reason,
        "longest_stall_ms": stall_ms,
        "stall_after_kill_ms": outage.stall_after_kill_ms,
        "connections_lost": lost,
        "false_alarms": outage.told(Figure::FalseAlarms),
        "gbps_while_dead": outage.gbps_while_dead,
        "retransmits": outage.flow.as_ref().ok().map(|flow| flow.retransmits),
        "transfer_bytes": outage.transfer.bytes,
        "transfer_copies": outage.transfer.copies,
    })
}

fn speed_table(report: &Report, ratio: f64) -> Table {
    let head = ["one TCP connection (CUBIC)", "Gbit/s", "lowest", "highest", "retransmits", "CPU, s/GB"];
    let mut table = Table::new(&head);
    for (path, label) in [
        ("single", "one link alone"),
        ("bundle", "the bundle of two"),
        ("kernel", "the same by the kernel path"),
    ] {
        let speed = report.measured(&format!("{path}_gbps"));
        if speed.values().is_empty() {
            continue;
        }
        let mut row = vec![label.to_owned()];
        row.extend([speed.median(), speed.min(), speed.max()].map(|gbps| format!("{gbps:.3}")));
        row.push(report.median(&format!("retransmits_{path}")).to_string());
        row.push(format!("{:.2}", report.median(&format!("{path}_cpu_s_per_gb"))));
        table.row(row);
    }
    table.row(vec!["ratio of the bundle to one link".into(), format!("{ratio:.3}")]);
    table
}

fn outage_table(outage: &Outage, stall_ms: f64) -> Table {
    let milliseconds =
        |value: Option<f64>| value.map_or("never".to_string(), |value| format!("{value:.1} ms"));
    let transfer = &outage.transfer;
    let mut table = Table::new(&["switch s2 as a black hole", ""]);
    table.row(vec!["noticed after".into(), milliseconds(outage.told(Figure::NoticedMs))]);
    table.row(vec!["longest stall of the transfer".into(), milliseconds(Some(stall_ms))]);
    table.row(vec!["throughput meanwhile".into(), format!("{:.2} Gbit/s", outage.gbps_while_dead)]);
    table.row(vec!["in use again after revival".into(), milliseconds(outage.told(Figure::RecoveredMs))]);
    table.row(vec![
        "false alarms, whole run".into(),
        outage.told(Figure::FalseAlarms).unwrap_or(0.0).to_string(),
    ]);
    let content = if transfer.is_whole { "equal" } else { "DIFFERENT" };
    let sent = format!("{} x, {:.2} GB", transfer.copies, transfer.bytes as f64 / 1e9);
    table.row(vec!["file sent through it all".into(), sent]);
    table.row(vec!["content at both ends".into(), content.into()]);
    table
}
