//! Many nodes in one bundle: guarantees when all of them want the same links.
//!
//! `cargo test -p tabane-sim --test mesh -- --nocapture` shows the figures.

use core::time::Duration;
use tabane_proto::Event;
use tabane_sim::flow::{Flow, Pace};
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

const GIGABIT: f64 = 1e9;
const SENDERS: u8 = 16;

/// Incast: the senders could fill the receiver's links sixteen times, and their windows together fill its switches' queues
/// within a millisecond. Each sends two superframes ahead of the answers, as TCP with a window of 128 KB would.
#[test]
fn sixteen_senders_to_one_receiver_fill_its_links_and_kill_none() {
    let mut world = World::new(1, &Topology::new(1 + SENDERS, &[Link::GIGABIT; 2]).with_repair(), None);
    world.settle(millis(200)).unwrap();
    // As after ARP: each node knows where all addresses live.
    for node in 0..=SENDERS {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, millis(1)) });
    }
    world.run_for(millis(50)).unwrap();
    let before = world.log().len();
    let asking = |sender| Flow { pace: Pace::Asking { timeout: millis(200) }, ..Flow::bulk(sender, 0) };
    let flows: Vec<_> = (0..2 * SENDERS).map(|flow| world.start(asking(1 + flow % SENDERS))).collect();
    world.run_for(millis(50)).unwrap();
    let since = world.now();
    world.run_for(millis(200)).unwrap();
    let goodput: f64 = flows.iter().map(|flow| world.goodput(*flow, since)).sum();
    println!("{SENDERS} senders to one: {:.3} Gbit/s over 2 links, {:?}", goodput / GIGABIT, world.losses());
    let judged = world.log()[before..].iter().find(|entry| matches!(entry.event, Event::LinkDown { .. }));
    assert_eq!(judged, None, "no link is dead");
    assert!(goodput >= 0.9 * 2.0 * GIGABIT);
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
