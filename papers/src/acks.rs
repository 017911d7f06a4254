//! P2.acks: how many packets it takes to send 1 GB, and how many come back.
//!
//! On a bare link they are TCP's segments, over a bundle its cells; what the kernel gathers into one (GSO, GRO) counts
//! as what it is on the wire.

use anyhow::Result;

use super::outcome::{Outcome, spread, times};
use super::setting::Setting;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::counters;
use tabane_kit::rate::Bitrate;
use tabane_kit::report::Samples;
use tabane_kit::topology::{Topology, address};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

/// Published packets for 1.0 GB, sent and received.
pub(super) const SINGLE: [f64; 2] = [741_535.0, 370_776.0];
pub(super) const BONDING: [f64; 2] = [743_439.0, 741_530.0];
pub(super) const RI2N: [f64; 2] = [754_616.0, 376_004.0];
/// As many packets come back as over a single link, in multiples: halfway between what RI2N and what bonding had.
pub(super) const AS_MANY: f64 = 1.5;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
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
    outcome.row("single link: sent", SINGLE[0], sent_bare);
    outcome.row("single link: received", SINGLE[1], heard_bare);
    outcome.compared("two links: sent", &[("bonding", BONDING[0]), ("RI2N", RI2N[0])], sent);
    outcome.compared("two links: received", &[("bonding", BONDING[1]), ("RI2N", RI2N[1])], heard);
    outcome.finding(
        "3.1: what is put in order before TCP sees it brings no more acknowledgements than a single link",
        returned.median() <= AS_MANY,
        format!(
            "{} times as many packets come back, heartbeats included; published: RI2N {:.2}, bonding {:.2}",
            spread(&returned, 2),
            RI2N[1] / SINGLE[1],
            BONDING[1] / SINGLE[1]
        ),
    );
    Ok(outcome)
}

/// TCP's segments that the first host has sent and received.
fn segments(topology: &Topology) -> Result<[u64; 2]> {
    let counter = |name| counters::protocol(topology.host(0), "Tcp", name);
    Ok([counter("OutSegs")?, counter("InSegs")?])
}

/// The cells that a bundle has sent and received, heartbeats included.
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
