//! A peer behind a slow link beside one behind a fast link: what waits for the one does not hold up the other.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tabane_kit::bundle::{Bundle, address};
use tabane_kit::clock::wait_for;
use tabane_kit::counters::received_bytes;
use tabane_kit::rate::Bitrate;
use tabane_kit::status::Questions;
use tabane_kit::topology::{LinkPlan, Plan, Topology};
use tabane_kit::workload::transfer::{Source, Transfer};

use crate::traffic::stage::{FAST, options, send_file, whole};
use crate::traffic::{Case, Need};

/// What the slow peer's link carries.
const SLOWEST: Bitrate = Bitrate::mbit(1);
/// A file for the slow peer: more than four seconds.
const SLOW_BYTES: u64 = 512 << 10;
/// As much of it has arrived when its sender has queued what it may.
const UNDER_WAY: u64 = 64 << 10;
/// A file for the fast peer: a third of a second.
const FAST_BYTES: u64 = 8 << 20;
/// Least part of its rate that the fast peer keeps.
const KEPT_MIN: f64 = 0.95;
const ROUNDS: usize = 3;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::alone("a_slow_peer_costs_a_fast_one_nothing", Need::Daemon, slow_peer)]
}

/// Host 1 reaches host 2 by the first link alone, and host 3 by the second.
fn slow_peer() -> Result<()> {
    let links = vec![LinkPlan::shaped(FAST), LinkPlan::paced(SLOWEST)];
    let topology = Topology::build(Plan { hosts: 3, addressed: false, ..Plan::two_hosts(links) })?;
    let (nics, options) = (topology.nics(), options()?);
    let nics = [&nics[..], &nics[..1], &nics[1..]];
    let hosts = topology.hosts().iter().enumerate().zip(nics);
    let mut bundles = hosts
        .map(|((number, host), nics)| Bundle::start(host, number, nics, &options))
        .collect::<Result<Vec<_>>>()?;
    for (bundle, peers) in bundles.iter_mut().zip([2, 1, 1]) {
        bundle.wait_until("its peers", |status| status.is_ready(peers, 1))?;
    }

    let [sender, fast, slow] = topology.hosts() else { unreachable!("three hosts were planned") };
    let alone = median_gbps(sender, fast)?;
    let source = Source::random(SLOW_BYTES, 2);
    let transfer = Transfer::start(sender, slow, SocketAddr::new(address(2), 0), source)?;
    let arrived = || received_bytes(slow, [&topology.nics()[1]]).map(|[bytes]| bytes);
    wait_for("bytes at the slow peer", Duration::from_secs(10), || {
        Ok(arrived()?.ge(&UNDER_WAY).then_some(()))
    })?;
    let beside = median_gbps(sender, fast)?;
    ensure!(arrived()? < SLOW_BYTES, "the slow peer's file has arrived too soon to be beside anything");
    let kept = beside / alone;
    ensure!(kept >= KEPT_MIN, "{beside:.3} Gbit/s beside a slow peer, {alone:.3} alone: {kept:.2}");

    whole(transfer).context("the slow peer's file")?;
    Bundle::stop_all(bundles)
}

fn median_gbps(from: &tabane_kit::netns::Namespace, to: &tabane_kit::netns::Namespace) -> Result<f64> {
    let rates = (0..ROUNDS).map(|_| Ok(send_file(from, to, address(1), FAST_BYTES)?.gbps()));
    let mut rates = rates.collect::<Result<Vec<_>>>()?;
    rates.sort_by(f64::total_cmp);
    Ok(rates[ROUNDS / 2])
}
