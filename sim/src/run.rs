//! One run of the swarm, from its beginning to its verdict.
//!
//! ```text
//!   0 ........ trouble: flows, faults, loss, strangers ...... recovery ...... probes ........ verdict
//! ```
//!
//! Beside the checks after each event ([`crate::traffic`], `node`), this must hold in the end:
//! - progress: some time after all trouble, every node reaches every other within `PROBE_LIMIT`, over the one link that is up
//!   both ways if need be;
//! - no frame is lost but for a cause that is counted, and without faults none but by a queue;
//! - bounded memory: receive buffers come back.

use crate::fault::Fault;
use crate::flow::{Flow, Pace, Sizes};
use crate::network::Losses;
use crate::surroundings::{LogEntry, Trace, Violation};
use crate::swarm::Plan;
use crate::traffic::FlowNumber;
use crate::world::World;
use core::any::Any;
use core::time::Duration;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tabane_proto::{Event, Instant, NodeId};

/// A probe arrives within this time.
const PROBE_LIMIT: Duration = Duration::from_millis(100);
/// From one pair's probe to the next, so that they do not meet in a switch.
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// Frames of a probe, and their length: more than one cell of any link.
const PROBE: (u16, usize) = (3, 3_000);
/// Without faults every link is in use after this time: the first heartbeats, and a few round trips.
const SETTLED_WITHIN: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub simulated: Duration,
    pub events: u64,
    /// Frames that bundles took from their devices.
    pub frames_taken: u64,
    /// Of these, frames that arrived at their addressee.
    pub frames_delivered: u64,
    pub device_full: u64,
    /// Deliveries to nodes that were not addressed: an unknown destination goes to everyone.
    pub flooded: u64,
    /// Cells that did not arrive, by cause.
    pub losses: Losses,
    pub counted: BTreeMap<&'static str, u64>,
    /// The invariant that did not hold, if any.
    pub violation: Option<Violation>,
}

impl Report {
    fn counted(&self, name: &str) -> u64 {
        self.counted.get(name).copied().unwrap_or_default()
    }

    /// Cells that links lost or bundles dropped, for any cause but that they had arrived before.
    fn cells_lost(&self) -> u64 {
        let is_loss = |name: &str| name.starts_with("drop_") && name != "drop_duplicate";
        let dropped = self.counted.iter().filter(|(name, _)| is_loss(name));
        self.losses.total() + dropped.map(|(_, count)| count).sum::<u64>()
    }
}

/// Runs a seed. `trace` takes a line per event.
pub fn run(seed: u64, trace: Option<Trace<'_>>) -> Report {
    run_plan(seed, &Plan::new(seed), trace)
}

pub fn run_plan(seed: u64, plan: &Plan, trace: Option<Trace<'_>>) -> Report {
    let mut world = World::new(seed, &plan.topology, trace);
    let played = catch_unwind(AssertUnwindSafe(|| play(plan, &mut world)));
    let verdict = played.unwrap_or_else(|panic| Err(panicked(world.now(), &*panic)));
    let mut report = report(&world);
    let verdict = verdict.and_then(|()| check_losses(plan, &report, world.now()));
    report.violation = verdict.and_then(|()| check_buffers(plan, &report, world)).err();
    report
}

/// Runs the plan, and checks that the probes arrive.
fn play(plan: &Plan, world: &mut World<'_>) -> Result<(), Violation> {
    let start = Instant::default();
    for (flow, begins, ends) in &plan.flows {
        world.start_between(*flow, start + *begins, start + *ends);
    }
    plan.faults.iter().for_each(|period| world.schedule(period));
    for (at, node, kind) in &plan.switches {
        world.schedule_policy(*at, *node, *kind);
    }
    world.inject(plan.injection.clone());
    world.set_hostile(plan.hostility.clone());
    if plan.is_faultless {
        world.settle(SETTLED_WITHIN)?;
    }
    world.run_until((start + plan.trouble_ends_at).max(world.now()))?;
    world.end_trouble();
    world.run_until(start + plan.probe_at)?;
    let dropped = world.losses().router;
    let probes = probe(plan, world);
    world.run_for(PROBE_LIMIT + PROBE_EVERY * u32::try_from(probes.len()).unwrap_or_default())?;
    check_probes(world, &probes, world.losses().router > dropped)?;
    if plan.is_faultless {
        check_links(world)?;
    }
    check_sessions(plan, world)?;
    check_world(world)
}

