//! The lab itself: rates hold, nothing is seen of the machine's own namespaces, and each flaw of an emulated
//! wire does what it says to real frames, in the direction that has it, and nothing else.

use tabane_kit::emulator::Counters;
use tabane_kit::topology::address;
use tabane_kit::workload::sequence::Outcome;

use crate::traffic::datagrams::{FRAGMENTED, WHOLE, exchange};
use crate::traffic::stage::*;

const PACE: Pace = Pace { per_second: 5000, bytes: 200 };
const DURATION: Duration = Duration::from_millis(400);
/// Most frames that a host's kernel sends by itself meanwhile: it asks for neighbours and routers, and tells of groups.
const OWN_MAX: u64 = 8;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("emulated_wires_carry_everything_at_their_rate", NOTHING, carries),
        Case::new("emulated_wires_have_the_flaws_that_they_are_given", NOTHING, flaws),
        Case::alone("lab_rate_is_kept", NOTHING, shaped),
        Case::new("lab_namespaces_are_private_and_go_with_their_value", NOTHING, namespaces),
    ]
}

fn emulated() -> Result<Topology> {
    let topology = two_hosts(Wiring::Emulator, LinkPlan::unshaped())?;
    exchange(topology.host(0), topology.host(1), address(0, 1).into(), &[64], 3)?;
    Ok(topology)
}

fn two_hosts(wiring: Wiring, link: LinkPlan) -> Result<Topology> {
    Topology::build(Plan { wiring, ..Plan::two_hosts(vec![link]) })
}

/// At last 4 MB at 50 Mbit/s, which take 640 ms.
fn carries() -> Result<()> {
    let topology = emulated()?;
    let (first, second) = (topology.host(0), topology.host(1));
    exchange(first, second, address(0, 1).into(), &WHOLE, 300)?;
    exchange(second, first, address(0, 0).into(), &FRAGMENTED, 300)?;
    send_file(first, second, address(0, 1).into(), 8 << 20)?;
    let Counters { passed, dropped, lost, corrupted, swallowed, overrun, .. } =
        topology.emulator(0)?.counters(Direction::Forward)?;
    let segments = (8 << 20) / 1448;
    ensure!(passed > segments, "{passed} frames carried {segments} segments");
    ensure!((dropped, lost, corrupted, swallowed) == (0, 0, 0, 0), "a wire without flaw has some");
    ensure!(overrun == 0, "{overrun} frames came too fast for the wire");
    topology.impair(0, Direction::Forward, Impairment::rate(Bitrate::mbit(50)))?;
    let mbit = send_file(first, second, address(0, 1).into(), 4_000_000)?.gbps() * 1e3;
    ensure!((25.0..50.0).contains(&mbit), "{mbit:.1} Mbit/s over a wire of 50 Mbit/s");
    Ok(())
}

/// What is to be said of datagrams that went the way of a flaw, of what the wire counted, and of checksums that were wrong.
type Judge = fn(&Outcome, &Counters, u64) -> bool;

/// The other direction loses nothing meanwhile.
fn flaws() -> Result<()> {
    let narrow = Impairment { queue_bytes: Some(5000), ..Impairment::rate(Bitrate::mbit(1)) };
    let flaws: [(&str, Impairment, Judge); 5] = [
        ("none", Impairment::default(), |outcome, _, _| missed(outcome) == 0),
        ("loss", Impairment::loss(0.1), |outcome, seen, _| {
            let share = missed(outcome) as f64 / outcome.sent as f64;
            is_accounted(seen.lost, outcome) && (0.06..0.14).contains(&share)
        }),
        ("corruption", Impairment::corruption(0.2), |outcome, seen, wrong| {
            let is_noticed = wrong > 0 && seen.corrupted >= wrong && outcome.damaged == 0;
            is_noticed && (1..=seen.corrupted).contains(&missed(outcome))
        }),
        ("black hole", Impairment::black_hole(), |outcome, _, _| outcome.received == 0),
        ("queue", narrow, |outcome, seen, _| seen.dropped > 0 && is_accounted(seen.dropped, outcome)),
    ];
    for (name, flaw, is_right) in flaws {
        let topology = emulated()?;
        topology.impair(0, Direction::Forward, flaw)?;
        let (outcome, seen) = flow(&topology, Direction::Forward)?;
        let wrong = counters::protocol(topology.host(1), "Udp", "InCsumErrors")?;
        ensure!(is_right(&outcome, &seen, wrong), "{name}: {outcome:?}, {seen:?}, {wrong} wrong checksums");
        let (outcome, _) = flow(&topology, Direction::Backward)?;
        ensure!(missed(&outcome) == 0, "{name}: the way back: {outcome:?}");
        if flaw == Impairment::black_hole() {
            topology.revive_switch(0)?;
            let (outcome, _) = flow(&topology, Direction::Forward)?;
            ensure!(missed(&outcome) == 0, "a revived wire swallows: {outcome:?}");
        }
    }
    Ok(())
}

fn flow(topology: &Topology, direction: Direction) -> Result<(Outcome, Counters)> {
    let (from, to) = (direction as usize, 1 - direction as usize);
    let at = SocketAddr::new(address(0, to).into(), 0);
    let outcome = Sequence::start(topology.host(from), topology.host(to), at, PACE, DURATION)?.outcome()?;
    Ok((outcome, topology.emulator(0)?.counters(direction)?))
}

/// Whether `gone`, which the wire counted, is what the receiver misses, and few of the kernels' own frames besides.
fn is_accounted(gone: u64, outcome: &Outcome) -> bool {
    (missed(outcome)..=missed(outcome) + OWN_MAX).contains(&gone)
}

fn missed(outcome: &Outcome) -> u64 {
    outcome.lost_at_ns.len() as u64
}

/// 10 MB at 200 Mbit/s take 0.4 s; the bucket of 256 KB gives a head start of 10 ms.
fn shaped() -> Result<()> {
    let topology = two_hosts(Wiring::Switch, LinkPlan::shaped(FAST))?;
    let outcome = send_file(topology.host(0), topology.host(1), address(0, 1).into(), 10_000_000)?;
    let mbit = outcome.gbps() * 1e3;
    ensure!((100.0..=205.0).contains(&mbit), "{mbit:.0} Mbit/s over a link of {FAST}");
    Ok(())
}

fn namespaces() -> Result<()> {
    let names = || -> Result<usize> { Ok(fs::read_dir("/run/netns")?.count()) };
    ensure!(names()? == 0, "the machine's namespaces are in sight");
    let topology = two_hosts(Wiring::Cable, LinkPlan::unshaped())?;
    ensure!(names()? == 2, "two hosts are {} namespaces", names()?);
    drop(topology);
    ensure!(names()? == 0, "namespaces outlive their topology");
    Ok(())
}
