//! Guarantees when a receiver cannot keep up: its worker is slow, or late.

use core::time::Duration;
use tabane_proto::Event;
use tabane_sim::fault::Fault;
use tabane_sim::flow::{Flow, Pace};
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

/// A flow that waits for answers slows down with the receiver: no link is dead, and the rate is back when the receiver is.
#[test]
fn a_slow_receiver_costs_no_link_and_no_frame_of_who_backs_off() {
    for fault in [Fault::Slow(1, micros(30)), Fault::Late(1, millis(1))] {
        let mut world = World::new(1, &Topology::new(2, &[Link::GIGABIT; 2]).with_repair(), None);
        world.settle(millis(100)).unwrap();
        let asking = Flow { pace: Pace::Asking { timeout: millis(200) }, ..Flow::bulk(0, 1) };
        let flows: Vec<_> = (0..8).map(|_| world.start(asking)).collect();
        world.run_for(millis(50)).unwrap();
        let before = world.log().len();
        world.begin(fault);
        world.run_for(millis(200)).unwrap();
        let meanwhile: f64 = flows.iter().map(|flow| world.goodput(*flow, world.now() - millis(100))).sum();
        world.end(fault);
        world.run_for(millis(50)).unwrap();
        let afterwards: f64 = flows.iter().map(|flow| world.goodput(*flow, world.now() - millis(20))).sum();
        flows.iter().for_each(|flow| world.stop(*flow));
        world.run_for(millis(50)).unwrap();
        println!("{fault:?}: {:.3} Gbit/s, afterwards {:.3}", meanwhile / 1e9, afterwards / 1e9);
        let judged = world.log()[before..].iter().find(|entry| matches!(entry.event, Event::LinkDown { .. }));
        assert_eq!(judged, None, "no link is dead");
        assert!(flows.iter().all(|flow| world.result(*flow).lost() == 0));
        assert!(meanwhile >= 0.2e9 && afterwards >= 0.8e9);
    }
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}
