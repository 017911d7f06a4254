//! Daemons that are replaced in the middle of a transfer, at both ends in turn: the connection lives, the file is whole,
//! and the receiver hardly notices.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tabane_lab::bundle::{Bundle, address};
use tabane_lab::clock::monotonic_ns;
use tabane_lab::topology::{Plan, Topology};
use tabane_lab::workload::sequence::{Pace, Sequence};
use tabane_lab::workload::transfer::{Source, Transfer};

use crate::faults::carry;
use crate::stage::{FAST, options, plan, with_bundles};
use crate::{Case, Need};

const LINKS: usize = 2;
/// Replacements in one transfer.
const ROUNDS: usize = 10;
/// Replacements of one of three nodes while datagrams go to it: no more than it has pauses at once.
const UPGRADES: usize = 2;
/// The longest time without a byte that a replacement may cost.
const STALL_MAX: Duration = Duration::from_millis(50);
/// Transfers of which one has to keep to that: who else uses the CPUs can stall any. A stall as long as before the first
/// replacement is nobody's fault.
const ATTEMPTS: usize = 3;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("upgrades_under_a_connection_stall_it_for_50_ms_at_most", Need::Daemon, upgrade),
        Case::new("datagrams_to_and_past_a_node_that_is_replaced_all_arrive", Need::Daemon, among_three),
    ]
}

fn upgrade() -> Result<()> {
    let mut options = options()?;
    options.arguments.extend(["--workers", "2"].map(str::to_owned));
    with_bundles(plan(&[FAST; LINKS]), &options, |topology, bundles| {
        let mut failures = Vec::new();
        for _ in 0..ATTEMPTS {
            let (calm, stalls) = upgrade_all(topology, bundles)?;
            if stalls.iter().all(|stall| *stall <= STALL_MAX + calm) {
                return Ok(());
            }
            failures.push(format!("{stalls:?}, and {calm:?} without a replacement"));
        }
        bail!("stalls of {}", failures.join("; "))
    })
}

/// The longest stall before all replacements, and at each of them.
fn upgrade_all(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<(Duration, Vec<Duration>)> {
    let source = Source::random(4 << 20, 1)?;
    let to = SocketAddr::new(address(1), 0);
    let transfer = Transfer::start(topology.host(0), topology.host(1), to, source)?;
    (0..ROUNDS).try_for_each(|_| carry(topology, 0))?;
    let (calm_until, mut spans) = (monotonic_ns()?, Vec::new());
    for round in 0..ROUNDS {
        carry(topology, 0)?;
        let begun = monotonic_ns()?;
        bundles[round % 2].upgrade()?;
        for bundle in &mut *bundles {
            bundle.wait_until("all links", |status| status.is_ready(1, LINKS))?;
        }
        spans.push((begun, monotonic_ns()?));
    }
    let outcome = transfer.finish()?;
    ensure!(outcome.lost.is_none() && outcome.sha256_ok, "{outcome:?}");
    let longest = |(from, to)| outcome.gaps.longest_within(from, to).length;
    Ok((longest((0, calm_until)), spans.into_iter().map(longest).collect()))
}

/// The second of three nodes is replaced while the first sends to it and to the third: nothing is lost or late.
fn among_three() -> Result<()> {
    const PACE: Pace = Pace { per_second: 2_000, bytes: 200 };
    const TIMED: Duration = Duration::from_secs(4);
    let plan = Plan { hosts: 3, ..plan(&[FAST; LINKS]) };
    with_bundles(plan, &options()?, |topology, bundles| {
        let mut failures = Vec::new();
        for _ in 0..ATTEMPTS {
            let flow = |host: usize| {
                let at = SocketAddr::new(address(host), 0);
                Sequence::start(topology.host(0), topology.host(host), at, PACE, TIMED)
            };
            let flows = [flow(1)?, flow(2)?];
            for _ in 0..UPGRADES {
                bundles[1].upgrade()?;
                for bundle in &mut *bundles {
                    bundle.wait_until("all links", |status| status.is_ready(2, LINKS))?;
                }
            }
            let mut outcomes = Vec::new();
            for flow in flows {
                outcomes.push(flow.finish()?);
            }
            if outcomes.iter().all(|outcome| outcome.lost_at_ns.is_empty() && outcome.doubled == 0) {
                return Ok(());
            }
            failures.push(format!("{outcomes:?}"));
        }
        bail!("{}", failures.join("; "))
    })
}
