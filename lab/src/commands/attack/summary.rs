//! The attacks in the common form: a row for each, and what is wanted of all.

use std::time::Duration;

use serde_json::{Value, json};

use super::forge::Attack;
use super::trial::{Figures, changes_of_key};
use tabane_kit::report::{Report, Table, Verdict};

/// Least share of its speed that the connection keeps under attack.
const SHARE_MIN: f64 = 0.9;
/// Most MiB that the victim's daemon may grow by in one attack: what it makes room for is made at its start.
const GROWN_MIB_MAX: f64 = 2.0;

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, seen: &[(Attack, Figures)], span: Duration) {
    report.field("attacks", seen.iter().map(fields).collect::<Vec<_>>());
    report.show(table(seen));
    report.show("  tried: cells, or nodes; dropped: by the victim, for any reason; taken: forged frames at the device,");
    report.show("  datagrams that came twice or changed, peers that came or went; answers: frames to the hostile node");
    report.show("  CPU: of the victim's daemon, in percent of one, without and with the attack; share: of TCP's speed");
    for (attack, figures) in seen {
        if let Some(lost) = &figures.lost {
            report.show(format!("  lost: {}: {lost}", attack.name()));
        }
        judge(report, *attack, figures, span);
    }
}

fn judge(report: &mut Report, attack: Attack, figures: &Figures, span: Duration) {
    let id = |figure: &str| format!("{}.{figure}", attack.name());
    report.verdict(Verdict::equals(&id("taken"), figures.taken(), 0));
    report.verdict(Verdict::equals(&id("links_lost"), figures.links_lost, 0));
    report.verdict(Verdict::equals(&id("connections_lost"), usize::from(figures.lost.is_some()), 0));
    report.verdict(Verdict::at_least(&id("share"), figures.share(), SHARE_MIN));
    report.verdict(Verdict::at_most(&id("grown_mib"), figures.grown_mib, GROWN_MIB_MAX));
    if attack == Attack::Claimed {
        let least = changes_of_key(span).into();
        report.verdict(Verdict::at_least(&id("rekeys"), figures.rekeys as f64, least));
    }
    if attack.is_of_a_stranger() {
        report.verdict(Verdict::equals(&id("answers"), figures.answered, 0));
    }
}

fn fields((attack, figures): &(Attack, Figures)) -> Value {
    json!({ "attack": attack.name(), "taken": figures.taken(), "share": figures.share(), "figures": figures })
}

/// A figure as the table has it.
type Cell = fn(&Figures) -> String;

const COLUMNS: [(&str, Cell); 11] = [
    ("tried", |figures| figures.tried.to_string()),
    ("dropped", |figures| figures.dropped.to_string()),
    ("taken", |figures| figures.taken().to_string()),
    ("links lost", |figures| figures.links_lost.to_string()),
    ("answers", |figures| figures.answered.to_string()),
    ("CPU", |figures| format!("{:.0}", figures.calm_cpu * 100.0)),
    ("attacked", |figures| format!("{:.0}", figures.attacked_cpu * 100.0)),
    ("MiB", |figures| format!("{:+.1}", figures.grown_mib)),
    ("Mbit/s", |figures| format!("{:.1}", figures.calm_mbps)),
    ("attacked", |figures| format!("{:.1}", figures.attacked_mbps)),
    ("share", |figures| format!("{:.2}", figures.share())),
];

fn table(seen: &[(Attack, Figures)]) -> Table {
    let heads = COLUMNS.iter().map(|(head, _)| *head);
    let mut table = Table::new(&["attack"].into_iter().chain(heads).collect::<Vec<_>>());
    for (attack, figures) in seen {
        let cells = COLUMNS.iter().map(|(_, cell)| cell(figures));
        table.row([attack.name()].into_iter().chain(cells).collect());
    }
    table
}
