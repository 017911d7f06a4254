//! The statistics against SciPy, NumPy and ruptures, over the traces in `tests/traces`.
//!
//! `oracle/expect.py` wrote down what those say; `oracle/synthesize.py` made the traces that are synthetic. P4's
//! anomaly has to be found where it is, and nowhere else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tabane_probe::stats::{
    Classes, Histogram, Summary, autocorrelation, changepoints, inversion, penalty, period, quantile,
    rank_sum, sorted,
};

/// Difference of figures that are computed in another order.
const ROUNDING: f64 = 1e-9;
/// Part of the values that may lie on the other side of a border: the density here is made of bins.
const BORDER: f64 = 0.002;
/// Part of a peak's value that a bin is wide.
const BIN: f64 = 0.03;
const CHANGES_OVER: usize = 1_000;
const SHORTEST: usize = 5;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn expected() -> BTreeMap<String, Value> {
    let text = fs::read_to_string(directory("oracle").join("expected.json")).expect("expected.json is kept");
    let mut expected: Value = serde_json::from_str(&text).expect("expected.json is JSON");
    let traces: BTreeMap<String, Value> =
        serde_json::from_value(expected["traces"].take()).expect("traces by their names");
    assert!(traces.len() >= 4, "traces are missing");
    traces
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(number).collect()
}

fn counts(list: &Value) -> Vec<usize> {
    serde_json::from_value(list.clone()).expect("counts")
}

/// The series of a trace by name, in the order of their sizes.
fn recorded(file: &str) -> Vec<(String, Vec<f64>)> {
    let text = fs::read_to_string(directory("traces").join(file)).expect("the trace is kept");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let is_send = lines.next().expect("a head").starts_with("call");
    let mut series: Vec<(String, Vec<f64>)> = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let name = if is_send { "send" } else { fields[0] };
        if series.last().is_none_or(|(last, _)| last != name) {
            series.push((name.to_string(), Vec::new()));
        }
        series.last_mut().expect("just pushed").1.push(fields[2].parse().expect("a number"));
    }
    series
}

/// Calls `check` for every series of every trace with what is expected of it.
fn for_each_series(check: impl Fn(&str, &[f64], &Value)) {
    for (file, trace) in expected() {
        for (name, values) in recorded(&file) {
            check(&format!("{file}, {name}"), &values, &trace["series"][&name]);
        }
    }
}

fn close(place: &str, ours: f64, theirs: f64) {
    let allowed = ROUNDING * theirs.abs().max(1.0);
    assert!((ours - theirs).abs() <= allowed, "{place}: {ours}, expected {theirs}");
}

#[test]
fn figures() {
    for_each_series(|place, values, expected| {
        let (ours, theirs) = (Summary::of(values).expect("values"), &expected["summary"]);
        assert_eq!(theirs["count"], ours.count, "{place}");
        let percentiles = [ours.p5, ours.p25, ours.median, ours.p75, ours.p90, ours.p99, ours.p999];
        let published = numbers(&theirs["percentiles"]);
        percentiles.into_iter().zip(published).for_each(|(ours, theirs)| close(place, ours, theirs));
        for (name, ours) in [
            ("min", ours.min),
            ("max", ours.max),
            ("mean", ours.mean),
            ("sd", ours.sd),
            ("mad", ours.mad),
            ("iqr", ours.interquartile_range()),
            ("variation", ours.variation()),
        ] {
            close(&format!("{place}: {name}"), ours, number(&theirs[name]));
        }
    });
}

#[test]
fn histograms() {
    for_each_series(|place, values, expected| {
        let (ours, theirs) = (Histogram::of(&sorted(values)).expect("values"), &expected["histogram"]);
        let counts = counts(&theirs["counts"]);
        assert_eq!(ours.counts.len(), counts.len(), "{place}");
        assert_eq!(theirs["above"], ours.above, "{place}");
        close(place, ours.width, number(&theirs["width"]));
        // A value on an edge may fall to either side of it.
        let moved = ours.counts.iter().zip(&counts).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(moved <= Some(1), "{place}: {:?}, expected {counts:?}", ours.counts);
    });
}

