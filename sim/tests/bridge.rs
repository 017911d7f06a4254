//! Hosts behind bridges: many addresses at one node, and addresses in use beside them.

use core::time::Duration;
use tabane_sim::flow::{Flow, Pace};
use tabane_sim::frame::Heading;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

/// 100,000 new addresses a second, each in one frame, for 200 ms. A host that answers at least each 10 ms stays known.
#[test]
fn a_storm_of_addresses_hides_nobody_who_speaks() {
    assert!(flooded(millis(10), millis(200)) <= 3 * 2);
}

/// Frames that arrive at a node that they are not for, while node 0 sends 1,000 frames a second to node 2, which sends one each
/// `speaks`, and a storm of addresses comes from node 1.
fn flooded(speaks: Duration, lasts: Duration) -> u64 {
    let mut world = World::new(1, &Topology::new(3, &[Link::GIGABIT; 2]), None);
    world.settle(millis(200)).unwrap();
    for node in 0..3 {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, millis(1)) });
    }
    let spoken = world.start(Flow::steady(2, 0, 60, speaks));
    world.run_for(millis(20)).unwrap();
    let sent = world.start(Flow::steady(0, 2, 200, millis(1)));
    let pace = Pace::Bursts { every: Duration::from_micros(100), frames: 10 };
    let storm = world.start(Flow { heading: Heading::Bridged, pace, ..Flow::steady(1, 0, 60, millis(1)) });
    let before = world.flooded();
    world.run_for(lasts).unwrap();
    [spoken, sent, storm].into_iter().for_each(|flow| world.stop(flow));
    world.run_for(millis(50)).unwrap();
    let (flooded, addresses) = (world.flooded() - before, world.result(storm).delivered);
    println!(
        "{addresses} addresses: of {} frames {flooded} deliveries were flooded",
        world.result(sent).taken
    );
    assert!(u128::from(addresses) >= 95 * lasts.as_millis(), "the storm reached its goal");
    assert_eq!(world.result(sent).lost(), 0);
    assert!(world.result(sent).latency_max <= millis(5));
    flooded
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
