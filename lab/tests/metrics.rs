//! The metrics, the alerts and the dashboard: what they name exists, each alert fires and does not, and programs that others
//! wrote read all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane::metrics::{Asked, Family, Format, families, page};
use tabane_api::Status;
use tabane_kit::prometheus;

use crate::case::{Case, NOTHING, Need};
use crate::repository::{none, root, text};

const RULES: &str = "packaging/prometheus/tabane.rules.yml";
const TESTS: &str = "packaging/prometheus/tabane.tests.yml";
const DASHBOARD: &str = "packaging/grafana/tabane.json";

pub(crate) fn cases() -> Vec<Case> {
    let promtool = [Need::That(|| Ok(prometheus::require()?))];
    vec![
        Case::new("alerts_and_panels_name_metrics_that_exist", NOTHING, names_exist),
        Case::new("a_name_that_does_not_exist_is_found", NOTHING, mistakes_are_found),
        Case::new("each_alert_is_brought_to_fire_and_not_to_fire", NOTHING, both_ways),
        Case::new("the_page_says_what_to_do_about_each_alert", NOTHING, explained),
        Case::new("each_alert_fires_and_does_not", promtool, rules_do_as_tested),
        Case::new("promtool_reads_the_queries_of_the_panels", promtool, queries_are_read),
        Case::new("a_page_is_read_by_others", promtool, pages_are_read),
    ]
}

fn names_exist() -> Result<()> {
    let (queries, known) = (queries()?, families());
    ensure!(queries.len() > 20, "{} queries", queries.len());
    let panels = queries.iter().flat_map(|query| unknown(query, DASHBOARD, &known));
    none(&panels.chain(unknown(&text(RULES)?, RULES, &known)).collect::<Vec<_>>())
}

fn mistakes_are_found() -> Result<()> {
    let known = families();
    for wrong in [
        "tabane_no_such == 1",
        "rate(tabane_frames_sent[5m])",
        "{__name__=~\"tabane_no_such_.*\"}",
        "tabane_redundancy_lost{peer=\"b\"}",
        "sum by (worker) (tabane_peers)",
        "tabane_health{tabane_health=\"ill\"}",
        "tabane_link_fault{tabane_link_fault=~\"silence|ill\"}",
        "tabane_events_total{event=\"no-such\"}",
    ] {
        ensure!(!unknown(wrong, "test", &known).is_empty(), "{wrong} passes");
    }
    for right in [
        "{__name__=~\"tabane_drop_.*_total\"}",
        "tabane_link_fault{tabane_link_fault=~\"silence|loss\"} == 1",
    ] {
        none(&unknown(right, "test", &known))?;
    }
    Ok(())
}

/// What queries name and the metrics do not have: names, labels, and values of labels that are words of ours.
fn unknown(queries: &str, place: &str, known: &[Family]) -> Vec<String> {
    let labels: BTreeSet<&str> = known.iter().flat_map(|family| &family.labels).map(String::as_str).collect();
    let words: BTreeSet<&str> = tabane_api::KINDS
        .iter()
        .chain(&tabane_api::status::REASONS)
        .map(|(word, _)| *word)
        .chain(["healthy", "degraded", "no-peer", "up", "suspect", "drained", "in-only", "out-only", "down"])
        .collect();
    let mut complaints = Vec::new();
    for (at, _) in queries.match_indices("tabane_").filter(|(at, _)| !queries[..*at].ends_with('_')) {
        let rest = &queries[at..];
        let end = rest
            .find(|letter: char| !letter.is_ascii_lowercase() && letter != '_' && !letter.is_ascii_digit());
        let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let is_known = if rest.starts_with(".*") {
            known.iter().any(|family| family.name.starts_with(name))
        } else {
            known.iter().any(|family| family.name == name)
        };
        complaints.extend((!is_known).then(|| format!("{place}: no metric {name}")));
        let own = known.iter().find(|family| family.name == name).map(|family| &family.labels);
        for (label, values) in rest.strip_prefix('{').map_or_else(Vec::new, selectors) {
            let has = |own: &Vec<String>| {
                own.iter().any(|own| own == label) || ["instance", "job"].contains(&label)
            };
            complaints
                .extend(own.filter(|own| !has(own)).map(|_| format!("{place}: {name} has no label {label}")));
            let is_word = label.starts_with("tabane_") || label == "event";
            let wrong = values.split('|').filter(|word| is_word && !words.contains(word));
            complaints.extend(wrong.map(|word| format!("{place}: {name}: {label} is never {word}")));
        }
    }
    for list in ["by (", "on (", "group_left ("].into_iter().flat_map(|before| queries.split(before).skip(1))
    {
        let list = list.split(')').next().unwrap_or_default().split(',').map(str::trim);
        let wrong = list.filter(|label| {
            !label.is_empty() && !["instance", "job"].contains(label) && !labels.contains(label)
        });
        complaints.extend(wrong.map(|label| format!("{place}: no label {label}")));
    }
    complaints
}