#[test]
fn rhythms() {
    for_each_series(|place, values, expected| {
        let correlation = numbers(&expected["correlation"]);
        let ours = autocorrelation(values, correlation.len() - 1);
        ours.iter().zip(&correlation).for_each(|(ours, theirs)| close(place, *ours, *theirs));
        assert_eq!(json!(period(values).map(|found| found.lag)), expected["period"], "{place}");
    });
}

#[test]
fn classes() {
    for_each_series(|place, values, expected| {
        let ours = Classes::of(values);
        let (peaks, sizes) = (numbers(&expected["classes"]["peaks"]), counts(&expected["classes"]["sizes"]));
        assert_eq!(ours.classes.len(), peaks.len(), "{place}: {ours:?}");
        for (number, class) in ours.classes.iter().enumerate() {
            let size = values.iter().filter(|value| ours.class_of(**value) == Some(number)).count();
            let difference = size.abs_diff(sizes[number]);
            // A stray value here belongs to the nearest class there.
            let allowed = ours.stray as f64 + BORDER * values.len() as f64;
            assert!(difference as f64 <= allowed, "{place}: {size}, expected {sizes:?}");
            let distance = (class.peak / peaks[number] - 1.0).abs();
            assert!(distance <= BIN, "{place}: peak {}, expected {}", class.peak, peaks[number]);
        }
    });
}

#[test]
fn rank_sums() {
    for_each_series(|place, values, expected| {
        let expected = &expected["rank_sums"];
        let shifts = numbers(&expected["shifts"]);
        let shifted = |values: &[f64], by: f64| values.iter().map(|value| value + by).collect::<Vec<_>>();
        let rounded = |values: &[f64]| values.iter().map(|value| value.round_ties_even()).collect::<Vec<_>>();
        let check = |one: &[f64], other: &[f64], name: &str| {
            close(place, rank_sum(one, other).expect("values"), number(&expected[name]));
        };
        let (few, also) = (&values[..6], &values[6..13]);
        let apart = shifted(also, shifts[0]);
        check(few, also, "exact");
        check(few, &apart, "exact_apart");
        check(&rounded(few), &rounded(&apart), "exact_ties");
        let (many, others) = (&values[..30], shifted(&values[30..75], shifts[1]));
        check(many, &others, "many");
        check(&rounded(many), &rounded(&others), "many_ties");
    });
}

#[test]
fn changes_of_level() {
    for (file, trace) in expected() {
        let mut values: Vec<f64> = recorded(&file).into_iter().flat_map(|(_, values)| values).collect();
        values.truncate(CHANGES_OVER);
        let theirs = number(&trace["changes"]["penalty"]);
        close(&file, penalty(&values), theirs);
        assert_eq!(changepoints(&values, SHORTEST, theirs), counts(&trace["changes"]["cuts"]), "{file}");
    }
}

#[test]
fn the_anomaly_is_found_where_it_is_and_nowhere_else() {
    for (file, trace) in expected() {
        let theirs = &trace["inversion"];
        if theirs.is_null() {
            continue;
        }
        let series = recorded(&file);
        let rounds = |times: &[f64]| (1..).zip(times.iter().copied()).collect::<Vec<_>>();
        let (small, large) = (rounds(&series[0].1), rounds(&series[series.len() - 1].1));
        let ours = inversion(&small, &large).expect("round trips of two sizes");
        assert_eq!(json!([ours.below, ours.faster]), json!([theirs["below"], theirs["faster"]]), "{file}");
        close(&file, ours.gain, number(&theirs["gain"]));
        let probability = number(&theirs["probability"]);
        let error = (ours.probability - probability).abs();
        assert!(error <= 1e-6 * probability, "{file}: {}", ours.probability);
        assert_eq!(ours.is_anomaly(), file == "synthetic-x550.csv", "{file}: {ours:?}");
    }
}

/// The synthetic traces have the figures of the papers within a few percent, and not only their names.
#[test]
fn synthetic_traces_resemble_the_papers() {
    let near =
        |ours: f64, published: f64| assert!((ours / published - 1.0).abs() < 0.05, "{ours}, {published}");
    let x550 = recorded("synthetic-x550.csv");
    let large = Summary::of(&x550[1].1).expect("values");
    near(large.mean, 125.66);
    near(large.sd, 22.40);
    near(large.median, 126.15);
    let send = sorted(&recorded("synthetic-send.csv")[0].1);
    near(quantile(&send, 0.5), 2.7);
    near(send[send.len() - 1], 27_480.0);
}
