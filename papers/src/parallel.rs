//! P2.npb: parallel programs over one link and over a bundle of two.
//!
//! The paper runs the NAS Parallel Benchmarks. No package holds them, so HPC Challenge stands in for them, part by part, unless
//! `--npb` names where their programs are. A part exchanges or computes all the time, a kernel does both: a part shows
//! whether a kernel can gain, not how much. Channel bonding needs a module that this machine's kernel may lack, so only
//! its published figures are given.

use std::path::Path;

use anyhow::Result;

use self::Bound::{Computing, Exchange};
use super::outcome::Outcome;
use super::setting::Setting;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::report::Samples;
use tabane_kit::topology::{LinkPlan, Plan, Topology, address};
use tabane_kit::workload::mpi::Mpi;
use tabane_kit::workload::{hpcc, npb};

/// Published speeds relative to a single link: of bonding and of RI2N, on 4 and on 8 nodes.
type Published = [[f64; 2]; 2];
const EP: Published = [[1.0, 1.0], [1.0, 1.0]];
const MG: Published = [[0.86, 1.04], [0.76, 1.10]];
const CG: Published = [[0.94, 1.03], [0.85, 1.16]];

/// A program, or a part of one, that is measured.
struct Part {
    label: &'static str,
    /// Name of its figure where it is read.
    figure: &'static str,
    unit: &'static str,
    bound: Bound,
    /// Of the kernel itself, or of the one that it stands for; none where the paper has no numbers.
    published: Option<Published>,
}

/// What a program spends its time with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Exchange,
    Computing,
}

const fn part(
    label: &'static str,
    figure: &'static str,
    unit: &'static str,
    bound: Bound,
    published: Option<Published>,
) -> Part {
    Part { label, figure, unit, bound, published }
}

/// cg exchanges with the rank at the transposed place, mg with neighbours, is sends short messages to all.
const HPCC: [Part; 6] = [
    part("PTRANS, for cg", "PTRANS_GBs", "GB/s", Exchange, Some(CG)),
    part("random ring, for mg", "RandomlyOrderedRingBandwidth_GBytes", "GB/s", Exchange, Some(MG)),
    part("MPIRandomAccess, for is", "MPIRandomAccess_GUPs", "GUP/s", Exchange, None),
    part("MPIFFT", "MPIFFT_Gflops", "Gflop/s", Exchange, None),
    part("EP-DGEMM, for ep", "StarDGEMM_Gflops", "Gflop/s", Computing, Some(EP)),
    part("EP-STREAM triad, for ep", "StarSTREAM_Triad", "GB/s", Computing, Some(EP)),
];
const NPB: [Part; 4] = [
    part("cg", "cg", "Mop/s", Exchange, Some(CG)),
    part("mg", "mg", "Mop/s", Exchange, Some(MG)),
    part("is", "is", "Mop/s", Exchange, None),
    part("ep", "ep", "Mop/s", Computing, Some(EP)),
];

/// From this ratio on a program gains.
const GAINS: f64 = 1.02;
/// How far the ratio of what only computes may be from one: all hosts share this machine.
const ALIKE: f64 = 0.1;

/// The programs.
enum Suite<'a> {
    Hpcc,
    /// In this directory.
    Npb(&'a Path),
}

/// What was measured of a part.
struct Own {
    part: &'static Part,
    single: Samples,
    /// With two links, as a multiple.
    ratio: Samples,
}

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let suite = setting.npb.as_deref().map_or(Suite::Hpcc, Suite::Npb);
    let seen = measure(&suite, setting)?;
    let mut outcome = Outcome::default();
    for Own { part, ratio, .. } in &seen {
        let what = format!("{}: two links of {} beside one", part.label, setting.node_rate);
        outcome.compared(what, &part.published(setting.nodes), ratio.clone());
    }
    let ratios =
        |bound: Bound| seen.iter().filter(move |own| own.part.bound == bound).map(|own| own.ratio.median());
    outcome.finding(
        "what exchanges data gains by a second link, if the order is restored",
        ratios(Exchange).all(|ratio| ratio >= GAINS),
        because(&seen, Exchange),
    );
    outcome.finding(
        "what only computes is as fast with one link as with two",
        ratios(Computing).all(|ratio| (ratio - 1.0).abs() <= ALIKE),
        because(&seen, Computing),
    );
    for Own { part, single, .. } in seen {
        outcome.own(format!("{}: one link", part.label), single);
    }
    Ok(outcome)
}

fn measure(suite: &Suite<'_>, setting: &Setting) -> Result<Vec<Own>> {
    let own = |part| Own {
        part,
        single: Samples::new(part.unit, Vec::new()),
        ratio: Samples::new("times", Vec::new()),
    };
    let mut seen: Vec<Own> = suite.parts().iter().map(own).collect();
    let links = vec![LinkPlan::paced(setting.node_rate); 2];
    let topology = Topology::build(Plan { hosts: setting.nodes.into(), ..Plan::two_hosts(links) })?;
    for _ in 0..setting.rounds {
        let single = suite.speeds(&Mpi::over(&topology, address(0, 0).into())?)?;
        let bundles = setting.bundles(&topology, "adaptive")?;
        let both = suite.speeds(&Mpi::over(&topology, bundle::address(0))?)?;
        Bundle::stop_all(bundles)?;
        for ((own, single), both) in seen.iter_mut().zip(single).zip(both) {
            own.single.push(single);
            own.ratio.push(both / single);
        }
    }
    Ok(seen)
}

impl Suite<'_> {
    fn parts(&self) -> &'static [Part] {
        match self {
            Suite::Hpcc => &HPCC,
            Suite::Npb(_) => &NPB,
        }
    }

    /// How fast each part is, in their order.
    fn speeds(&self, mpi: &Mpi<'_>) -> Result<Vec<f64>> {
        let figures = self.parts().iter().map(|part| part.figure);
        match self {
            Suite::Hpcc => {
                let summary = hpcc::run(mpi)?;
                figures.map(|figure| summary.figure(figure)).collect()
            }
            Suite::Npb(directory) => figures.map(|kernel| npb::run(mpi, directory, kernel)).collect(),
        }
    }
}

impl Part {
    /// The paper's figures for this number of nodes.
    fn published(&self, nodes: u8) -> Vec<(&'static str, f64)> {
        let [bonding, ri2n] = match (self.published, nodes) {
            (Some([four, _]), 4) => four,
            (Some([_, eight]), 8) => eight,
            _ => return Vec::new(),
        };
        vec![("bonding", bonding), ("RI2N", ri2n)]
    }
}

fn because(seen: &[Own], bound: Bound) -> String {
    let parts = seen.iter().filter(|own| own.part.bound == bound);
    let ratios: Vec<String> =
        parts.map(|own| format!("{} {:.2}", own.part.label, own.ratio.median())).collect();
    format!("times one link: {}", ratios.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_are_those_of_the_number_of_nodes() {
        let of = |nodes| part("cg", "cg", "Mop/s", Exchange, Some(CG)).published(nodes);
        assert_eq!(of(4), [("bonding", 0.94), ("RI2N", 1.03)]);
        assert_eq!(of(8), [("bonding", 0.85), ("RI2N", 1.16)]);
        assert!(of(6).is_empty());
        assert!(part("is", "is", "Mop/s", Exchange, None).published(8).is_empty());
    }
}
