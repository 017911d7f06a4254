//! P0.bonding: P0's cells with Linux bonding, which the paper measures, and with bundles, in a guest, whose kernel has bonding.
//!
//! The guest's emulated processor is to these NICs what the paper's was to its own: it has time to spare at the lower rate, and
//! none at the higher one. As in the paper, the sending host's NICs limit, and not the receivers': its frames leave the switches as
//! fast as the machine.

use super::matrix::{self, CELLS, CELLS_OF_RATE, Cell, Pair};
use super::setting;
use super::streams::{PERIOD_SECONDS, Streamed, Streams};
use crate::prelude::*;

const LIMIT: Duration = Duration::from_secs(1_500);
/// Rates of the NICs, in place of 100 Mbit/s and 1 Gbit/s.
const RATES: [Bitrate; 2] = [Bitrate::mbit(10), Bitrate::mbit(100)];

#[derive(Clone, Copy)]
enum Joint {
    Bond(&'static str),
    Bundle(&'static str),
}

/// Round robin and load balancing: of bundles, then of Linux. The last one changes the switches.
const JOINTS: [Joint; 4] =
    [Joint::Bundle("rr"), Joint::Bundle("tlb"), Joint::Bond("balance-rr"), Joint::Bond("balance-tlb")];

type Figure = fn(&Streamed) -> f64;
type Published = fn(&(f64, f64)) -> f64;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Seen([Streamed; 4]);

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    setting::measured(setting, "P0.bonding", &["bonding"], LIMIT, |seen: &Vec<Seen>| outcome(seen))
}

pub(super) fn measure(setting: &Setting) -> Result<Vec<Seen>> {
    let rates = RATES.into_iter().flat_map(|rate| [rate; CELLS_OF_RATE]);
    CELLS.iter().zip(rates).map(|(cell, rate)| see(setting, cell, rate)).collect()
}

fn see(setting: &Setting, cell: &Cell, rate: Bitrate) -> Result<Seen> {
    let links = vec![LinkPlan::paced(rate); cell.nics];
    let topology = Topology::build(Plan { addressed: false, ..Plan::two_hosts(links) })?;
    for link in 0..cell.nics {
        topology.switch(link).tc("qdisc del dev port2 root")?;
    }
    let streamed = each(JOINTS, |joint| {
        let _step =
            progress::step(&format!("{}-{}, NICs of {rate}: {}", cell.senders, cell.nics, joint.label()));
        joint.stream(setting, &topology, cell.senders)
    });
    Ok(Seen(streamed?))
}

impl Joint {
    fn label(self) -> String {
        match self {
            Joint::Bond(mode) => mode.to_string(),
            Joint::Bundle(policy) => format!("bundle, {policy}"),
        }
    }

    fn stream(self, setting: &Setting, topology: &Topology, senders: usize) -> Result<Streamed> {
        let streams = Streams::periods(senders, 1);
        match self {
            Joint::Bundle(policy) => return streams.over_bundles(setting, topology, policy),
            Joint::Bond(mode @ "balance-tlb") => bonding::balancing(topology, mode)?,
            Joint::Bond(mode) => bonding::bond(topology, mode)?,
        }
        let seen = streams.between(setting, topology, bonding::address(1).into())?;
        topology.hosts().iter().try_for_each(|host| bonding::remove(host, &topology.nics()))?;
        Ok(seen)
    }
}

fn outcome(seen: &[Seen]) -> Outcome {
    let mut outcome = Outcome::default();
    let columns: Vec<String> = ["rr, published", "tlb, published"]
        .into_iter()
        .map(str::to_string)
        .chain(JOINTS.map(Joint::label))
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let figures: [(&str, Figure, Option<Published>); 3] = [
        ("Throughput, Mbit/s", |seen| seen.mbit().median(), Some(|published| published.0)),
        ("CPU, %", |seen| seen.busy, Some(|published| published.1)),
        ("CPU, softirq, %", |seen| seen.softirq, None),
    ];
    for (title, figure, published) in figures {
        let rows = CELLS.iter().zip(seen).enumerate().map(|(number, (cell, Seen(seen)))| {
            let rate = RATES[number / CELLS_OF_RATE];
            let published = cell.published.iter().map(|figures| published.map(|of| of(figures)));
            let cells = published.chain(seen.iter().map(|seen| Some(figure(seen)))).collect();
            (format!("{}-{}, {rate} here", cell.senders, cell.nics), cells)
        });
        outcome.grid(&format!("{title}: senders-NICs"), &columns, rows.collect());
    }
    for (who, first) in [("bundle", 0), ("Linux bonding", 2)] {
        let pairs: Vec<Pair<'_>> = seen.iter().map(|Seen(seen)| [&seen[first], &seen[first + 1]]).collect();
        matrix::judge(&mut outcome, who, &pairs, RATES);
    }
    outcome.remarks.push(
        format!(
            "links of {} and {} in place of 100 Mbit/s and 1 Gbit/s, for {PERIOD_SECONDS} s each",
            RATES[0], RATES[1]
        )
        .into(),
    );
    outcome
}
