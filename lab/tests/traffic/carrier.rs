//! The device's carrier follows its only peer: off at once when that ends, and soon when it is killed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tabane_lab::bundle::{Bundle, DEVICE};
use tabane_lab::clock::wait_for;
use tabane_lab::topology::Topology;

use crate::stage::{FAST, options, plan, ready};
use crate::{Case, Need};

/// After a farewell, with time for a busy machine; the daemon takes a few milliseconds.
const OFF_AFTER_FAREWELL: Duration = Duration::from_millis(200);
/// After a death: 3 s, and what it takes to be sure.
const OFF_AFTER_DEATH: Duration = Duration::from_millis(3_500);

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("a_peer_that_ends_or_dies_takes_the_carrier_along", Need::Daemon, carrier)]
}

fn carrier() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    let mut bundles = Bundle::start_all(&topology, &options()?)?;
    let host = topology.host(0);
    let off = |within: Duration| {
        let began = Instant::now();
        wait_for("no carrier", 2 * within, || {
            Ok(host.ip(&format!("link show {DEVICE}"))?.contains("NO-CARRIER").then_some(()))
        })?;
        ensure!(began.elapsed() <= within, "the carrier went after {:?}, not {within:?}", began.elapsed());
        Ok(())
    };
    bundles[1].kill()?;
    off(OFF_AFTER_DEATH)?;
    bundles[1].start_again()?;
    ready(&mut bundles, 2)?;
    let Some(peer) = bundles.pop() else { unreachable!("two bundles were started") };
    peer.stop()?.success("a daemon told to stop")?;
    off(OFF_AFTER_FAREWELL)?;
    bundles.into_iter().try_for_each(|bundle| bundle.stop()?.success("a daemon told to stop").map(drop))
}
