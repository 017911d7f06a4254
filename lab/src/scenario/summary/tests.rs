//! Tables and verdicts of what two runs of three contestants gave.

use super::super::contestant::With;
use super::super::file;
use super::*;

const TEXT: &str = r#"
    repeats = 2
    contestants = ["best-link", "adaptive", "mptcp"]
    [[link]]
    rate = "1 Gbit/s"
    [[flow]]
    kind = "tcp"
    [[flow]]
    kind = "udp"
    [[want]]
    figure = "ratio"
    at_least = 1.9
    [[want]]
    figure = "resent"
    in = "sim"
    at_most = 0
    [[want]]
    figure = "noticed_ms"
    in = "guest"
    at_most = 5
    [[want]]
    name = "{case}slow"
    figure = "mbps"
    at_least = 1850
    every_run = true
    [[want]]
    name = "apart"
    figure = "mbps"
    apart = 850
"#;

fn runs(speeds: [f64; 2], offered: f64) -> Result<Vec<Run>, String> {
    let run = |speed| {
        Ok(vec![
            Measure::of_flow(0, Figure::Mbps, speed),
            Measure::of_flow(0, Figure::Broken, 0.0),
            Measure::of_flow(1, Figure::OfferedPercent, offered),
        ])
    };
    Ok(speeds.map(run).to_vec())
}

fn found(name: &str) -> Found {
    let seen = |contestant, runs| Seen { contestant, runs };
    let bundle = Contestant::Bundle(tabane_proto::PolicyKind::Adaptive, With::Nothing);
    let seen = vec![
        seen(Contestant::BestLink, runs([900.0, 1000.0], 100.0)),
        seen(bundle, runs([1800.0, 1900.0], 80.0)),
        seen(Contestant::Mptcp, Err("no mptcp in `sim`".into())),
    ];
    let scenario = file::parse("test", TEXT).unwrap();
    Found { name: name.into(), scenario, places: vec![(Place::Sim, Ok(seen))] }
}

#[test]
fn a_table_has_what_was_measured_and_says_what_was_not() {
    let found = found("");
    let table = found.table().to_string();
    let row = |name: &str| table.lines().find(|line| line.contains(name)).map(str::to_string);
    assert!(row("speed, Mbit/s").unwrap().ends_with("best-link    950 (900 to 1000)"), "{table}");
    assert!(row("x best link").unwrap().ends_with("1.95 (1.90 to 2)"), "{table}");
    assert!(table.contains("80 NOT REACHED") && row("broken").is_none(), "{table}");
    let remarks = found.remarks().join("\n");
    assert!(
        remarks.contains("no mptcp in `sim`")
            && remarks.contains("simulated, adaptive: the load was NOT REACHED"),
        "{remarks}"
    );
}

#[test]
fn cases_stand_one_above_the_other() {
    let table = table_of(&[found("one"), found("other")]).to_string();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["case", "contestant", "1", "mbps", "1", "ratio", "2", "offered_percent"]);
    assert_eq!(lines[3], ["one", "adaptive", "1850", "1.95", "80"]);
    assert_eq!(lines.len(), 6, "{table}");
}

#[test]
fn wants_are_judged_by_medians_of_whom_they_mean() {
    let verdicts = verdicts(&[found("")]);
    let seen: Vec<(&str, bool)> = verdicts.iter().map(|verdict| (verdict.id.as_str(), verdict.ok)).collect();
    let expected = [
        ("sim.adaptive.flow1.ratio", true),
        // A figure that nobody has; of the guest, which did not run, there is no verdict.
        ("resent", false),
        ("slow", false),
        // 1850 and 950.
        ("apart", false),
    ];
    assert_eq!(seen, expected);
    assert!(verdicts[1].got.is_null() && verdicts[2].got == 1800.0 && verdicts[3].got == 900.0);
}

#[test]
fn a_name_gathers_what_all_cases_have_of_it() {
    let verdicts = verdicts(&[found("a."), found("b.")]);
    let ids: Vec<&str> = verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
    assert_eq!(ids.iter().filter(|id| **id == "apart").count(), 1, "{ids:?}");
    assert!(ids.contains(&"a.slow") && ids.contains(&"b.slow"), "{ids:?}");
}
