//! The matrix in the common form: a row per trial, what is promised of a black hole, and what holds for every fault.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fault::Fault;
use super::figures::{Figures, median_ms, with_unnoticed};
use super::matrix::{Mode, Trial};
use tabane_kit::report::{Report, Samples, Table, Verdict};

/// Longest median time in which a black hole is noticed under load, in milliseconds.
const DETECTED_MS_MAX: f64 = 5.0;
/// And in quiet.
const DETECTED_IDLE_MS_MAX: f64 = 50.0;

/// A trial with its figures, or why it has none.
pub(super) type Seen = (Trial, Result<Figures, String>);

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, seen: &[Seen]) {
    report.field("trials", seen.iter().map(fields).collect::<Vec<_>>());
    for (trial, figures) in measured(seen).filter(|(_, figures)| !figures.detected_ms.is_empty()) {
        let key = format!("{}.{}.{}.detected_ms", trial.links, trial.fault.key(), trial.mode.name());
        report.samples(key, Samples::new("ms", figures.detected_ms.clone()));
    }
    judge_black_hole(seen).into_iter().chain(judge_all(seen)).for_each(|verdict| report.verdict(verdict));
    report.show(table(seen));
    report.show("  times in ms; noticed: median under load; false: events that took a sound link for dead");
    report.show("  before: the longest stall in the half second before the first fault, which this machine makes by itself");
    report.show("  trimmed: what the sender's queue took out to slow TCP down to the links that are left, one retransmit each");
    report.show("  sums and longest stalls: 3 faults for pulled cable, black hole and dead way, else 1");
    let busy = |figures: &Figures| figures.wire_overruns + figures.udp_overruns + figures.device_drops;
    let overruns: u64 = measured(seen).map(|(_, figures)| busy(figures)).sum();
    if overruns > 0 {
        report.show(format!(
            "  the machine was too busy: {overruns} frames or datagrams were not taken in time"
        ));
    }
    for failure in failures(seen) {
        report.show(failure);
    }
}

/// A sentence for each reason why trials failed.
fn failures(seen: &[Seen]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (trial, figures) in seen {
        if let Err(why) = figures {
            reasons.entry(why).or_default().push(trial.to_string());
        }
    }
    let sentence = |(why, trials): (&str, Vec<String>)| match &trials[..] {
        [first, others @ ..] if !others.is_empty() => {
            format!("  failed: {first}, and {} more: {why}", others.len())
        }
        _ => format!("  failed: {}: {why}", trials.concat()),
    };
    reasons.into_iter().map(sentence).collect()
}

fn measured(seen: &[Seen]) -> impl Iterator<Item = (&Trial, &Figures)> {
    seen.iter().filter_map(|(trial, figures)| Some((trial, figures.as_ref().ok()?)))
}

/// What is promised of a black hole, where it was tried.
fn judge_black_hole(seen: &[Seen]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let of = |mode: Mode| {
        let tried = measured(seen).filter(|(trial, _)| (trial.fault, trial.mode) == (Fault::BlackHole, mode));
        tried.map(|(_, figures)| figures).collect::<Vec<_>>()
    };
    let (repaired, duplicated) = (of(Mode::On), of(Mode::Duplicate));
    if !repaired.is_empty() {
        let loaded =
            repaired.iter().flat_map(|figures| with_unnoticed(&figures.detected_ms, figures.unnoticed));
        let idle = repaired
            .iter()
            .flat_map(|figures| with_unnoticed(&figures.detected_idle_ms, figures.unnoticed_idle));
        let retransmits: u64 = repaired.iter().map(|figures| figures.tcp_retransmits).sum();
        let (loaded, idle) =
            (Samples::new("ms", loaded.collect()).median(), Samples::new("ms", idle.collect()).median());
        verdicts.push(Verdict::at_most("black_hole.detected_ms", loaded, DETECTED_MS_MAX));
        verdicts.push(Verdict::at_most("black_hole.detected_idle_ms", idle, DETECTED_IDLE_MS_MAX));
        verdicts.push(Verdict::equals("black_hole.on.tcp_retransmits", retransmits, 0));
    }
    if !duplicated.is_empty() {
        let lost: u64 = duplicated.iter().map(|figures| figures.udp_lost).sum();
        verdicts.push(Verdict::equals("black_hole.duplicate.udp_lost", lost, 0));
    }
    verdicts
}

