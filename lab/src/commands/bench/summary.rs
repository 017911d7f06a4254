//! The comparison in the common form: a figure per row, a path per column, and what is wanted.

use super::figure::{Figure, Figures};
use super::path::{
    BARE, BUNDLE_2, KERNEL, MEM_UNSEALED, MEMORY_PATHS, PATHS, Path, UNSEALED_2, UNSEALED_JUMBO,
};
use crate::commands::engines::waiting;
use crate::figures::{Quantity, number};
use tabane_kit::report::{Report, Table, Verdict};

/// Least share of bare veth's throughput that a bundle of two without sealing reaches; a prototype did.
const RATIO_MIN: f64 = 0.55;
/// The same with a device of MTU 65000.
const RATIO_JUMBO_MIN: f64 = 0.70;
/// What is aimed at; no verdict.
const RATIO_AIM: f64 = 0.80;
/// Most CPU time per byte, as a multiple of bare veth's: the prototype's 1.0 s/GB over the 0.45 measured beside it.
const CPU_RATIO_MAX: f64 = 2.22;
/// Least share of the throughput without sealing that is left with it, and most CPU time per byte, as a multiple of that without:
/// what holds where cipher and flow share two processors. docs/limits.md says what is wanted.
const SEALED_MIN: f64 = 0.6;
const SEALED_CPU_MAX: f64 = 1.6;
/// Least share of bare veth's throughput that a bundle through memory reaches.
const RATIO_MEMORY_MIN: f64 = 1.0;
/// Least share of bare veth that the kernel path reaches with one flow, with four, and of small datagrams; most CPU time per byte
/// and most round trip, as multiples of bare veth's. docs/limits.md says why four flows and datagrams have no more.
const KERNEL_RATIO_MIN: f64 = 0.70;
const KERNEL_FOUR_MIN: f64 = 0.6;
const KERNEL_DATAGRAMS_MIN: f64 = 0.55;
const KERNEL_CPU_MAX: f64 = 1.3;
const KERNEL_ROUND_TRIP_MAX: f64 = 1.10;
/// Retransmits that a bundle may have above those of bare veth.
const RETRANSMITS_ABOVE_MAX: f64 = 10.0;

/// Writes everything into `report`: `figures` of the paths over cables, `memory` of those that leave no machine, `engines`
/// of the receive engines.
pub(super) fn write(
    report: &mut Report,
    figures: &[Figures],
    memory: &[Figures],
    engines: &[waiting::Row],
    (seconds, rounds): (u32, u32),
) {
    let bare = &figures[BARE];
    let ratio = |path: usize| of_bare(&figures[path], bare, Figure::Throughput);
    let cpu_ratio = of_bare(&figures[UNSEALED_2], bare, Figure::Cpu);
    let sealing = |figure| figures[BUNDLE_2].median(figure) / figures[UNSEALED_2].median(figure);
    let retransmits = |path: usize| figures[path].median(Figure::Retransmits);
    report.verdict(Verdict::at_least("unsealed2.ratio", ratio(UNSEALED_2), RATIO_MIN));
    report.verdict(Verdict::at_least("unsealed2_mtu65000.ratio", ratio(UNSEALED_JUMBO), RATIO_JUMBO_MIN));
    report.verdict(Verdict::at_most("unsealed2.cpu_ratio", cpu_ratio, CPU_RATIO_MAX));
    report.verdict(Verdict::at_least("sealing.throughput", sealing(Figure::Throughput), SEALED_MIN));
    report.verdict(Verdict::at_most("sealing.cpu", sealing(Figure::Cpu), SEALED_CPU_MAX));
    let resent_max = retransmits(BARE) + RETRANSMITS_ABOVE_MAX;
    report.verdict(Verdict::at_most("bundle2.retransmits", retransmits(BUNDLE_2), resent_max));

    judge_kernel_path(report, &figures[KERNEL], bare);

    let mem = of_bare(&memory[MEM_UNSEALED], bare, Figure::Throughput);
    report.verdict(Verdict::at_least("mem_unsealed.ratio", mem, RATIO_MEMORY_MIN));

    report.field("seconds", seconds);
    report.field("rounds", rounds);
    report.field("pinning", "none");
    for (path, figures) in PATHS.iter().zip(figures).chain(MEMORY_PATHS.iter().zip(memory)) {
        figures.keep(report, path.key);
    }
    let (least, most) = (format!(">= {RATIO_MIN}, aim {RATIO_AIM:.2}"), format!("<= {CPU_RATIO_MAX}"));
    report.show(table(&PATHS, figures, bare, [&least, &most]));
    report.show(table(&MEMORY_PATHS, memory, bare, [&format!(">= {RATIO_MEMORY_MIN:.2}"), ""]));
    waiting::write(report, engines, bare.median(Figure::IdleMedian));
    report
        .show(format!("  medians of {rounds} rounds, flows of {seconds} s, links unshaped, nothing pinned"));
}

/// What is wanted of the kernel path beside bare veth.
fn judge_kernel_path(report: &mut Report, path: &Figures, bare: &Figures) {
    let ratio = |figure| of_bare(path, bare, figure);
    report.verdict(Verdict::at_least("kernel.ratio", ratio(Figure::Throughput), KERNEL_RATIO_MIN));
    report.verdict(Verdict::at_most("kernel.cpu_ratio", ratio(Figure::Cpu), KERNEL_CPU_MAX));
    report.verdict(Verdict::at_least("kernel.four_flows", ratio(Figure::FourFlows), KERNEL_FOUR_MIN));
    let datagrams = ratio(Figure::DatagramsReceived);
    report.verdict(Verdict::at_least("kernel.datagrams", datagrams, KERNEL_DATAGRAMS_MIN));
    let round_trip = ratio(Figure::IdleMedian);
    report.verdict(Verdict::at_most("kernel.round_trip", round_trip, KERNEL_ROUND_TRIP_MAX));
}

/// `goal`: of throughput and CPU beside bare veth.
fn table(paths: &[Path], figures: &[Figures], bare: &Figures, goal: [&str; 2]) -> Table {
    let mut head = vec!["figure"];
    head.extend(paths.iter().map(|path| path.label));
    head.push("goal");
    let mut table = Table::new(&head);
    for figure in Figure::ALL.iter().copied() {
        let mut row = vec![format!("{}, {}", figure.label(), figure.unit())];
        row.extend(figures.iter().map(|figures| number(figures.median(figure))));
        table.row(row);
        match figure {
            Figure::Throughput => table.row(ratios(figures, bare, figure, goal[0])),
            Figure::Cpu => table.row(ratios(figures, bare, figure, goal[1])),
            _ => {}
        }
    }
    table
}

fn ratios(figures: &[Figures], bare: &Figures, figure: Figure, goal: &str) -> Vec<String> {
    let mut row = vec!["  of bare veth".to_string()];
    row.extend(figures.iter().map(|path| number(of_bare(path, bare, figure))));
    row.push(goal.to_string());
    row
}

fn of_bare(path: &Figures, bare: &Figures, figure: Figure) -> f64 {
    path.median(figure) / bare.median(figure)
}
