//! Rates that links state: what leaves does not exceed them, in either direction, whatever the way would carry.

use crate::stage::{MEGABIT, counted_by, goodputs, millis, pings, run, settled, window};
use core::time::Duration;
use tabane_sim::flow::Flow;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

/// A transfer with a window that fills any ceiling of here.
fn bulk(from: u8, to: u8) -> Flow {
    window(from, to, 64)
}

/// Nodes with links of 1 Gbit/s; the first states `sends` and `receives` for its first link, in Mbit/s.
fn stated(nodes: u8, links: usize, [sends, receives]: [Option<u64>; 2]) -> World<'static> {
    let mut topology = Topology::new(nodes, &vec![Link { delay: millis(5), ..Link::GIGABIT }; links]);
    let cable = &mut topology.nodes[0].cables[0];
    (cable.sends, cable.receives) = (sends.map(|rate| rate * MEGABIT), receives.map(|rate| rate * MEGABIT));
    settled(1, &topology, millis(2_000))
}

/// What flows get after half a second, in Mbit/s. In eight seconds a superframe more or less does not matter.
fn speeds<const N: usize>(world: &mut World<'_>, flows: [Flow; N]) -> [f64; N] {
    let flows = flows.map(|flow| world.start(flow));
    run(world, millis(500));
    goodputs(world, flows, Duration::from_secs(8)).map(|goodput| goodput / MEGABIT as f64)
}

/// Cells of 1,500 bytes with their headers carry 1,432 of frames and their heads.
fn is_just_below(speed: f64, ceiling: u64) -> bool {
    (0.9..=0.96).contains(&(speed / ceiling as f64))
}

#[test]
fn each_direction_has_its_own_ceiling() {
    let mut world = stated(2, 1, [Some(20), Some(50)]);
    let [up, down] = speeds(&mut world, [bulk(0, 1), bulk(1, 0)]);
    println!("up {up:.1}, down {down:.1} Mbit/s");
    assert!(is_just_below(up, 20) && is_just_below(down, 50), "{up} and {down} Mbit/s");
    let (sent, found) = world.on_the_way();
    assert_eq!(sent, found);
}

#[test]
fn a_small_frame_waits_little_below_a_ceiling() {
    let mut world = stated(2, 1, [Some(20), None]);
    let pings = world.start(pings());
    let [up, down] = speeds(&mut world, [bulk(0, 1), bulk(1, 0)]);
    assert!(is_just_below(up, 20) && down > 200.0, "{up} and {down} Mbit/s");
    let mut trips = world.round_trips(pings, world.now() - Duration::from_secs(2));
    trips.sort_unstable();
    // The way takes 10 ms. A turn of the queue is a frame at least, and few of them are long.
    let most = trips[trips.len() * 95 / 100];
    assert!(most <= millis(10 + 15), "{most:?}");
}

#[test]
fn another_link_takes_what_is_beyond_the_ceiling_of_one() {
    let mut world = stated(2, 2, [Some(20), Some(20)]);
    let [up] = speeds(&mut world, [bulk(0, 1)]);
    assert!(up > 200.0, "{up} Mbit/s");
}

/// What a node sends to all peers together; what it wants to receive it tells each of them.
#[test]
fn peers_share_the_ceiling_of_what_is_sent() {
    let mut world = stated(3, 1, [Some(30), Some(40)]);
    // Who knows no address sends a frame to both peers: cells count, and not what flows get.
    let before = counted_by(&world, 0, "cells_sent");
    let [first, second, one, other] = speeds(&mut world, [bulk(0, 1), bulk(0, 2), bulk(1, 0), bulk(2, 0)]);
    let sent = (counted_by(&world, 0, "cells_sent") - before) as f64 * 1_500.0 * 8e-6 / 8.5;
    println!("{first:.1} + {second:.1} in {sent:.1}, {one:.1} and {other:.1} Mbit/s");
    assert!((28.0..=30.2).contains(&sent) && first.min(second) > 5.0, "{first}, {second} in {sent} Mbit/s");
    assert!(is_just_below(one, 40) && is_just_below(other, 40), "{one} and {other} Mbit/s");
}
