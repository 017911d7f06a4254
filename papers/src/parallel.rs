//! P2.npb: parallel programs over one link and over a bundle of two, on 4 and on 8 nodes (figure 4).
//!
//! The paper runs the NAS Parallel Benchmarks. No package holds them, so their exchange is replayed
//! ([`crate::workload::exchange`]). The nodes share this machine's processors, so their links
//! are slower than the paper's, lest the processors be the limit; `ep`, which only computes, shows whether they are.

use std::sync::Arc;

use tabane_sim::topology::Link;

use super::way::{self, Way};
use super::{replay, swept};
use crate::prelude::*;
use crate::workload::exchange::{Class, Kernel};
use crate::workload::ranks::Ranks;

pub(super) const NODES: [usize; 2] = [4, 8];
const RATES: [Bitrate; 2] = [Bitrate::mbit(50), Bitrate::mbit(25)];
/// Published speeds relative to a single link: of bonding and of RI2N, on 4 and on 8 nodes.
type Published = [[f64; 2]; 2];
const EP: Published = [[1.0, 1.0], [1.0, 1.0]];
const MG: Published = [[0.86, 1.04], [0.76, 1.10]];
const CG: Published = [[0.94, 1.03], [0.85, 1.16]];
/// From this ratio on a program gains.
pub(super) const GAINS: f64 = 1.02;
/// How far the ratio of what only computes may be from one: all hosts share this machine.
pub(super) const ALIKE: f64 = 0.1;
const REPLAYED: Duration = Duration::from_secs(1);

pub(super) type Speeds = Vec<(Kernel, f64)>;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut exchanging, mut computing) = (Vec::new(), Vec::new());
    for (place, (nodes, rate)) in NODES.into_iter().zip(RATES).enumerate() {
        let [single, both] = measure(setting, nodes, rate)?;
        let mut rows = Vec::new();
        for ((kernel, single), (_, both)) in single.iter().zip(&both) {
            let ratio = times(both, single);
            let published = published(*kernel).map(|of| of[place]);
            let cells = [published.map(|of| of[0]), published.map(|of| of[1]), Some(ratio.median())];
            rows.push((kernel.name().to_string(), cells.to_vec()));
            let what = format!("{} on {nodes} nodes, two links of {rate} beside one", kernel.name());
            let published =
                published.map_or(Vec::new(), |[bonding, ri2n]| vec![("bonding", bonding), ("RI2N", ri2n)]);
            let into = if *kernel == Kernel::Ep { &mut computing } else { &mut exchanging };
            into.push((format!("{} on {nodes}", kernel.name()), ratio.clone()));
            outcome.compared(what, &published, ratio);
        }
        let title = format!("{nodes} nodes: times as fast as with one link (figure 4)");
        outcome.grid(&title, &["bonding, published", "RI2N, published", "bundle"], rows);
    }
    outcome.finding(
        "3.2: what exchanges data gains by a second link, if the order is restored",
        exchanging.iter().all(|(_, ratio)| ratio.median() >= GAINS),
        list("one link", &exchanging),
    );
    outcome.finding(
        "3.2: what only computes is as fast with one link as with two",
        computing.iter().all(|(_, ratio)| (ratio.median() - 1.0).abs() <= ALIKE),
        list("one link", &computing),
    );
    outcome.remarks.push(
        "the kernels' exchange is replayed, without what they compute: whole programs gain less".into(),
    );
    Ok(outcome)
}

/// Samples of each kernel over one link and over a bundle: the single link before each round, in the same minute.
fn measure(setting: &Setting, nodes: usize, rate: Bitrate) -> Result<[Vec<(Kernel, Samples)>; 2]> {
    let mut seen = [(); 2].map(|()| Vec::new());
    let topology = way::hosts(nodes, rate)?;
    for round in 1..=setting.rounds {
        for (way, seen) in [Way::Single, Way::Bundle].into_iter().zip(&mut seen) {
            let _step = progress::step(&format!("round {round}: {nodes} nodes, {}", way.label()));
            let joined = way.join(setting, &topology)?;
            for (kernel, speed) in speeds(&topology, &joined.addresses, Class::A)? {
                match seen.iter_mut().find(|(known, _)| *known == kernel) {
                    Some((_, samples)) => Samples::push(samples, speed),
                    None => seen.push((kernel, Samples::new("per second", vec![speed]))),
                }
            }
            joined.end()?;
        }
    }
    Ok(seen)
}

/// How fast the exchange of each kernel is replayed.
pub(super) fn speeds(topology: &Topology, addresses: &[IpAddr], class: Class) -> Result<Speeds> {
    let nodes = topology.hosts().len();
    let ranks = Ranks::connect(topology.hosts(), addresses)?;
    let kernels = Kernel::ALL.into_iter().filter(|kernel| kernel.runs_on(nodes));
    kernels.map(|kernel| Ok((kernel, replay(&ranks, nodes, kernel, class)?))).collect()
}

