//! Links that die under a connection and come back: the connection lives, the file is whole, both ends say so.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Bundle, address};
use tabane_kit::clock::wait_for;
use tabane_kit::counters::received_bytes;
use tabane_kit::status::{LINK_DOWN, LINK_UP};
use tabane_kit::topology::{Moment, Topology, nic};
use tabane_kit::workload::transfer::{Source, Transfer};

use crate::stage::{FAST, options, plan, with_bundles};
use crate::{Case, Need};

/// The link that dies.
const VICTIM: usize = 1;
/// What the victim must have carried before it dies, and the survivor after that.
const UNDER_WAY_BYTES: u64 = 1 << 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("black_hole_under_a_connection", Need::Daemon, || {
            fault(|topology| topology.kill_switch(VICTIM), |topology| topology.revive_switch(VICTIM))
        }),
        Case::new("pulled_cable_under_a_connection", Need::Daemon, || {
            fault(|topology| topology.pull_cable(0, VICTIM), |topology| topology.plug_cable(0, VICTIM))
        }),
    ]
}

fn fault(
    break_link: impl FnOnce(&Topology) -> Result<Moment>,
    mend_link: impl FnOnce(&Topology) -> Result<Moment>,
) -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let (client, server) = (topology.host(0), topology.host(1));
        let source = Source::random(4 << 20, 1);
        let transfer = Transfer::start(client, server, SocketAddr::new(address(1), 0), source)?;
        carry(topology, VICTIM)?;
        let broken = break_link(topology)?;
        told(bundles, LINK_DOWN, broken)?;
        carry(topology, 0)?;
        let mended = mend_link(topology)?;
        told(bundles, LINK_UP, mended)?;
        carry(topology, VICTIM)?;
        let outcome = transfer.finish()?;
        ensure!(outcome.lost.is_none() && outcome.is_whole, "{outcome:?}");
        Ok(())
    })
}

/// Waits until `link` has carried some more of what is under way.
pub(crate) fn carry(topology: &Topology, link: usize) -> Result<()> {
    let carried = || Ok::<_, anyhow::Error>(received_bytes(topology.host(1), [&nic(link)])?[0]);
    let before = carried()?;
    wait_for(&format!("traffic on link {link}"), Duration::from_secs(10), || {
        Ok((carried()? >= before + UNDER_WAY_BYTES).then_some(()))
    })
}

/// Waits until both ends tell of `what`.
fn told(bundles: &mut [Bundle<'_>], what: &str, since: Moment) -> Result<()> {
    for bundle in bundles {
        bundle.wait_until(what, |status| status.first_event(what, VICTIM, since.before_ns).is_some())?;
    }
    Ok(())
}
