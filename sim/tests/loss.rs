//! Paths that lose cells: one that loses them at random is suspect under any load, one whose losses are a policer's is not.

use core::time::Duration;
use tabane_proto::{Event, Instant};
use tabane_sim::flow::Flow;
use tabane_sim::router::RouterSettings;
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

const SEED: u64 = 1;
/// Time for a path to become suspect: what explains loss at first does so for 2 s, and a probe of its MTU has to pass before.
const FOUND_WITHIN: Duration = Duration::from_millis(3_500);
/// Time for heartbeats to show that it is sound: 256 of them, and the hold-down of a path that fell once.
const SOUND_WITHIN: Duration = Duration::from_secs(6);
const BAD: u8 = 1;

fn settled(seed: u64, links: &[Link]) -> World<'static> {
    let mut world = World::new(seed, &Topology::new(2, links).with_repair(), None);
    world.settle(Duration::from_secs(2)).unwrap();
    world
}

/// Goes on until this is so, or the time is over.
fn run_until(world: &mut World<'_>, within: Duration, is_so: impl Fn(&World<'_>) -> bool) {
    let until = world.now() + within;
    while world.now() < until && !is_so(world) {
        world.run_for(Duration::from_millis(100)).unwrap();
    }
}

/// When the sender said first that it avoids the bad path, and whether it said later that it does so no longer.
fn suspected(world: &World<'_>, since: Instant) -> (Option<Duration>, bool) {
    let later = world.log().iter().filter(|entry| entry.at >= since && entry.node == 0);
    let (mut at, mut trusted) = (None, false);
    for entry in later {
        match entry.event {
            Event::LinkSuspect { link: BAD, .. } => at = at.or(Some(entry.at.since(since))),
            Event::LinkTrusted { link: BAD, .. } => trusted = true,
            _ => {}
        }
    }
    (at, trusted)
}

#[test]
fn a_path_that_loses_cells_at_random_is_suspect_under_any_load_until_it_is_sound() {
    let slow = Link { rate: 20_000_000, ..Link::GIGABIT };
    let far = Link { delay: Duration::from_millis(20), ..Link::GIGABIT };
    let light = Flow::steady(0, 1, 9_000, Duration::from_millis(1));
    for (name, link) in
        [("gigabit", Link::GIGABIT), ("fast", Link::FAST_ETHERNET), ("slow", slow), ("far", far)]
    {
        for (load, loss) in [(Flow::bulk(0, 1), 150_000), (Flow::bulk(0, 1), 250_000), (light, 250_000)] {
            let what = format!("{name}, {:?}, {loss} ppm", load.pace);
            let mut world = settled(SEED, &[link; 2]);
            world.start(load);
            world.run_for(Duration::from_millis(300)).unwrap();
            let since = world.now();
            world.set_link(BAD, &Link { loss, ..link });
            run_until(&mut world, FOUND_WITHIN, |world| suspected(world, since).0.is_some());
            world.run_for(Duration::from_millis(200)).unwrap();
            let (found, trusted) = suspected(&world, since);
            println!("{what}: {found:?}");
            assert!(found.is_some() && !trusted, "{what}: {found:?}, trusted {trusted}");
            world.set_link(BAD, &link);
            run_until(&mut world, SOUND_WITHIN, |world| suspected(world, since).1);
            assert!(suspected(&world, since).1, "{what}: still suspect");
        }
    }
}

/// Its queue is so short that hardly any delay shows: what is too much is lost.
#[test]
fn a_path_behind_a_policer_carries_its_part_and_is_not_suspect() {
    for (rate, way) in [(50, 10), (200, 10), (500, 10)] {
        let delay = Duration::from_millis(way);
        let router = |span| Some(RouterSettings::tail(rate * 1_000_000, Duration::from_millis(span)));
        let clean = Link { delay, router: router(50), ..Link::GIGABIT };
        let mut world = settled(SEED, &[clean, Link { router: router(1), ..clean }]);
        let flow = world.start(Flow::bulk(0, 1));
        let since = world.now();
        world.run_for(Duration::from_secs(10)).unwrap();
        let (found, _) = suspected(&world, since);
        let share = world.goodput(flow, since) / (2e6 * rate as f64);
        println!("{rate} Mbit/s, {way} ms: {share:.2} of the sum, suspect {found:?}, {:?}", world.losses());
        assert!(found.is_none(), "{rate} Mbit/s, {way} ms: suspect after {found:?}");
        assert!(share > 0.8, "{rate} Mbit/s, {way} ms: {share} of the sum");
    }
}
