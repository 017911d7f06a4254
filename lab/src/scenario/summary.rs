//! What was found, against what the scenarios want. Of one scenario: a row per figure and contestant, place beside place. Of
//! several cases: a row per case and contestant, figure beside figure.

use serde_json::{Value, json};

use super::contestant::Contestant;
use super::figure::{Figure, Measure};
use super::plan::{FlowKind, Place, Scenario, Want};
use super::{Run, Seen};
use crate::prelude::*;

/// What counts as offered, in percent: a datagram or two may miss the end.
const OFFERED_MIN: f64 = 99.0;
const NAMES_MAX: usize = 4;

pub(super) type InPlace = (Place, Result<Vec<Seen>, String>);

pub(super) struct Found {
    pub(super) name: String,
    pub(super) scenario: Scenario,
    pub(super) places: Vec<InPlace>,
}

pub(super) fn write(report: &mut Report, found: &[Found]) {
    match found {
        [only] if only.name.is_empty() => {
            report.field("scenario", only.scenario.to_string());
            report.field("places", only.fields());
            report.show(format!("  {}\n", only.scenario.about));
            report.show(only.table());
        }
        cases => {
            let fields = |case: &Found| json!({ "case": case.name, "scenario": case.scenario.to_string(), "places": case.fields() });
            report.field("cases", cases.iter().map(fields).collect::<Vec<_>>());
            report.show(format!("  {}\n", cases.first().map_or("", |case| &case.scenario.about)));
            report.show(table_of(cases));
            legends(cases).into_iter().for_each(|legend| report.show(format!("  {legend}")));
        }
    }
    let mut remarks: Vec<String> = Vec::new();
    for case in found {
        for row in case.rows() {
            for (place, seen) in case.ran() {
                if let Some(samples) = case.samples(seen, row) {
                    report.samples(case.key(place, seen.contestant, row), samples);
                }
            }
        }
        let new = case.remarks().into_iter().filter(|remark| !remarks.contains(remark)).collect::<Vec<_>>();
        remarks.extend(new);
    }
    remarks.into_iter().for_each(|remark| report.show(format!("  {remark}")));
    let failed = found.iter().map(|case| case.failures().len()).sum::<usize>();
    report.verdict(Verdict::equals("runs_failed", failed, 0));
    verdicts(found).into_iter().for_each(|verdict| report.verdict(verdict));
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    flow: Option<usize>,
    figure: Figure,
}

impl Found {
    fn ran(&self) -> impl Iterator<Item = (Place, &Seen)> {
        let places = self.places.iter();
        let seen = places.filter_map(|(place, seen)| Some((*place, seen.as_ref().ok()?)));
        seen.flat_map(|(place, seen)| seen.iter().map(move |seen| (place, seen)))
            .filter(|(_, seen)| seen.runs.is_ok())
    }

    fn rows(&self) -> Vec<Row> {
        let flows = (0..self.scenario.flows.len()).map(Some).chain([None]);
        let rows = flows.flat_map(|flow| Figure::ALL.iter().map(move |figure| Row { flow, figure: *figure }));
        rows.filter(|row| self.ran().any(|(_, seen)| self.samples(seen, *row).is_some())).collect()
    }

    fn is_shown(&self, figure: Figure) -> bool {
        let show = &self.scenario.show;
        let is_wanted = self.scenario.wants.iter().any(|want| want.figure == figure);
        if show.is_empty() { figure.is_usual() || is_wanted } else { show.contains(&figure) }
    }

