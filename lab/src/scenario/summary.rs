//! What was found, place beside place: a row per figure and contestant, and what the scenario wants of them.

use serde_json::{Value, json};

use super::figure::{Figure, Measure};
use super::plan::{Contestant, FlowKind, Place, Scenario, Want};
use super::{Outcome, Seen};
use tabane_kit::report::{Report, Samples, Table, Verdict};

/// What counts as offered, in percent: a datagram or two may miss the end.
const OFFERED_MIN: f64 = 99.0;

/// One place with what was seen there; or why nothing was.
pub(super) type InPlace = (Place, Result<Vec<Seen>, String>);

/// Writes everything into `report`.
pub(super) fn write(report: &mut Report, scenario: &Scenario, places: &[InPlace]) {
    report.field("scenario", scenario.to_string());
    report.field("places", places.iter().map(fields).collect::<Vec<_>>());
    if !scenario.about.is_empty() {
        report.show(format!("  {}\n", scenario.about));
    }
    let found = Found { scenario, places };
    report.show(found.table());
    for row in found.rows() {
        for (place, seen) in found.ran() {
            if let Some(samples) = found.samples(seen, row) {
                report.samples(key(place, seen.contestant, row), samples);
            }
        }
    }
    found.remarks().into_iter().for_each(|remark| report.show(format!("  {remark}")));
    report.verdict(Verdict::equals("runs_failed", found.failures().len(), 0));
    scenario.wants.iter().flat_map(|want| found.verdicts(want)).for_each(|verdict| report.verdict(verdict));
}

/// A figure of a flow, or of the whole run.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Row {
    flow: Option<usize>,
    figure: Figure,
}

struct Found<'a> {
    scenario: &'a Scenario,
    places: &'a [InPlace],
}

impl<'a> Found<'a> {
    /// Whoever ran, where.
    fn ran(&self) -> impl Iterator<Item = (Place, &'a Seen)> {
        let places = self.places.iter();
        let seen = places.filter_map(|(place, seen)| Some((*place, seen.as_ref().ok()?)));
        seen.flat_map(|(place, seen)| seen.iter().map(move |seen| (place, seen)))
            .filter(|(_, seen)| matches!(seen.outcome, Outcome::Ran(_)))
    }

    /// Every figure that anyone has, in the order of the flows.
    fn rows(&self) -> Vec<Row> {
        let flows = (0..self.scenario.flows.len()).map(Some).chain([None]);
        let rows = flows.flat_map(|flow| Figure::ALL.map(|figure| Row { flow, figure }));
        rows.filter(|row| row.flow.is_none() == row.figure.is_of_run())
            .filter(|row| self.ran().any(|(_, seen)| self.samples(seen, *row).is_some()))
            .collect()
    }

    /// All values of a figure, run after run.
    fn samples(&self, seen: &Seen, row: Row) -> Option<Samples> {
        let Outcome::Ran(runs) = &seen.outcome else { return None };
        let value = |run: &Result<Vec<Measure>, String>, figure| {
            let measures = run.as_ref().ok()?;
            let wanted = |measure: &&Measure| measure.flow == row.flow && measure.figure == figure;
            measures.iter().find(wanted).map(|measure| measure.value)
        };
        let values: Vec<f64> = if row.figure == Figure::Ratio {
            let alone = self.beside(seen, row)?;
            let ratio = |(run, alone)| {
                let of = |figure| Some((value(run, figure)?, value(alone, figure)?));
                let faster = of(Figure::Mbps).map(|(speed, alone)| speed / alone);
                faster.or_else(|| of(Figure::Seconds).map(|(time, alone)| alone / time))
            };
            runs.iter().zip(alone).filter_map(ratio).collect()
        } else {
            runs.iter().filter_map(|run| value(run, row.figure)).collect()
        };
        (!values.is_empty()).then(|| Samples::new(row.figure.unit(), values))
    }

