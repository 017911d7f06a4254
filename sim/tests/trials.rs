//! Trials: the guarantees for other flows and peers when one flow, peer, member or bridge is out of bounds.

use core::time::Duration;
use tabane_sim::fault::Fault;
use tabane_sim::flow::{Flow, Pace};
use tabane_sim::frame::Heading;
use tabane_sim::hostile::{Deed, Hostility};
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

/// Bits per second of datagrams of 1,400 bytes that one link of a gigabit carries. A receiver that loses cells makes its
/// links suspect, so that one of them may carry all for some seconds.
const ONE_LINK: f64 = 0.96e9;

/// Datagrams of 1,400 bytes at 2 Gbit/s to a receiver that reads half of them: it delivers those, and what a link carries when
/// it is fast again.
#[test]
fn a_flow_that_never_backs_off_gets_what_its_receiver_reads() {
    for repair in [false, true] {
        let topology = Topology::new(2, &[Link::GIGABIT; 2]).with(|node| node.repair = repair);
        let mut world = settled(&topology);
        let heading = Heading::Ipv4;
        let flow = world.start(Flow { heading, ..Flow::steady(0, 1, 1_400, Duration::from_nanos(5_600)) });
        let slow = Fault::Slow(1, Duration::from_micros(12));
        world.begin(slow);
        world.run_for(millis(100)).unwrap();
        let since = world.now();
        world.run_for(millis(200)).unwrap();
        let (meanwhile, read) = (world.goodput(flow, since), 1_400.0 * 8.0 / 12e-6);
        world.end(slow);
        world.run_for(millis(150)).unwrap();
        let since = world.now();
        world.run_for(millis(50)).unwrap();
        let afterwards = world.goodput(flow, since);
        println!("repair {repair}: {meanwhile:.3e} of {read:.3e} bit/s, afterwards {afterwards:.3e}");
        assert!(meanwhile >= 0.8 * read, "repair {repair}: {meanwhile:.3e} of {read:.3e} bit/s");
        assert!(
            afterwards >= 0.9 * ONE_LINK,
            "repair {repair}: {afterwards:.3e} bit/s when the receiver is fast again"
        );
    }
}

/// A receiver does not run while more cells arrive than its sockets hold, and more than a lane's window.
#[test]
fn a_lane_goes_on_after_its_receiver_stood_still() {
    let mut world = settled(&Topology::new(2, &[Link::GIGABIT; 2]));
    let flow =
        world.start(Flow { heading: Heading::Ipv4, ..Flow::steady(0, 1, 1_400, Duration::from_micros(7)) });
    world.begin(Fault::Pause(1));
    world.run_for(millis(150)).unwrap();
    world.end(Fault::Pause(1));
    world.run_for(millis(300)).unwrap();
    let since = world.now();
    world.run_for(millis(50)).unwrap();
    let goodput = world.goodput(flow, since);
    println!("after a pause of 150 ms: {goodput:.3e} bit/s");
    assert!(goodput >= 0.9 * ONE_LINK, "{goodput:.3e} bit/s");
}

/// Node 1 is reached over a fast link alone, node 2 over a slow one alone: a cell for node 2 that waits must not stop cells for
/// node 1.
#[test]
fn a_peer_behind_a_slow_link_slows_nobody_else() {
    let (alone, beside) = (beside_a_slow_peer(false), beside_a_slow_peer(true));
    println!("{alone:.3e} bit/s alone, {beside:.3e} beside a peer behind 1 Mbit/s");
    assert!(beside >= 0.95 * alone, "{beside:.3e} of {alone:.3e} bit/s");
}

fn beside_a_slow_peer(is_busy: bool) -> f64 {
    let fast = Link { rate: 10_000_000_000, ..Link::GIGABIT };
    let slow = Link { rate: 1_000_000, switch_queue: 64_000, ..Link::GIGABIT };
    let mut topology = Topology::new(3, &[fast, slow]);
    topology.nodes[1].cables.truncate(1);
    topology.nodes[2].cables.remove(0);
    let mut world = World::new(1, &topology, None);
    world.run_for(millis(200)).unwrap();
    for node in 0..3 {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, millis(1)) });
    }
    world.run_for(millis(50)).unwrap();
    if is_busy {
        world.start(Flow { heading: Heading::Ipv4, ..Flow::steady(0, 2, 9_000, millis(20)) });
    }
    let flow = world.start(Flow::bulk(0, 1));
    world.run_for(millis(50)).unwrap();
    let since = world.now();
    world.run_for(millis(100)).unwrap();
    world.goodput(flow, since)
}

