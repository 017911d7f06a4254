//! Both wires side by side, and how far they may be apart.

use serde_json::{Value, json};

use super::Seen;
use super::case::{CASES, Case};
use super::measure::{Figures, Wire};
use tabane_kit::report::{Report, Table, Verdict};

/// Most that median round trips may differ, in milliseconds: the lab's wire is a process that has to be woken.
const RTT_MAX_MS: f64 = 1.0;
/// Least agreement of throughputs: the lesser as a share of the greater.
const AGREEMENT_MIN: f64 = 0.9;
/// Most that lost shares may differ, in percent of all: three standard deviations of 1 % in 8,000 are 0.33, of a
/// difference 0.47.
const LOSS_MAX_PERCENT: f64 = 0.5;

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, seen: &[Seen], (seconds, rounds): (u32, u32)) {
    report.field("seconds", seconds);
    report.field("rounds", rounds);
    report.field("cases", seen.iter().map(fields).collect::<Vec<_>>());
    for Seen { key, outcome } in seen {
        match outcome {
            Ok(figures) => judge(report, key, figures),
            Err(why) => report.show(format!("  failed: {key}: {why}")),
        }
    }
    let failed = seen.iter().filter(|seen| seen.outcome.is_err()).count();
    report.verdict(Verdict::equals("cases_failed", failed, 0));
    report.show(table(seen));
    report.show(format!("  medians of {rounds} rounds; resent and lost: of all rounds together"));
    report.show("  round trip: median of one byte, ms; TCP: Mbit/s of payload; resent: its segments");
    report.show("  lost: percent of 2,000 datagrams a second");
}

fn judge(report: &mut Report, key: &str, [wire, netem]: &[Figures; 2]) {
    let apart = (wire.median_rtt_ms() - netem.median_rtt_ms()).abs();
    report.verdict(Verdict::at_most(&format!("{key}.rtt_apart_ms"), apart, RTT_MAX_MS));
    // Without a rate, throughput is the machine's.
    if case(key).is_some_and(|case| case.impairment().rate.is_some()) {
        let [one, other] = [wire.median_mbps(), netem.median_mbps()];
        let agreement = one.min(other) / one.max(other);
        report.verdict(Verdict::at_least(&format!("{key}.mbps_agreement"), agreement, AGREEMENT_MIN));
    }
    let apart = (wire.lost_percent() - netem.lost_percent()).abs();
    report.verdict(Verdict::at_most(&format!("{key}.lost_apart_percent"), apart, LOSS_MAX_PERCENT));
}

fn case(key: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.key == key)
}

fn fields(Seen { key, outcome }: &Seen) -> Value {
    let figures = outcome.as_ref().ok();
    json!({
        "case": key,
        "emulator": figures.map(|[wire, _]| wire),
        "netem": figures.map(|[_, netem]| netem),
        "failed": outcome.as_ref().err(),
    })
}

fn table(seen: &[Seen]) -> Table {
    let mut table = Table::new(&["flaws", "wire", "round trip", "TCP", "resent", "lost"]);
    for Seen { key, outcome } in seen {
        let label = case(key).map_or(key.as_str(), |case| case.label);
        let Ok(figures) = outcome else {
            table.row(vec![label.to_string(), "failed".to_string()]);
            continue;
        };
        for (wire, figures) in [Wire::Emulator, Wire::Netem].into_iter().zip(figures) {
            table.row(vec![
                label.to_string(),
                wire.label().to_string(),
                format!("{:.2}", figures.median_rtt_ms()),
                format!("{:.2}", figures.median_mbps()),
                figures.retransmits.to_string(),
                format!("{:.2}", figures.lost_percent()),
            ]);
        }
    }
    table
}
