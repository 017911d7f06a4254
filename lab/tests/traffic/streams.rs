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
/// Least part of what all links carry together that a connection reaches: the median of three.
const SHARE_MIN: f64 = 0.9;
/// What it transfers for that.
const LONG_BYTES: u64 = 64 << 20;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for links in 2..=4 {
        let equal = vec![EQUAL; links];
        let mut unequal = vec![SLOWER; links];
        unequal[0] = FASTEST;
        for (rates, word) in [(equal, "equal_links"), (unequal, "links_10_to_1")] {
            let long = rates.clone();
            let name = format!("tcp_over_{links}_{word}");
            cases.push(Case::new(name.clone(), Need::Daemon, move || tcp(&rates)));
            cases.push(Case::nightly(format!("{name}_fills_them"), Need::Daemon, move || fills(&long)));
        }
    }
    cases
}

fn tcp(rates: &[Bitrate]) -> Result<()> {
    with_bundles(plan(rates), &options()?, |topology, bundles| {
        let (first, second) = (topology.host(0), topology.host(1));
        send_file(first, second, address(1), BYTES)?;
        send_file(second, first, address(0), BYTES)?;
        send_file(first, second, address_v6(1), BYTES)?;
        every_link_is_used(topology, rates)?;
        for bundle in bundles.iter() {
            let status = bundle.status()?;
            let idle: Vec<_> = status.peers[0].paths.iter().filter(|link| link.cells_sent == 0).collect();
            ensure!(idle.is_empty(), "links without cells: {idle:?}");
        }
        Ok(())
    })
}

fn fills(rates: &[Bitrate]) -> Result<()> {
    with_bundles(plan(rates), &options()?, |topology, _| {
        let sum: u64 = rates.iter().map(|rate| rate.bits_per_second()).sum();
        let mut shares = Vec::new();
        for _ in 0..3 {
            let gbps = send_file(topology.host(0), topology.host(1), address(1), LONG_BYTES)?.gbps();
            shares.push(gbps * 1e9 / sum as f64);
        }
        shares.sort_by(f64::total_cmp);
        ensure!(shares[1] >= SHARE_MIN, "{shares:.2?} of the links");
        Ok(())
    })
}

/// The links of the second host received both files that were sent to it, and each link a part of them.
fn every_link_is_used(topology: &Topology, rates: &[Bitrate]) -> Result<()> {
    let nics = topology.nics().len() as u64;
    // Of both files, half of what would be equal parts.
    let least = if rates[0] == EQUAL { BYTES / nics } else { BYTES / 100 };
    let mut sum = 0;
    for nic in topology.nics() {
        let [bytes] = received_bytes(topology.host(1), [&nic])?;
        ensure!(bytes > least, "{nic} received {bytes} bytes, not {least}");
        sum += bytes;
    }
    ensure!(sum > 2 * BYTES, "the links carried {sum} bytes for two files of {BYTES}");
    Ok(())
}
