//! Changes of a running bundle under full load: another policy, a link that leaves and joins. One TCP connection fills
//! the links beside a flow of numbered datagrams; nothing of either may be lost.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tabane_lab::bundle::{Bundle, DEVICE, address};
use tabane_lab::counters::received_bytes;
use tabane_lab::netns::joined;
use tabane_lab::topology::{Topology, nic};
use tabane_lab::workload::Stream;
use tabane_lab::workload::iperf::{Flow, Server};

use crate::faults::carry;
use crate::stage::{FAST, options, plan, ready, send_file, with_bundles, with_links};
use crate::{Case, Need};

/// Links of the bundle, and the one that leaves.
const LINKS: usize = 3;
const CHANGED: usize = 1;
/// Duration of the connection, in which the change is done so often.
const SECONDS: u32 = 4;
const ROUNDS: usize = 3;
/// Bytes of a file for two links.
const FILE: u64 = 8 << 20;
/// Comparisons of which one has to hold.
const ATTEMPTS: usize = 3;
/// Datagrams a second, far below what the links carry beside the connection.
const EVERY: Duration = Duration::from_micros(500);
const BYTES: usize = 200;
/// Silence after which what did not come is lost.
const LOST_AFTER: Duration = Duration::from_secs(1);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("policy_switch_under_load_loses_nothing", Need::DaemonAndIperf, || compare(switch_policy)),
        Case::new("link_removal_and_addition_under_load_lose_nothing", Need::DaemonAndIperf, || {
            compare(remove_and_add)
        }),
        Case::new("a_link_that_both_ends_take_in_is_used", Need::Daemon, add_at_both),
    ]
}

/// The link was never there before.
fn add_at_both() -> Result<()> {
    let topology = Topology::build(plan(&[FAST; 2]))?;
    with_links(&topology, &[nic(0)], &options()?, |topology, bundles| {
        for bundle in &*bundles {
            bundle.ask(&["link", "add", DEVICE, &nic(1)])?;
        }
        ready(bundles, 2)?;
        let before = received_bytes(topology.host(1), [&nic(1)])?[0];
        send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        let carried = received_bytes(topology.host(1), [&nic(1)])?[0] - before;
        ensure!(carried > FILE / 4, "the second link carried {carried} B of a file of {FILE} B");
        Ok(())
    })
}

fn switch_policy(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    for policy in ["rr", "adaptive"] {
        carry(topology, CHANGED)?;
        for bundle in &mut *bundles {
            bundle.ask(&["policy", DEVICE, policy])?;
            bundle.wait_until(policy, |status| status.policy == policy)?;
        }
    }
    Ok(())
}

fn remove_and_add(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    carry(topology, CHANGED)?;
    bundles[0].ask(&["link", "remove", DEVICE, &nic(CHANGED)])?;
    for bundle in &mut *bundles {
        bundle.wait_until("a link less", |status| status.peers[0].links.len() == LINKS - 1)?;
    }
    carry(topology, 0)?;
    bundles[0].ask(&["link", "add", DEVICE, &nic(CHANGED)])?;
    for bundle in bundles {
        bundle.wait_until("all links", |status| status.is_ready(1, LINKS))?;
    }
    carry(topology, CHANGED)
}

/// What became of both flows. What the bundle's own queue takes from a flow, to tell it of congestion, is not counted: with
/// and without a change that happens now and then.
#[derive(Debug)]
struct Outcome {
    gbps: f64,
    retransmits: u64,
    sent: u64,
    lost: u64,
    overtaken: u64,
}

/// Frames that the sender's queue has shortened, and those that it has dropped.
fn told(sender: &Bundle<'_>) -> Result<[u64; 2]> {
    let status = sender.status()?;
    let dropped = status.counter("drop_queue_late") + status.counter("drop_queue_full");
    Ok([status.counter("frames_trimmed"), dropped])
}

