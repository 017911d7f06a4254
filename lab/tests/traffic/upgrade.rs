//! Daemons that are replaced in the middle of a transfer, at both ends in turn: the connection lives, the file is whole,
//! and the receiver hardly notices.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Bundle, address};
use tabane_kit::clock::monotonic_ns;
use tabane_kit::counters::lost_segments;
use tabane_kit::rate::Bitrate;
use tabane_kit::status::Questions;
use tabane_kit::topology::{Plan, Topology};
use tabane_kit::workload::sequence::{Pace, Sequence};

use crate::traffic::faults::carry;
use crate::traffic::stage::{FAST, options, options_with, plan, ready, under_a_file, with_bundles};
use crate::traffic::{Case, Need};

const LINKS: usize = 2;
/// Replacements in one transfer.
const ROUNDS: usize = 10;
/// Replacements of one of three nodes while datagrams go to it: no more than it has pauses at once.
const UPGRADES: usize = 2;
/// The longest time without a byte that a replacement may cost in the median, beyond what the machine itself costs.
const STALL_MAX: Duration = Duration::from_millis(50);
/// The same for any of them, however busy the machine is.
const STALL_EACH_MAX: Duration = Duration::from_millis(200);
/// Segments that TCP may send again by mistake, without a report of it, in all replacements; a superframe that is lost
/// costs 45.
const LOST_MAX: u64 = 45;
/// What each link carries: so little that a busy machine fills them, and stalls little by itself.
const RATE: Bitrate = Bitrate::mbit(50);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::alone("upgrades_under_a_connection_stall_it_for_50_ms_at_most", Need::Daemon, upgrade),
        Case::new("datagrams_to_and_past_a_node_that_is_replaced_all_arrive", Need::Daemon, among_three),
    ]
}

fn upgrade() -> Result<()> {
    let options = options_with(&["--workers", "2"])?;
    with_bundles(plan(&[RATE; LINKS]), &options, |topology, bundles| {
        let before = lost_segments(topology.host(0))?;
        let (undisturbed, mut stalls) = upgrade_all(topology, bundles)?;
        let lost = lost_segments(topology.host(0))?.saturating_sub(before);
        stalls.sort();
        let said =
            format!("stalls of {stalls:?}, and {undisturbed:?} without a replacement; {lost} segments lost");
        ensure!(stalls[ROUNDS / 2] <= STALL_MAX + undisturbed, "{said}");
        ensure!(stalls.iter().all(|stall| *stall <= STALL_EACH_MAX + undisturbed), "{said}");
        ensure!(lost < LOST_MAX, "{said}");
        Ok(())
    })
}

/// The longest stall before all replacements, and at each of them.
fn upgrade_all(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<(Duration, Vec<Duration>)> {
    let (mut undisturbed_until, mut spans) = (0, Vec::new());
    let outcome = under_a_file(topology, 4 << 20, || {
        (0..ROUNDS).try_for_each(|_| carry(topology, 0))?;
        undisturbed_until = monotonic_ns()?;
        for round in 0..ROUNDS {
            carry(topology, 0)?;
            let begun = monotonic_ns()?;
            bundles[round % 2].upgrade()?;
            ready(bundles, LINKS)?;
            spans.push((begun, monotonic_ns()?));
        }
        Ok(())
    })?;
    let longest = |(from, to)| outcome.gaps.longest_within(from, to).length;
    Ok((longest((0, undisturbed_until)), spans.into_iter().map(longest).collect()))
}

/// The second of three nodes is replaced while the first sends to it and to the third: nothing is lost or late.
fn among_three() -> Result<()> {
    const AROUND: Duration = Duration::from_millis(200);
    const PACE: Pace = Pace { per_second: 2_000, bytes: 200 };
    const TIMED: Duration = Duration::from_secs(60);
    let plan = Plan { hosts: 3, ..plan(&[FAST; LINKS]) };
    with_bundles(plan, &options()?, |topology, bundles| {
        let begun = Instant::now();
        let flow = |host: usize| {
            let at = SocketAddr::new(address(host), 0);
            Sequence::start(topology.host(0), topology.host(host), at, PACE, TIMED)
        };
        let flows = [flow(1)?, flow(2)?];
        for _ in 0..UPGRADES {
            // Before, between and behind the replacements the flows are under way.
            thread::sleep(AROUND);
            bundles[1].upgrade()?;
            for bundle in &mut *bundles {
                bundle.wait_until("all links", |status| status.is_ready(2, LINKS))?;
            }
        }
        thread::sleep(AROUND);
        let lasted = begun.elapsed();
        for flow in flows {
            let outcome = flow.finish()?;
            let paced = lasted.as_secs_f64() * f64::from(PACE.per_second);
            ensure!(outcome.sent as f64 >= paced / 2.0, "in {lasted:?} few were sent: {outcome:?}");
            let wrong = outcome.doubled + outcome.overtaken + outcome.damaged;
            ensure!(outcome.lost_at_ns.is_empty() && wrong == 0, "{outcome:?}");
        }
        Ok(())
    })
}