    fn samples(&self, seen: &Seen, row: Row) -> Option<Samples> {
        let runs = seen.runs.as_ref().ok()?;
        let flow = row.flow.and_then(|flow| self.scenario.flows.get(flow));
        if flow.is_some() != row.flow.is_some() {
            return None; // Another case has more flows.
        }
        let values: Vec<f64> = match row.figure {
            Figure::Ratio => self.ratios(seen, row, self.base(seen)?),
            Figure::RatioPerLink => {
                let links = self.scenario.links.len() as f64;
                self.ratios(seen, row, self.base(seen)?).into_iter().map(|ratio| ratio / links).collect()
            }
            Figure::CpuRatio => {
                let base = self.base(seen).filter(|base| !std::ptr::eq(*base, seen))?.runs.as_ref().ok()?;
                let cost = |run| value(run, row.flow, Figure::CpuSPerGb);
                runs.iter().zip(base).filter_map(|(run, base)| Some(cost(run)? / cost(base)?)).collect()
            }
            Figure::OfBestOther => {
                let speed = |other: &&Seen| {
                    self.samples(other, Row { figure: Figure::Mbps, ..row }).map(|all| all.median())
                };
                let is_other = |who: Contestant| who.policy().is_none() && !who.is_alone();
                let others = self.beside(seen).filter(|other| is_other(other.contestant));
                let speeds = others.filter_map(|other| Some((speed(&other)?, other)));
                let (_, best) = speeds.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
                self.ratios(seen, row, best)
            }
            Figure::Share => {
                let flow = flow?;
                let speed = |run: &Run| {
                    if flow.kind != FlowKind::File {
                        return value(run, row.flow, Figure::Mbps);
                    }
                    let seconds = value(run, row.flow, Figure::Seconds)?;
                    Some(flow.file_bytes() as f64 * f64::from(flow.count) * 8e-6 / seconds)
                };
                runs.iter().filter_map(speed).map(|speed| speed / self.scenario.mbps_of_links(flow)).collect()
            }
            figure => runs.iter().filter_map(|run| value(run, row.flow, figure)).collect(),
        };
        (!values.is_empty()).then(|| Samples::new(row.figure.unit(), values))
    }

    /// Speed as a multiple of that of `base`, run by run, of a flow that goes as fast as it can.
    fn ratios(&self, seen: &Seen, row: Row, base: &Seen) -> Vec<f64> {
        let is_paced = |flow: usize| matches!(self.scenario.flows[flow].kind, FlowKind::Udp);
        let (Ok(runs), Ok(alone)) = (&seen.runs, &base.runs) else { return Vec::new() };
        if std::ptr::eq(seen, base) || row.flow.is_none_or(is_paced) {
            return Vec::new();
        }
        let ratio = |(run, alone)| {
            let of = |figure| Some((value(run, row.flow, figure)?, value(alone, row.flow, figure)?));
            let faster = of(Figure::Mbps).or_else(|| of(Figure::PerSecond));
            let faster = faster.map(|(speed, alone)| speed / alone);
            faster.or_else(|| of(Figure::Seconds).map(|(time, alone)| alone / time))
        };
        runs.iter().zip(alone).filter_map(ratio).collect()
    }

    fn beside(&self, seen: &Seen) -> impl Iterator<Item = &Seen> {
        let place = self.ran().find(|(_, other)| std::ptr::eq(*other, seen)).map(|(place, _)| place);
        self.ran().filter(move |(other, _)| Some(*other) == place).map(|(_, seen)| seen)
    }

    /// With whom others are compared in the same place: the best link, or else the first of all.
    fn base(&self, seen: &Seen) -> Option<&Seen> {
        let alone = self.beside(seen).find(|other| other.contestant == Contestant::BestLink);
        alone.or_else(|| self.beside(seen).next())
    }