/// Runs the flows without a change and with it: it may cost nothing. Who else uses the CPUs can stall either run, so one
/// comparison of a few has to hold.
fn compare(change: impl Fn(&Topology, &mut [Bundle<'_>]) -> Result<()>) -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        let _server = Server::start(topology.host(1), Stream::Tcp)?;
        let mut failures = Vec::new();
        for _ in 0..ATTEMPTS {
            let calm = load(topology, bundles, |_| Ok(()))?;
            let changed = load(topology, bundles, |bundles| {
                (0..ROUNDS).try_for_each(|_| change(topology, &mut *bundles))
            })?;
            let (gbps, least) = (changed.gbps, calm.gbps / 2.0);
            ensure!(calm.sent.min(changed.sent) > 0, "no datagram was sent");
            let costs = changed.lost > calm.lost
                || changed.overtaken > calm.overtaken
                || changed.retransmits > calm.retransmits;
            if gbps >= least && !costs {
                return Ok(());
            }
            failures.push(format!("with the change {changed:?}, without {calm:?}"));
        }
        bail!("{}", failures.join("; "))
    })
}

/// Both flows at once, and what happens `meanwhile`.
fn load(
    topology: &Topology,
    bundles: &mut [Bundle<'_>],
    meanwhile: impl FnOnce(&mut [Bundle<'_>]) -> Result<()>,
) -> Result<Outcome> {
    let before = told(&bundles[0])?;
    let (client, server) = (topology.host(0), topology.host(1));
    let receiver = server.enter(|| UdpSocket::bind((address(1), 0)))??;
    let at = receiver.local_addr()?;
    let over = Arc::new(AtomicBool::new(false));
    let receiving = server.spawn("receiver", move || receive(&receiver))?;
    let sending = {
        let over = Arc::clone(&over);
        client.spawn("sender", move || send(at, &over))?
    };
    let flow = Flow::tcp(address(1), SECONDS).start(client)?;
    let changed = meanwhile(bundles);
    let tcp = flow.finish();
    over.store(true, Ordering::Relaxed);
    let sent = joined(sending)?;
    let (received, overtaken) = joined(receiving)?;
    changed.context("the change")?;
    let tcp = tcp?;
    let after = told(&bundles[0])?;
    let [shortened, dropped] = [after[0] - before[0], after[1] - before[1]];
    let retransmits = tcp.retransmits.saturating_sub(shortened + dropped);
    let lost = (sent - received).saturating_sub(dropped);
    Ok(Outcome { gbps: tcp.gbps, retransmits, sent, lost, overtaken })
}

/// Sends numbered datagrams until it is over; returns how many.
fn send(at: SocketAddr, over: &AtomicBool) -> Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let (mut number, start) = (0_u64, Instant::now());
    let mut datagram = [0; BYTES];
    while !over.load(Ordering::Relaxed) && number < 1_000_000 {
        let due = EVERY * u32::try_from(number).unwrap_or(u32::MAX);
        thread::sleep(due.saturating_sub(start.elapsed()));
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        match socket.send_to(&datagram, at) {
            Ok(_) => number += 1,
            // A full device refuses a datagram; it is not sent.
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(number)
}

/// Receives until nothing comes any more; returns how many datagrams came, each once, and how many came late.
fn receive(socket: &UdpSocket) -> Result<(u64, u64)> {
    let (mut seen, mut next, mut overtaken) = (std::collections::HashSet::new(), 0, 0);
    let mut datagram = [0; BYTES];
    socket.set_read_timeout(Some(2 * LOST_AFTER))?;
    while let Ok(length) = socket.recv(&mut datagram) {
        ensure!(length == BYTES, "a datagram of {length} bytes");
        let number = datagram.first_chunk().map_or(0, |number| u64::from_be_bytes(*number));
        ensure!(seen.insert(number), "datagram {number} came twice");
        overtaken += u64::from(number < next);
        next = next.max(number + 1);
        socket.set_read_timeout(Some(LOST_AFTER))?;
    }
    Ok((seen.len() as u64, overtaken))
}