    /// The runs of the best link alone, in the same place, for a flow that goes as fast as it can.
    fn beside(&self, seen: &Seen, row: Row) -> Option<&'a [Result<Vec<Measure>, String>]> {
        let is_paced = |flow: usize| matches!(self.scenario.flows[flow].kind, FlowKind::Udp { .. });
        if seen.contestant == Contestant::BestLink || row.flow.is_some_and(is_paced) {
            return None;
        }
        let (place, _) = self.ran().find(|(_, other)| std::ptr::eq(*other, seen))?;
        let mut others = self.ran().filter(|(other, _)| *other == place).map(|(_, seen)| seen);
        match &others.find(|other| other.contestant == Contestant::BestLink)?.outcome {
            Outcome::Ran(runs) => Some(runs),
            Outcome::Unable(_) => None,
        }
    }

    fn table(&self) -> Table {
        let labels = self.places.iter().map(|(place, _)| place.label());
        let mut table = Table::new(&["figure", "contestant"].into_iter().chain(labels).collect::<Vec<_>>());
        for row in self.rows() {
            let mut name = self.name(row);
            for contestant in &self.scenario.contestants {
                let samples: Vec<Option<Samples>> =
                    self.places.iter().map(|(place, _)| self.samples_of(*place, *contestant, row)).collect();
                let says_something = |each: &Samples| !row.figure.is_good_when_zero() || each.max() > 0.0;
                if samples.iter().flatten().any(says_something) {
                    let cells =
                        samples.iter().map(|each| each.as_ref().map_or("–".into(), |each| cell(row, each)));
                    // The name of a figure stands beside its first contestant.
                    let head = [std::mem::take(&mut name), contestant.key().to_string()];
                    table.row(head.into_iter().chain(cells).collect());
                }
            }
        }
        table
    }

    fn samples_of(&self, place: Place, contestant: Contestant, row: Row) -> Option<Samples> {
        let (_, seen) = self.ran().find(|(each, seen)| *each == place && seen.contestant == contestant)?;
        self.samples(seen, row)
    }

    fn name(&self, row: Row) -> String {
        match row.flow {
            Some(flow) => format!("{}: {}", self.scenario.flows[flow], row.figure.label()),
            None => row.figure.label().to_string(),
        }
    }

    /// What a reader of the table has to know.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.scenario.repeats > 1 {
            let runs = self.scenario.repeats;
            remarks.push(format!("medians of {runs} runs, in brackets the smallest and the largest value"));
        }
        if self.ran().any(|(place, _)| place == Place::Sim) {
            remarks.push(
                "simulated: no TCP; a flow of it is a source that always has more and does not slow down, and best-link a \
                 bundle over that link"
                    .into(),
            );
        }
        for (_, seen) in self.places {
            match seen {
                Err(why) => remarks.push(why.clone()),
                Ok(seen) => remarks.extend(seen.iter().filter_map(|seen| match &seen.outcome {
                    Outcome::Unable(why) => Some(why.clone()),
                    Outcome::Ran(_) => None,
                })),
            }
        }
        remarks.extend(self.overloads());
        remarks.extend(self.failures().into_iter().map(|failure| format!("failed: {failure}")));
        remarks
    }

    /// Who was not offered the load that was planned.
    fn overloads(&self) -> Vec<String> {
        let rows = self.rows();
        let is_short = |seen: &Seen| {
            rows.iter()
                .any(|row| self.samples(seen, *row).is_some_and(|samples| is_not_reached(*row, &samples)))
        };
        let short = self.ran().filter(|(_, seen)| is_short(seen));
        short
            .map(|(place, seen)| {
                let who = format!("{}, {}", place.label(), seen.contestant.key());
                format!("{who}: the load was NOT REACHED, so figures are those of a smaller one")
            })
            .collect()
    }

    fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for (place, seen) in self.ran() {
            let Outcome::Ran(runs) = &seen.outcome else { continue };
            let whys =
                runs.iter().enumerate().filter_map(|(run, outcome)| Some((run, outcome.as_ref().err()?)));
            failures.extend(whys.map(|(run, why)| {
                format!("{}, {}, run {}: {why}", place.label(), seen.contestant.key(), run + 1)
            }));
        }
        failures
    }

    /// Whether everyone whom `want` is about has what it wants. Nobody to judge is no verdict, no figure to judge by a bad
    /// one.
    fn verdicts(&self, want: &Want) -> Vec<Verdict> {
        let is_meant = |(place, seen): &(Place, &Seen)| {
            let default = seen.contestant != Contestant::BestLink;
            want.place.is_none_or(|wanted| wanted == *place)
                && want.contestant.map_or(default, |wanted| wanted == seen.contestant)
        };
        let meant: Vec<(Place, &Seen)> = self.ran().filter(is_meant).collect();
        let is_row = |row: &Row| row.figure == want.figure && (want.flow.is_none() || row.flow == want.flow);
        let rows: Vec<Row> = self.rows().into_iter().filter(is_row).collect();
        let judge = |id: &str, figure: f64| {
            let least = want.at_least.map(|least| Verdict::at_least(id, figure, least));
            least.into_iter().chain(want.at_most.map(|most| Verdict::at_most(id, figure, most)))
        };
        let mut verdicts = Vec::new();
        for (place, seen) in &meant {
            for row in &rows {
                let Some(samples) = self.samples(seen, *row) else { continue };
                verdicts.extend(judge(&key(*place, seen.contestant, *row), samples.median()));
            }
        }
        if verdicts.is_empty() && !meant.is_empty() {
            verdicts.extend(judge(want.figure.key(), f64::NAN));
        }
        verdicts
    }
}

