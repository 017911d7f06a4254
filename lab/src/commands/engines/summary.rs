//! The engines in the common form: a row per load and figure, an engine per column, and what is wanted.

use tabane_engine::receive::Method;

use super::cell::{Cell, Figure};
use crate::figures::Quantity;
use tabane_kit::report::{Report, Table, Verdict};

/// Beyond so many datagrams a second the figures say how long the queues of an overloaded machine are, and are not judged.
const JUDGED_MAX: u64 = 10_000;

/// What adaptive may need, as a multiple of the better of interrupt and busy. Where it is more than 1.1, docs/limits.md says why.
const fn of_better_max(load: u64, figure: Figure) -> f64 {
    match (load, figure) {
        (100, Figure::Cpu) => 1.6,
        (1_000, Figure::Cpu) => 1.5,
        (10_000, Figure::P50) => 2.2,
        _ => 1.1,
    }
}

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, cells: &[Cell], seconds: u32, rounds: u32) {
    report.field("seconds", seconds);
    report.field("rounds", rounds);
    report.field("pinning", "none");
    for cell in cells {
        cell.figures.keep(report, &format!("{}.{}", cell.load, cell.engine.name()));
    }
    let mut head = vec!["load, figure"];
    head.extend(Method::ALL.map(Method::name));
    head.push("adaptive of the better");
    let mut table = Table::new(&head);
    // The cells of a load stand together, in the order of the engines.
    for of_load in cells.chunks(Method::ALL.len()) {
        let load = of_load[0].load;
        for figure in Figure::ALL.iter().copied() {
            let (key, label) = (figure.key(), figure.label());
            let median = |engine: Method| of_load[engine as usize].figures.median(figure);
            let better = median(Method::Interrupt).min(median(Method::Busy));
            let ratio = median(Method::Adaptive) / better;
            let judged = load <= JUDGED_MAX && matches!(figure, Figure::P50 | Figure::Cpu);
            if judged {
                let most = of_better_max(load, figure);
                report.verdict(Verdict::at_most(&format!("{load}.{key}"), ratio, most));
            }
            let mut row = vec![format!("{load}/s  {label}")];
            row.extend(Method::ALL.map(|engine| format!("{:.1}", median(engine))));
            row.push(if judged { format!("{ratio:.2}") } else { String::new() });
            table.row(row);
        }
    }
    report.show(table);
    report.show(format!(
        "  medians of {rounds} rounds of {seconds} s, 64 B of UDP, link unshaped, nothing pinned"
    ));
}
