//! Links that die under a connection and come back: the connection lives, the file is whole, both ends say so.

use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::clock::wait_for;
use tabane_kit::counters::received_bytes;
use tabane_kit::emulator::Impairment;
use tabane_kit::status::{LINK_DOWN, LINK_SUSPECT, LINK_UP, Questions};
use tabane_kit::topology::{Moment, Plan, Topology, Wiring, nic};

use crate::stage::{FAST, options, plan, told, under_a_file, with_bundles};
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
        Case::new("a_cable_that_loses_a_quarter_is_suspect_and_said_to_lose", Need::Daemon, lossy),
    ]
}

fn fault(
    break_link: impl FnOnce(&Topology) -> Result<Moment>,
    mend_link: impl FnOnce(&Topology) -> Result<Moment>,
) -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let meanwhile = || {
            carry(topology, VICTIM)?;
            told(bundles, LINK_DOWN, VICTIM, break_link(topology)?.before_ns)?;
            carry(topology, 0)?;
            told(bundles, LINK_UP, VICTIM, mend_link(topology)?.before_ns)?;
            carry(topology, VICTIM)
        };
        under_a_file(topology, 4 << 20, meanwhile).map(drop)
    })
}

/// The connection carries on over the other cable.
fn lossy() -> Result<()> {
    let plan = Plan { wiring: Wiring::Emulator, ..plan(&[FAST; 2]) };
    with_bundles(plan, &options()?, |topology, bundles| {
        let meanwhile = || {
            carry(topology, VICTIM)?;
            let since = topology.impair_both(VICTIM, Impairment::loss(0.25))?.before_ns;
            bundles[0].wait_until(LINK_SUSPECT, |status| {
                status.first_event(LINK_SUSPECT, VICTIM, since).is_some()
            })?;
            let said = bundles[0].ask(&["list"])?;
            ensure!(said.contains("DEGRADED") && said.contains(&format!("{} loses ", nic(VICTIM))), "{said}");
            carry(topology, 0)
        };
        under_a_file(topology, 4 << 20, meanwhile).map(drop)
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
