//! The device under traffic: taken down for a moment, and deleted.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Bundle, DEVICE, address};
use tabane_kit::status::Questions;
use tabane_kit::tool;
use tabane_kit::topology::Topology;
use tabane_kit::workload::sequence::{Pace, Sequence};

use crate::traffic::faults::carry;
use crate::traffic::stage::{FAST, options, plan, under_a_file, with_bundles};
use crate::traffic::{Case, Need};

const LINKS: usize = 2;
/// Frames that a device refuses before it is taken up again: as many are sent.
const REFUSED: u64 = 3;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a_device_that_is_down_for_a_moment_goes_on", Need::Daemon, down),
        Case::new("a_device_is_as_fast_as_its_links_together", Need::Daemon, speed),
        Case::new("a_device_deleted_under_traffic_ends_the_bundle", Need::Daemon, deleted),
    ]
}

/// The device of either end in turn; the connection lives, and the file is whole.
fn down() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        let meanwhile = || {
            for end in [1, 0] {
                carry(topology, 0)?;
                let refused = bundles[end].status()?.counter("device_refused");
                topology.host(end).ip(&format!("link set {DEVICE} down"))?;
                // What TCP has under way may be less, and it waits for longer each time that it sends again.
                let mut pings = topology.host(1 - end).command("ping");
                pings
                    .args(["-c", &REFUSED.to_string(), "-i", "0.01", "-W", "0.01"])
                    .arg(address(end).to_string());
                let lost = pings.output()?;
                ensure!(!lost.status.success(), "a device that is down answers: {lost:?}");
                bundles[end].wait_until("frames for a device that is down", |status| {
                    status.counter("device_refused") >= refused + REFUSED
                })?;
                topology.host(end).ip(&format!("link set {DEVICE} up"))?;
                (0..LINKS).try_for_each(|link| carry(topology, link))?;
            }
            Ok(())
        };
        under_a_file(topology, 4 << 20, meanwhile).map(drop)
    })
}

/// A veth says that it has 10,000 Mbit/s.
fn speed() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, _| {
        let path = format!("/sys/class/net/{DEVICE}/speed");
        let shown = tool::run(topology.host(0).command("cat").arg(&path))?;
        ensure!(shown.trim() == "20000", "{path}: {shown}");
        Ok(())
    })
}

/// While datagrams come; its peer goes on.
fn deleted() -> Result<()> {
    const PACE: Pace = Pace { per_second: 5_000, bytes: 1_000 };
    const TIMED: Duration = Duration::from_secs(3);
    let topology = Topology::build(plan(&[FAST; LINKS]))?;
    let mut bundles = Bundle::start_all(&topology, &options()?)?;
    let at = SocketAddr::new(address(1), 0);
    let flow = Sequence::start(topology.host(0), topology.host(1), at, PACE, TIMED)?;
    carry(&topology, 0)?;
    topology.host(1).ip(&format!("link delete {DEVICE}"))?;
    let Some(bundle) = bundles.pop() else { unreachable!("two bundles were started") };
    let ending = bundle.end()?;
    let words = "tabane: device tb0 was deleted, so the bundle ends; `tabane up` makes it again";
    ensure!(ending.status.code() == Some(1) && ending.last_words().ends_with(words), "{ending:?}");
    bundles[0].wait_until("no peer", |status| status.peers.is_empty())?;
    let outcome = flow.finish()?;
    ensure!(!outcome.lost_at_ns.is_empty(), "datagrams to a device that was deleted: {outcome:?}");
    Bundle::stop_all(bundles)
}
