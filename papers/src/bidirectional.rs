//! P2.bidir: both directions at once over two links.

use std::net::IpAddr;

use anyhow::Result;

use super::outcome::Outcome;
use super::setting::Setting;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::rate::Bitrate;
use tabane_kit::report::{Samples, Verdict};
use tabane_kit::topology::{Topology, address};
use tabane_kit::workload::Stream;
use tabane_kit::workload::iperf::{Flow, Server};

/// Published, in 10^6 bytes per second and direction.
const SINGLE: f64 = 117.0;
const BONDING: f64 = 159.0;
const RI2N: f64 = 214.0;
/// What two links carry in both directions at once, at least, in rates of a single one.
const RATIO_MIN: f64 = 1.95;

pub(super) fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let [mut single, mut both] = [(); 2].map(|()| Samples::new("MB/s", Vec::new()));
    let topology = Setting::hosts(2, Bitrate::gbit(1))?;
    let _servers =
        [Server::start(topology.host(0), Stream::Tcp)?, Server::start(topology.host(1), Stream::Tcp)?];
    for _ in 0..setting.rounds {
        single.push(per_direction(&topology, [0, 1].map(|host| address(0, host).into()), setting.seconds)?);
        let bundles = setting.bundles(&topology, "adaptive")?;
        both.push(per_direction(&topology, [0, 1].map(bundle::address), setting.seconds)?);
        Bundle::stop_all(bundles)?;
    }
    let ratio = both.median() / single.median();
    outcome.row("single link, each direction", SINGLE, single);
    outcome.compared("two links, each direction", &[("bonding", BONDING), ("RI2N", RI2N)], both);
    outcome.finding(
        "a bundle of two links that restores the order carries nearly twice as much in both directions at once, bonding far less",
        ratio >= RI2N / SINGLE,
        format!("{ratio:.2} times a single link; published: RI2N {:.2}, bonding {:.2}", RI2N / SINGLE, BONDING / SINGLE),
    );
    outcome.verdicts.push(Verdict::at_least("P2.bidir.ratio", ratio, RATIO_MIN));
    Ok(outcome)
}

/// Mean of two flows at once, from each host to the other, in 10^6 bytes per second.
fn per_direction(topology: &Topology, addresses: [IpAddr; 2], seconds: u32) -> Result<f64> {
    let there = Flow::tcp(addresses[1], seconds).start(topology.host(0))?;
    let back = Flow::tcp(addresses[0], seconds).start(topology.host(1))?;
    let (there, back) = (there.finish()?, back.finish()?);
    Ok((there.gbps + back.gbps) / 2.0 * 1e3 / 8.0)
}
