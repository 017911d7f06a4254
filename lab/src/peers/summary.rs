//! The comparison in the common form: a row per case, and what is wanted of the bundle.

use serde_json::{Value, json};

use super::Seen;
use super::contender::Contender;
use super::death::OFFERED_PER_SECOND;
use super::figures::{Death, Figures, Speed};
use crate::report::{Report, Table, Verdict};

/// Least speed of one connection through the bundle, as a multiple of one link's.
const OF_ONE_LINK_MIN: f64 = 0.95;
/// Least share of the datagrams offered that have to be sent.
const SENT_MIN: f64 = 0.95;

/// Writes the cases of one place into `report`.
pub(super) fn write(report: &mut Report, place: &str, seen: &[Seen]) {
    for Seen { case, outcome } in seen {
        if let Err(why) = outcome {
            report.show(format!("  failed: {case} {place}: {why}"));
        }
    }
    judge(report, place, seen);
    report.field(place, seen.iter().map(fields).collect::<Vec<_>>());
    report.show(format!("  {place}"));
    report.show(table(seen));
}

/// What the columns mean.
pub(super) fn explain(report: &mut Report) {
    report.show("  TCP (CUBIC) in Mbit/s of payload; resent: segments; CPU: seconds of the machine per GB");
    report.show("  p50, p99: round trips in ms beside one connection; a dying link is the last one");
    report
        .show("  stall: longest of four connections, in ms; lost: of 2,000 datagrams a second in four flows");
}

fn judge(report: &mut Report, place: &str, seen: &[Seen]) {
    let failed = seen.iter().filter(|seen| seen.outcome.is_err()).count();
    report.verdict(Verdict::equals(&format!("{place}.failed"), failed, 0));
    let speed = |seen: &Seen| seen.outcome.as_ref().ok().map(|figures| figures.one.mbps);
    for bundle in seen.iter().filter(|seen| seen.case.contender == Contender::Adaptive) {
        let is_alone =
            |other: &&Seen| other.case.contender == Contender::Single && other.case.mbps == bundle.case.mbps;
        if let (Some(bundled), Some(alone)) = (speed(bundle), seen.iter().find(is_alone).and_then(speed)) {
            let id = format!("{place}.{}.of_one_link", bundle.case.key());
            report.verdict(Verdict::at_least(&id, bundled / alone, OF_ONE_LINK_MIN));
        }
    }
}

fn fields(Seen { case, outcome }: &Seen) -> Value {
    json!({ "case": case, "figures": outcome.as_ref().ok(), "failed": outcome.as_ref().err() })
}

fn table(seen: &[Seen]) -> Table {
    let mut table = Table::new(&[
        "links",
        "",
        "1 flow",
        "resent",
        "CPU",
        "4 flows",
        "resent",
        "CPU",
        "p50",
        "p99",
        "cable: stall",
        "lost",
        "black hole: stall",
        "lost",
        "",
    ]);
    for Seen { case, outcome } in seen {
        let mut row = vec![format!("{} x {}", case.links, case.mbps), case.contender.label().to_string()];
        match outcome {
            Ok(figures) => row.extend(cells(figures)),
            Err(_) => row.push("failed".to_string()),
        }
        table.row(row);
    }
    table
}

fn cells(figures: &Figures) -> Vec<String> {
    let speed = |speed: &Speed| {
        [format!("{:.0}", speed.mbps), speed.retransmits.to_string(), format!("{:.1}", speed.cpu_s_per_gb)]
    };
    let trips = [figures.loaded.p50_ms, figures.loaded.p99_ms].map(|time| format!("{time:.1}"));
    [
        &speed(&figures.one)[..],
        &speed(&figures.four),
        &trips,
        &death(&figures.cable),
        &death(&figures.black_hole),
        &[remark(figures)],
    ]
    .concat()
}

fn death(death: &Death) -> [String; 2] {
    let stall = if death.broken > 0 { "broken".to_string() } else { format!("{:.0}", death.stall_ms) };
    let lost =
        death.datagrams.as_ref().map_or_else(|| "-".to_string(), |datagrams| datagrams.lost.to_string());
    [stall, lost]
}

/// Says that less was offered than planned.
fn remark(figures: &Figures) -> String {
    let sent =
        figures.cable.datagrams.as_ref().map_or(OFFERED_PER_SECOND, |datagrams| datagrams.sent_per_second);
    if sent >= SENT_MIN * OFFERED_PER_SECOND {
        return String::new();
    }
    format!("only {sent:.0} datagrams/s")
}
