//! P2.bonding: one link, Linux bonding and a bundle side by side, in a guest, whose kernel has bonding.
//!
//! The guest's processors are emulated, so its links are slow, and figures are compared among each other only. What the paper
//! names as the main cause of reordering is there: at each receiving NIC arrivals wait until some of them are handed over together
//! (netem's slots), as NICs moderate their interrupts. TCP gets frames one by one, as the paper's did.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Experiment;
use super::acks::{self, AS_MANY};
use super::bidirectional::{self, PORT};
use super::emulated;
use super::outcome::Outcome;
use super::parallel::{GAINS, NODES, Speeds, speeds};
use super::setting::Setting;
use super::way::{WAYS, Way};
use tabane_kit::counters;
use tabane_kit::cpu::busy_during;
use tabane_kit::progress;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::topology::Topology;
use tabane_kit::workload::iperf::{Flow, Server};
use tabane_kit::workload::npb::exchange::Class;
use tabane_kit::workload::{Stream, returned};

/// Modules that the guest's kernel needs.
pub(super) const MODULES: [&str; 2] = ["bonding", "sch_netem"];
/// Longest that the guest may take.
const LIMIT: Duration = Duration::from_secs(1_200);
/// Rate of a link: emulated processors fill two of them, both ways.
const RATE: Bitrate = Bitrate::mbit(5);
/// Rates of the links of 4 and of 8 nodes.
const NODE_RATES: [Bitrate; 2] = [Bitrate::mbit(10), Bitrate::mbit(5)];
/// Seconds of a stream that is returned, and of one that is not.
const SECONDS: usize = 20;
const ONE_WAY_SECONDS: u32 = 8;
/// Bonding brings at least so many times the acknowledgements of one link where reordering is what the paper saw.
const REORDERED: f64 = 1.2;
/// Where a larger share of the guest's processors was busy under the bundle, they were the limit, and its links are not judged.
const BUSY_MOST: f64 = 0.9;

/// How fast each kernel is, by its name.
type Named = Vec<(String, f64)>;

/// What one way showed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    /// What came back each second, in 10^6 bytes.
    returned: Vec<f64>,
    /// Frames that the sending host sent and received for 10^9 bytes.
    packets: [f64; 2],
    /// On 4 and on 8 nodes.
    kernels: Vec<Named>,
    /// Which share of the processors was busy: with both directions, and with the kernels on 4 and on 8 nodes.
    busy: Vec<f64>,
}

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let (seen, cost): ([Seen; 3], String) = emulated::measured(setting, Experiment::Beside, &MODULES, LIMIT)?;
    let mut outcome = outcome(&seen);
    outcome.remarks.push(cost.into());
    Ok(outcome)
}

/// In the guest: what each way shows.
pub(super) fn measure(setting: &Setting) -> Result<[Seen; 3]> {
    let [single, bonding, bundle] = WAYS.map(|way| see(setting, way).context(way.label()));
    Ok([single?, bonding?, bundle?])
}

fn see(setting: &Setting, way: Way) -> Result<Seen> {
    let topology = way.moderated(2, RATE)?;
    let joined = way.join(setting, &topology)?;
    let at = SocketAddr::new(joined.addresses[1], PORT);
    let (returned, streaming) = {
        let _step = progress::step(&format!("{}: both directions", way.label()));
        busy_during(|| returned::stream(topology.host(0), topology.host(1), at, SECONDS))?
    };
    let packets = {
        let _step = progress::step(&format!("{}: packets for 1 GB", way.label()));
        packets(&topology, joined.addresses[1])?
    };
    joined.end()?;
    drop(topology);
    let (mut kernels, mut busy) = (Vec::new(), vec![streaming]);
    for (nodes, rate) in NODES.into_iter().zip(NODE_RATES) {
        let _step = progress::step(&format!("{}: {nodes} nodes", way.label()));
        let topology = way.moderated(nodes, rate)?;
        let joined = way.join(setting, &topology)?;
        let (speeds, computing): (Speeds, f64) =
            busy_during(|| speeds(setting, &topology, &joined.addresses, Class::W))?;
        kernels.push(speeds.into_iter().map(|(kernel, speed)| (kernel.name().to_string(), speed)).collect());
        busy.push(computing);
        joined.end()?;
    }
    Ok(Seen { returned, packets, kernels, busy })
}

/// Frames for 10^9 bytes in one direction, as the sending host's NICs count them.
fn packets(topology: &Topology, there: IpAddr) -> Result<[f64; 2]> {
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    let count = || counters::packets(topology.host(0), &topology.nics());
    let before = count()?;
    let bytes = Flow::tcp(there, ONE_WAY_SECONDS).run(topology.host(0))?.bytes;
    let after = count()?;
    let per_gigabyte = |direction: usize| (after[direction] - before[direction]) as f64 * 1e9 / bytes as f64;
    Ok([per_gigabyte(0), per_gigabyte(1)])
}

