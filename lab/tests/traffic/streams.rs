//! TCP over 2, 3 and 4 links, equal and 10:1, IPv4 and IPv6, both directions; every policy puts it where it says; and what waits for
//! a peer behind a slow link does not hold up one behind a fast link.

use tabane_proto::{Nature, PolicyKind};

use crate::traffic::stage::*;

/// Rates that a busy machine fills: of equal links, and of one beside others that carry a tenth of it.
const EQUAL: Bitrate = Bitrate::mbit(50);
const FASTEST: Bitrate = Bitrate::mbit(100);
const SLOWER: Bitrate = Bitrate::mbit(10);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        // Exercises: up --turn
        Case::new("a_turn_of_round_robin_is_as_long_as_it_is_stated", DAEMON, turns),
        Case::new("a_slow_peer_does_not_hold_up_a_fast_one", DAEMON, slow_peer),
    ];
    cases.extend(PolicyKind::ALL.map(|policy| {
        // Exercises: up --policy --primary
        let name = format!("tcp_with_policy_{}", policy.name().replace('-', "_"));
        Case::new(name, DAEMON, move || carry(policy))
    }));
    for links in 2..=4 {
        let equal = vec![EQUAL; links];
        let mut unequal = vec![SLOWER; links];
        unequal[0] = FASTEST;
        for (rates, word) in [(equal, "equal_links"), (unequal, "links_10_to_1")] {
            cases.push(Case::new(format!("tcp_over_{links}_{word}"), DAEMON, move || tcp(&rates)));
        }
    }
    cases
}

fn tcp(rates: &[Bitrate]) -> Result<()> {
    with_bundles(plan(rates), &options()?, |topology, bundles| {
        let (first, second) = (topology.host(0), topology.host(1));
        send_file(first, second, address(1), BYTES)?;
        send_file(second, first, address(0), BYTES)?;
        send_file(first, second, address_v6(1), BYTES)?;
        every_link_is_used(topology, rates)?;
        for bundle in bundles.iter() {
            let status = bundle.status()?;
            let idle: Vec<_> = status.peers[0].paths.iter().filter(|link| link.cells_sent == 0).collect();
            ensure!(idle.is_empty(), "links without cells: {idle:?}");
        }
        Ok(())
    })
}

/// The links of the second host received both files that were sent to it, and each link a part of them.
fn every_link_is_used(topology: &Topology, rates: &[Bitrate]) -> Result<()> {
    let all: u64 = rates.iter().map(|rate| rate.bits_per_second()).sum();
    let mut sum = 0;
    for (nic, rate) in topology.nics().iter().zip(rates) {
        // Of both files, half of the part that is its own by its rate.
        let least = BYTES * rate.bits_per_second() / all;
        let [bytes] = received_bytes(topology.host(1), [nic])?;
        ensure!(bytes > least, "{nic} received {bytes} bytes, not {least}");
        sum += bytes;
    }
    ensure!(sum > 2 * BYTES, "the links carried {sum} bytes for two files of {BYTES}");
    Ok(())
}

const BYTES: u64 = 8 << 20;
/// What a link that is not used carries: heartbeats and what crosses before all is up.
const IDLE_MAX: u64 = BYTES / 20;

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
            let bytes = brought(topology.host(to), || {
                send_file(topology.host(from), topology.host(to), address(to), BYTES).map(drop)
            })?;
            let copies = bundles[to].status()?.counter("drop_duplicate");
            is_where_it_belongs(policy, bytes, copies)?;
        }
        Ok(())
    })
}

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

const SLOWEST: Bitrate = Bitrate::mbit(1);
/// A file for the slow peer: more than four seconds.
const SLOW_BYTES: u64 = 512 << 10;
const UNDER_WAY: u64 = 64 << 10;
/// A file for the fast peer: a third of a second.
const FAST_BYTES: u64 = 8 << 20;

/// Host 1 reaches host 2 by the first link alone, and host 3 by the second.
fn slow_peer() -> Result<()> {
    let links = vec![LinkPlan::shaped(FAST), LinkPlan::paced(SLOWEST)];
    let topology = Topology::build(Plan { hosts: 3, addressed: false, ..Plan::two_hosts(links) })?;
    let (nics, options) = (topology.nics(), options()?);
    let nics = [&nics[..], &nics[..1], &nics[1..]];
    let hosts = topology.hosts().iter().enumerate().zip(nics);
    let mut bundles = hosts
        .map(|((number, host), nics)| Bundle::start(host, number, nics, &options))
        .collect::<Result<Vec<_>>>()?;
    for (bundle, peers) in bundles.iter_mut().zip([2, 1, 1]) {
        bundle.wait_until("its peers", |status| status.is_ready(peers, 1))?;
    }

    let [sender, fast, slow] = topology.hosts() else { unreachable!("three hosts were planned") };
    let source = Source::random(SLOW_BYTES, 2);
    let transfer = Transfer::start(sender, slow, SocketAddr::new(address(2), 0), source)?;
    let arrived = || received_bytes(slow, [&topology.nics()[1]]).map(|[bytes]| bytes);
    wait_for("bytes at the slow peer", Duration::from_secs(10), || {
        Ok(arrived()?.ge(&UNDER_WAY).then_some(()))
    })?;
    send_file(sender, fast, address(1), FAST_BYTES)?;
    ensure!(arrived()? < SLOW_BYTES, "the fast peer's file waits for the slow peer's");
    whole(transfer).context("the slow peer's file")?;
    Bundle::stop_all(bundles)
}
