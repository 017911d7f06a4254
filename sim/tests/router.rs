//! A router's queue behind the NICs, as the world simulates it.

use core::time::Duration;
use tabane_sim::cable::Place;
use tabane_sim::competitor::CompetitorSettings;
use tabane_sim::flow::Flow;
use tabane_sim::router::{Drops, RouterSettings};
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

const MEGABIT: u64 = 1_000_000;
const FAR: Place = Place { node: 1, nic: 0 };

fn routed(rate: u64, span: u64) -> Link {
    Link { router: Some(RouterSettings::tail(rate * MEGABIT, Duration::from_millis(span))), ..Link::GIGABIT }
}

fn settled(links: &[Link]) -> World<'static> {
    let mut world = World::new(1, &Topology::new(2, links).with_repair(), None);
    world.settle(Duration::from_secs(2)).unwrap();
    world
}

#[test]
fn nothing_waits_in_a_nic_in_front_of_a_router_and_all_that_was_sent_is_accounted_for() {
    let mut world = settled(&[routed(50, 100)]);
    world.start(Flow::steady(0, 1, 1_000, Duration::from_micros(100)));
    world.run_for(Duration::from_millis(500)).unwrap();
    // 80 Mbit/s for 50: 625,000 bytes wait, and the rest is dropped.
    assert!((600_000..=625_000).contains(&world.routing(FAR)), "{}", world.routing(FAR));
    let (counted, found) = world.on_the_way();
    assert_eq!(counted, found);
    assert!(world.losses().router > 100);
}

#[test]
fn a_competing_flow_alone_takes_the_routers_rate_and_codel_keeps_its_queue_short() {
    let competitor = CompetitorSettings { round_trip: Duration::from_millis(20), begins: Duration::ZERO };
    for (drops, least, most) in [(Drops::Tail, 40.0, 100.0), (Drops::CoDel, 0.0, 20.0)] {
        let tail = RouterSettings::tail(50 * MEGABIT, Duration::from_millis(100));
        let router = RouterSettings { drops, competitor: Some(competitor), ..tail };
        let mut world = settled(&[Link { router: Some(router), ..Link::GIGABIT }]);
        world.run_for(Duration::from_secs(2)).unwrap();
        let before = world.competed(FAR);
        let mut waited = 0.0;
        for _ in 0..400 {
            world.run_for(Duration::from_millis(10)).unwrap();
            waited += world.routing(FAR) as f64 * 8.0 / 50e3 / 400.0;
        }
        let speed = (world.competed(FAR) - before) as f64 * 8.0 / 4e6;
        println!("{drops:?}: {speed:.1} Mbit/s, {waited:.1} ms of queue");
        assert!(speed >= 45.0, "{drops:?}: {speed}");
        assert!((least..=most).contains(&waited), "{drops:?}: {waited} ms");
    }
}
