//! P2.scaling: what parallel programs exchange, simulated on 4 to 64 nodes with one link and with two.
//!
//! The paper has 4 and 8 nodes. Simulated nodes compute nothing, so this is how messages scale, and what a second link is worth to them.

use std::thread;

use anyhow::{Result, anyhow};
use tabane_sim::topology::Link;

use super::outcome::Outcome;
use super::parallel::{GAINS, list};
use super::plot::{Line, Panel, Picture};
use super::replay;
use super::simulated;
use crate::workload::npb::exchange::{Class, Kernel};
use tabane_kit::progress;

const NODES: [u8; 5] = [4, 8, 16, 32, 64];
/// Links of each node.
const LINKS: [usize; 2] = [1, 2];

/// Iterations per second with each of [`LINKS`], on a number of nodes.
type Speed = (u8, [f64; LINKS.len()]);

pub(super) fn run() -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut rows, mut panels, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for (kernel, speeds) in all()? {
        let ratio = |nodes| speeds.iter().find(|of| of.0 == nodes).map(|(_, [one, two])| two / one);
        rows.push((kernel.name().to_string(), NODES.map(ratio).to_vec()));
        let named = |(nodes, [one, two]): &Speed| {
            (format!("{} on {nodes}", kernel.name()), simulated::one("times", two / one))
        };
        ratios.extend(speeds.iter().map(named));
        panels.push(panel(kernel, &speeds));
    }
    let columns = NODES.map(|nodes| format!("{nodes} nodes"));
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

/// Of all kernels but the one that only computes, a thread for each.
fn all() -> Result<Vec<(Kernel, Vec<Speed>)>> {
    let _step = progress::step("all kernels at once");
    thread::scope(|scope| {
        let kernels = Kernel::ALL.into_iter().filter(|kernel| *kernel != Kernel::Ep);
        let threads: Vec<_> = kernels.map(|kernel| (kernel, scope.spawn(move || speeds(kernel)))).collect();
        let joined = threads.into_iter().map(|(kernel, thread)| {
            let speeds =
                thread.join().map_err(|_| anyhow!("the simulation of {} panicked", kernel.name()))?;
            Ok((kernel, speeds?))
        });
        joined.collect()
    })
}

fn speeds(kernel: Kernel) -> Result<Vec<Speed>> {
    let nodes = NODES.into_iter().filter(|nodes| kernel.runs_on((*nodes).into()));
    let speed = |nodes| {
        let [one, two] =
            LINKS.map(|links| replay::speed(kernel, Class::A, nodes, &vec![Link::GIGABIT; links]));
        Ok((nodes, [one?, two?]))
    };
    nodes.map(speed).collect()
}

fn panel(kernel: Kernel, speeds: &[Speed]) -> Panel {
    let base = speeds[0].1[0];
    let line = |(place, links): (usize, &usize)| {
        let points = speeds.iter().map(|(nodes, speeds)| (f64::from(*nodes), speeds[place] / base));
        Line::own(if *links == 1 { "one link" } else { "two links" }, place, points.collect())
    };
    let lines = LINKS.iter().enumerate().map(line).collect();
    Panel { title: kernel.name().to_string(), x: "nodes", y: "times 4 nodes with one link", lines }
}
