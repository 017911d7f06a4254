//! Links that die under a connection and come back: the connection lives, the file is whole, both ends say so.

use std::time::Duration;

use anyhow::Result;
use tabane_kit::clock::wait_for;
use tabane_kit::counters::received_bytes;
use tabane_kit::status::{LINK_DOWN, LINK_UP};
use tabane_kit::topology::{Moment, Topology, nic};

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

/// Waits until `link` has carried some more of what is under way.
pub(crate) fn carry(topology: &Topology, link: usize) -> Result<()> {
    let carried = || Ok::<_, anyhow::Error>(received_bytes(topology.host(1), [&nic(link)])?[0]);
    let before = carried()?;
    wait_for(&format!("traffic on link {link}"), Duration::from_secs(10), || {
        Ok((carried()? >= before + UNDER_WAY_BYTES).then_some(()))
    })
}
