//! P3.mpi: a parallel program with a rank on each of four hosts, over a window of memory and over gigabit Ethernet.
//!
//! The paper names MPI as a use that should gain, and has no figures of it.

use anyhow::Result;

use super::memory::{Hosts, Speed};
use super::outcome::Outcome;
use super::setting::Setting;
use tabane_kit::bundle;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::topology::{LinkPlan, Plan, Topology, address};
use tabane_kit::workload::hpcc;
use tabane_kit::workload::mpi::Mpi;

const RANKS: usize = 4;
/// What is taken from HPC Challenge: its name there, what it is, the unit, and whether more is better.
const FIGURES: [(&str, &str, &str, bool); 3] = [
    ("RandomlyOrderedRingLatency_usec", "a short message around a random ring", "µs", false),
    (
        "RandomlyOrderedRingBandwidth_GBytes",
        "long messages around a random ring, for each rank",
        "GB/s",
        true,
    ),
    ("PTRANS_GBs", "a matrix is transposed", "GB/s", true),
];

/// The figures of one run.
type Figures = [f64; FIGURES.len()];

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let hosts = Hosts { count: RANKS, ..Hosts::two(Speed::Own) };
    let memory = hosts.measure(setting, |topology| figures(&Mpi::over(topology, bundle::address(0))?))?;
    let links = vec![LinkPlan::shaped(Bitrate::gbit(1))];
    let topology = Topology::build(Plan { hosts: RANKS, ..Plan::two_hosts(links) })?;
    let ethernet = figures(&Mpi::over(&topology, address(0, 0).into())?)?;
    let mut gains = Vec::new();
    for ((_, what, unit, more), (own, other)) in FIGURES.into_iter().zip(memory.into_iter().zip(ethernet)) {
        outcome.own(format!("{what}: over mem"), Samples::new(unit, vec![own]));
        outcome.own(format!("{what}: over 1 Gbit/s"), Samples::new(unit, vec![other]));
        gains.push(if more { own / other } else { other / own });
    }
    outcome.remarks.push("One run of HPC Challenge each: it takes a minute");
    let said = gains.iter().map(|gain| format!("{gain:.2}")).collect::<Vec<_>>().join(", ");
    outcome.finding(
        "parallel programs exchange faster over the memory-slot NIC than over gigabit Ethernet",
        gains.iter().all(|gain| *gain > 1.0),
        format!("measured with four ranks: {said} times"),
    );
    Ok(outcome)
}

fn figures(mpi: &Mpi<'_>) -> Result<Figures> {
    let summary = hpcc::run(mpi)?;
    let mut figures = Figures::default();
    for (figure, (name, ..)) in figures.iter_mut().zip(FIGURES) {
        *figure = summary.figure(name)?;
    }
    Ok(figures)
}
