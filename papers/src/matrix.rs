//! P0.matrix: several senders over several NICs, under round robin and under transmit load balancing (figures 8 and 9).
//!
//! The cells and the findings are those of [`balancing`](super::balancing), too, which judges Linux bonding by them.

use super::streams::{PERIOD_SECONDS, Streamed, Streams};
use crate::cgroup::Cgroup;
use crate::prelude::*;

const POLICIES: [&str; 2] = ["rr", "tlb"];

pub(super) struct Cell {
    rate: Bitrate,
    pub(super) senders: usize,
    pub(super) nics: usize,
    /// For each policy: throughput in Mbit/s, and share of the CPU in percent.
    pub(super) published: [(f64, f64); 2],
}

const fn cell(rate: Bitrate, senders: usize, nics: usize, rr: (f64, f64), tlb: (f64, f64)) -> Cell {
    Cell { rate, senders, nics, published: [rr, tlb] }
}

const FAST: Bitrate = Bitrate::mbit(100);
const GIGABIT: Bitrate = Bitrate::gbit(1);
pub(super) const CELLS: [Cell; 6] = [
    cell(FAST, 2, 4, (377.0, 75.3), (188.0, 11.6)),
    cell(FAST, 3, 3, (282.0, 34.0), (283.0, 21.9)),
    cell(FAST, 4, 2, (188.0, 12.8), (188.0, 11.6)),
    cell(GIGABIT, 2, 4, (561.0, 99.2), (745.0, 31.1)),
    cell(GIGABIT, 3, 3, (425.0, 99.9), (724.0, 27.8)),
    cell(GIGABIT, 4, 2, (656.0, 96.5), (764.0, 31.5)),
];
pub(super) const CELLS_OF_RATE: usize = 3;

/// As fast as one another: within a tenth.
const LEVEL: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// Twice the NICs make round robin at least so much faster.
const TWICE: f64 = 1.8;
/// Slower is more than a run differs from the next.
const SLOWER: f64 = 0.95;
/// From here on the CPU is the limit, in percent of it.
const CPU_FULL: f64 = 95.0;

pub(super) type Pair<'a> = [&'a Streamed; 2];

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let seen = CELLS.iter().map(|cell| measure(setting, cell)).collect::<Result<Vec<_>>>()?;
    let mut outcome = Outcome::default();
    for (cell, seen) in CELLS.iter().zip(&seen) {
        for ((policy, published), own) in POLICIES.iter().zip(cell.published).zip(seen) {
            let what = format!("{}, {} senders, {} NICs, {policy}", cell.rate, cell.senders, cell.nics);
            outcome.row(format!("{what}: throughput"), published.0, own.mbit());
            outcome.row(format!("{what}: CPU"), published.1, Samples::new("%", vec![own.busy]));
            outcome.own(format!("{what}: CPU, softirq"), Samples::new("%", vec![own.softirq]));
        }
    }
    let pairs: Vec<Pair<'_>> = seen.iter().map(|[rr, tlb]| [rr, tlb]).collect();
    judge(&mut outcome, "bundle", &pairs, [FAST, GIGABIT]);
    outcome.pictures.push(figure(&pairs));
    Ok(outcome)
}

fn measure(setting: &Setting, cell: &Cell) -> Result<[Streamed; 2]> {
    let topology = Setting::hosts(cell.nics, cell.rate)?;
    let streams = Streams::periods(cell.senders, setting.rounds);
    each(POLICIES, |policy| streams.over_bundles(setting, &topology, policy))
}

