//! What tests of worlds share: how a world begins, what hosts send there, and what is read off it afterwards.

use core::time::Duration;
use tabane_proto::{Event, Instant};
use tabane_sim::flow::{Flow, Pace, Sizes};
use tabane_sim::router::RouterSettings;
use tabane_sim::surroundings::LogEntry;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::traffic::FlowNumber;
use tabane_sim::world::World;

pub(crate) const MEGABIT: u64 = 1_000_000;

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// A world in which every link is in use after so long at most.
pub(crate) fn settled(seed: u64, topology: &Topology, within: Duration) -> World<'static> {
    let mut world = World::new(seed, topology, None);
    world.settle(within).unwrap();
    world
}

/// Two nodes that repair what is lost, and every link is in use.
pub(crate) fn two_nodes(seed: u64, links: &[Link]) -> World<'static> {
    settled(seed, &Topology::new(2, links).with_repair(), millis(2_000))
}

/// A link behind whose NICs routers carry so many Mbit/s, with a queue of so many milliseconds.
pub(crate) fn routed(rate: u64, span: u64) -> Link {
    Link { router: Some(RouterSettings::tail(rate * MEGABIT, millis(span))), ..Link::GIGABIT }
}

/// As after ARP: each node knows where all addresses live.
pub(crate) fn introduce(world: &mut World<'_>, nodes: u8) {
    for node in 0..nodes {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, millis(1)) });
    }
}

/// Superframes, each of which waits for the answer to the one before.
pub(crate) fn asking(from: u8, to: u8, timeout: Duration) -> Flow {
    Flow { pace: Pace::Asking { timeout }, ..Flow::bulk(from, to) }
}

/// The same with frames of a ping's length.
pub(crate) fn pings() -> Flow {
    Flow { sizes: Sizes::Fixed(98), ..asking(0, 1, millis(1_000)) }
}

/// A transfer with so many superframes on their way.
pub(crate) fn window(from: u8, to: u8, frames: u16) -> Flow {
    Flow { pace: Pace::Window { frames }, ..Flow::bulk(from, to) }
}

pub(crate) fn run(world: &mut World<'_>, span: Duration) {
    world.run_for(span).unwrap();
}

/// Ends flows, and waits for what is on its way.
pub(crate) fn stop(world: &mut World<'_>, flows: &[FlowNumber], wait: Duration) {
    flows.iter().for_each(|flow| world.stop(*flow));
    run(world, wait);
}

/// Bits per second that flows get in a time from now on.
pub(crate) fn goodputs<const N: usize>(
    world: &mut World<'_>,
    flows: [FlowNumber; N],
    span: Duration,
) -> [f64; N] {
    let since = world.now();
    run(world, span);
    flows.map(|flow| world.goodput(flow, since))
}

/// The same of one.
pub(crate) fn goodput(world: &mut World<'_>, flow: FlowNumber, span: Duration) -> f64 {
    let [goodput] = goodputs(world, [flow], span);
    goodput
}

/// What nodes logged from then on.
pub(crate) fn logged<'a>(world: &'a World<'_>, since: Instant) -> impl Iterator<Item = &'a LogEntry> {
    world.log().iter().filter(move |entry| entry.at >= since)
}

/// The paths that nodes took for dead from then on.
pub(crate) fn downs<'a>(world: &'a World<'_>, since: Instant) -> Vec<&'a LogEntry> {
    logged(world, since).filter(|entry| matches!(entry.event, Event::LinkDown { .. })).collect()
}

/// A counter, summed over all nodes.
pub(crate) fn counted(world: &World<'_>, name: &str) -> u64 {
    world.counted().flatten().filter(|(other, _)| *other == name).map(|(_, count)| count).sum()
}

/// The same of one node.
pub(crate) fn counted_by(world: &World<'_>, node: usize, name: &str) -> u64 {
    let counters = world.counted().nth(node).unwrap();
    counters.iter().find(|(known, _)| *known == name).unwrap().1
}

/// The middle one, of an odd number.
pub(crate) fn at_part(values: &mut [f64], hundredths: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * hundredths / 100]
}
