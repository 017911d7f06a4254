//! The emulated wire with real frames: each flaw does what it says, in the direction that has it, and nothing else.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tabane_kit::counters;
use tabane_kit::emulator::{Coalescing, Counters, Direction, Impairment};
use tabane_kit::rate::Bitrate;
use tabane_kit::topology::{LinkPlan, Plan, Topology, Wiring, address};
use tabane_kit::workload::sequence::{Outcome, Pace, Sequence};
use tabane_kit::workload::{Stream, ping_pong};

use crate::traffic::datagrams::{FRAGMENTED, WHOLE, exchange};
use crate::traffic::stage::send_file;
use crate::traffic::{Case, Need};

/// Slow enough for any machine.
const PACE: Pace = Pace { per_second: 5000, bytes: 200 };
const DURATION: Duration = Duration::from_millis(400);
/// Most frames that a host's kernel sends by itself meanwhile: it asks for neighbours and routers, and tells of groups.
const OWN_MAX: u64 = 8;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name: &str, test: fn(&Topology) -> Result<()>| {
        Case::new(format!("emulator_{name}"), Need::Nothing, move || test(&topology()?))
    };
    vec![
        case("without_flaw_carries_everything", without_flaw),
        case("delay_is_that_of_each_direction", delay),
        case("rate_is_kept_and_its_queue_drops", rate),
        case("loss_is_the_share_asked_for", loss),
        case("corruption_is_noticed_by_checksums", corruption),
        case("black_hole_may_be_one_way", black_hole),
        case("jitter_keeps_order", jitter),
        case("coalescing_loses_nothing", coalescing),
        case("pulled_cable_heals", pulled_cable),
    ]
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

fn delay(topology: &Topology) -> Result<()> {
    topology.impair(0, Direction::Forward, Impairment::delay(Duration::from_millis(20)))?;
    topology.impair(0, Direction::Backward, Impairment::delay(Duration::from_millis(10)))?;
    let at = SocketAddr::new(address(0, 1).into(), 0);
    let duration = Duration::from_millis(500);
    let trips = ping_pong::play(topology.host(0), topology.host(1), at, Stream::Tcp, duration)?;
    ensure!((30_000.0..40_000.0).contains(&trips.p50_us), "round trips over 20 + 10 ms: {trips:?}");
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

fn jitter(topology: &Topology) -> Result<()> {
    let jitter = Duration::from_millis(3);
    topology.impair(0, Direction::Forward, Impairment { jitter, ..Impairment::default() })?;
    let (outcome, _) = flow(topology, Direction::Forward)?;
    ensure!(lost(&outcome) + outcome.overtaken == 0, "jitter loses or mixes: {outcome:?}");
    Ok(())
}

fn coalescing(topology: &Topology) -> Result<()> {
    let coalescing = Some(Coalescing { frames: 16, wait: Duration::from_millis(2) });
    topology.impair_both(0, Impairment { coalescing, ..Impairment::default() })?;
    let (outcome, _) = flow(topology, Direction::Forward)?;
    ensure!(lost(&outcome) + outcome.overtaken == 0, "coalescing loses or mixes: {outcome:?}");
    ensure!(outcome.gaps.longest().length >= Duration::from_millis(1), "frames came one by one: {outcome:?}");
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