fn outcome(seen: &[Seen; 3]) -> Outcome {
    let mut outcome = Outcome::default();
    let columns = WAYS.map(Way::label);
    let returned = seen.each_ref().map(|seen| Samples::new("MB/s", seen.returned.clone()).median());
    let times = |figures: [f64; 3]| figures.map(|figure| Some(figure / figures[0])).to_vec();
    let row = |what: &str, cells: Vec<Option<f64>>| (what.to_string(), cells);
    let published = [bidirectional::SINGLE, bidirectional::BONDING, bidirectional::RI2N];
    outcome.grid(
        &format!("Both directions at once over links of {RATE} (figure 3)"),
        &columns,
        vec![
            row("MB/s that come back", returned.map(Some).to_vec()),
            row("times one link", times(returned)),
            row("times one link, published", times(published)),
        ],
    );
    let packets = |direction: usize| seen.each_ref().map(|seen| seen.packets[direction]);
    let published = |direction: usize| [acks::SINGLE, acks::BONDING, acks::RI2N].map(|of| of[direction]);
    let rows = ["sent", "received"].into_iter().enumerate().flat_map(|(direction, what)| {
        [
            row(&format!("{what} for 1 GB"), packets(direction).map(Some).to_vec()),
            row(&format!("{what} for 1 GB, published"), published(direction).map(Some).to_vec()),
        ]
    });
    outcome.grid("Frames at the sending host (table 4)", &columns, rows.collect());
    for (place, nodes) in NODES.into_iter().enumerate() {
        let speeds = seen.each_ref().map(|seen| &seen.kernels[place]);
        let row = |number: usize| {
            let figures = speeds.map(|speeds| speeds[number].1);
            (speeds[0][number].0.clone(), times(figures))
        };
        let title = format!(
            "{nodes} nodes with links of {}: times as fast as with one link (figure 4)",
            NODE_RATES[place]
        );
        outcome.grid(&title, &columns, (0..speeds[0].len()).map(row).collect());
    }
    judge(&mut outcome, returned, packets(1), seen);
    outcome
}

fn judge(outcome: &mut Outcome, returned: [f64; 3], heard: [f64; 3], seen: &[Seen; 3]) {
    let busy = &seen[2].busy;
    let judged = |busy: f64, holds: bool| (busy <= BUSY_MOST).then_some(holds);
    let [single, bonding, bundle] = returned;
    outcome.finding(
        "3.1: both directions at once, a bundle is faster than bonding, and both are faster than one link",
        judged(busy[0], bundle > bonding && bonding > single),
        format!(
            "times one link: bonding {:.2}, bundle {:.2}; published: 1.36, 1.83; {}",
            bonding / single,
            bundle / single,
            percent(busy[0])
        ),
    );
    let [single, bonding, bundle] = heard;
    let because = format!(
        "times those of one link: bonding {:.2}, bundle {:.2}; published: 2.00, 1.01",
        bonding / single,
        bundle / single
    );
    outcome.finding(
        "3.1: bonding brings more acknowledgements than one link, for TCP sees frames out of order",
        bonding >= REORDERED * single,
        because.clone(),
    );
    // Where bonding brings no more, there is nothing that a bundle could spare.
    let spares = (bonding >= REORDERED * single).then_some(bundle <= AS_MANY * single && bundle < bonding);
    outcome.finding("3.1: a bundle, which restores the order, spares them", spares, because);
    let of = |way: usize, kernel: &str| {
        let speeds = seen[way].kernels.iter().zip(&seen[0].kernels);
        let ratio = |(own, single): (&Named, &Named)| {
            let speed = |of: &Named| of.iter().find(|(name, _)| name == kernel).map(|(_, speed)| *speed);
            Some(speed(own)? / speed(single)?)
        };
        speeds.filter_map(ratio).collect::<Vec<f64>>()
    };
    let most = busy[1..].iter().copied().fold(0.0, f64::max);
    for kernel in ["mg", "cg"] {
        let (bonding, bundle) = (of(1, kernel), of(2, kernel));
        let list = |ratios: &[f64]| {
            ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" and ")
        };
        let holds = bundle.iter().all(|ratio| *ratio >= GAINS) && bonding.iter().all(|ratio| *ratio < 1.0);
        outcome.finding(
            &format!("3.2: {kernel} gains by a bundle and loses by bonding, on 4 and on 8 nodes"),
            judged(most, holds),
            format!(
                "times one link: bonding {}, bundle {}; {}",
                list(&bonding),
                list(&bundle),
                percent(most)
            ),
        );
    }
}

/// How busy processors were, in words.
fn percent(busy: f64) -> String {
    format!("{:.0} % of the guest's processors were busy", 100.0 * busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(returned: f64, heard: f64, speed: f64) -> Seen {
        let kernels = ["mg", "cg"].map(|kernel| (kernel.to_string(), speed)).to_vec();
        Seen {
            returned: vec![returned; 3],
            packets: [740_000.0, heard],
            kernels: vec![kernels.clone(), kernels],
            busy: vec![0.5; 3],
        }
    }

    fn results(seen: &[Seen; 3]) -> Vec<Option<bool>> {
        outcome(seen).findings.iter().map(|finding| finding.holds).collect()
    }

    #[test]
    fn the_published_figures_agree_with_the_findings() {
        let published =
            [seen(117.0, 370_776.0, 1.0), seen(159.0, 741_530.0, 0.9), seen(214.0, 376_004.0, 1.1)];
        assert_eq!(results(&published), [Some(true); 5]);
    }

    #[test]
    fn each_can_fail_and_what_bonding_does_not_show_is_not_judged() {
        let worse = [seen(117.0, 370_776.0, 1.0), seen(214.0, 741_530.0, 1.1), seen(159.0, 741_530.0, 0.9)];
        assert_eq!(results(&worse), [Some(false), Some(true), Some(false), Some(false), Some(false)]);
        let in_order =
            [seen(117.0, 370_776.0, 1.0), seen(214.0, 370_776.0, 1.1), seen(159.0, 370_776.0, 0.9)];
        assert_eq!(results(&in_order)[1..3], [Some(false), None]);
        let mut limited =
            [seen(117.0, 370_776.0, 1.0), seen(159.0, 741_530.0, 0.9), seen(100.0, 376_004.0, 0.5)];
        limited[2].busy = vec![0.97; 3];
        assert_eq!(results(&limited), [None, Some(true), Some(true), None, None]);
    }
}
