//! The soak in the common form: what became of each connection, which faults there were, memory over time.

use std::time::Duration;

use serde_json::json;

use super::agenda::Agenda;
use super::connections::Fate;
use super::vitals::Vitals;
use super::{End, WHOLE_WITHIN};
use tabane_kit::report::{Report, Samples, Table, Verdict};

/// Most that the memory of the first host's daemon may grow after it has warmed up.
const GROWTH_MAX: f64 = 1.05;

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, agenda: &Agenda, end: &End, vitals: &[Vitals]) {
    let counts = agenda.counts();
    report.field("seconds", agenda.span().as_secs_f64());
    report.field("faults", json!(counts));
    report.field("timetable", json!(agenda.timetable()));
    report.field("connections", json!(end.connections));
    report.field("whole_after_s", whole_after_s(end));
    report.field("slowest_event_s", end.slowest.map(|(_, took)| took.as_secs_f64()));
    report.show(connections(&end.connections));
    report
        .show("  stall: longest time in which nothing arrived, in seconds; missing: share of the datagrams");
    for Fate { name, lost, .. } in &end.connections {
        if let Some(lost) = lost {
            report.show(format!("  lost: {name}: {lost}"));
        }
    }
    if let Some((event, took)) = end.slowest {
        report.show(format!("  what took longest to make happen: {event}, {:.2} s", took.as_secs_f64()));
    }
    for state in end.whole_after.as_ref().err().into_iter().flatten() {
        report.show(format!("  not whole again: {state}"));
    }
    let mut faults = Table::new(&["fault", "times"]);
    for (kind, count) in &counts {
        faults.row(vec![kind.label().to_string(), count.to_string()]);
    }
    report.show(format!("\n{faults}"));
    report.show("  resident memory of the daemons over the run; only the first one has never been killed");
    for (host, vitals) in vitals.iter().enumerate() {
        let memory = Samples::new("MiB", vitals.memory.clone());
        report.show(format!("  h{}  {} {:.1} MiB at most", host + 1, vitals.figure(), memory.max()));
        report.samples(format!("h{}.memory", host + 1), memory);
        report
            .samples(format!("h{}.descriptors", host + 1), Samples::new("open", vitals.descriptors.clone()));
    }
    judge(report, counts.values().sum(), end, vitals);
}

fn whole_after_s(end: &End) -> Option<f64> {
    end.whole_after.as_ref().ok().map(Duration::as_secs_f64)
}

fn judge(report: &mut Report, faults: usize, end: &End, vitals: &[Vitals]) {
    let lost = end.connections.iter().filter(|fate| fate.lost.is_some()).count();
    let damaged: u64 = end.connections.iter().map(|fate| fate.damaged).sum();
    report.verdict(Verdict::at_least("faults", faults as f64, 1.0));
    report.verdict(Verdict::equals("connections_lost", lost, 0));
    report.verdict(Verdict::equals("files_and_datagrams_damaged", damaged, 0));
    let (whole_after_s, most) = (whole_after_s(end).unwrap_or(f64::NAN), WHOLE_WITHIN.as_secs_f64());
    report.verdict(Verdict::at_most("whole_again_after_s", whole_after_s, most));
    report.verdict(Verdict::at_most("h1.memory_growth", vitals[0].growth(), GROWTH_MAX));
    for (host, vitals) in vitals.iter().enumerate() {
        if let [before, after] = vitals.descriptors_whole[..] {
            report.verdict(Verdict::equals(&format!("h{}.descriptors", host + 1), after, before));
        }
    }
}

fn connections(fates: &[Fate]) -> Table {
    let mut table = Table::new(&["connection", "MB", "stall", "after", "missing", "damaged", "lost"]);
    for fate in fates {
        table.row(vec![
            fate.name.clone(),
            format!("{:.1}", fate.bytes as f64 / 1e6),
            format!("{:.2}", fate.stall_s),
            format!("{:.1}", fate.stall_at_s),
            fate.lost_share.map_or(String::new(), |share| format!("{:.2} %", share * 100.0)),
            fate.damaged.to_string(),
            if fate.lost.is_some() { "LOST" } else { "no" }.to_string(),
        ]);
    }
    table
}