/// What is wanted of every trial.
fn judge_all(seen: &[Seen]) -> Vec<Verdict> {
    let count = |wrong: fn(&Trial, &Figures) -> bool| {
        measured(seen).filter(|(trial, figures)| wrong(trial, figures)).count()
    };
    let lost = count(|_, figures| figures.tcp_lost.is_some());
    let damaged = count(|_, figures| !figures.sha256_ok || figures.udp_damaged > 0);
    let unnoticed = count(|trial, figures| trial.fault.is_death() && figures.unnoticed > 0);
    let unrecovered = count(|_, figures| figures.unrecovered > 0);
    let unnoticed_idle = count(|_, figures| figures.unnoticed_idle > 0);
    let false_alarms = measured(seen).map(|(_, figures)| figures.false_alarms).max().unwrap_or(0);
    let failed = seen.len() - measured(seen).count();
    vec![
        Verdict::equals("trials_with_lost_connection", lost, 0),
        Verdict::equals("trials_with_damaged_content", damaged, 0),
        Verdict::equals("trials_with_unnoticed_death", unnoticed, 0),
        Verdict::equals("trials_with_unnoticed_death_in_quiet", unnoticed_idle, 0),
        Verdict::equals("false_alarms_in_a_trial", false_alarms, 0),
        Verdict::equals("trials_not_whole_afterwards", unrecovered, 0),
        Verdict::equals("trials_failed", failed, 0),
    ]
}

fn fields((trial, figures): &Seen) -> Value {
    json!({
        "links": trial.links,
        "fault": trial.fault.key(),
        "mode": trial.mode.name(),
        "figures": figures.as_ref().ok(),
        "failed": figures.as_ref().err(),
    })
}

fn table(seen: &[Seen]) -> Table {
    let mut table = Table::new(&[
        "fault of one link",
        "links",
        "repair",
        "noticed",
        "idle",
        "false",
        "UDP lost",
        "stall",
        "before",
        "TCP resent",
        "trimmed",
        "timeouts",
        "stall",
        "before",
        "Gbit/s",
    ]);
    for (trial, figures) in seen {
        let mut row =
            vec![trial.fault.label().to_string(), trial.links.to_string(), trial.mode.name().to_string()];
        match figures {
            Ok(figures) => row.extend(cells(figures)),
            Err(_) => row.push("failed".to_string()),
        }
        table.row(row);
    }
    table
}

fn cells(figures: &Figures) -> Vec<String> {
    let time = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.1}"));
    let tcp_stall =
        if figures.tcp_lost.is_some() { "LOST".to_string() } else { time(Some(figures.tcp_stall_ms)) };
    vec![
        time(median_ms(&figures.detected_ms)),
        time(median_ms(&figures.detected_idle_ms)),
        figures.false_alarms.to_string(),
        figures.udp_lost.to_string(),
        time(Some(figures.udp_stall_ms)),
        time(Some(figures.udp_stall_before_ms)),
        figures.tcp_retransmits.to_string(),
        figures.frames_trimmed.to_string(),
        figures.tcp_timeouts.to_string(),
        tcp_stall,
        time(Some(figures.tcp_stall_before_ms)),
        format!("{:.2}", figures.tcp_gbps),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdicts that a black hole with these figures does not meet.
    fn not_met(figures: Figures) -> Vec<String> {
        let trial = Trial { links: 2, fault: Fault::BlackHole, mode: Mode::On };
        let seen = [(trial, Ok(figures))];
        let verdicts = judge_black_hole(&seen).into_iter().chain(judge_all(&seen));
        verdicts.filter(|verdict| !verdict.ok).map(|verdict| verdict.id).collect()
    }

    fn sound() -> Figures {
        let (detected_ms, detected_idle_ms) = (vec![2.0, 2.0, 3.0], vec![40.0, 42.0, 42.0]);
        Figures { detected_ms, detected_idle_ms, sha256_ok: true, ..Figures::default() }
    }

    #[test]
    fn a_fault_that_nobody_signals_counts_as_noticed_never() {
        assert!(not_met(sound()).is_empty());
        let quiet = Figures { detected_idle_ms: vec![40.0], unnoticed_idle: 2, ..sound() };
        assert_eq!(not_met(quiet), ["black_hole.detected_idle_ms", "trials_with_unnoticed_death_in_quiet"]);
        let loaded = Figures { detected_ms: vec![2.0], unnoticed: 2, ..sound() };
        assert_eq!(not_met(loaded), ["black_hole.detected_ms", "trials_with_unnoticed_death"]);
        let once = Figures { detected_idle_ms: vec![40.0, 42.0], unnoticed_idle: 1, ..sound() };
        assert_eq!(not_met(once), ["trials_with_unnoticed_death_in_quiet"]);
    }

    #[test]
    fn a_sound_link_that_is_taken_for_dead_counts() {
        assert_eq!(not_met(Figures { false_alarms: 1, ..sound() }), ["false_alarms_in_a_trial"]);
    }
}
