//! Adversities: further trouble for a run that [`crate::swarm`] has drawn.
//!
//! Each adversity is drawn from a stream of its own, so that a new one changes no seed that does not draw it. A constant here
//! says how often seeds draw it; 0 switches it off, and the others stay as they are.

use crate::competitor::CompetitorSettings;
use crate::fault::{Fault, FaultPeriod};
use crate::flow::{Flow, Pace, Sizes};
use crate::frame::Heading;
use crate::hostile::{Deed, Hostility};
use crate::random::{Random, Stream};
use crate::router::{Drops, RouterSettings};
use crate::swarm::{Plan, TROUBLE_ENDS};
use core::time::Duration;

/// Runs in a million with each adversity.
const SLOW: u32 = 60_000;
const LATE: u32 = 40_000;
const STORM: u32 = 15_000;
const RELENTLESS: u32 = 60_000;
const SLOW_PEER: u32 = 40_000;
const HOSTILE: u32 = 100_000;
const DRAINED: u32 = 60_000;
const ROUTERS: u32 = 60_000;
const NARROW: u32 = 100_000;
const RADIO: u32 = 30_000;
const TURNS: u32 = 30_000;
const COMPETING: u32 = 30_000;
/// How long each rate of a radio link lasts.
const RADIO_STEP: Duration = Duration::from_millis(20);

/// Frames of a storm, and of a flow that never backs off: as many as take some milliseconds to compute.
const STORM_FRAMES: u32 = 5_000;
const RELENTLESS_FRAMES: u32 = 60;

/// Adds to a plan what its seed says.
pub(crate) fn add(seed: u64, plan: &mut Plan) {
    let mut random = Random::new(seed, Stream::Adversity);
    let adversities: [(u32, Adversity); 12] = [
        (SLOW, slow),
        (LATE, late),
        (STORM, storm),
        (RELENTLESS, relentless),
        (SLOW_PEER, slow_peer),
        (HOSTILE, hostile),
        (ROUTERS, routers),
        (NARROW, narrow),
        (DRAINED, drained),
        (RADIO, radio),
        (TURNS, turns),
        (COMPETING, competing),
    ];
    for (chance, adversity) in adversities {
        let mut own = random.fork();
        if own.chance(chance) && !plan.is_faultless {
            adversity(&mut own, plan);
        }
    }
}

type Adversity = fn(&mut Random, &mut Plan);

fn slow(random: &mut Random, plan: &mut Plan) {
    let per_datagram = random.span(Duration::from_micros(2)..=Duration::from_micros(50));
    worker(random, plan, |node| Fault::Slow(node, per_datagram));
}

fn late(random: &mut Random, plan: &mut Plan) {
    let late = random.span(Duration::from_micros(50)..=Duration::from_millis(8));
    worker(random, plan, |node| Fault::Late(node, late));
}

fn worker(random: &mut Random, plan: &mut Plan, fault: impl Fn(u8) -> Fault) {
    let begins = random.span(Duration::ZERO..=TROUBLE_ENDS / 2);
    plan.faults.push(FaultPeriod { fault: fault(node(random, plan)), begins, ends: Some(TROUBLE_ENDS) });
}

/// 100,000 addresses a second.
fn storm(random: &mut Random, plan: &mut Plan) {
    let pace = Pace::Bursts { every: Duration::from_micros(200), frames: 20 };
    let (from, to) = pair(random, plan);
    let storm = Flow { to: random.pick(&[Some(to), Some(to), None]), pace, ..Flow::bulk(from, to) };
    let storm = Flow { heading: Heading::Bridged, sizes: Sizes::Fixed(60), frames: STORM_FRAMES, ..storm };
    plan.flows.push((storm, Duration::from_millis(50), TROUBLE_ENDS));
}

/// Superframes of UDP, up to four times what all links of a node carry.
fn relentless(random: &mut Random, plan: &mut Plan) {
    const LENGTH: usize = 65_160;
    let (from, to) = pair(random, plan);
    let rate: u64 = plan.topology.nodes[usize::from(from)].cables.iter().map(|cable| cable.up.rate).sum();
    let whole = LENGTH as u64 * 8 * 1_000_000_000 / rate;
    let every = Duration::from_nanos(random.within(whole / 4..=whole));
    let flow = Flow {
        heading: random.pick(&[Heading::Ipv4, Heading::Ipv6]),
        frames: RELENTLESS_FRAMES,
        ..Flow::steady(from, to, LENGTH, every)
    };
    plan.flows.push((flow, Duration::from_millis(20), TROUBLE_ENDS));
}

/// One node behind cables of 20 Mbit/s. The rings are so short that cells that wait have left before the probes.
fn slow_peer(random: &mut Random, plan: &mut Plan) {
    const RATE: u64 = 20_000_000;
    let slow = usize::from(node(random, plan));
    plan.topology.nodes.iter_mut().for_each(|node| node.slots = 512);
    for cable in &mut plan.topology.nodes[slow].cables {
        cable.up.rate = RATE;
        cable.down.rate = RATE;
        cable.cell_max = 1_452;
        cable.down.queue = cable.down.queue.min(RATE / 8 / 50);
    }
}