/// What stands in the table.
fn cell(row: Row, samples: &Samples) -> String {
    let [median, min, max] = [samples.median(), samples.min(), samples.max()].map(number);
    let spread = if min == max { String::new() } else { format!(" ({min} to {max})") };
    let mark = if is_not_reached(row, samples) { " NOT REACHED" } else { "" };
    format!("{median}{spread}{mark}")
}

fn is_not_reached(row: Row, samples: &Samples) -> bool {
    row.figure == Figure::OfferedPercent && samples.min() < OFFERED_MIN
}

/// Name of a figure in the file: `sim.adaptive.flow1.mbps`.
fn key(place: Place, contestant: Contestant, row: Row) -> String {
    let flow = row.flow.map(|flow| format!("flow{}.", flow + 1)).unwrap_or_default();
    format!("{}.{}.{flow}{}", place.key(), contestant.key(), row.figure.key())
}

/// Three digits that matter, or all before the point; whole numbers as they are.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn fields((place, seen): &InPlace) -> Value {
    json!({ "place": place.key(), "contestants": seen.as_ref().ok(), "unable": seen.as_ref().err() })
}

#[cfg(test)]
mod tests {
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
    "#;

    fn runs(speeds: [f64; 2], offered: f64) -> Outcome {
        let run = |speed| {
            Ok(vec![
                Measure::of_flow(0, Figure::Mbps, speed),
                Measure::of_flow(0, Figure::Broken, 0.0),
                Measure::of_flow(1, Figure::OfferedPercent, offered),
            ])
        };
        Outcome::Ran(speeds.map(run).to_vec())
    }

    fn places() -> Vec<InPlace> {
        let seen = |contestant, outcome| Seen { contestant, outcome };
        let bundle = Contestant::Bundle(tabane_proto::PolicyKind::Adaptive);
        let seen = vec![
            seen(Contestant::BestLink, runs([900.0, 1000.0], 100.0)),
            seen(bundle, runs([1800.0, 1900.0], 80.0)),
            seen(Contestant::Mptcp, Outcome::Unable("no mptcp in `sim`".into())),
        ];
        vec![(Place::Sim, Ok(seen))]
    }

    #[test]
    fn a_table_has_what_was_measured_and_says_what_was_not() {
        let scenario = file::parse("test", TEXT).unwrap();
        let (found, places) = (|places| Found { scenario: &scenario, places }, places());
        let table = found(&places).table().to_string();
        let row = |name: &str| table.lines().find(|line| line.contains(name)).map(str::to_string);
        assert!(row("speed, Mbit/s").unwrap().ends_with("best-link    950 (900 to 1000)"), "{table}");
        assert!(row("x best link").unwrap().ends_with("1.95 (1.90 to 2)"), "{table}");
        assert!(table.contains("80 NOT REACHED") && row("broken").is_none(), "{table}");
        let remarks = found(&places).remarks().join("\n");
        assert!(
            remarks.contains("no mptcp in `sim`")
                && remarks.contains("simulated, adaptive: the load was NOT REACHED"),
            "{remarks}"
        );
    }

    #[test]
    fn wants_are_judged_by_medians_of_whom_they_mean() {
        let scenario = file::parse("test", TEXT).unwrap();
        let places = places();
        let found = Found { scenario: &scenario, places: &places };
        let verdicts: Vec<Vec<Verdict>> = scenario.wants.iter().map(|want| found.verdicts(want)).collect();
        let [ratio] = &verdicts[0][..] else { panic!("{verdicts:?}") };
        assert_eq!((ratio.id.as_str(), ratio.ok), ("sim.adaptive.flow1.ratio", true));
        assert!(!verdicts[1][0].ok && verdicts[1][0].got.is_null(), "a figure that nobody has: {verdicts:?}");
        assert!(verdicts[2].is_empty(), "the guest did not run: {verdicts:?}");
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.1234, 0.9999, 1.234, 12.34, 99.98, 1234.4, 7.0].map(number);
        assert_eq!(shown, ["0", "0.123", "1.00", "1.23", "12.3", "100", "1234", "7"]);
    }
}
