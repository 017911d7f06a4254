//! Trials: the guarantees for other flows and peers when one flow, receiver, peer or bridge is out of bounds, and after a machine
//! has slept.

use crate::stage::{
    asking, downs, goodput, introduce, logged, micros, millis, run, settled, stop, two_nodes,
};
use core::time::Duration;
use tabane_proto::Event;
use tabane_sim::fault::Fault;
use tabane_sim::flow::{Flow, Pace};
use tabane_sim::frame::Heading;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

/// Bits per second of datagrams of 1,400 bytes that one link of a gigabit carries. A receiver that loses cells makes its
/// links suspect, so that one of them may carry all for some seconds.
const ONE_LINK: f64 = 0.96e9;

/// Datagrams of 1,400 bytes, one each `every`.
fn datagrams(every: Duration) -> Flow {
    Flow { heading: Heading::Ipv4, ..Flow::steady(0, 1, 1_400, every) }
}

/// Datagrams at 2 Gbit/s to a receiver that reads half of them: it delivers those, and what a link carries when it is fast again.
#[test]
fn a_flow_that_never_backs_off_gets_what_its_receiver_reads() {
    for repair in [false, true] {
        let topology = Topology::new(2, &[Link::GIGABIT; 2]).with(|node| node.repair = repair);
        let mut world = settled(1, &topology, millis(100));
        let flow = world.start(datagrams(Duration::from_nanos(5_600)));
        let slow = Fault::Slow(1, micros(12));
        world.begin(slow);
        run(&mut world, millis(100));
        let (meanwhile, read) = (goodput(&mut world, flow, millis(200)), 1_400.0 * 8.0 / 12e-6);
        world.end(slow);
        run(&mut world, millis(150));
        let afterwards = goodput(&mut world, flow, millis(50));
        println!("repair {repair}: {meanwhile:.3e} of {read:.3e} bit/s, afterwards {afterwards:.3e}");
        assert!(meanwhile >= 0.8 * read, "repair {repair}: {meanwhile:.3e} of {read:.3e} bit/s");
        assert!(afterwards >= 0.9 * ONE_LINK, "repair {repair}: {afterwards:.3e} bit/s afterwards");
    }
}

/// A receiver does not run while more cells arrive than its sockets hold, and more than a lane's window.
#[test]
fn a_lane_goes_on_after_its_receiver_stood_still() {
    let mut world = settled(1, &Topology::new(2, &[Link::GIGABIT; 2]), millis(100));
    let flow = world.start(datagrams(micros(7)));
    world.begin(Fault::Pause(1));
    run(&mut world, millis(150));
    world.end(Fault::Pause(1));
    run(&mut world, millis(300));
    let goodput = goodput(&mut world, flow, millis(50));
    println!("after a pause of 150 ms: {goodput:.3e} bit/s");
    assert!(goodput >= 0.9 * ONE_LINK, "{goodput:.3e} bit/s");
}

/// A flow that waits for answers slows down with the receiver: no link is dead, and the rate is back when the receiver is.
#[test]
fn a_slow_receiver_costs_no_link_and_no_frame_of_who_backs_off() {
    for fault in [Fault::Slow(1, micros(30)), Fault::Late(1, millis(1))] {
        let mut world = two_nodes(1, &[Link::GIGABIT; 2]);
        let flows: Vec<_> = (0..8).map(|_| world.start(asking(0, 1, millis(200)))).collect();
        run(&mut world, millis(50));
        let since = world.begin(fault);
        run(&mut world, millis(200));
        let meanwhile: f64 = flows.iter().map(|flow| world.goodput(*flow, world.now() - millis(100))).sum();
        world.end(fault);
        run(&mut world, millis(50));
        let afterwards: f64 = flows.iter().map(|flow| world.goodput(*flow, world.now() - millis(20))).sum();
        stop(&mut world, &flows, millis(50));
        println!("{fault:?}: {:.3} Gbit/s, afterwards {:.3}", meanwhile / 1e9, afterwards / 1e9);
        assert!(downs(&world, since).is_empty(), "no link is dead: {:?}", downs(&world, since));
        assert!(flows.iter().all(|flow| world.result(*flow).lost() == 0));
        assert!(meanwhile >= 0.2e9 && afterwards >= 0.8e9);
    }
}

/// Node 1 is reached over a fast link alone, node 2 over a slow one alone: a cell for node 2 that waits must not stop cells for
/// node 1.
#[test]
fn a_peer_behind_a_slow_link_slows_nobody_else() {
    let [alone, beside] = [false, true].map(beside_a_slow_peer);
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
    run(&mut world, millis(200));
    introduce(&mut world, 3);
    run(&mut world, millis(50));
    if is_busy {
        world.start(Flow { heading: Heading::Ipv4, ..Flow::steady(0, 2, 9_000, millis(20)) });
    }
    let flow = world.start(Flow::bulk(0, 1));
    run(&mut world, millis(50));
    goodput(&mut world, flow, millis(100))
}

