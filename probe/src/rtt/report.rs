//! The report on round trips: figures of each size, their rhythm, and whether a larger message was the faster one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::stages::{Apart, Split};
use crate::connection::Server;
use crate::machine::Machine;
use crate::output::{self, Source, bar, ended_early, figure, percent, table};
use crate::stats::{self, Histogram, Inversion, Period, Round, Summary};
use crate::trace::RoundTrip;
use crate::window::Window;

const EMPTY_SHOWN: usize = 2;

/// The report on all sizes; the schema of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    measurement: &'static str,
    source: Source<Measured>,
    window: Window,
    sizes: Vec<Size>,
    /// Every size beside every smaller one; probabilities hold for all pairs together.
    inversions: Vec<Pair>,
}

#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) server: Server,
    pub(super) machine: Machine,
    /// Of the order in which the sizes were played.
    pub(super) seed: u32,
    /// Rounds that were to be played, all sizes together.
    pub(super) planned: usize,
    /// Rounds that were played before the measurement ended.
    pub(super) played: usize,
}

#[derive(Debug, Serialize)]
struct Size {
    size_bytes: u32,
    rtt_us: Summary,
    histogram: Option<Histogram>,
    /// In rounds.
    period: Option<Period>,
    /// Where the time goes, if the kernel's stamps say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<Split>,
}

#[derive(Debug, Serialize)]
struct Pair {
    smaller_bytes: u32,
    larger_bytes: u32,
    #[serde(flatten)]
    found: Inversion,
    anomaly: bool,
    /// Where the larger message's round trips below all of the smaller one save their time, beside the middle half of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<Apart>,
}

impl Report {
    pub(super) fn new(trace: &[RoundTrip], window: Window, source: Source<Measured>) -> Report {
        let mut by_size: BTreeMap<u32, Vec<RoundTrip>> = BTreeMap::new();
        for round in trace {
            by_size.entry(round.size_bytes).or_default().push(*round);
        }
        let counted = |rounds: Vec<RoundTrip>| rounds[window.places(rounds.len())].to_vec();
        let series: Vec<(u32, Vec<RoundTrip>)> =
            by_size.into_iter().map(|(size, rounds)| (size, counted(rounds))).collect();
        let sizes = series.iter().filter_map(|(size, rounds)| Size::new(*size, rounds)).collect();
        Report { measurement: "rtt", source, window, sizes, inversions: pairs(&series) }
    }

