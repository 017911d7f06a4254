//! The comparison in the common form: a row per case, and what is wanted of the bundle.

use serde_json::{Value, json};

use super::Seen;
use super::contender::Contender;
use super::death::OFFERED_PER_SECOND;
use super::figures::{Death, Figures, Speed};
use tabane_kit::report::{Report, Table, Verdict};

/// Least speed of one connection through the bundle: of what one link carries, times the links.
const OF_ALL_LINKS_MIN: f64 = 0.95;
/// And of what the fastest of the others makes of as many links.
const OF_BEST_OTHER_MIN: f64 = 0.95;
/// Least share of the datagrams offered that have to be sent.
const SENT_MIN: f64 = 0.95;

/// Writes the cases of one place into `report`.
pub(super) fn write(report: &mut Report, place: &str, seen: &[Seen]) {
    for Seen { case, outcome } in seen {
        if let Err(why) = outcome {
            report.show(format!("  failed: {case} {place}: {why}"));
        }
    }
    judge(place, seen).into_iter().for_each(|verdict| report.verdict(verdict));
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

/// One connection is as fast as all links together, no other way to use them is faster, and none breaks when a link dies.
fn judge(place: &str, seen: &[Seen]) -> Vec<Verdict> {
    let failed = seen.iter().filter(|seen| seen.outcome.is_err()).count();
    let mut verdicts = vec![Verdict::equals(&format!("{place}.failed"), failed, 0)];
    let measured = || seen.iter().filter_map(|seen| Some((seen.case, seen.outcome.as_ref().ok()?)));
    for (case, bundle) in measured().filter(|(case, _)| case.contender == Contender::Adaptive) {
        let id = |what: &str| format!("{place}.{}.{what}", case.key());
        let alike = || measured().filter(|(other, _)| other.mbps == case.mbps);
        let alone = alike().find(|(other, _)| other.contender == Contender::Single);
        if let Some((_, alone)) = alone {
            let share = bundle.one.mbps / (alone.one.mbps * f64::from(case.links));
            verdicts.push(Verdict::at_least(&id("of_all_links"), share, OF_ALL_LINKS_MIN));
        }
        let others = alike().filter(|(other, _)| other.links == case.links && !other.contender.is_bundle());
        if let Some(best) = others.map(|(_, other)| other.one.mbps).reduce(f64::max) {
            verdicts.push(Verdict::at_least(&id("of_best_other"), bundle.one.mbps / best, OF_BEST_OTHER_MIN));
        }
        let broken = bundle.cable.broken + bundle.black_hole.broken;
        verdicts.push(Verdict::equals(&id("connections_broken"), broken, 0));
    }
    verdicts
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

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::super::figures::RoundTrips;
    use super::*;

    fn seen(contender: Contender, links: u8, mbps: f64, broken: u64) -> Seen {
        let speed = || Speed { mbps, retransmits: 0, cpu_s_per_gb: 1.0 };
        let death = |broken| Death { stall_ms: 0.0, broken, datagrams: None };
        let loaded = RoundTrips { p50_ms: 1.0, p99_ms: 2.0 };
        let figures =
            Figures { one: speed(), four: speed(), loaded, cable: death(0), black_hole: death(broken) };
        Seen { case: Case { contender, links, mbps: 100 }, outcome: Ok(figures) }
    }

    /// What is not met where one link carries 95 Mbit/s, and balance-rr makes `other` of two.
    fn not_met(bundle: f64, other: f64, broken: u64) -> Vec<String> {
        let seen = [
            seen(Contender::Single, 1, 95.0, 0),
            seen(Contender::BalanceRr, 2, other, 0),
            seen(Contender::Mptcp, 4, 380.0, 0),
            seen(Contender::Rr, 2, 190.0, 0),
            seen(Contender::Adaptive, 2, bundle, broken),
        ];
        judge("guest", &seen).into_iter().filter(|verdict| !verdict.ok).map(|verdict| verdict.id).collect()
    }

    #[test]
    fn a_bundle_has_to_carry_what_all_its_links_carry_and_what_others_make_of_them() {
        assert!(not_met(188.0, 120.0, 0).is_empty(), "the others had four links, or were bundles");
        assert_eq!(not_met(170.0, 120.0, 0), ["guest.2x100.adaptive.of_all_links"]);
        assert_eq!(not_met(181.0, 195.0, 0), ["guest.2x100.adaptive.of_best_other"]);
        assert_eq!(not_met(188.0, 120.0, 1), ["guest.2x100.adaptive.connections_broken"]);
    }
}
