//! The device's carrier follows its only peer: off at once when that ends, and soon when it is killed; once each time,
//! however many workers hear of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_kit::bundle::{Bundle, DEVICE, Options};
use tabane_kit::clock::wait_for;
use tabane_kit::netns::Namespace;
use tabane_kit::topology::Topology;

use crate::traffic::stage::{FAST, options, options_with, plan, ready};
use crate::traffic::{Case, Need};

const LINKS: usize = 2;
/// After a farewell, with time for a busy machine; the daemon takes a few milliseconds.
const OFF_AFTER_FAREWELL: Duration = Duration::from_millis(200);
/// After a death: 3 s, and what it takes to be sure.
const OFF_AFTER_DEATH: Duration = Duration::from_millis(3_500);
/// Farewells in a row: workers do not hear of each in an unlucky order.
const FAREWELLS: usize = 3;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::alone(
            "a_peer_that_ends_or_dies_takes_the_carrier_along",
            Need::Daemon,
            || carrier(&options()?),
        ),
        Case::alone("a_peer_of_many_workers_takes_the_carrier_along_once", Need::Daemon, || {
            carrier(&options_with(&["--workers", "4"])?)
        }),
        Case::new("an_upgrade_of_either_end_leaves_the_carrier_alone", Need::Daemon, upgraded),
    ]
}

/// How often the device has gained or lost its carrier.
fn changes(host: &Namespace) -> Result<u64> {
    let told: Value = serde_json::from_str(&host.ip(&format!("-json -s -s link show {DEVICE}"))?)?;
    told[0]["stats64"]["tx"]["carrier_changes"]
        .as_u64()
        .with_context(|| format!("changes of carrier: {told}"))
}

/// Waits until the carrier is off, which has to be the only change since it was changed so often.
fn off(host: &Namespace, before: u64, within: Duration) -> Result<()> {
    let began = Instant::now();
    wait_for("no carrier", 2 * within, || {
        Ok(host.ip(&format!("link show {DEVICE}"))?.contains("NO-CARRIER").then_some(()))
    })?;
    ensure!(began.elapsed() <= within, "the carrier went after {:?}, not {within:?}", began.elapsed());
    let changed = changes(host)? - before;
    ensure!(changed == 1, "the carrier changed {changed} times");
    Ok(())
}

fn carrier(options: &Options) -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let mut bundles = Bundle::start_all(&topology, options)?;
    let host = topology.host(0);
    let before = changes(host)?;
    bundles[1].kill()?;
    off(host, before, OFF_AFTER_DEATH)?;
    for _ in 0..FAREWELLS {
        bundles[1].start_again()?;
        ready(&mut bundles, LINKS)?;
        let before = changes(host)?;
        bundles[1].stop_for_now()?.success("a daemon told to stop")?;
        off(host, before, OFF_AFTER_FAREWELL)?;
    }
    bundles.swap_remove(0).stop()?.success("a daemon told to stop").map(drop)
}

/// Both ends are replaced in turn; the farewell of one that was replaced is heard as any.
fn upgraded() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let mut bundles = Bundle::start_all(&topology, &options_with(&["--workers", "2"])?)?;
    let before = [changes(topology.host(0))?, changes(topology.host(1))?];
    for round in 0..4 {
        bundles[round % 2].upgrade()?;
        ready(&mut bundles, LINKS)?;
        let after = [changes(topology.host(0))?, changes(topology.host(1))?];
        ensure!(after == before, "the carrier changed: {before:?} and {after:?} after upgrade {round}");
    }
    bundles[1].stop_for_now()?.success("a daemon told to stop")?;
    off(topology.host(0), before[0], OFF_AFTER_FAREWELL)?;
    bundles.swap_remove(0).stop()?.success("a daemon told to stop").map(drop)
}