fn selectors(rest: &str) -> Vec<(&str, &str)> {
    let inside = rest.split('}').next().unwrap_or_default();
    let parts = inside.split(',').filter_map(|part| part.split_once('='));
    parts
        .map(|(label, value)| {
            (label.trim_end_matches('!').trim(), value.trim_start_matches('~').trim_matches('"'))
        })
        .collect()
}

fn queries() -> Result<Vec<String>> {
    prometheus::queries(&text(DASHBOARD)?)
}

fn names(rules: &str) -> Result<BTreeSet<&str>> {
    let names: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    ensure!(names.len() > 10, "{names:?}");
    Ok(names)
}

fn explained() -> Result<()> {
    let (rules, page) = (text(RULES)?, text("docs/metrics.md")?);
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Tabane")?.split(" | ").next());
    let named: BTreeSet<String> = rows
        .flat_map(|row| row.split(", "))
        .map(|name| format!("Tabane{}", name.trim_matches('`').trim_start_matches("Tabane")))
        .collect();
    let alerts: BTreeSet<String> = names(&rules)?.into_iter().map(str::to_owned).collect();
    ensure!(named == alerts, "docs/metrics.md and {RULES} differ in {:?}", &named ^ &alerts);
    Ok(())
}

/// For each alert, a test in which it fires and one in which it does not.
fn both_ways() -> Result<()> {
    let rules = text(RULES)?;
    let alerts = names(&rules)?;
    let (mut fires, mut silent) = (BTreeMap::new(), BTreeMap::new());
    let tests = text(TESTS)?;
    for test in tests.split("alertname: ").skip(1) {
        let name = test.split([',', '\n']).next().unwrap_or_default().trim();
        let expected = test.split("exp_alerts:").nth(1).unwrap_or_default().trim_start();
        let found = if expected.starts_with("[]") { &mut silent } else { &mut fires };
        *found.entry(name).or_insert(0) += 1;
        ensure!(
            expected.starts_with("[]") || expected.starts_with("- exp_labels:"),
            "{name}: {expected:.40}"
        );
    }
    for (what, tested) in [("fires", fires), ("does not fire", silent)] {
        let tested: BTreeSet<&str> = tested.into_keys().collect();
        ensure!(tested == alerts, "no test in which it {what}, or no such alert: {:?}", &tested ^ &alerts);
    }
    Ok(())
}

fn rules_do_as_tested() -> Result<()> {
    let said = prometheus::promtool([Path::new("test"), Path::new("rules"), &root().join(TESTS)], "")?;
    ensure!(said.contains("SUCCESS"), "{said}");
    Ok(())
}

/// Each query as a rule of its own.
fn queries_are_read() -> Result<()> {
    // A string of JSON is one of YAML.
    let rule = |(number, query): (usize, &String)| {
        format!("  - record: panel:{number}\n    expr: {}\n", Value::from(prometheus::filled(query)))
    };
    let rules: String = queries()?.iter().enumerate().map(rule).collect();
    let rules = format!("groups:\n- name: panels\n  rules:\n{rules}");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("panels.yml");
    fs::write(&path, rules)?;
    prometheus::promtool([Path::new("check"), Path::new("rules"), &path], "").map(drop)
}

/// The documented example of a status, with a name that could break a line.
fn example() -> Result<Vec<Asked>> {
    let mut status: Status = serde_json::from_str(&text("docs/status.example.json")?)?;
    status.counters = tabane_api::counters::counters().map(|(name, _)| (name.to_owned(), 7)).collect();
    status.peers[0].name = "a\"} 1\nb\\".to_owned();
    let mut other = status.clone();
    other.name = "tb1".to_owned();
    let asked = |status: Status| Asked { name: status.name.clone(), status: Some(status) };
    Ok(vec![asked(status), asked(other), Asked { name: "tb2".to_owned(), status: None }])
}

fn pages_are_read() -> Result<()> {
    let bundles = example()?;
    let open = page(&bundles, Format::OpenMetrics);
    let found = prometheus::families(&open).with_context(|| open.clone())?;
    ensure!(found > 80, "{found} families");
    let said = prometheus::promtool(["check", "metrics"], &page(&bundles, Format::Text))?;
    ensure!(said.trim().is_empty(), "{said}");
    let no_bundle = page(&[], Format::OpenMetrics);
    ensure!(prometheus::families(&no_bundle)? == 1, "{no_bundle}");
    Ok(())
}
