//! Every policy carries TCP over two links, and puts it where it says.

use anyhow::{Result, ensure};
use tabane_kit::bundle::{Bundle, Options, address};
use tabane_kit::counters::received_bytes;
use tabane_kit::status::Questions;
use tabane_kit::topology::Topology;
use tabane_proto::{Nature, PolicyKind};

use crate::traffic::stage::{FAST, options, options_with, plan, send_file, with_bundles};
use crate::traffic::{Case, Need};

/// Size of a file.
const BYTES: u64 = 8 << 20;
/// What a link that is not used carries: heartbeats and what crosses before all is up.
const IDLE_MAX: u64 = BYTES / 20;

pub(crate) fn cases() -> Vec<Case> {
    let case = |policy: PolicyKind| {
        let name = format!("tcp_with_policy_{}", policy.name().replace('-', "_"));
        Case::new(name, Need::Daemon, move || carry(policy))
    };
    let turns = Case::new("a_turn_of_round_robin_is_as_long_as_it_is_stated", Need::Daemon, turns);
    PolicyKind::ALL.map(case).into_iter().chain([turns]).collect()
}

/// A system call carries what one link gets in its turn.
fn turns() -> Result<()> {
    for (turn, cells) in [("1", 1.0..1.1), ("2", 1.1..2.1), ("0", 2.5..64.1)] {
        let options = options_with(&["--policy", "rr", "--turn", turn])?;
        with_bundles(plan(&[FAST; 2]), &options, |topology, bundles| {
            let sent = |bundle: &Bundle<'_>| -> Result<[u64; 2]> {
                let status = bundle.status()?;
                Ok(["cells_sent", "batches_sent"].map(|name| status.counter(name)))
            };
            let before = sent(&bundles[0])?;
            send_file(topology.host(0), topology.host(1), address(1), BYTES)?;
            let after = sent(&bundles[0])?;
            let mean = (after[0] - before[0]) as f64 / (after[1] - before[1]) as f64;
            ensure!(cells.contains(&mean), "turn {turn}: {mean} cells by a call");
            Ok(())
        })?;
    }
    Ok(())
}

fn carry(policy: PolicyKind) -> Result<()> {
    let words = ["--policy", policy.name(), "--primary", "eth2", "--hash", "layer2"].map(str::to_owned);
    let options = Options { arguments: words.into(), ..options()? };
    with_bundles(plan(&[FAST; 2]), &options, |topology, bundles| {
        for bundle in &*bundles {
            let said = bundle.status()?.policy;
            ensure!(said == policy.name(), "{said} in place of {policy}");
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
fn is_where_it_belongs(policy: PolicyKind, [first, second]: [u64; 2], copies: u64) -> Result<()> {
    let what = format!("{policy}: {first} and {second} bytes for a file of {BYTES}");
    match policy.nature() {
        Nature::Spreads => {
            ensure!(first.min(second) > IDLE_MAX, "{what}: not on both links");
            ensure!(first + second < BYTES * 5 / 4, "{what}: more than once");
        }
        Nature::Binds => {
            ensure!(first.min(second) < IDLE_MAX && first.max(second) > BYTES, "{what}: not on one link");
        }
        Nature::Replicates => {
            ensure!(first.min(second) > BYTES * 9 / 10, "{what}: not on every link");
            ensure!(copies > 1_000, "{what}: no second copies were counted");
        }
    }
    // What some promise beyond their nature; how evenly they spread, the simulator judges: here, other programs hold up either link.
    match policy {
        PolicyKind::Adaptive | PolicyKind::RoundRobin | PolicyKind::Weighted => {
            ensure!(first.min(second) > BYTES / 4, "{what}: less than a quarter on one link");
        }
        PolicyKind::ActiveBackup => ensure!(second > BYTES, "{what}: not on the primary"),
        _ => {}
    }
    Ok(())
}

/// What the NICs of a host have received.
fn carried(topology: &Topology, host: usize) -> Result<[u64; 2]> {
    let nics = topology.nics();
    received_bytes(topology.host(host), [&nics[0], &nics[1]])
}
