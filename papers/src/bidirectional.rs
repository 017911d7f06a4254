//! P2.bidir: both directions at once over two links (figure 3). One host sends as fast as it can, the other returns all that
//! comes, and what comes back at the first is counted.

use crate::prelude::*;
use crate::workload::returned;

/// Published, in 10^6 bytes per second.
pub(super) const SINGLE: f64 = 117.0;
pub(super) const BONDING: f64 = 159.0;
pub(super) const RI2N: f64 = 214.0;
/// What two links carry in both directions at once, at least, in rates of a single one.
const RATIO_MIN: f64 = 1.95;
/// Seconds of a run for each round: three are the paper's.
const SECONDS_OF_ROUND: usize = 40;
pub(super) const PORT: u16 = 7_510;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let seconds = SECONDS_OF_ROUND * setting.rounds;
    let topology = Setting::hosts(2, Bitrate::gbit(1))?;
    let returned = |at| returned::stream(topology.host(0), topology.host(1), at, seconds);
    let single = returned(SocketAddr::new(address(0, 1).into(), PORT))?;
    let bundles = setting.bundles(&topology, "adaptive")?;
    let both = returned(SocketAddr::new(bundle::address(1), PORT))?;
    Bundle::stop_all(bundles)?;
    outcome.pictures.push(figure(&single, &both));
    let [single, both] = [single, both].map(|values| Samples::new("MB/s", values));
    let ratio = beside(&both, &single);
    outcome.row("single link, what comes back each second", SINGLE, single);
    outcome.compared("two links, what comes back each second", &[("bonding", BONDING), ("RI2N", RI2N)], both);
    outcome.finding(
        "3.1: a bundle of two links that restores the order carries nearly twice as much in both directions at once",
        ratio.median() >= RI2N / SINGLE,
        format!(
            "{} times a single link, second by second; published: RI2N {:.2}, bonding {:.2}",
            spread(&ratio, 2),
            RI2N / SINGLE,
            BONDING / SINGLE
        ),
    );
    outcome.verdicts.push(Verdict::at_least("P2.bidir.ratio", ratio.median(), RATIO_MIN));
    Ok(outcome)
}

/// How many times as much each second brings as a single link does in the median.
pub(super) fn beside(own: &Samples, single: &Samples) -> Samples {
    Samples::new("times", own.values().iter().map(|own| own / single.median()).collect())
}

fn figure(single: &[f64], both: &[f64]) -> Picture {
    let points =
        |values: &[f64]| (1..).zip(values).map(|(second, value)| (f64::from(second), *value)).collect();
    let whole = (1.0, single.len().max(both.len()) as f64);
    let lines = vec![
        Line::own("one link", 0, points(single)),
        Line::published("single", 0, SINGLE, whole),
        Line::own("bundle", 1, points(both)),
        Line::published("RI2N", 1, RI2N, whole),
        Line::published("bonding", 2, BONDING, whole),
    ];
    let title = "Both directions at once; dashed: published".to_string();
    Picture::new(
        "P2-figure-3",
        "P2, figure 3: what comes back over time",
        1,
        &[Panel { title, x: "s", y: "MB/s", lines }],
    )
}

// P2.acks: how many packets it takes to send 1 GB, and how many come back.
//
// On a bare link they are TCP's segments, over a bundle its cells; what the kernel gathers into one (GSO, GRO) counts
// as what it is on the wire.

/// Published packets for 1.0 GB, sent and received.
pub(super) const PACKETS_SINGLE: [f64; 2] = [741_535.0, 370_776.0];
pub(super) const PACKETS_BONDING: [f64; 2] = [743_439.0, 741_530.0];
pub(super) const PACKETS_RI2N: [f64; 2] = [754_616.0, 376_004.0];
/// As many packets come back as over a single link, in multiples: halfway between what RI2N and what bonding had.
pub(super) const AS_MANY: f64 = 1.5;

pub(super) fn run_acks(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let [mut sent_bare, mut heard_bare, mut sent, mut heard] =
        [(); 4].map(|()| Samples::new("packets/GB", Vec::new()));
    let topology = Setting::hosts(2, Bitrate::gbit(1))?;
    let _server = Server::start(topology.host(1), Stream::Tcp)?;
    for _ in 0..setting.rounds {
        let before = segments(&topology)?;
        let bytes = Flow::tcp(address(0, 1).into(), setting.seconds).run(topology.host(0))?.bytes;
        let after = segments(&topology)?;
        sent_bare.push(per_gigabyte(after[0] - before[0], bytes));
        heard_bare.push(per_gigabyte(after[1] - before[1], bytes));

        let bundles = setting.bundles(&topology, "adaptive")?;
        let before = cells(&bundles[0])?;
        let bytes = Flow::tcp(bundle::address(1), setting.seconds).run(topology.host(0))?.bytes;
        let after = cells(&bundles[0])?;
        sent.push(per_gigabyte(after[0] - before[0], bytes));
        heard.push(per_gigabyte(after[1] - before[1], bytes));
        Bundle::stop_all(bundles)?;
    }
    let returned = times(&heard, &heard_bare);
    outcome.row("single link: sent", PACKETS_SINGLE[0], sent_bare);
    outcome.row("single link: received", PACKETS_SINGLE[1], heard_bare);
    outcome.compared("two links: sent", &[("bonding", PACKETS_BONDING[0]), ("RI2N", PACKETS_RI2N[0])], sent);
    outcome.compared(
        "two links: received",
        &[("bonding", PACKETS_BONDING[1]), ("RI2N", PACKETS_RI2N[1])],
        heard,
    );
    outcome.finding(
        "3.1: what is put in order before TCP sees it brings no more acknowledgements than a single link",
        returned.median() <= AS_MANY,
        format!(
            "{} times as many packets come back, heartbeats included; published: RI2N {:.2}, bonding {:.2}",
            spread(&returned, 2),
            PACKETS_RI2N[1] / PACKETS_SINGLE[1],
            PACKETS_BONDING[1] / PACKETS_SINGLE[1]
        ),
    );
    Ok(outcome)
}

fn segments(topology: &Topology) -> Result<[u64; 2]> {
    let counter = |name| counters::protocol(topology.host(0), "Tcp", name);
    Ok([counter("OutSegs")?, counter("InSegs")?])
}

fn cells(bundle: &Bundle<'_>) -> Result<[u64; 2]> {
    let status = bundle.status()?;
    let sum = |count: fn(&tabane_kit::status::PathStatus) -> u64| {
        status.peers.iter().flat_map(|peer| &peer.paths).map(count).sum()
    };
    Ok([sum(|link| link.cells_sent), sum(|link| link.cells_received)])
}

fn per_gigabyte(packets: u64, bytes: u64) -> f64 {
    packets as f64 * 1e9 / bytes as f64
}
