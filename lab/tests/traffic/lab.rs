//! The lab itself: faults do what they say, rates hold, nothing is seen of the machine's own namespaces, and each flaw of an emulated
//! wire does what it says to real frames, in the direction that has it, and nothing else.

use std::net::UdpSocket;

use tabane_kit::emulator::Counters;
use tabane_kit::topology::address;
use tabane_kit::workload::sequence::Outcome;

use crate::traffic::datagrams::{FRAGMENTED, WHOLE, exchange};
use crate::traffic::prelude::*;

/// Slow enough for any machine.
const PACE: Pace = Pace { per_second: 5000, bytes: 200 };
const DURATION: Duration = Duration::from_millis(400);
/// Most frames that a host's kernel sends by itself meanwhile: it asks for neighbours and routers, and tells of groups.
const OWN_MAX: u64 = 8;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        on_the_wire("without_flaw_carries_everything", without_flaw),
        on_the_wire("rate_is_kept_and_its_queue_drops", rate),
        on_the_wire("loss_is_the_share_asked_for", loss),
        on_the_wire("corruption_is_noticed_by_checksums", corruption),
        on_the_wire("black_hole_may_be_one_way", black_hole),
        on_the_wire("pulled_cable_heals", pulled_cable),
        Case::new("lab_black_hole_swallows_at_once_and_keeps_carrier", NOTHING, dead_switch),
        Case::new("lab_pulled_cable_loses_carrier", NOTHING, cable_without_carrier),
        Case::alone("lab_rate_is_kept", NOTHING, shaped),
        Case::new("lab_namespaces_are_private_and_go_with_their_value", NOTHING, namespaces),
    ]
}

/// A trial of one flaw; when frames leave by it, the unit tests of `kit` know to the nanosecond.
fn on_the_wire(name: &str, test: fn(&Topology) -> Result<()>) -> Case {
    Case::new(format!("emulator_{name}"), NOTHING, move || test(&topology()?))
}

/// Two hosts on one emulated wire, which know each other's MAC address.
fn topology() -> Result<Topology> {
    let plan = Plan { wiring: Wiring::Emulator, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) };
    let topology = Topology::build(plan)?;
    exchange(topology.host(0), topology.host(1), address(0, 1).into(), &[64], 3)?;
    Ok(topology)
}

fn without_flaw(topology: &Topology) -> Result<()> {
    let (first, second) = (topology.host(0), topology.host(1));
    exchange(first, second, address(0, 1).into(), &WHOLE, 300)?;
    exchange(second, first, address(0, 0).into(), &FRAGMENTED, 300)?;
    send_file(first, second, address(0, 1).into(), 8 << 20)?;
    let Counters { passed, dropped, lost, corrupted, swallowed, overrun, .. } =
        count(topology, Direction::Forward)?;
    let segments = (8 << 20) / 1448;
    ensure!(passed > segments, "{passed} frames carried {segments} segments");
    ensure!((dropped, lost, corrupted, swallowed) == (0, 0, 0, 0), "a wire without flaw has some");
    ensure!(overrun == 0, "{overrun} frames came too fast for the wire");
    Ok(())
}

/// 4 MB at 50 Mbit/s take 640 ms.
fn rate(topology: &Topology) -> Result<()> {
    topology.impair(0, Direction::Forward, Impairment::rate(Bitrate::mbit(50)))?;
    let start = Instant::now();
    send_file(topology.host(0), topology.host(1), address(0, 1).into(), 4_000_000)?;
    let mbit = 32.0 / start.elapsed().as_secs_f64();
    ensure!((25.0..50.0).contains(&mbit), "{mbit:.1} Mbit/s over a wire of 50 Mbit/s");

    let narrow = Impairment { queue_bytes: Some(5000), ..Impairment::rate(Bitrate::mbit(1)) };
    topology.impair(0, Direction::Forward, narrow)?;
    let (outcome, seen) = flow(topology, Direction::Forward)?;
    ensure!(seen.dropped > 0, "a queue of 5000 bytes drops nothing: {seen:?}");
    ensure_accounted(seen.dropped, &outcome, &seen)
}

fn loss(topology: &Topology) -> Result<()> {
    topology.impair(0, Direction::Forward, Impairment::loss(0.1))?;
    let (outcome, seen) = flow(topology, Direction::Forward)?;
    ensure_accounted(seen.lost, &outcome, &seen)?;
    let share = lost(&outcome) as f64 / outcome.sent as f64;
    ensure!((0.06..0.14).contains(&share), "{share:.3} of the datagrams were lost instead of 0.1");
    let (outcome, _) = flow(topology, Direction::Backward)?;
    ensure!(lost(&outcome) == 0, "loss the other way: {outcome:?}");
    Ok(())
}

fn corruption(topology: &Topology) -> Result<()> {
    topology.impair(0, Direction::Forward, Impairment::corruption(0.2))?;
    let (outcome, seen) = flow(topology, Direction::Forward)?;
    let noticed = counters::protocol(topology.host(1), "Udp", "InCsumErrors")?;
    ensure!(noticed > 0 && seen.corrupted >= noticed, "{noticed} checksums of {seen:?} were wrong");
    ensure!(lost(&outcome) > 0 && lost(&outcome) <= seen.corrupted, "{seen:?} but {outcome:?}");
    ensure!(outcome.damaged == 0, "the receiver's kernel let damage through: {outcome:?}");
    Ok(())
}

