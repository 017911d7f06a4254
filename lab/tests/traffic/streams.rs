//! TCP over 2, 3 and 4 links, equal and 10:1, IPv4 and IPv6, both directions.

use anyhow::{Result, ensure};
use tabane_lab::bundle::{address, address_v6};
use tabane_lab::counters::received_bytes;
use tabane_lab::rate::Bitrate;
use tabane_lab::topology::Topology;

use crate::stage::{FAST, SLOW, options, plan, send_file, with_bundles};
use crate::{Case, Need};

/// Size of a file: a quarter of a second on a fast link.
const BYTES: u64 = 8 << 20;
/// Least share of the fastest link's rate that a bundle must reach, whatever the others do.
const SHARE_OF_FASTEST_MIN: f64 = 0.8;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for links in 2..=4 {
        let equal = vec![FAST; links];
        let mut unequal = vec![SLOW; links];
        unequal[0] = FAST;
        cases.push(Case::new(format!("tcp_over_{links}_equal_links"), Need::Daemon, move || tcp(&equal)));
        cases.push(Case::new(format!("tcp_over_{links}_links_10_to_1"), Need::Daemon, move || tcp(&unequal)));
    }
    cases
}

fn tcp(rates: &[Bitrate]) -> Result<()> {
    with_bundles(plan(rates), &options()?, |topology, bundles| {
        let (first, second) = (topology.host(0), topology.host(1));
        let gbps = send_file(first, second, address(1), BYTES)?.gbps();
        let share = gbps * 1e9 / FAST.bits_per_second() as f64;
        ensure!(share >= SHARE_OF_FASTEST_MIN, "{share:.2} of the fastest link's rate");
        send_file(second, first, address(0), BYTES)?;
        send_file(first, second, address_v6(1), BYTES)?;
        every_link_is_used(topology)?;
        for bundle in bundles.iter() {
            let status = bundle.status()?;
            let idle: Vec<_> = status.peers[0].links.iter().filter(|link| link.cells_sent == 0).collect();
            ensure!(idle.is_empty(), "links without cells: {idle:?}");
        }
        Ok(())
    })
}

/// The links of the second host received both files that were sent to it, and each link a part of them.
fn every_link_is_used(topology: &Topology) -> Result<()> {
    let mut sum = 0;
    for nic in topology.nics() {
        let [bytes] = received_bytes(topology.host(1), [&nic])?;
        ensure!(bytes > BYTES / 100, "{nic} received {bytes} bytes only");
        sum += bytes;
    }
    ensure!(sum > 2 * BYTES, "the links carried {sum} bytes for two files of {BYTES}");
    Ok(())
}
