//! The comparison in the common form: a figure per row, a path per column, and what is wanted.

use super::path::{MEMORY_PATHS, PATHS, Path};
use crate::commands::engines::waiting;
use crate::number;
use tabane_kit::report::{Bound, Report, Table, Verdict};

use Bound::{Least, Most};

/// What is measured on a path: name in files, name for people, unit. Of CPU time for 10^9 bytes there is that of the whole machine, and
/// that of the daemons of both hosts; round trips are those on a quiet path, and beside a TCP flow.
pub(super) const FIGURES: [(&str, &str, &str); 12] = [
    ("gbps", "one TCP flow", "Gbit/s"),
    ("retransmits", "retransmits", "segments"),
    ("cpu_s_per_gb", "CPU, machine", "s/GB"),
    ("daemon_cpu_s_per_gb", "CPU, daemons", "s/GB"),
    ("four_gbps", "four TCP flows", "Gbit/s"),
    ("rtt_idle_p50_us", "round trip idle p50", "µs"),
    ("rtt_idle_p99_us", "round trip idle p99", "µs"),
    ("rtt_loaded_p50_us", "round trip loaded p50", "µs"),
    ("rtt_loaded_p99_us", "round trip loaded p99", "µs"),
    ("udp64_sent_per_s", "64 B UDP sent", "1/s"),
    ("udp64_received_per_s", "64 B UDP received", "1/s"),
    ("udp64_lost_percent", "64 B UDP lost", "%"),
];
/// The path that others are compared with.
const BARE: &str = "veth";
/// Least share of bare veth's throughput that a bundle of two without sealing reaches; a prototype did. What is aimed at; no verdict.
const RATIO_MIN: f64 = 0.55;
const RATIO_AIM: f64 = 0.80;
/// Most CPU time per byte, as a multiple of bare veth's: the prototype's 1.0 s/GB over the 0.45 measured beside it.
const CPU_RATIO_MAX: f64 = 2.22;
/// Least share of bare veth's throughput that a bundle through memory reaches.
const RATIO_MEMORY_MIN: f64 = 1.0;
/// Retransmits that a bundle may have above those of bare veth.
const RETRANSMITS_ABOVE_MAX: f64 = 10.0;

/// What is wanted: a figure of a path as a multiple of another's. With sealing and by the kernel path that is what holds where all share
/// two processors; docs/limits.md says what is wanted, and why there is no more.
const WANTED: [(&str, &str, &str, &str, Bound); 11] = [
    ("unsealed2.ratio", "unsealed2", BARE, "gbps", Least(RATIO_MIN)),
    ("unsealed2_mtu65000.ratio", "unsealed2_mtu65000", BARE, "gbps", Least(0.70)),
    ("unsealed2.cpu_ratio", "unsealed2", BARE, "cpu_s_per_gb", Most(CPU_RATIO_MAX)),
    ("sealing.throughput", "bundle2", "unsealed2", "gbps", Least(0.6)),
    ("sealing.cpu", "bundle2", "unsealed2", "cpu_s_per_gb", Most(1.6)),
    ("kernel.ratio", "kernel1", BARE, "gbps", Least(0.70)),
    ("kernel.cpu_ratio", "kernel1", BARE, "cpu_s_per_gb", Most(1.3)),
    ("kernel.four_flows", "kernel1", BARE, "four_gbps", Least(0.6)),
    ("kernel.datagrams", "kernel1", BARE, "udp64_received_per_s", Least(0.55)),
    ("kernel.round_trip", "kernel1", BARE, "rtt_idle_p50_us", Most(1.10)),
    ("mem_unsealed.ratio", "mem_unsealed", BARE, "gbps", Least(RATIO_MEMORY_MIN)),
];

/// Judges and shows what has been measured.
pub(super) fn write(report: &mut Report) {
    for (id, path, base, figure, bound) in WANTED {
        let ratio = report.ratio(&format!("{path}.{figure}"), &format!("{base}.{figure}"));
        report.verdict(Verdict::within(id, ratio, bound));
    }
    let [bundle, bare] = ["bundle2", BARE].map(|path| report.median(&format!("{path}.retransmits")));
    report.verdict(Verdict::at_most("bundle2.retransmits", bundle, bare + RETRANSMITS_ABOVE_MAX));

    let (least, most) = (format!(">= {RATIO_MIN}, aim {RATIO_AIM:.2}"), format!("<= {CPU_RATIO_MAX}"));
    report.show(table(report, &PATHS, [&least, &most]));
    report.show(table(report, &MEMORY_PATHS, [&format!(">= {RATIO_MEMORY_MIN:.2}"), ""]));
    waiting::write(report, &format!("{BARE}.rtt_idle_p50_us"));
}

/// `goal`: of throughput and CPU beside bare veth.
fn table(report: &Report, paths: &[Path], goal: [&str; 2]) -> Table {
    let mut head = vec!["figure"];
    head.extend(paths.iter().map(|path| path.label));
    head.push("goal");
    let mut table = Table::new(&head);
    for (key, label, unit) in FIGURES {
        let of = |path: &str| format!("{path}.{key}");
        let medians = paths.iter().map(|path| number(report.median(&of(path.key))));
        table.row([format!("{label}, {unit}")].into_iter().chain(medians).collect());
        let Some(goal) = ["gbps", "cpu_s_per_gb"].iter().zip(goal).find(|(judged, _)| **judged == key) else {
            continue;
        };
        let ratios = paths.iter().map(|path| number(report.ratio(&of(path.key), &of(BARE))));
        table.row(
            ["  of bare veth".to_owned()].into_iter().chain(ratios).chain([goal.1.to_owned()]).collect(),
        );
    }
    table
}
