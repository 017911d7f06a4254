//! The cases in the common form: a row per case and direction, what is wanted of the sum, and of the best link.

use serde_json::{Value, json};

use super::case::Case;
use super::measure::{FILE_BYTES, Figures, Pair, quic_seconds};
use tabane_kit::report::{Report, Table, Verdict};

/// Least speed of a bundle as a multiple of its best link's, anywhere: at most 5 % slower.
const GAIN_MIN: f64 = 0.95;

/// A case with its figures, or why it has none.
pub(super) type Seen = (Case, Result<Figures, String>);

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, seen: &[Seen], seconds: u32) {
    report.field("file_bytes", FILE_BYTES);
    report.field("seconds", seconds);
    report.field("quic_seconds", quic_seconds(seconds));
    report.field("cases", seen.iter().map(fields).collect::<Vec<_>>());
    for (case, figures) in seen {
        match figures {
            Ok(figures) => judge(report, *case, figures, seconds),
            Err(why) => report.show(format!("  failed: {case}: {why}")),
        }
    }
    let failed = seen.iter().filter(|(_, figures)| figures.is_err()).count();
    report.verdict(Verdict::equals("cases_failed", failed, 0));
    report.show(table(seen));
    report.show(
        "  links: Mbit/s of each, ms of each way of each; file: seconds for 16 MiB; flow: Mbit/s of payload",
    );
    report.show(
        "  link: the best one alone; share: of the sum of both rates; resent: TCP segments, file and flow",
    );
    for (case, figures) in seen.iter().filter_map(|(case, figures)| Some((case, figures.as_ref().ok()?))) {
        if let [first, ..] = &figures.false_alarms[..] {
            let times = figures.false_alarms.len();
            report.show(format!("  {case}: {times} times a sound link was taken for dead, first {first}"));
        }
    }
    report.show("  the buffers of TCP may grow to 32 MiB (tcp_rmem and tcp_wmem of both hosts)");
}

/// What is wanted of each case, of its worse direction.
fn judge(report: &mut Report, case: Case, figures: &Figures, seconds: u32) {
    let of = |figure: fn(&Pair) -> f64| figures.directions.each_ref().map(figure);
    let [longest, other] = of(|pair| pair.bundle.file_s);
    let file = Verdict::at_most(&format!("{case}.file_s"), longest.max(other), case.seconds_max(FILE_BYTES));
    let [least, other] = of(|pair| pair.bundle.mbps);
    let flow = Verdict::at_least(&format!("{case}.flow_mbps"), least.min(other), case.mbps_min(seconds));
    let [gain, other] = of(Pair::gain);
    let gain = Verdict::at_least(&format!("{case}.of_best_link"), gain.min(other), GAIN_MIN);
    let [least, other] = of(|pair| pair.bundle.quic_mbps);
    let quic_min = case.mbps_min(quic_seconds(seconds));
    let quic = Verdict::at_least(&format!("{case}.quic_mbps"), least.min(other), quic_min);
    let [quic_gain, other] = of(Pair::quic_gain);
    let id = format!("{case}.quic_of_best_link");
    let quic_gain = Verdict::at_least(&id, quic_gain.min(other), GAIN_MIN);
    for verdict in [file, flow, gain, quic, quic_gain] {
        report.verdict(verdict);
    }
}

fn fields((case, figures): &Seen) -> Value {
    json!({ "case": case.to_string(), "figures": figures.as_ref().ok(), "failed": figures.as_ref().err() })
}

fn table(seen: &[Seen]) -> Table {
    let mut table = Table::new(&[
        "links",
        "way",
        "file: link",
        "bundle",
        "limit",
        "flow: link",
        "bundle",
        "share",
        "resent",
    ]);
    for (case, figures) in seen {
        let Ok(figures) = figures else {
            table.row(vec![case.to_string(), "failed".to_string()]);
            continue;
        };
        for (way, pair) in ["there", "back"].into_iter().zip(&figures.directions) {
            table.row(row(*case, way, pair));
        }
        for (way, pair) in ["QUIC there", "QUIC back"].into_iter().zip(&figures.directions) {
            table.row(quic_row(*case, way, pair));
        }
    }
    table
}

fn row(case: Case, way: &str, Pair { link, bundle }: &Pair) -> Vec<String> {
    vec![
        case.to_string(),
        way.to_string(),
        format!("{:.2}", link.file_s),
        format!("{:.2}", bundle.file_s),
        format!("{:.2}", case.seconds_max(FILE_BYTES)),
        format!("{:.1}", link.mbps),
        format!("{:.1}", bundle.mbps),
        format!("{:.2}", bundle.mbps / case.sum_mbps()),
        bundle.retransmits.to_string(),
    ]
}

fn quic_row(case: Case, way: &str, Pair { link, bundle }: &Pair) -> Vec<String> {
    let flow = [
        format!("{:.1}", link.quic_mbps),
        format!("{:.1}", bundle.quic_mbps),
        format!("{:.2}", bundle.quic_mbps / case.sum_mbps()),
    ];
    [vec![case.to_string(), way.to_string()], vec![String::new(); 3], flow.to_vec()].concat()
}