/// The paper's findings 1 to 5, of `who`, whose slower and faster NICs have these `rates`.
pub(super) fn judge(outcome: &mut Outcome, who: &str, pairs: &[Pair<'_>], rates: [Bitrate; 2]) {
    let (slow, fast) = pairs.split_at(CELLS_OF_RATE);
    let [at_slow, at_fast] = rates.map(|rate| format!("at {rate}"));
    let times =
        |pairs: &[Pair<'_>]| pairs.iter().map(|[rr, tlb]| times(&rr.mbit(), &tlb.mbit())).collect::<Vec<_>>();
    let spreads =
        |ratios: &[Samples]| ratios.iter().map(|ratio| spread(ratio, 2)).collect::<Vec<_>>().join(", ");
    let busy = |pairs: &[Pair<'_>]| two(pairs, |seen| seen.busy);
    let softirq = |pairs: &[Pair<'_>]| two(pairs, |seen| seen.softirq);
    let ratios = times(slow);
    outcome.finding(
        &format!("(1) {who}, {at_slow}: round robin lets two senders use four NICs, and is no faster where senders are as many as NICs"),
        ratios[0].median() >= TWICE && ratios[1..].iter().all(|ratio| LEVEL.contains(&ratio.median())),
        format!("round robin is {} times as fast", spreads(&ratios)),
    );
    let above = |pairs: &[Pair<'_>], figure: fn(&Streamed) -> f64| {
        pairs.iter().all(|[rr, tlb]| figure(rr) > figure(tlb))
    };
    outcome.finding(
        &format!("(2) {who}, {at_slow}: round robin takes more of the CPU than load balancing, for soft interrupts take longer"),
        above(slow, |seen| seen.busy) && above(slow, |seen| seen.softirq),
        format!("CPU {}; softirq {}", busy(slow), softirq(slow)),
    );
    outcome.finding(
        &format!("(3) {who}, {at_fast}: under round robin the CPU is the limit"),
        fast.iter().all(|[rr, _]| rr.busy >= CPU_FULL),
        format!("CPU {}", busy(fast)),
    );
    let ratios = times(fast);
    outcome.finding(
        &format!("(4) {who}, {at_fast}: round robin is slower than load balancing, and takes more of the CPU for soft interrupts"),
        ratios.iter().all(|ratio| ratio.median() < SLOWER) && above(fast, |seen| seen.softirq),
        format!("round robin is {} times as fast; softirq {}", spreads(&ratios), softirq(fast)),
    );
    let most = fast.iter().flatten().map(|seen| seen.mbit().median()).fold(0.0, f64::max);
    outcome.finding(
        &format!("(5) {who}, {at_fast}: several NICs carry less than one could"),
        most < rates[1].mbps(),
        format!("up to {most:.0} Mbit/s"),
    );
}

fn two(pairs: &[Pair<'_>], figure: impl Fn(&Streamed) -> f64) -> String {
    let of = |which: usize| pairs.iter().map(|pair| figure(pair[which])).collect::<Vec<_>>();
    let list = |figures: Vec<f64>| {
        figures.iter().map(|figure| format!("{figure:.1}")).collect::<Vec<_>>().join(", ")
    };
    format!("{} against {} %", list(of(0)), list(of(1)))
}

/// The paper's figure 8: throughput over time. Of its curves only the means are published.
fn figure(pairs: &[Pair<'_>]) -> Picture {
    // In the paper the slow NICs are to the left of the fast ones.
    let order = (0..CELLS_OF_RATE).flat_map(|cell| [cell, cell + CELLS_OF_RATE]);
    let panels: Vec<Panel> = order.map(|cell| panel(&CELLS[cell], &pairs[cell])).collect();
    Picture::new("P0-figure-8", "P0, figure 8: throughput over time, senders-NICs-rate", 2, &panels)
}

fn panel(cell: &Cell, pair: &Pair<'_>) -> Panel {
    let mut lines = Vec::new();
    for (colour, ((policy, seen), published)) in POLICIES.iter().zip(pair).zip(cell.published).enumerate() {
        // A period's mean holds from its beginning to its end.
        let mbit = seen.mbit();
        let steps = mbit.values().iter().enumerate().flat_map(|(period, mbit)| {
            [period, period + 1].map(|edge| ((edge * PERIOD_SECONDS) as f64, *mbit))
        });
        let points: Vec<(f64, f64)> = steps.collect();
        let end = points.last().map_or(0.0, |point| point.0);
        lines.push(Line::own(*policy, colour, points));
        lines.push(Line::published(format!("{policy}, published"), colour, published.0, (0.0, end)));
    }
    let title = format!("{}-{}-{:.0}", cell.senders, cell.nics, cell.rate.mbps());
    Panel { title, x: "s", y: "Mbit/s", lines }
}

// P0.base: one sender over one NIC (figure 7).

/// Rate, and the published throughput in Mbit/s and share of the CPU in percent.
const PUBLISHED: [(Bitrate, f64, f64); 2] =
    [(Bitrate::mbit(100), 94.0, 4.6), (Bitrate::gbit(1), 784.0, 29.9)];
/// Percent of a link's rate from which TCP fills it: headers and preambles take the rest.
const FILLED: f64 = 90.0;

pub(super) fn run_base(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut filled = Vec::new();
    for (rate, mbit, cpu) in PUBLISHED {
        let topology = Setting::hosts(1, rate)?;
        let seen = Streams::periods(1, setting.rounds).between(setting, &topology, address(0, 1).into())?;
        let percent = seen.mbit().values().iter().map(|mbit| 100.0 * mbit / rate.mbps()).collect();
        filled.push(Samples::new("%", percent));
        outcome.row(format!("{rate}: throughput"), mbit, seen.mbit());
        outcome.row(format!("{rate}: CPU"), cpu, Samples::new("%", vec![seen.busy]));
        outcome.own(format!("{rate}: CPU, softirq"), Samples::new("%", vec![seen.softirq]));
    }
    let [slow, fast] = [&filled[0], &filled[1]];
    outcome.finding(
        "4.5: one sender fills a NIC of 100 Mbit/s",
        slow.median() >= FILLED,
        format!("{} % of the rate", spread(slow, 0)),
    );
    outcome.finding(
        "4.5: one sender does not fill a NIC of 1 Gbit/s, for other hardware than the CPU is slower",
        fast.median() < FILLED,
        format!("{} % of the rate", spread(fast, 0)),
    );
    Ok(outcome)
}

// P0.budget: round robin beside load balancing while the receiving side has less and less of a processor.
//
// The paper's NICs of 1 Gbit/s outran its processors, and round robin was slower then. Here the receiving host's bundle and the
// program that receives share a control group, whose part of a processor is the budget.

/// Percent of a processor.
const BUDGETS: [u32; 4] = [100, 50, 25, 10];
const BUDGETED: [(usize, usize); 2] = [(3, 3), (4, 2)];
const SECONDS: usize = 5;

pub(super) fn run_budget(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut because = Vec::new();
    let mut is_slower = false;
    for (senders, nics) in BUDGETED {
        let topology = Setting::hosts(nics, Bitrate::gbit(1))?;
        let mut rows = Vec::new();
        for budget in BUDGETS {
            let _step = progress::step(&format!("{senders} senders, {nics} NICs, {budget} % of a processor"));
            let mut seen = POLICIES.map(|_| Samples::new("Mbit/s", Vec::new()));
            for (policy, seen) in POLICIES.iter().zip(&mut seen) {
                let group = Cgroup::with_processor(budget)?;
                let bundles = setting.bundles(&topology, policy)?;
                let there = bundle::address(1);
                let probe = Probe::start(&setting.daemon, topology.host(0), topology.host(1), there)?;
                group.add(bundles[1].pid().context("the receiving bundle has ended")?)?;
                group.add(probe.pid())?;
                let streams = Streams { senders, seconds: SECONDS, interval: 1 };
                streams.run(&probe, there)?.mbit().values().iter().for_each(|mbit| seen.push(*mbit));
                probe.stop()?;
                Bundle::stop_all(bundles)?;
            }
            let [rr, tlb] = &seen;
            let ratio = times(rr, tlb);
            let cells = [rr, tlb, &ratio].map(|own| Some(own.median()));
            rows.push((format!("{budget} %"), cells.to_vec()));
            is_slower |= ratio.median() < SLOWER;
            because.push(format!("{senders}-{nics} at {budget} %: {}", spread(&ratio, 2)));
        }
        let title = format!(
            "{senders} senders, {nics} NICs of 1 Gbit/s: Mbit/s, and round robin beside load balancing"
        );
        outcome.grid(&title, &["rr", "tlb", "times"], rows);
    }
    outcome.finding(
        "(4) with a slow enough processor, round robin is slower than load balancing",
        is_slower,
        format!("times as fast, senders-NICs: {}", because.join(", ")),
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(mbit: f64, busy: f64, softirq: f64) -> Streamed {
        Streamed { senders: vec![vec![mbit; 3]], busy, softirq }
    }

    fn results(pairs: &[[Streamed; 2]]) -> Vec<Option<bool>> {
        let pairs: Vec<Pair<'_>> = pairs.iter().map(|[rr, tlb]| [rr, tlb]).collect();
        let mut outcome = Outcome::default();
        judge(&mut outcome, "it", &pairs, [FAST, GIGABIT]);
        outcome.findings.iter().map(|finding| finding.holds).collect()
    }

    #[test]
    fn the_published_figures_agree_with_the_findings_of_the_paper() {
        let published = CELLS.each_ref().map(|cell| {
            // Its shares of soft interrupts are in no table; it says that they are higher.
            cell.published.map(|(mbit, busy)| seen(mbit, busy, busy / 2.0))
        });
        assert_eq!(results(&published), [Some(true); 5]);
    }

    #[test]
    fn each_finding_can_fail() {
        let level = [(); 6].map(|()| [seen(1_800.0, 50.0, 20.0), seen(1_000.0, 50.0, 20.0)]);
        assert_eq!(results(&level), [Some(false); 5]);
    }
}
