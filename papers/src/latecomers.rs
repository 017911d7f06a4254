//! P0.skew: one sender starts 10 s before three others, over two links of 100 Mbit/s (finding 6 and figure 10).
//!
//! Both policies run at once, on hosts of their own. The control is `tlb-history`, which has what makes the paper's senders share a
//! link: a sender that has sent for longer.

use std::panic::resume_unwind;

use crate::prelude::*;
use crate::skew::{self, LATER, SENDERS, Series};

/// The paper's figure 10: in each period, and both links are full.
const PUBLISHED: f64 = 100.0;
const BOTH_FULL: f64 = 188.0;
/// Seconds of a run for each round after the first start: three are the paper's.
const SECONDS_OF_ROUND: usize = 20;
/// From here on a share of the seconds is the rule, in percent.
const RULE: f64 = 90.0;
const NAMES: [&str; SENDERS] = ["A", "B", "C", "D"];

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let seconds = (LATER + SECONDS_OF_ROUND * setting.rounds) as u64;
    let [by_load, by_history] = both(&setting.daemon, seconds)?;
    let shared = |series: &Series| {
        let periods = skew::three_share_one(series).into_iter().map(|part| 100.0 * part);
        Samples::new("%", periods.collect())
    };
    let [tlb, history] = [&by_load, &by_history].map(shared);
    let periods = |own: &Samples| own.values().iter().filter(|part| **part >= RULE).count();
    let because = |own: &Samples| format!("in {} of {} periods", periods(own), own.values().len());
    outcome.finding(
        "(6) who has sent for longer looks heavier, so that three latecomers share the other link in the period after their start",
        tlb.values()[0] >= RULE,
        format!("in {:.0} % of its seconds", tlb.values()[0]),
    );
    outcome.finding(
        "(6) they share it in each period from 10 s to 70 s",
        periods(&tlb) == tlb.values().len(),
        because(&tlb),
    );
    let whole = by_load.get(LATER + 1..).unwrap_or_default();
    let rates = whole.iter().map(|second| second.iter().map(|sender| sender.mbit).sum()).collect();
    let rates = Samples::new("Mbit/s", rates);
    outcome.finding(
        "(6) both links are full all the same",
        rates.median() >= 0.9 * BOTH_FULL,
        format!("{} Mbit/s; published: about {BOTH_FULL}", spread(&rates, 0)),
    );
    outcome.finding(
        "control: tlb-history, which balances by the past, does not have three share a link",
        periods(&history) == 0,
        because(&history),
    );
    outcome.row("tlb: three share a link, period by period", PUBLISHED, tlb);
    outcome.own("tlb-history: three share a link, period by period", history);
    outcome.row("tlb: throughput", BOTH_FULL, rates);
    outcome.pictures.push(figure(&by_load, &by_history));
    Ok(outcome)
}

/// The runs of both policies at once: their links are far below what the processors can do.
fn both(daemon: &Path, seconds: u64) -> Result<[Series; 2]> {
    thread::scope(|scope| {
        let history = scope.spawn(|| skew::play(daemon, "tlb-history", seconds, 1, "past-"));
        let load = skew::play(daemon, "tlb", seconds, 1, "");
        let history = history.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok([load?, history?])
    })
}

/// The paper's figure 10, and the same of `tlb-history`: throughput, and which sender sits on which link.
fn figure(by_load: &Series, by_history: &Series) -> Picture {
    let panels = [("tlb", by_load), ("tlb-history", by_history)].into_iter().flat_map(|(policy, series)| {
        let last = series.len() as f64;
        let all = series.iter().map(|second| second.iter().map(|sender| sender.mbit).sum::<f64>());
        let points = (1..).zip(all).map(|(second, mbit)| (f64::from(second), mbit)).collect();
        let mut lines = vec![Line::own(policy, 0, points)];
        if policy == "tlb" {
            lines.push(Line::published("published", 0, BOTH_FULL, (LATER as f64, last)));
        }
        let throughput = Panel { title: format!("(A) {policy}: all senders"), x: "s", y: "Mbit/s", lines };
        let mut lines: Vec<Line> = NAMES
            .iter()
            .enumerate()
            .map(|(sender, name)| Line::own(*name, sender, seat(series, sender)))
            .collect();
        if policy == "tlb" {
            // A has the one, the others have the other.
            lines.push(Line::published("A, published", 0, level(1, 0), (LATER as f64, last)));
            lines.push(Line::published("B, C, D", 1, level(0, 1), (LATER as f64, last)));
        }
        [throughput, Panel { title: format!("(B) {policy}: link of each sender"), x: "s", y: "link", lines }]
    });
    let panels: Vec<Panel> = panels.collect();
    Picture::new("P0-figure-10", "P0, figure 10: a sender that starts before three others", 2, &panels)
}

fn level(link: usize, sender: usize) -> f64 {
    (link + 1) as f64 + (sender as f64 - 1.5) * 0.06
}

fn seat(series: &Series, sender: usize) -> Vec<(f64, f64)> {
    let seats = (1..)
        .zip(series)
        .filter_map(|(second, senders)| Some((f64::from(second), level(senders[sender].link?, sender))));
    seats.collect()
}
