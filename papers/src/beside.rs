//! P2.bonding: one link, Linux bonding and a bundle side by side, in a guest, whose kernel has bonding.
//!
//! The guest's processors are emulated, so its links are slow, and figures are compared among each other only. What the paper
//! names as the main cause of reordering is there: at each receiving NIC arrivals wait until some of them are handed over together
//! (netem's slots), as NICs moderate their interrupts. TCP gets frames one by one, as the paper's did.

use tabane_kit::counters::busy_during;

use super::bidirectional::{self, AS_MANY, PORT};
use super::parallel::{GAINS, Speeds, speeds};
use super::setting;
use super::way::{self, WAYS, Way};
use crate::prelude::*;
use crate::workload::exchange::Class;
use crate::workload::returned;

const MODULES: [&str; 2] = ["bonding", "sch_netem"];
const LIMIT: Duration = Duration::from_secs(1_200);
/// Rate of a link: emulated processors fill two of them, both ways.
const RATE: Bitrate = Bitrate::mbit(5);
/// Nodes on which the kernels run, and the rate of their links. With eight the emulated processors decide, not the links.
const NODES: usize = 4;
const NODE_RATE: Bitrate = Bitrate::mbit(10);
/// Seconds of a stream that is returned, and of one that is not.
const SECONDS: usize = 15;
const ONE_WAY_SECONDS: u32 = 8;
/// Bonding brings at least so many times the acknowledgements of one link where reordering is what the paper saw.
const REORDERED: f64 = 1.2;
/// Where a larger share of the guest's processors was busy under the bundle, they were the limit, and its links are not judged.
const BUSY_MOST: f64 = 0.9;

#[derive(Debug, Serialize, Deserialize)]
struct Streamed {
    /// What came back each second, in 10^6 bytes.
    returned: Vec<f64>,
    /// Frames that the sending host sent and received for 10^9 bytes.
    packets: [f64; 2],
    busy: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Replayed {
    kernels: Vec<(String, f64)>,
    busy: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    streamed: [Streamed; 3],
    replayed: [Replayed; 3],
}

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    setting::measured(setting, "P2.bonding", &MODULES, LIMIT, outcome)
}

pub(super) fn measure(setting: &Setting) -> Result<Seen> {
    let topology = way::moderated_hosts(2, RATE)?;
    let streamed = each(WAYS, |way| stream(setting, &topology, way).context(way.label()))?;
    drop(topology);
    let topology = way::moderated_hosts(NODES, NODE_RATE)?;
    let replayed = each(WAYS, |way| replay(setting, &topology, way).context(way.label()))?;
    Ok(Seen { streamed, replayed })
}

fn stream(setting: &Setting, topology: &Topology, way: Way) -> Result<Streamed> {
    let joined = way.join(setting, topology)?;
    let at = SocketAddr::new(joined.addresses[1], PORT);
    let (returned, busy) = {
        let _step = progress::step(&format!("{}: both directions", way.label()));
        busy_during(|| returned::stream(topology.host(0), topology.host(1), at, SECONDS))?
    };
    let packets = {
        let _step = progress::step(&format!("{}: packets for 1 GB", way.label()));
        packets(topology, joined.addresses[1])?
    };
    joined.end()?;
    Ok(Streamed { returned, packets, busy })
}

