//! Every policy carries TCP over two links, and puts it where it says.

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Options, address};
use tabane_kit::counters::received_bytes;
use tabane_kit::topology::Topology;
use tabane_proto::PolicyKind;

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
    PolicyKind::ALL.map(|kind| case(kind.name())).into()
}

fn carry(policy: &str) -> Result<()> {
    let words = ["--policy", policy, "--primary", "eth2", "--hash", "layer2"].map(str::to_owned);
    let options = Options { arguments: words.into(), ..options()? };
    with_bundles(plan(&[FAST; 2]), &options, |topology, bundles| {
        for bundle in &*bundles {
            let said = bundle.status()?.policy;
            ensure!(said == policy, "{said} in place of {policy}");
        }
        // Each sender decides for itself.
        for [from, to] in [[0, 1], [1, 0]] {
            let before = carried(topology, to)?;
            send_file(topology.host(from), topology.host(to), address(to), BYTES)?;
            let after = carried(topology, to)?;
            let copies = bundles[to].status()?.counter("drop_duplicate");
            is_where_it_belongs(policy, std::array::from_fn(|link| after[link] - before[link]), copies)?;
        }
        Ok(())
    })
}

/// Whether a file whose sender goes by `policy` took so many bytes of each link.
fn is_where_it_belongs(policy: &str, [first, second]: [u64; 2], copies: u64) -> Result<()> {
    let what = format!("{policy}: {first} and {second} bytes for a file of {BYTES}");
    match policy {
        "adaptive" | "rr" | "weighted" => {
            ensure!(first.min(second) > BYTES * 2 / 5, "{what}: not spread evenly");
            ensure!(first + second < BYTES * 5 / 4, "{what}: more than once");
        }
        "duplicate" => {
            ensure!(first.min(second) > BYTES * 9 / 10, "{what}: not on every link");
            ensure!(copies > 1_000, "{what}: no second copies were counted");
        }
        "active-backup" => ensure!(first < IDLE_MAX && second > BYTES, "{what}: not on the primary"),
        _ => ensure!(first.min(second) < IDLE_MAX && first.max(second) > BYTES, "{what}: not on one link"),
    }
    Ok(())
}

/// What the NICs of a host have received.
fn carried(topology: &Topology, host: usize) -> Result<[u64; 2]> {
    let nics = topology.nics();
    received_bytes(topology.host(host), [&nics[0], &nics[1]])
}