    fn table(&self) -> Table {
        let labels = self.places.iter().map(|(place, _)| place.label());
        let mut table = Table::new(["figure", "contestant"].into_iter().chain(labels));
        for row in self.rows().into_iter().filter(|row| self.is_shown(row.figure)) {
            let mut name = self.name(row);
            for contestant in &self.scenario.contestants {
                let samples: Vec<Option<Samples>> =
                    self.places.iter().map(|(place, _)| self.samples_of(*place, *contestant, row)).collect();
                if samples.iter().flatten().any(|samples| says_something(row, samples)) {
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
        let others = &self.scenario.contestants;
        let base = others.iter().find(|who| **who == Contestant::BestLink).or(others.first());
        let base = base.map_or("", |who| who.key()).replace("best-link", "best link");
        let label = row.figure.label().replace("best link", &base);
        row.flow.map_or(label.clone(), |flow| format!("{}: {label}", self.scenario.flows[flow]))
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.scenario.repeats > 1 {
            let (runs, spread) = (self.scenario.repeats, "in brackets the smallest and the largest value");
            let of_several = if self.name.is_empty() { format!(", {spread}") } else { String::new() };
            remarks.push(format!("medians of {runs} runs{of_several}"));
        }
        if self.ran().any(|(place, _)| place == Place::Sim) {
            remarks.push(
                "simulated: no TCP; a flow of it is a source that always has more and does not slow down, and best-link a \
                 bundle over that link"
                    .into(),
            );
        }
        for (_, seen) in &self.places {
            match seen {
                Err(why) => remarks.push(why.clone()),
                Ok(seen) => remarks.extend(seen.iter().filter_map(|seen| seen.runs.clone().err())),
            }
        }
        remarks.extend(self.overloads());
        remarks.extend(self.failures().into_iter().map(|failure| format!("failed: {failure}")));
        remarks
    }

    fn overloads(&self) -> Vec<String> {
        let rows = self.rows();
        let is_short = |seen: &Seen| {
            rows.iter()
                .any(|row| self.samples(seen, *row).is_some_and(|samples| is_not_reached(*row, &samples)))
        };
        let short = self.ran().filter(|(_, seen)| is_short(seen));
        short
            .map(|(place, seen)| {
                let who = format!("{}{}, {}", self.head(": "), place.label(), seen.contestant.key());
                format!("{who}: the load was NOT REACHED, so figures are those of a smaller one")
            })
            .collect()
    }

    fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for (place, seen) in self.ran() {
            let runs = seen.runs.iter().flatten().enumerate();
            let whys = runs.filter_map(|(run, outcome)| Some((run, outcome.as_ref().err()?)));
            failures.extend(whys.map(|(run, why)| {
                let (head, who) = (self.head(": "), seen.contestant.key());
                format!("{head}{}, {who}, run {}: {why}", place.label(), run + 1)
            }));
        }
        failures
    }

    fn head(&self, after: &str) -> String {
        if self.name.is_empty() { String::new() } else { format!("{}{after}", self.name) }
    }

    /// Name of a figure in the file: `sim.adaptive.flow1.mbps`, behind the name of a case.
    fn key(&self, place: Place, contestant: Contestant, row: Row) -> String {
        let flow = row.flow.map(|flow| format!("flow{}.", flow + 1)).unwrap_or_default();
        format!("{}{}.{}.{flow}{}", self.head("."), place.key(), contestant.key(), row.figure.key())
    }

    /// What `want` is about: names and values. No figure to judge is a bad one, nobody to judge none.
    fn meant(&self, want: &Want) -> Vec<(String, Vec<f64>)> {
        let is_meant = |(place, seen): &(Place, &Seen)| {
            let usual = seen.contestant != Contestant::BestLink;
            want.place.is_none_or(|wanted| wanted == *place)
                && want.contestant.map_or(usual, |wanted| wanted == seen.contestant)
        };
        let who: Vec<(Place, &Seen)> = self.ran().filter(is_meant).collect();
        let is_row = |row: &Row| row.figure == want.figure && (want.flow.is_none() || row.flow == want.flow);
        let rows: Vec<Row> = self.rows().into_iter().filter(is_row).collect();
        let mut meant = Vec::new();
        for (place, seen) in &who {
            for row in &rows {
                let Some(samples) = self.samples(seen, *row) else { continue };
                let base = self.base(seen).and_then(|base| self.samples(base, *row));
                let values = match (want.apart, base) {
                    (Some(_), Some(base)) => vec![(samples.median() - base.median()).abs()],
                    (Some(_), None) => vec![f64::NAN],
                    (None, _) => samples.values().to_vec(),
                };
                meant.push((self.key(*place, seen.contestant, *row), values));
            }
        }
        if meant.is_empty() && !who.is_empty() && !self.scenario.flows.is_empty() {
            meant.push((format!("{}{}", self.head("."), want.figure.key()), Vec::new()));
        }
        meant
    }

    fn fields(&self) -> Value {
        let place = |(place, seen): &InPlace| json!({ "place": place.key(), "contestants": seen.as_ref().ok(), "unable": seen.as_ref().err() });
        self.places.iter().map(place).collect()
    }
}

fn value(run: &Run, flow: Option<usize>, figure: Figure) -> Option<f64> {
    let wanted = |measure: &&Measure| measure.flow == flow && measure.figure == figure;
    run.as_ref().ok()?.iter().find(wanted).map(|measure| measure.value)
}

fn verdicts(found: &[Found]) -> Vec<Verdict> {
    let mut judged: Vec<(String, &Want, Vec<f64>)> = Vec::new();
    for case in found {
        for want in &case.scenario.wants {
            for (key, values) in case.meant(want) {
                let id = want.name.as_ref().map_or(key, |name| name.replace("{case}", &case.name));
                match judged.iter_mut().find(|(own, other, _)| {
                    want.name.is_some()
                        && *own == id
                        && (other.at_least, other.at_most) == (want.at_least, want.at_most)
                }) {
                    Some((_, _, all)) => all.extend(values),
                    None => judged.push((id, want, values)),
                }
            }
        }
    }
    judged.iter().flat_map(|(id, want, values)| judge(id, want, values)).collect()
}

fn judge(id: &str, want: &Want, values: &[f64]) -> Vec<Verdict> {
    let samples = Samples::new("", values.to_vec());
    let figure = |worst: f64| {
        let is_lacking = values.is_empty() || values.iter().any(|value| value.is_nan());
        match (is_lacking, want.every_run) {
            (true, _) => f64::NAN,
            (false, true) => worst,
            (false, false) => samples.median(),
        }
    };
    let least = want.at_least.map(|least| Verdict::at_least(id, figure(samples.min()), least));
    let most = want.at_most.or(want.apart).map(|most| Verdict::at_most(id, figure(samples.max()), most));
    least.into_iter().chain(most).collect()
}

fn table_of(cases: &[Found]) -> Table {
    let mut columns: Vec<Row> = Vec::new();
    for case in cases {
        for row in case.rows().into_iter().filter(|row| case.is_shown(row.figure)) {
            let mut all = case.ran().filter_map(|(_, seen)| case.samples(seen, row));
            if !columns.contains(&row) && all.any(|samples| says_something(row, &samples)) {
                columns.push(row);
            }
        }
    }
    columns.sort_by_key(|row| (row.flow.is_none(), *row));
    let is_one_flow = cases.iter().all(|case| case.scenario.flows.len() == 1);
    let head = |row: &Row| match row.flow {
        Some(flow) if !is_one_flow => format!("{} {}", flow + 1, row.figure.key()),
        _ => row.figure.key().to_string(),
    };
    let places: Vec<Place> =
        cases.iter().flat_map(|case| case.places.iter().map(|(place, _)| *place)).collect();
    let is_one_place = places.windows(2).all(|pair| pair[0] == pair[1]);
    let place_head = (!is_one_place).then(|| "place".to_string());
    let heads = ["case".to_string(), "contestant".to_string()].into_iter().chain(place_head);
    let mut table = Table::new(heads.chain(columns.iter().map(head)));
    for case in cases {
        for (place, seen) in case.ran() {
            let place = (!is_one_place).then(|| place.label().to_string());
            let head = [case.name.clone(), seen.contestant.key().to_string()].into_iter().chain(place);
            let median =
                |row: &Row| case.samples(seen, *row).map_or("–".into(), |samples| number(samples.median()));
            table.row(head.chain(columns.iter().map(median)).collect());
        }
    }
    table
}

fn legends(cases: &[Found]) -> Vec<String> {
    let mut legends: Vec<(String, Vec<&str>)> = Vec::new();
    for case in cases.iter().filter(|case| !case.scenario.flows.is_empty()) {
        let flows = case.scenario.flows.iter().zip(1..).map(|(flow, number)| format!("{number} = {flow}"));
        let flows = flows.collect::<Vec<_>>().join(", ");
        match legends.iter_mut().find(|(legend, _)| *legend == flows) {
            Some((_, names)) => names.push(&case.name),
            None => legends.push((flows, vec![&case.name])),
        }
    }
    let is_one = legends.len() == 1;
    let legend = |(flows, names): (String, Vec<&str>)| match names.len() {
        _ if is_one => format!("flows: {flows}"),
        count if count > NAMES_MAX => format!("flows of {} and {} more: {flows}", names[0], count - 1),
        _ => format!("flows of {}: {flows}", names.join(", ")),
    };
    legends.into_iter().map(legend).collect()
}

fn says_something(row: Row, samples: &Samples) -> bool {
    !row.figure.is_good_when_zero() || samples.max() > 0.0
}

fn cell(row: Row, samples: &Samples) -> String {
    let [median, min, max] = [samples.median(), samples.min(), samples.max()].map(number);
    let spread = if min == max { String::new() } else { format!(" ({min} to {max})") };
    let mark = if is_not_reached(row, samples) { " NOT REACHED" } else { "" };
    format!("{median}{spread}{mark}")
}

fn is_not_reached(row: Row, samples: &Samples) -> bool {
    row.figure == Figure::OfferedPercent && samples.min() < OFFERED_MIN
}

#[cfg(test)]
mod tests;
