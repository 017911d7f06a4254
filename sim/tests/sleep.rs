//! Machines that sleep, and clocks that jump: whatever a node's clock says when it wakes up, its frames flow again within
//! two greetings.

use crate::stage::{logged, millis, run, settled, stop};
use core::time::Duration;
use tabane_proto::Event;
use tabane_sim::fault::Fault;
use tabane_sim::flow::Flow;
use tabane_sim::topology::{Link, Topology};

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