/// Sends a few frames from every node to every other.
fn probe(plan: &Plan, world: &mut World<'_>) -> Vec<FlowNumber> {
    let nodes = u8::try_from(plan.topology.nodes.len()).unwrap_or_default();
    let pairs =
        (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let (frames, length) = PROBE;
    let flow = |(from, to)| Flow {
        sizes: Sizes::Fixed(length),
        pace: Pace::Bursts { every: PROBE_LIMIT, frames },
        frames: u32::from(frames),
        ..Flow::bulk(from, to)
    };
    let (begin, until) = (world.now(), world.now() + Duration::from_secs(1));
    pairs
        .zip(0..)
        .map(|(pair, turn)| world.start_between(flow(pair), begin + PROBE_EVERY * turn, until))
        .collect()
}

/// All frames arrive, or, where routers dropped cells meanwhile, some of each flow: their queues may be shorter than what it sends at once.
fn check_probes(world: &World<'_>, probes: &[FlowNumber], dropped: bool) -> Result<(), Violation> {
    let least = if dropped { 1 } else { u64::from(PROBE.0) };
    let judged = world.flows().filter(|(number, flow)| probes.contains(number) && world.is_judged(flow));
    for (number, flow) in judged {
        let result = world.result(number);
        if result.delivered < least {
            let (from, to) = (flow.from, flow.to.unwrap_or_default());
            let what = format!(
                "progress: of {} probes from node {from}, node {to} got {}",
                PROBE.0, result.delivered
            );
            return violation(world.now(), what);
        }
    }
    Ok(())
}

/// Without faults nobody takes a link for dead: neither who receives over it nor who sends.
fn check_links(world: &World<'_>) -> Result<(), Violation> {
    let is_judgement = |event| matches!(event, Event::LinkDown { .. });
    let Some(down) = world.log().iter().find(|entry| is_judgement(entry.event)) else { return Ok(()) };
    let what = format!("without faults no link is taken for dead: {:?}", down.event);
    Err(Violation { at: down.at, node: Some(down.node), what })
}

/// Whatever strangers repeat, a sealed session ends only when its peer restarts.
fn check_sessions(plan: &Plan, world: &World<'_>) -> Result<(), Violation> {
    let left = |event| match event {
        Event::PeerLeft { peer } | Event::PeerExpired { peer, .. } => Some(peer),
        _ => None,
    };
    let hostile = plan.hostility.as_ref().map(|hostility| hostility.node);
    let judges = |entry: &&LogEntry| hostile != Some(entry.node);
    for entry in world
        .log()
        .iter()
        .filter(judges)
        .filter(|_| plan.topology.nodes.iter().all(|node| node.sealed.is_some()))
    {
        let is_judged = |peer: &NodeId| hostile.is_none_or(|node| world.bundle(node).node() != *peer);
        let Some(peer) = left(entry.event).filter(is_judged) else { continue };
        let its = |other: &&LogEntry| other.node == entry.node && left(other.event) == Some(peer);
        let ends = world.log().iter().filter(its).count();
        let is_its =
            |fault: &Fault| matches!(fault, Fault::Restart(node) if world.bundle(*node).node() == peer);
        let starts = plan.faults.iter().filter(|period| is_its(&period.fault)).count();
        if ends > starts {
            let what = format!("sessions live: {peer} left {ends} times and was started anew {starts} times");
            return Err(Violation { at: entry.at, node: Some(entry.node), what });
        }
    }
    Ok(())
}

/// The world's own count of cells must be right.
fn check_world(world: &World<'_>) -> Result<(), Violation> {
    let (counted, found) = world.on_the_way();
    if counted == found {
        Ok(())
    } else {
        violation(world.now(), format!("{counted} cells on the way, {found} found"))
    }
}

/// Every loss has a cause, and without faults there is none.
fn check_losses(plan: &Plan, report: &Report, now: Instant) -> Result<(), Violation> {
    let (taken, delivered) = (report.frames_taken, report.frames_delivered);
    let queue = report.counted("drop_queue_late") + report.counted("drop_queue_full");
    if plan.is_faultless && taken > delivered + queue {
        let what =
            format!("without faults every frame arrives: {delivered} of {taken} did, queues dropped {queue}");
        return violation(now, what);
    }
    let lost = report.counted("frames_sent").saturating_sub(report.counted("frames_delivered"));
    // A node that restarts loses the frames that it holds, and no counter shows that.
    let restarts = plan.faults.iter().any(|period| matches!(period.fault, Fault::Restart(_)));
    let restarts = restarts || plan.hostility.is_some();
    if lost > 0 && report.cells_lost() == 0 && !restarts {
        return violation(now, format!("losses have a cause: {lost} frames were lost, no cell was"));
    }
    Ok(())
}

/// Receive buffers come back. One may be kept for gathering sparse arrivals; after losses, and from a hostile member, a lane
/// may keep the beginning of a record.
fn check_buffers(plan: &Plan, report: &Report, world: World<'_>) -> Result<(), Violation> {
    let now = world.now();
    for (node, lendable) in plan.topology.nodes.iter().zip(world.into_lendable()) {
        let may_be_begun = report.cells_lost() > 0 || plan.hostility.is_some();
        let least = if may_be_begun { 1 } else { usize::from(node.buffers) - 1 };
        if lendable < least {
            return violation(now, format!("buffers come back: {lendable} of {} did", node.buffers));
        }
    }
    Ok(())
}

fn report(world: &World<'_>) -> Report {
    let mut report = Report {
        simulated: world.now().since(Instant::default()),
        events: world.events,
        losses: world.losses(),
        device_full: world.device_full(),
        flooded: world.flooded(),
        ..Report::default()
    };
    for (flow, _) in world.flows().filter(|(_, flow)| world.is_judged(flow)) {
        let result = world.result(flow);
        report.frames_taken += result.taken;
        report.frames_delivered += result.delivered;
    }
    for (name, count) in world.counted().flatten() {
        *report.counted.entry(name).or_default() += count;
    }
    report
}

fn violation<T>(at: Instant, what: String) -> Result<T, Violation> {
    Err(Violation { at, node: None, what })
}

fn panicked(at: Instant, panic: &(dyn Any + Send)) -> Violation {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
    Violation { at, node: None, what: format!("no panic: {}", text.unwrap_or("unknown")) }
}