    fn head(&self) -> String {
        let Measured { server, machine, seed, planned, played } = match &self.source {
            Source::Kept(file) => return format!("round trips kept in {file}\n"),
            Source::Measured(measured) => measured,
        };
        let (server, window, machine_is) = (server.line(), self.window, machine.line());
        format!(
            "round trips to {server}, rounds counted: {window}, sizes in random order: --seed {seed}\n{machine_is}"
        ) + &ended_early(*played, *planned, "round trips were played")
            + &machine.warning()
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.sizes.iter().map(|size| {
            let times = &size.rtt_us;
            let figures = [times.min, times.median, times.mean, times.p90, times.p99, times.max, times.sd];
            let below = self.inversions.iter().filter(|pair| pair.larger_bytes == size.size_bytes);
            let below = below.map(|pair| pair.found.share).max_by(f64::total_cmp);
            [format!("{} B", size.size_bytes), times.count.to_string()]
                .into_iter()
                .chain(figures.map(figure))
                .chain([
                    size.period.map_or("none".to_owned(), |period| format!("{} rounds", period.lag)),
                    below.map_or("-".to_owned(), percent),
                ])
                .collect()
        })
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = String> {
        self.inversions.iter().filter(|pair| pair.anomaly).map(|pair| {
            let Inversion { floor, below, share, blocks, faster, gain, gain_share, probability } = pair.found;
            let (larger, smaller) = (pair.larger_bytes, pair.smaller_bytes);
            let period = self.sizes.iter().find(|size| size.size_bytes == larger).and_then(|size| size.period);
            let rhythm = period.map_or("without a period".to_owned(), |period| {
                format!("with a period of {} rounds (correlation {:.2})", period.lag, period.strength)
            });
            let saved = pair.saved.map_or(String::new(), |saved| {
                format!("; beside the middle half of {smaller} B: {}", saved.words())
            });
            format!(
                "anomaly: {larger} B is faster than {smaller} B in {faster} of {blocks} blocks, by {} µs ({}) in the \
                 median, by chance with probability {probability:.0e}; {below} round trips ({}) took less time than any \
                 of {smaller} B ({} µs), {rhythm}{saved}",
                figure(gain),
                percent(gain_share),
                percent(share),
                figure(floor)
            )
        })
    }
}

impl output::Report for Report {
    fn text(&self) -> String {
        let head = [
            "size",
            "rounds",
            "min µs",
            "median",
            "mean",
            "p90",
            "p99",
            "max",
            "sd",
            "period",
            "below smaller",
        ];
        let mut text = self.head();
        text += &table(&head, self.rows());
        for size in &self.sizes {
            if let Some(histogram) = &size.histogram {
                let _ = write!(text, "\n{} B, µs\n{}", size.size_bytes, drawing(histogram));
            }
        }
        for size in &self.sizes {
            if let Some(split) = &size.stages {
                let (bytes, rounds, all) = (size.size_bytes, split.rounds, size.rtt_us.count);
                let _ =
                    write!(text, "\n{bytes} B, stages of {rounds} of {all} round trips\n{}", split.text());
            }
        }
        let mut findings = self.findings().peekable();
        let pairs = self.sizes.len() * self.sizes.len().saturating_sub(1) / 2;
        let decided = self.inversions.iter().filter(|pair| pair.found.is_decided(pairs)).count();
        if findings.peek().is_none() && decided < pairs {
            text += "\ntoo few rounds to decide whether a larger message is faster than a smaller one\n";
        } else if findings.peek().is_none() && pairs > 0 {
            text += "\nno anomaly: no larger message is faster than a smaller one beyond chance\n";
        }
        findings.for_each(|sentence| text += &format!("\n{sentence}\n"));
        text
    }
}

impl Size {
    fn new(size_bytes: u32, rounds: &[RoundTrip]) -> Option<Size> {
        let times: Vec<f64> = rounds.iter().map(|round| round.rtt_us).collect();
        let histogram = Histogram::of(&stats::sorted(&times));
        let (rtt_us, period, stages) = (Summary::of(&times)?, stats::period(&times), Split::of(rounds));
        Some(Size { size_bytes, rtt_us, histogram, period, stages })
    }
}

fn pairs(series: &[(u32, Vec<RoundTrip>)]) -> Vec<Pair> {
    let times =
        |rounds: &[RoundTrip]| rounds.iter().map(|round| (round.round, round.rtt_us)).collect::<Vec<Round>>();
    let mut pairs: Vec<Pair> = Vec::new();
    for (place, (larger_bytes, larger)) in series.iter().enumerate() {
        for (smaller_bytes, smaller) in &series[..place] {
            let Some(found) = stats::inversion(&times(smaller), &times(larger)) else { continue };
            let (smaller_bytes, larger_bytes) = (*smaller_bytes, *larger_bytes);
            let saved = Apart::below(found.floor, larger, smaller);
            pairs.push(Pair { smaller_bytes, larger_bytes, found, anomaly: false, saved });
        }
    }
    let alone: Vec<f64> = pairs.iter().map(|pair| pair.found.probability).collect();
    for (pair, together) in pairs.iter_mut().zip(stats::holm(&alone)) {
        pair.found.probability = together;
        pair.anomaly = pair.found.is_anomaly();
    }
    pairs
}

/// A bar for each bin, with its beginning; three dots in place of many empty bins.
fn drawing(histogram: &Histogram) -> String {
    let most = histogram.counts.iter().copied().max().unwrap_or(0);
    let mut lines = String::new();
    let mut bin = 0;
    for run in histogram.counts.chunk_by(|before, next| *before == 0 && *next == 0) {
        if run.len() > EMPTY_SHOWN {
            lines += &format!("{:>12}\n", "...");
        } else {
            let line = |(place, count): (usize, &usize)| {
                format!("{:>12}  {} {count}\n", figure(histogram.edge(bin + place)), bar(*count, most))
            };
            lines.extend(run.iter().enumerate().map(line));
        }
        bin += run.len();
    }
    if histogram.above > 0 {
        let end = figure(histogram.edge(histogram.counts.len()));
        lines += &format!("{:>12}  {} above\n", format!("> {end}"), histogram.above);
    }
    lines
}