/// 100,000 new addresses a second behind the bridge of node 1, each in one frame, while node 0 sends 1,000 frames a second to node 2. The
/// address of node 2 stays known: it sends something now and then, or is only spoken to.
#[test]
fn a_storm_of_addresses_hides_nobody_who_speaks_or_is_spoken_to() {
    for (speaks, lasts, most) in [(Some(millis(10)), 200, 6), (None, 1_000, 10)] {
        let mut world = settled(1, &Topology::new(3, &[Link::GIGABIT; 2]), millis(200));
        introduce(&mut world, 3);
        let mut flows: Vec<_> =
            speaks.map(|every| world.start(Flow::steady(2, 0, 60, every))).into_iter().collect();
        run(&mut world, millis(20));
        let sent = world.start(Flow::steady(0, 2, 200, millis(1)));
        let pace = Pace::Bursts { every: micros(100), frames: 10 };
        let storm = Flow { heading: Heading::Bridged, pace, ..Flow::steady(1, 0, 60, millis(1)) };
        let storm = world.start(storm);
        flows.extend([sent, storm]);
        let before = world.flooded();
        run(&mut world, millis(lasts));
        stop(&mut world, &flows, millis(50));
        let (flooded, addresses) = (world.flooded() - before, world.result(storm).delivered);
        let result = world.result(sent);
        println!("{addresses} addresses: of {} frames {flooded} deliveries were flooded", result.taken);
        assert!(addresses >= 95 * lasts, "the storm reached its goal: {addresses}");
        assert!(flooded <= most && result.lost() == 0 && result.latency_max <= millis(5), "{result:?}");
    }
}

// Machines that sleep, and clocks that jump: whatever a node's clock says when it wakes up, its frames flow again within two greetings.

/// From less than a heartbeat's interval to more than the time after which a peer is forgotten.
const SLEEPS: [Duration; 4] = [millis(5), millis(500), Duration::from_secs(9), Duration::from_secs(40)];
/// Greetings among nodes that know each other are 1 s apart.
const TWO_GREETINGS: Duration = millis(2_100);

/// `CLOCK_MONOTONIC` stands still while the machine sleeps, and a virtual machine that was stopped finds its clock far ahead.
#[test]
fn a_node_whose_clock_stood_still_or_has_jumped_ahead_is_there_again() {
    for sleep in [Fault::Suspend(1), Fault::Pause(1)] {
        SLEEPS.into_iter().for_each(|span| wakes_up_from(sleep, span));
    }
}

/// A node that did not run sent nothing; that shows later on a late link than on the other.
#[test]
fn a_short_sleep_is_no_fault_of_a_late_link() {
    let late = Link { delay: millis(50), ..Link::FAST_ETHERNET };
    for seed in 0..5 {
        let mut world = settled(seed, &Topology::new(2, &[Link::FAST_ETHERNET, late]), millis(2_000));
        run(&mut world, millis(500));
        let since = world.begin(Fault::Pause(0));
        run(&mut world, millis(120));
        world.end(Fault::Pause(0));
        run(&mut world, millis(500));
        let fell = logged(&world, since).find(|entry| matches!(entry.event, Event::LinkDown { link: 1, .. }));
        assert!(fell.is_none(), "seed {seed}: {fell:?}");
    }
}

fn wakes_up_from(sleep: Fault, span: Duration) {
    for seed in 0..5 {
        let mut world = settled(seed, &Topology::new(2, &[Link::FAST_ETHERNET; 2]), millis(100));
        let steady = |from, to, length, every| Flow::steady(from, to, length, millis(every));
        let all_the_time = [world.start(steady(0, 1, 200, 7)), world.start(steady(1, 0, 200, 7))];
        run(&mut world, millis(50));
        world.begin(sleep);
        run(&mut world, span);
        world.end(sleep);
        run(&mut world, TWO_GREETINGS);
        stop(&mut world, &all_the_time, Duration::ZERO);
        let after = [world.start(steady(0, 1, 1_400, 1)), world.start(steady(1, 0, 1_400, 1))];
        run(&mut world, millis(50));
        stop(&mut world, &after, millis(100));
        for flow in after {
            let result = world.result(flow);
            assert_eq!(result.lost(), 0, "{sleep:?} for {span:?}, seed {seed}: {result:?}");
        }
    }
}