fn black_hole(topology: &Topology) -> Result<()> {
    topology.impair(0, Direction::Forward, Impairment::black_hole())?;
    let (outcome, _) = flow(topology, Direction::Forward)?;
    ensure!(outcome.received == 0, "a black hole lets through: {outcome:?}");
    let (outcome, _) = flow(topology, Direction::Backward)?;
    ensure!(lost(&outcome) == 0, "the way back is lost, too: {outcome:?}");
    topology.revive_switch(0)?;
    let (outcome, _) = flow(topology, Direction::Forward)?;
    ensure!(lost(&outcome) == 0, "a revived wire swallows: {outcome:?}");
    Ok(())
}

fn pulled_cable(topology: &Topology) -> Result<()> {
    topology.pull_cable(0, 0)?;
    let line = topology.host(0).ip("-oneline link show eth1")?;
    ensure!(!line.contains("LOWER_UP"), "carrier without a cable: {line}");
    topology.plug_cable(0, 0)?;
    exchange(topology.host(0), topology.host(1), address(0, 1).into(), &[64], 3)?;
    Ok(())
}

/// Sends numbered datagrams in `direction`; what became of them, and what the wire counted meanwhile.
fn flow(topology: &Topology, direction: Direction) -> Result<(Outcome, Counters)> {
    let (from, to) = (direction as usize, 1 - direction as usize);
    let at = SocketAddr::new(address(0, to).into(), 0);
    let before = count(topology, direction)?;
    let outcome = Sequence::start(topology.host(from), topology.host(to), at, PACE, DURATION)?.outcome()?;
    let after = count(topology, direction)?;
    let seen = Counters {
        dropped: after.dropped - before.dropped,
        lost: after.lost - before.lost,
        corrupted: after.corrupted - before.corrupted,
        ..after
    };
    Ok((outcome, seen))
}

/// Whether `gone`, which the wire counted, is what the receiver misses, and few of the kernels' own frames besides.
fn ensure_accounted(gone: u64, outcome: &Outcome, seen: &Counters) -> Result<()> {
    let missed = lost(outcome);
    ensure!((missed..=missed + OWN_MAX).contains(&gone), "{gone} of {seen:?} but {outcome:?}");
    Ok(())
}

fn count(topology: &Topology, direction: Direction) -> Result<Counters> {
    topology.emulator(0)?.counters(direction)
}

fn lost(outcome: &Outcome) -> u64 {
    outcome.lost_at_ns.len() as u64
}

/// Time in which a datagram crosses a living switch a thousand times.
const SOON: Duration = Duration::from_millis(200);
/// Time that a datagram may take on the busiest machine.
const AT_LAST: Duration = Duration::from_secs(5);

fn dead_switch() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST)]))?;
    let crosses_both_ways =
        |within| Ok::<_, anyhow::Error>([crosses(&topology, 0, within)?, crosses(&topology, 1, within)?]);
    ensure!(crosses_both_ways(AT_LAST)? == [true; 2], "a new switch does not forward");
    topology.kill_switch(0)?;
    ensure!(crosses_both_ways(SOON)? == [false; 2], "a dead switch forwards");
    ensure!(has_carrier(topology.host(0))? && has_carrier(topology.host(1))?, "a black hole costs carrier");
    topology.revive_switch(0)?;
    ensure!(crosses_both_ways(AT_LAST)? == [true; 2], "a revived switch does not forward");
    Ok(())
}

fn cable_without_carrier() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST)]))?;
    topology.pull_cable(0, 0)?;
    ensure!(!has_carrier(topology.host(0))?, "carrier without a cable");
    ensure!(has_carrier(topology.host(1))?, "the other host lost carrier as well");
    topology.plug_cable(0, 0)?;
    ensure!(has_carrier(topology.host(0))?, "no carrier with a cable");
    Ok(())
}

/// 10 MB at 200 Mbit/s take 0.4 s; the bucket of 256 KB gives a head start of 10 ms.
fn shaped() -> Result<()> {
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST)]))?;
    let outcome = send_file(topology.host(0), topology.host(1), address(0, 1).into(), 10_000_000)?;
    let mbit = outcome.gbps() * 1e3;
    ensure!((100.0..=205.0).contains(&mbit), "{mbit:.0} Mbit/s over a link of {FAST}");
    Ok(())
}

fn namespaces() -> Result<()> {
    let names = || -> Result<usize> { Ok(fs::read_dir("/run/netns")?.count()) };
    ensure!(names()? == 0, "the machine's namespaces are in sight");
    let cable = Plan { wiring: Wiring::Cable, ..Plan::two_hosts(vec![LinkPlan::unshaped()]) };
    let topology = Topology::build(cable)?;
    ensure!(names()? == 2, "two hosts are {} namespaces", names()?);
    drop(topology);
    ensure!(names()? == 0, "namespaces outlive their topology");
    Ok(())
}

/// Whether a datagram from host `from` reaches the other one over the bare link. Sending never fails.
fn crosses(topology: &Topology, from: usize, within: Duration) -> Result<bool> {
    let to = 1 - from;
    let at = SocketAddr::new(address(0, to).into(), 0);
    let receiver = topology.host(to).enter(|| UdpSocket::bind(at))??;
    receiver.set_read_timeout(Some(within))?;
    let at = receiver.local_addr()?;
    let sender = topology.host(from).enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    sender.send_to(b"across", at)?;
    Ok(receiver.recv(&mut [0; 16]).is_ok())
}

fn has_carrier(host: &Namespace) -> Result<bool> {
    Ok(host.ip("-oneline link show eth1")?.contains("LOWER_UP"))
}