/// An address in use stays known, however seldom its host sends.
#[test]
fn a_storm_of_addresses_hides_nobody_who_is_spoken_to() {
    let mut world = World::new(1, &Topology::new(3, &[Link::GIGABIT; 2]), None);
    world.settle(millis(200)).unwrap();
    for node in 0..3 {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, millis(1)) });
    }
    world.run_for(millis(20)).unwrap();
    let sent = world.start(Flow::steady(0, 2, 200, millis(1)));
    let pace = Pace::Bursts { every: Duration::from_micros(100), frames: 10 };
    let storm = world.start(Flow { heading: Heading::Bridged, pace, ..Flow::steady(1, 0, 60, millis(1)) });
    let before = world.flooded();
    world.run_for(millis(1_000)).unwrap();
    let flooded = world.flooded() - before;
    let addresses = world.result(storm).delivered;
    println!(
        "{addresses} addresses: {flooded} deliveries of {} frames were flooded",
        world.result(sent).taken
    );
    assert!(addresses > 90_000 && flooded <= 10, "{flooded} deliveries were flooded");
}

/// A world in which every link is in use.
fn settled(topology: &Topology) -> World<'static> {
    let mut world = World::new(1, topology, None);
    world.settle(millis(100)).unwrap();
    world
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A member asks for cells that it has received, for more than there ever were, or pauses, 2,000 times a second.
#[test]
fn a_member_that_asks_for_all_or_pauses_slows_nobody_else() {
    let without = among_others(None, Duration::ZERO);
    println!("nobody is hostile: {without:?}");
    for deed in [Deed::Gaps, Deed::AllGaps, Deed::Pauses] {
        let (goodput, latency, took) = among_others(Some(deed), Duration::from_micros(500));
        println!("{deed:?}: {:?}", (goodput, latency, took));
        assert!(goodput >= 0.85 * without.0, "{deed:?}: {goodput:.3e} of {:.3e} bit/s", without.0);
        assert!(latency <= without.1 + millis(5), "{deed:?}: {latency:?} instead of {:?}", without.1);
    }
}

/// The cost of a request does not depend on how many numbers it names.
#[test]
fn requests_for_everything_cost_as_little_as_others() {
    let least =
        |deed| (0..3).map(|_| among_others(deed, Duration::from_micros(100)).2).min().unwrap_or_default();
    let (without, with) = (least(None), least(Some(Deed::AllGaps)));
    println!("computing without {without:?}, with {with:?}");
    assert!(with <= 3 * without + millis(200), "{with:?} instead of {without:?}");
}

/// 65,540 cells of one byte are one record: more pieces than 16 bits count.
#[test]
fn a_record_in_crumbs_is_delivered_or_dropped() {
    let mut world = World::new(1, &Topology::new(2, &[Link::GIGABIT; 2]), None);
    let every = Duration::from_micros(100);
    world.set_hostile(Some(Hostility { node: 1, after: millis(60), every, deeds: vec![Deed::Crumbs] }));
    world.settle(millis(60)).unwrap();
    world.run_for(millis(400)).unwrap();
    assert!(world.hostile().0 > 2 * 65_540);
}

/// Bits per second and worst latency of two flows from node 0 to node 1 while node 2 does this deed, and the time to compute it.
fn among_others(deed: Option<Deed>, every: Duration) -> (f64, Duration, Duration) {
    let began = std::time::Instant::now();
    let mut world = World::new(1, &Topology::new(3, &[Link::FAST_ETHERNET; 2]).with_repair(), None);
    world.set_hostile(deed.map(|deed| Hostility { node: 2, after: millis(60), every, deeds: vec![deed] }));
    world.settle(millis(200)).unwrap();
    for node in 0..3 {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, millis(1)) });
    }
    world.run_for(millis(50)).unwrap();
    let asking = Flow { pace: Pace::Asking { timeout: millis(500) }, ..Flow::bulk(0, 1) };
    let (bulk, sparse) = (world.start(asking), world.start(Flow::steady(0, 1, 200, millis(1))));
    world.start(Flow::steady(0, 2, 3_000, millis(2)));
    let since = world.now();
    world.run_for(millis(400)).unwrap();
    (world.goodput(bulk, since), world.result(sparse).latency_max, began.elapsed())
}
