//! Every policy carries TCP over two links, and puts it where it says.

use anyhow::{Result, ensure};
use tabane_lab::bundle::{Options, address};
use tabane_lab::counters::received_bytes;
use tabane_lab::topology::Topology;

use crate::stage::{FAST, options, plan, send_file, with_bundles};
use crate::{Case, Need};

/// Size of a file.
const BYTES: u64 = 8 << 20;
/// What a link that is not used carries: heartbeats and what crosses before all is up.
const IDLE_MAX: u64 = BYTES / 20;

pub(crate) fn cases() -> Vec<Case> {
    let case = |policy: &'static str| {
        Case::new(format!("tcp_with_policy_{}", policy.replace('-', "_")), Need::Daemon, move || {
            carry(policy)
        })
    };
    ["adaptive", "rr", "weighted", "tlb", "tlb-history", "hash", "active-backup", "duplicate"]
        .map(case)
        .into()
}

fn carry(policy: &str) -> Result<()> {
    let words = ["--policy", policy, "--primary", "eth2", "--hash", "layer2"].map(str::to_owned);
    let options = Options { arguments: words.into(), ..options()? };
    with_bundles(plan(&[FAST; 2]), &options, |topology, bundles| {
        let before = carried(topology)?;
        send_file(topology.host(0), topology.host(1), address(1), BYTES)?;
        let after = carried(topology)?;
        let [first, second] = [after[0] - before[0], after[1] - before[1]];
        let what = format!("{policy}: {first} and {second} bytes for a file of {BYTES}");
        let status = bundles[1].status()?;
        match policy {
            "adaptive" | "rr" | "weighted" => ensure!(first.min(second) > BYTES / 4, "{what}: not spread"),
            "duplicate" => {
                ensure!(first.min(second) > BYTES * 9 / 10, "{what}: not on every link");
                ensure!(status.counter("drop_duplicate") > 1_000, "{what}: no second copies were counted");
            }
            "active-backup" => ensure!(first < IDLE_MAX && second > BYTES, "{what}: not on the primary"),
            _ => ensure!(first.min(second) < IDLE_MAX, "{what}: not on one link"),
        }
        send_file(topology.host(1), topology.host(0), address(0), BYTES)?;
        Ok(())
    })
}

/// What the NICs of the second host have received.
fn carried(topology: &Topology) -> Result<[u64; 2]> {
    let nics = topology.nics();
    received_bytes(topology.host(1), [&nics[0], &nics[1]])
}
