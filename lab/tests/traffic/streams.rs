//! TCP over 2, 3 and 4 links, equal and 10:1, IPv4 and IPv6, both directions.

use anyhow::{Result, ensure};
use tabane_kit::bundle::{address, address_v6};
use tabane_kit::counters::received_bytes;
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::Topology;

use crate::traffic::stage::{options, plan, send_file, with_bundles};
use crate::traffic::{Case, Need};

/// Size of a file.
const BYTES: u64 = 8 << 20;
/// Rates that a busy machine fills: of equal links, and of one beside others that carry a tenth of it.
const EQUAL: Bitrate = Bitrate::mbit(50);
const FASTEST: Bitrate = Bitrate::mbit(100);
const SLOWER: Bitrate = Bitrate::mbit(10);
/// Least part of what all links carry together that a connection reaches over equal ones, and of what the fastest carries
/// alone over unequal ones, whatever the others do.
const SHARE_MIN: f64 = 0.8;

/// What a connection has to reach a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Least {
    OfAll,
    OfFastest,
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for links in 2..=4 {
        let equal = vec![EQUAL; links];
        let mut unequal = vec![SLOWER; links];
        unequal[0] = FASTEST;
        cases.push(Case::alone(format!("tcp_over_{links}_equal_links"), Need::Daemon, move || {
            tcp(&equal, Least::OfAll)
        }));
        cases.push(Case::alone(format!("tcp_over_{links}_links_10_to_1"), Need::Daemon, move || {
            tcp(&unequal, Least::OfFastest)
        }));
    }
    cases
}

fn tcp(rates: &[Bitrate], least: Least) -> Result<()> {
    with_bundles(plan(rates), &options()?, |topology, bundles| {
        let (first, second) = (topology.host(0), topology.host(1));
        let gbps = send_file(first, second, address(1), BYTES)?.gbps();
        let rates = rates.iter().map(|rate| rate.bits_per_second());
        let whole: u64 = if least == Least::OfAll { rates.sum() } else { rates.max().unwrap_or_default() };
        let share = gbps * 1e9 / whole as f64;
        ensure!(share >= SHARE_MIN, "{share:.2} {least:?} of the links");
        send_file(second, first, address(0), BYTES)?;
        send_file(first, second, address_v6(1), BYTES)?;
        every_link_is_used(topology, least)?;
        for bundle in bundles.iter() {
            let status = bundle.status()?;
            let idle: Vec<_> = status.peers[0].paths.iter().filter(|link| link.cells_sent == 0).collect();
            ensure!(idle.is_empty(), "links without cells: {idle:?}");
        }
        Ok(())
    })
}

/// The links of the second host received both files that were sent to it, and each link a part of them.
fn every_link_is_used(topology: &Topology, least: Least) -> Result<()> {
    let nics = topology.nics().len() as u64;
    // Of both files, half of what would be equal parts.
    let least = if least == Least::OfAll { BYTES / nics } else { BYTES / 100 };
    let mut sum = 0;
    for nic in topology.nics() {
        let [bytes] = received_bytes(topology.host(1), [&nic])?;
        ensure!(bytes > least, "{nic} received {bytes} bytes, not {least}");
        sum += bytes;
    }
    ensure!(sum > 2 * BYTES, "the links carried {sum} bytes for two files of {BYTES}");
    Ok(())
}
