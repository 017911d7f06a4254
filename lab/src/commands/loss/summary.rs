//! The losses in the common form: a row per share and number of flows, and what is wanted of each.

use serde_json::{Value, json};

use super::measure::{Row, Speed};
use super::share::Share;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::{Report, Table, Verdict};

/// Least goodput of two links with repair as a multiple of the bare link's at the same loss.
const GAIN_MIN: f64 = 1.9;

/// A loss with its rows, or why it has none.
pub(super) type Seen = (Share, Result<Vec<Row>, String>);

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, seen: &[Seen], rate: Bitrate, (seconds, rounds): (u32, u32)) {
    report.field("link_mbps", rate.mbps());
    report.field("seconds", seconds);
    report.field("rounds", rounds);
    report.field("losses", seen.iter().map(fields).collect::<Vec<_>>());
    for (share, rows) in seen {
        match rows {
            Ok(rows) => rows.iter().for_each(|row| report.verdict(judge(*share, row))),
            Err(why) => report.show(format!("  failed: {share}: {why}")),
        }
    }
    let failed = seen.iter().filter(|(_, rows)| rows.is_err()).count();
    report.verdict(Verdict::equals("losses_failed", failed, 0));
    report.show(table(seen));
    report.show(format!(
        "  two links of {rate}; medians of {rounds} rounds; goodput in Mbit/s; resent: TCP segments sent again"
    ));
    report.show("  gain: goodput of the bundle with repair as a multiple of the bare link's");
}

fn judge(share: Share, row: &Row) -> Verdict {
    Verdict::at_least(&format!("{}%.{}_flows.gain", share.percent(), row.flows), row.gain(), GAIN_MIN)
}

fn fields((share, rows): &Seen) -> Value {
    json!({ "loss_percent": share.percent(), "rows": rows.as_ref().ok(), "failed": rows.as_ref().err() })
}

fn table(seen: &[Seen]) -> Table {
    let head = ["lost", "flows", "bare", "resent", "no repair", "resent", "repair", "resent", "gain"];
    let mut table = Table::new(&head);
    for (share, rows) in seen {
        let Ok(rows) = rows else {
            table.row(vec![share.to_string(), "failed".to_string()]);
            continue;
        };
        for row in rows {
            let mut cells = vec![share.to_string(), row.flows.to_string()];
            cells.extend([&row.bare, &row.unrepaired, &row.repaired].into_iter().flat_map(speed));
            cells.push(format!("{:.2}", row.gain()));
            table.row(cells);
        }
    }
    table
}

fn speed(speed: &Speed) -> [String; 2] {
    [format!("{:.1}", speed.mbps), speed.retransmits.to_string()]
}