/// Links, each by chance, whose NICs are faster than what follows. The rings are as short as behind slow cables.
fn routers(random: &mut Random, plan: &mut Plan) {
    plan.topology.nodes.iter_mut().for_each(|node| node.slots = 512);
    for (link, mut own) in each_link(random, plan) {
        if own.chance(300_000) {
            continue;
        }
        let rate = own.pick(&[20, 50, 50, 200, 500]) * 1_000_000;
        let span =
            own.pick(&[Duration::from_millis(4), Duration::from_millis(10), Duration::from_millis(50)]);
        let drops = own.pick(&[Drops::Tail, Drops::Tail, Drops::CoDel]);
        let router = RouterSettings { drops, ..RouterSettings::tail(rate, span) };
        let cables = plan.topology.nodes.iter_mut().flat_map(|node| &mut node.cables);
        for cable in cables.filter(|cable| cable.link == link) {
            cable.cell_max = 1_452;
            cable.router = Some(router);
        }
    }
}

/// Routers whose rates fall and rise by up to a third each 20 ms, between 5 and 50 Mbit/s.
fn radio(random: &mut Random, plan: &mut Plan) {
    routers(random, plan);
    let links = plan.topology.nodes[0].cables.iter().filter(|cable| cable.router.is_some());
    for link in links.map(|cable| cable.link).collect::<Vec<_>>() {
        let mut own = random.fork();
        let mut kilobits = own.within(5_000..=50_000);
        let mut begins = Duration::ZERO;
        while begins < TROUBLE_ENDS {
            kilobits = (kilobits * own.within(67..=150) / 100).clamp(5_000, 50_000);
            let fault = Fault::Rate(link, u32::try_from(kilobits).unwrap_or(u32::MAX));
            let ends = (begins + RADIO_STEP).min(TROUBLE_ENDS);
            plan.faults.push(FaultPeriod { fault, begins, ends: Some(ends) });
            begins = ends;
        }
    }
}

/// Routers that send each few milliseconds, and have room for what comes in between.
fn turns(random: &mut Random, plan: &mut Plan) {
    routers(random, plan);
    let turns = random.span(Duration::from_millis(1)..=Duration::from_millis(10));
    each_router(plan, |router| {
        let least = RouterSettings::tail(router.rate, 2 * turns).queue;
        (router.turns, router.queue) = (turns, router.queue.max(least));
    });
}

/// Routers with a flow of somebody else, until all trouble ends.
fn competing(random: &mut Random, plan: &mut Plan) {
    routers(random, plan);
    let round_trip = random.span(Duration::from_millis(1)..=Duration::from_millis(50));
    let begins = random.span(Duration::ZERO..=TROUBLE_ENDS / 2);
    each_router(plan, |router| router.competitor = Some(CompetitorSettings { round_trip, begins }));
}

fn each_router(plan: &mut Plan, change: impl Fn(&mut RouterSettings)) {
    let cables = plan.topology.nodes.iter_mut().flat_map(|node| &mut node.cables);
    cables.filter_map(|cable| cable.router.as_mut()).for_each(change);
}

/// Links, each by chance, that carry less than their NICs take: always, or for a while. A path that becomes narrow in silence loses the
/// first frames that are long.
fn narrow(random: &mut Random, plan: &mut Plan) {
    for (link, mut own) in each_link(random, plan) {
        if own.chance(300_000) {
            continue;
        }
        let bytes = own.pick(&[1_444, 1_404, 1_352, 1_332, 1_232, 958, 700]);
        let begins = own.span(Duration::ZERO..=TROUBLE_ENDS * 3 / 4);
        let (begins, ends) =
            if own.chance(500_000) { (begins, Some(TROUBLE_ENDS)) } else { (Duration::ZERO, None) };
        plan.faults.push(FaultPeriod { fault: Fault::Narrow(link, bytes), begins, ends });
    }
}

/// Links, each by chance, that a node drains for a while.
fn drained(random: &mut Random, plan: &mut Plan) {
    for (link, mut own) in each_link(random, plan) {
        let begins = own.span(Duration::ZERO..=TROUBLE_ENDS * 3 / 4);
        let ends = Some(begins + own.span(Duration::from_millis(1)..=TROUBLE_ENDS / 4));
        let node = node(&mut own, plan);
        if own.chance(700_000) {
            plan.faults.push(FaultPeriod { fault: Fault::Drained(link, node), begins, ends });
        }
    }
}

/// A hostile member until the end: the others' probes have to arrive meanwhile.
fn hostile(random: &mut Random, plan: &mut Plan) {
    let node = node(random, plan);
    plan.topology.nodes[usize::from(node)].may_be_hostile = true;
    let every = random.span(Duration::from_millis(1)..=Duration::from_millis(10));
    let deeds = (0..random.within(1..=3)).map(|_| random.pick(&Deed::ALL)).collect();
    plan.hostility = Some(Hostility { node, after: Duration::from_millis(30), every, deeds });
}

fn each_link(random: &mut Random, plan: &Plan) -> Vec<(u8, Random)> {
    let last = plan.topology.nodes[0].cables.iter().map(|cable| cable.link).max().unwrap_or_default();
    (0..=last).map(|link| (link, random.fork())).collect()
}

fn node(random: &mut Random, plan: &Plan) -> u8 {
    u8::try_from(random.index(plan.topology.nodes.len())).unwrap_or_default()
}

fn pair(random: &mut Random, plan: &Plan) -> (u8, u8) {
    let nodes = u8::try_from(plan.topology.nodes.len()).unwrap_or_default();
    let from = node(random, plan);
    let further = u8::try_from(random.within(1..=u64::from(nodes) - 1)).unwrap_or_default();
    (from, (from + further) % nodes)
}