/// Iterations of `kernel` per second, after one that warms the connections up, unless that is long enough to count itself.
fn replay(ranks: &Ranks, nodes: usize, kernel: Kernel, class: Class) -> Result<f64> {
    let _step = progress::step(kernel.name());
    let steps: Vec<_> = (0..nodes).map(|rank| Arc::new(kernel.steps(class, nodes, rank))).collect();
    let one = ranks.run(&steps, 1)?.as_secs_f64();
    if one >= REPLAYED.as_secs_f64() {
        return Ok(1.0 / one);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands at most")]
    let times = ((REPLAYED.as_secs_f64() / one).ceil() as usize).min(10_000);
    Ok(times as f64 / ranks.run(&steps, times)?.as_secs_f64())
}

fn published(kernel: Kernel) -> Option<Published> {
    match kernel {
        Kernel::Ep => Some(EP),
        Kernel::Mg => Some(MG),
        Kernel::Cg => Some(CG),
        _ => None,
    }
}

pub(super) fn list(base: &str, ratios: &[(String, Samples)]) -> String {
    let ratios: Vec<String> =
        ratios.iter().map(|(what, ratio)| format!("{what} {}", spread(ratio, 2))).collect();
    format!("times {base}: {}", ratios.join("; "))
}

// P2.scaling: what parallel programs exchange, simulated on 4 to 64 nodes with one link and with two.
//
// The paper has 4 and 8 nodes. Simulated nodes compute nothing, so this is how messages scale, and what a second link is worth to them.

const ALL_NODES: [u8; 5] = [4, 8, 16, 32, 64];
const LINKS: [usize; 2] = [1, 2];

type Speed = (u8, [f64; LINKS.len()]);

pub(super) fn run_scaling() -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut rows, mut panels, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for (kernel, speeds_of) in all()? {
        let ratio = |nodes| speeds_of.iter().find(|of| of.0 == nodes).map(|(_, [one, two])| two / one);
        rows.push((kernel.name().to_string(), ALL_NODES.map(ratio).to_vec()));
        let named = |(nodes, [one, two]): &Speed| {
            (format!("{} on {nodes}", kernel.name()), swept::one("times", two / one))
        };
        ratios.extend(speeds_of.iter().map(named));
        panels.push(panel(kernel, &speeds_of));
    }
    let columns = ALL_NODES.map(|nodes| format!("{nodes} nodes"));
    let columns = columns.each_ref().map(String::as_str);
    outcome.grid("simulated: two links of 1 Gbit/s, times as fast as one", &columns, rows);
    outcome.finding(
        "3.2: what exchanges data gains by a second link, if the order is restored, on up to 64 nodes",
        ratios.iter().all(|(_, ratio)| ratio.median() >= GAINS),
        list("one link", &ratios),
    );
    let title =
        "Iterations over the number of nodes, as multiples of those of 4 nodes with one link, simulated";
    outcome.pictures.push(Picture::new("P2-scaling", title, 2, &panels));
    Ok(outcome)
}

fn all() -> Result<Vec<(Kernel, Vec<Speed>)>> {
    let _step = progress::step("all kernels at once");
    thread::scope(|scope| {
        let kernels = Kernel::ALL.into_iter().filter(|kernel| *kernel != Kernel::Ep);
        let threads: Vec<_> =
            kernels.map(|kernel| (kernel, scope.spawn(move || speeds_of(kernel)))).collect();
        let joined = threads.into_iter().map(|(kernel, thread)| {
            let speeds_of =
                thread.join().map_err(|_| anyhow!("the simulation of {} panicked", kernel.name()))?;
            Ok((kernel, speeds_of?))
        });
        joined.collect()
    })
}

fn speeds_of(kernel: Kernel) -> Result<Vec<Speed>> {
    let nodes = ALL_NODES.into_iter().filter(|nodes| kernel.runs_on((*nodes).into()));
    let speed = |nodes| {
        let over = |links| replay::speed(kernel, Class::A, nodes, &vec![Link::GIGABIT; links]);
        Ok((nodes, each(LINKS, over)?))
    };
    nodes.map(speed).collect()
}

fn panel(kernel: Kernel, speeds_of: &[Speed]) -> Panel {
    let base = speeds_of[0].1[0];
    let line = |(place, links): (usize, &usize)| {
        let points = speeds_of.iter().map(|(nodes, speeds_of)| (f64::from(*nodes), speeds_of[place] / base));
        Line::own(if *links == 1 { "one link" } else { "two links" }, place, points.collect())
    };
    let lines = LINKS.iter().enumerate().map(line).collect();
    Panel { title: kernel.name().to_string(), x: "nodes", y: "times 4 nodes with one link", lines }
}
