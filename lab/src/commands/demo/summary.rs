//! Phase 4: the figures of the demonstration in the common form, with verdicts.

use serde_json::json;

use super::kernel_path;
use super::outage::Outage;
use super::speed::{Flows, Speed};
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

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, speed: Speed, outage: &Outage, kernel_path: kernel_path::Outcome) {
    let single = (speed.single.gbps.median(), speed.single.retransmits.median());
    let bundle = (speed.bundle.gbps.median(), speed.bundle.retransmits.median());
    let ratio = bundle.0 / single.0;
    let stall_ms = outage.transfer.gaps.longest().length.as_secs_f64() * 1e3;
    let lost = connections_lost(outage);

    report.field("single_gbps", single.0);
    report.field("bundle_gbps", bundle.0);
    report.field("ratio", ratio);
    report.field("retransmits_single", single.1);
    report.field("retransmits_bundle", bundle.1);
    report.field("outage", outage_fields(outage, stall_ms, lost.len()));
    report.field("recovered_ms", outage.recovered_ms);
    report.field("whole", outage.transfer.is_whole);

    report.verdict(Verdict::at_least("ratio", ratio, RATIO_MIN));
    report.verdict(Verdict::at_most("retransmits_bundle", bundle.1, single.1 + RETRANSMITS_ABOVE_MAX));
    let detected_ms = outage.detected_ms.unwrap_or(f64::NAN);
    report.verdict(Verdict::at_most("outage.detected_ms", detected_ms, DETECTED_MS_MAX));
    report.verdict(Verdict::at_most("outage.longest_stall_ms", stall_ms, STALL_MS_MAX));
    report.verdict(Verdict::equals("outage.connections_lost", lost.len(), 0));
    let false_alarms = outage.false_alarms as f64;
    report.verdict(Verdict::at_most("outage.false_alarms", false_alarms, FALSE_ALARMS_MAX));
    let recovered_ms = outage.recovered_ms.unwrap_or(f64::NAN);
    report.verdict(Verdict::at_most("recovered_ms", recovered_ms, RECOVERED_MS_MAX));
    report.verdict(Verdict::equals("whole", outage.transfer.is_whole, true));

    report.show(speed_table(&speed, kernel_path.as_ref().ok(), ratio));
    report.show(kernel_words(&kernel_path));
    report.show(outage_table(outage, stall_ms));
    for loss in lost {
        report.show(format!("  lost: {loss}"));
    }
    keep(report, speed, kernel_path.ok());
}

fn keep(report: &mut Report, speed: Speed, kernel_path: Option<Flows>) {
    let paths = [("single", Some(speed.single)), ("bundle", Some(speed.bundle)), ("kernel", kernel_path)];
    for (path, flows) in paths.into_iter().filter_map(|(path, flows)| Some((path, flows?))) {
        report.samples(format!("{path}_gbps"), flows.gbps);
        report.samples(format!("retransmits_{path}"), flows.retransmits);
        report.samples(format!("{path}_cpu_s_per_gb"), flows.cpu);
    }
}

/// What the kernel path is and costs, or why this machine has none.
fn kernel_words(kernel_path: &kernel_path::Outcome) -> String {
    match kernel_path {
        Ok(_) => "  kernel path: programs in the kernel carry frames whole, not sealed, and each connection over one link".to_owned(),
        Err(why) => format!("  no kernel path here: {why}"),
    }
}

fn connections_lost(outage: &Outage) -> Vec<String> {
    let flow = outage.flow.as_ref().err().map(|why| format!("iperf3 connection: {why}"));
    let transfer = outage.transfer.lost.as_ref().map(|why| format!("checksummed transfer: {why}"));
    flow.into_iter().chain(transfer).collect()
}

fn outage_fields(outage: &Outage, stall_ms: f64, lost: usize) -> serde_json::Value {
    json!({
        "detected_ms": outage.detected_ms,
        "detected_by": outage.reason,
        "longest_stall_ms": stall_ms,
        "stall_after_kill_ms": outage.stall_after_kill_ms,
        "connections_lost": lost,
        "false_alarms": outage.false_alarms,
        "gbps_while_dead": outage.gbps_while_dead,
        "retransmits": outage.flow.as_ref().ok().map(|flow| flow.retransmits),
        "transfer_bytes": outage.transfer.bytes,
        "transfer_copies": outage.transfer.copies,
    })
}

fn speed_table(speed: &Speed, kernel_path: Option<&Flows>, ratio: f64) -> Table {
    let mut table = Table::new(&[
        "one TCP connection (CUBIC)",
        "Gbit/s",
        "lowest",
        "highest",
        "retransmits",
        "CPU, s/GB",
    ]);
    let bundles = [("one link alone", Some(&speed.single)), ("the bundle of two", Some(&speed.bundle))];
    let rows = bundles.into_iter().chain([("the same by the kernel path", kernel_path)]);
    for (label, flows) in rows.filter_map(|(label, flows)| Some((label, flows?))) {
        let gbps = |value: f64| format!("{value:.3}");
        table.row(vec![
            label.into(),
            gbps(flows.gbps.median()),
            gbps(flows.gbps.min()),
            gbps(flows.gbps.max()),
            flows.retransmits.median().to_string(),
            format!("{:.2}", flows.cpu.median()),
        ]);
    }
    table.row(vec!["ratio of the bundle to one link".into(), format!("{ratio:.3}")]);
    table
}

fn outage_table(outage: &Outage, stall_ms: f64) -> Table {
    let milliseconds =
        |value: Option<f64>| value.map_or("never".to_string(), |value| format!("{value:.1} ms"));
    let transfer = &outage.transfer;
    let mut table = Table::new(&["switch s2 as a black hole", ""]);
    table.row(vec!["noticed after".into(), milliseconds(outage.detected_ms)]);
    table.row(vec!["longest stall of the transfer".into(), milliseconds(Some(stall_ms))]);
    table.row(vec!["throughput meanwhile".into(), format!("{:.2} Gbit/s", outage.gbps_while_dead)]);
    table.row(vec!["in use again after revival".into(), milliseconds(outage.recovered_ms)]);
    table.row(vec!["false alarms, whole run".into(), outage.false_alarms.to_string()]);
    let content = if transfer.is_whole { "equal" } else { "DIFFERENT" };
    let sent = format!("{} x, {:.2} GB", transfer.copies, transfer.bytes as f64 / 1e9);
    table.row(vec!["file sent through it all".into(), sent]);
    table.row(vec!["content at both ends".into(), content.into()]);
    table
}
