//! The mesh in the common form: a row per phase, beside what the links can carry.
//!
//! What a link can carry: TCP over the bare link has 1,448 bytes of payload in each 1,514 that the shaper counts (MTU
//! 1500, timestamps). Every host sends over every living link at this rate: hosts x links x rate x 1448 / 1514.

use serde_json::json;

use super::outage::{Outage, Phase, WHOLE_WITHIN};
use tabane_kit::rate::Bitrate;
use tabane_kit::report::{Report, Samples, Table, Verdict};

/// Payload in a full frame of a bare link.
const PAYLOAD: f64 = 1_448.0 / 1_514.0;
/// Smallest part of what the links can carry that the connections get.
const SHARE_MIN: f64 = 0.9;
/// Longest time until the last host notices that a switch is a black hole, in milliseconds.
const NOTICED_MS_MAX: f64 = 1_000.0;

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, nodes: usize, rate: Bitrate, outage: &Outage) {
    report.field("nodes", nodes);
    report.field("link_mbit", rate.bits_per_second() as f64 / 1e6);
    report.field(
        "phases",
        json!(
            outage
                .phases
                .iter()
                .map(|phase| json!({
                    "name": phase.name,
                    "mbit": sum(phase),
                    "can_carry_mbit": capacity(nodes, phase.links, rate),
                }))
                .collect::<Vec<_>>()
        ),
    );
    report.field("noticed_ms", outage.noticed_ms);
    report.field("whole_after_ms", outage.whole_after_ms);
    report.field("retransmits", outage.retransmits);
    report.field("lost", outage.lost.clone());
    report.field("false_alarms", outage.false_alarms.clone());
    report.show(table(nodes, rate, &outage.phases));
    report.show("  Mbit/s of TCP payload; slowest, fastest: of all connections");
    report.show(format!("  can carry: {nodes} hosts x links x {rate} x 1448 / 1514"));
    report.show(format!("  TCP sent {} segments again", outage.retransmits));
    for lost in &outage.lost {
        report.show(format!("  lost: {lost}"));
    }
    judge(report, nodes, rate, outage);
}

fn judge(report: &mut Report, nodes: usize, rate: Bitrate, outage: &Outage) {
    for (phase, key) in outage.phases.iter().zip(["whole", "dead", "again"]) {
        report.samples(format!("{key}.connection"), Samples::new("Mbit/s", phase.mbits.clone()));
        let share = sum(phase) / capacity(nodes, phase.links, rate);
        report.verdict(Verdict::at_least(&format!("{key}.share_of_links"), share, SHARE_MIN));
    }
    report.verdict(Verdict::equals("connections_lost", outage.lost.len(), 0));
    report.verdict(Verdict::equals("connections_damaged", outage.damaged, 0));
    report.verdict(Verdict::equals("false_alarms", outage.false_alarms.len(), 0));
    let noticed_ms = outage.noticed_ms.unwrap_or(f64::NAN);
    report.verdict(Verdict::at_most("noticed_by_every_host_ms", noticed_ms, NOTICED_MS_MAX));
    let (whole_after_ms, most) =
        (outage.whole_after_ms.unwrap_or(f64::NAN), WHOLE_WITHIN.as_secs_f64() * 1e3);
    report.verdict(Verdict::at_most("whole_again_after_ms", whole_after_ms, most));
}

fn table(nodes: usize, rate: Bitrate, phases: &[Phase]) -> Table {
    let mut table = Table::new(&["phase", "got", "can carry", "share", "slowest", "fastest"]);
    for phase in phases {
        let (got, can_carry) = (sum(phase), capacity(nodes, phase.links, rate));
        let each = Samples::new("Mbit/s", phase.mbits.clone());
        table.row(vec![
            phase.name.to_string(),
            format!("{got:.0}"),
            format!("{can_carry:.0}"),
            format!("{:.3}", got / can_carry),
            format!("{:.1}", each.min()),
            format!("{:.1}", each.max()),
        ]);
    }
    table
}

fn sum(phase: &Phase) -> f64 {
    phase.mbits.iter().sum()
}

/// Mbit/s of TCP payload that all hosts together can send.
fn capacity(nodes: usize, links: usize, rate: Bitrate) -> f64 {
    (nodes * links) as f64 * rate.bits_per_second() as f64 / 1e6 * PAYLOAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_links_can_carry_follows_from_their_rate() {
        assert!((capacity(8, 2, Bitrate::mbit(50)) - 765.1).abs() < 0.1);
        assert!((capacity(8, 1, Bitrate::mbit(50)) - 382.6).abs() < 0.1);
    }
}
