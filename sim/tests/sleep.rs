//! Machines that sleep, and clocks that jump: whatever a node's clock says when it wakes up, its frames flow again within
//! two greetings.

use core::time::Duration;
use tabane_proto::Event;
use tabane_sim::fault::Fault;
use tabane_sim::flow::Flow;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

/// From less than a heartbeat's interval to more than the time after which a peer is forgotten.
const SLEEPS: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(500), Duration::from_secs(9), Duration::from_secs(40)];
/// Greetings among nodes that know each other are 1 s apart.
const TWO_GREETINGS: Duration = Duration::from_millis(2_100);

/// `CLOCK_MONOTONIC` stands still while the machine sleeps.
#[test]
fn a_node_whose_clock_stood_still_is_there_again() {
    SLEEPS.into_iter().for_each(|span| wakes_up_from(Fault::Suspend(1), span));
}

/// A virtual machine that was stopped finds its clock far ahead.
#[test]
fn a_node_whose_clock_has_jumped_ahead_is_there_again() {
    SLEEPS.into_iter().for_each(|span| wakes_up_from(Fault::Pause(1), span));
}

/// A node that did not run sent nothing; that shows later on a late link than on the other.
#[test]
fn a_short_sleep_is_no_fault_of_a_late_link() {
    let late = Link { delay: Duration::from_millis(50), ..Link::FAST_ETHERNET };
    for seed in 0..5 {
        let mut world = World::new(seed, &Topology::new(2, &[Link::FAST_ETHERNET, late]), None);
        world.settle(Duration::from_secs(2)).expect("they meet");
        world.run_for(Duration::from_millis(500)).expect("nothing is violated");
        let since = world.begin(Fault::Pause(0));
        world.run_for(Duration::from_millis(120)).expect("nothing is violated");
        world.end(Fault::Pause(0));
        world.run_for(Duration::from_millis(500)).expect("nothing is violated");
        let mut later = world.log().iter().filter(|entry| entry.at >= since);
        let fell = later.find(|entry| matches!(entry.event, Event::LinkDown { link: 1, .. }));
        assert!(fell.is_none(), "seed {seed}: {fell:?}");
    }
}

fn wakes_up_from(sleep: Fault, span: Duration) {
    for seed in 0..5 {
        let mut world = World::new(seed, &Topology::new(2, &[Link::FAST_ETHERNET; 2]), None);
        world.settle(Duration::from_millis(100)).expect("they meet");
        let all_the_time = [(0, 1), (1, 0)]
            .map(|(from, to)| world.start(Flow::steady(from, to, 200, Duration::from_millis(7))));
        world.run_for(Duration::from_millis(50)).expect("nothing is violated");
        world.begin(sleep);
        world.run_for(span).expect("nothing is violated");
        world.end(sleep);
        world.run_for(TWO_GREETINGS).expect("nothing is violated");
        all_the_time.into_iter().for_each(|flow| world.stop(flow));
        let after = [(0, 1), (1, 0)]
            .map(|(from, to)| world.start(Flow::steady(from, to, 1_400, Duration::from_millis(1))));
        world.run_for(Duration::from_millis(50)).expect("nothing is violated");
        after.into_iter().for_each(|flow| world.stop(flow));
        world.run_for(Duration::from_millis(100)).expect("nothing is violated");
        for flow in after {
            let result = world.result(flow);
            assert_eq!(result.lost(), 0, "{sleep:?} for {span:?}, seed {seed}: {result:?}");
        }
    }
}