fn replay(setting: &Setting, topology: &Topology, way: Way) -> Result<Replayed> {
    let _step = progress::step(&format!("{}: {NODES} nodes", way.label()));
    let joined = way.join(setting, topology)?;
    let (speeds, busy): (Speeds, f64) = busy_during(|| speeds(topology, &joined.addresses, Class::W))?;
    joined.end()?;
    let kernels = speeds.into_iter().map(|(kernel, speed)| (kernel.name().to_string(), speed)).collect();
    Ok(Replayed { kernels, busy })
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

fn outcome(seen: &Seen) -> Outcome {
    let mut outcome = Outcome::default();
    let columns = WAYS.map(Way::label);
    let Seen { streamed, replayed } = seen;
    let returned = streamed.each_ref().map(|seen| Samples::new("MB/s", seen.returned.clone()));
    let medians = returned.each_ref().map(Samples::median);
    let against = returned.each_ref().map(|own| bidirectional::beside(own, &returned[0]));
    let times = |figures: [f64; 3]| figures.map(|figure| Some(figure / figures[0])).to_vec();
    let row = |what: &str, cells: Vec<Option<f64>>| (what.to_string(), cells);
    let published = [bidirectional::SINGLE, bidirectional::BONDING, bidirectional::RI2N];
    outcome.grid(
        &format!("Both directions at once over links of {RATE} (figure 3)"),
        &columns,
        vec![
            row("MB/s that come back", medians.map(Some).to_vec()),
            row("times one link", times(medians)),
            row("times one link, published", times(published)),
        ],
    );
    let packets = |direction: usize| streamed.each_ref().map(|seen| seen.packets[direction]);
    let published = |direction: usize| {
        [bidirectional::PACKETS_SINGLE, bidirectional::PACKETS_BONDING, bidirectional::PACKETS_RI2N]
            .map(|of| of[direction])
    };
    let rows = ["sent", "received"].into_iter().enumerate().flat_map(|(direction, what)| {
        [
            row(&format!("{what} for 1 GB"), packets(direction).map(Some).to_vec()),
            row(&format!("{what} for 1 GB, published"), published(direction).map(Some).to_vec()),
        ]
    });
    outcome.grid("Frames at the sending host (table 4)", &columns, rows.collect());
    let kernel = |(number, (name, _)): (usize, &(String, f64))| {
        (name.clone(), times(replayed.each_ref().map(|seen| seen.kernels[number].1)))
    };
    outcome.grid(
        &format!("{NODES} nodes with links of {NODE_RATE}: times as fast as with one link (figure 4)"),
        &columns,
        replayed[0].kernels.iter().enumerate().map(kernel).collect(),
    );
    judge_streams(&mut outcome, &against, packets(1), streamed[2].busy);
    judge_kernels(&mut outcome, replayed);
    outcome
}

/// Nothing where the processors were the limit.
fn judged(busy: f64, holds: bool) -> Option<bool> {
    (busy <= BUSY_MOST).then_some(holds)
}

/// `returned`: what came back, in multiples of one link.
fn judge_streams(outcome: &mut Outcome, returned: &[Samples; 3], heard: [f64; 3], busy: f64) {
    let [single, bonding, bundle] = returned.each_ref().map(Samples::median);
    outcome.finding(
        "3.1: both directions at once, a bundle is faster than bonding, and both are faster than one link",
        judged(busy, bundle > bonding && bonding > single),
        format!(
            "times one link, second by second: bonding {}, bundle {}; published: 1.36, 1.83; {}",
            spread(&returned[1], 2),
            spread(&returned[2], 2),
            percent(busy)
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
}

fn judge_kernels(outcome: &mut Outcome, replayed: &[Replayed; 3]) {
    let busy = replayed[2].busy;
    for kernel in ["mg", "cg"] {
        let [single, bonding, bundle] = replayed.each_ref().map(|seen| {
            let own = seen.kernels.iter().find(|(name, _)| name == kernel);
            own.map_or(f64::NAN, |(_, speed)| *speed)
        });
        outcome.finding(
            &format!("3.2: {kernel} gains by a bundle and loses by bonding, on {NODES} nodes"),
            judged(busy, bundle >= GAINS * single && bonding < single),
            format!(
                "times one link: bonding {:.2}, bundle {:.2}; {}",
                bonding / single,
                bundle / single,
                percent(busy)
            ),
        );
    }
}

fn percent(busy: f64) -> String {
    format!("{:.0} % of the guest's processors were busy", 100.0 * busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each way: what came back, the frames that came back for 1 GB, and how fast the kernels were.
    fn seen(ways: [(f64, f64, f64); 3]) -> Seen {
        let streamed = |(returned, heard, _)| Streamed {
            returned: vec![returned; 3],
            packets: [740_000.0, heard],
            busy: 0.5,
        };
        let replayed = |(_, _, speed)| Replayed {
            kernels: ["mg", "cg"].map(|kernel| (kernel.to_string(), speed)).to_vec(),
            busy: 0.5,
        };
        Seen { streamed: ways.map(streamed), replayed: ways.map(replayed) }
    }

    fn results(seen: &Seen) -> Vec<Option<bool>> {
        outcome(seen).findings.iter().map(|finding| finding.holds).collect()
    }

    #[test]
    fn the_published_figures_agree_with_the_findings() {
        let published = [(117.0, 370_776.0, 1.0), (159.0, 741_530.0, 0.9), (214.0, 376_004.0, 1.1)];
        assert_eq!(results(&seen(published)), [Some(true); 5]);
    }

    #[test]
    fn each_can_fail_and_what_bonding_does_not_show_is_not_judged() {
        let worse = [(117.0, 370_776.0, 1.0), (214.0, 741_530.0, 1.1), (159.0, 741_530.0, 0.9)];
        assert_eq!(results(&seen(worse)), [Some(false), Some(true), Some(false), Some(false), Some(false)]);
        let in_order = [(117.0, 370_776.0, 1.0), (214.0, 370_776.0, 1.1), (159.0, 370_776.0, 0.9)];
        assert_eq!(results(&seen(in_order))[1..3], [Some(false), None]);
        let mut limited = seen([(117.0, 370_776.0, 1.0), (159.0, 741_530.0, 0.9), (100.0, 376_004.0, 0.5)]);
        (limited.streamed[2].busy, limited.replayed[2].busy) = (0.97, 0.97);
        assert_eq!(results(&limited), [None, Some(true), Some(true), None, None]);
    }
}
