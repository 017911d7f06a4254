//! Paths that lose cells: one that loses them at random is suspect under any load, one whose losses are a policer's is not.

use crate::stage::{goodput, logged, millis, routed, run, two_nodes};
use core::time::Duration;
use tabane_proto::{Event, Instant};
use tabane_sim::flow::Flow;
use tabane_sim::topology::Link;
use tabane_sim::world::World;

const SEED: u64 = 1;
/// Time for a path to become suspect: what explains loss at first does so for 2 s, and a probe of its MTU has to pass before.
const FOUND_WITHIN: Duration = millis(3_500);
/// Time for heartbeats to show that it is sound: 256 of them, and the hold-down of a path that fell once.
const SOUND_WITHIN: Duration = Duration::from_secs(6);
const BAD: u8 = 1;

/// Goes on until this is so, or the time is over.
fn run_until(world: &mut World<'_>, within: Duration, is_so: impl Fn(&World<'_>) -> bool) {
    let until = world.now() + within;
    while world.now() < until && !is_so(world) {
        run(world, millis(100));
    }
}

/// When the sender said first that it avoids the bad path, and whether it said later that it does so no longer.
fn suspected(world: &World<'_>, since: Instant) -> (Option<Duration>, bool) {
    let (mut at, mut trusted) = (None, false);
    for entry in logged(world, since).filter(|entry| entry.node == 0) {
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
    let far = Link { delay: millis(20), ..Link::GIGABIT };
    let light = Flow::steady(0, 1, 9_000, millis(1));
    for (name, link) in
        [("gigabit", Link::GIGABIT), ("fast", Link::FAST_ETHERNET), ("slow", slow), ("far", far)]
    {
        for (load, loss) in [(Flow::bulk(0, 1), 150_000), (Flow::bulk(0, 1), 250_000), (light, 250_000)] {
            let what = format!("{name}, {:?}, {loss} ppm", load.pace);
            let mut world = two_nodes(SEED, &[link; 2]);
            world.start(load);
            run(&mut world, millis(300));
            let since = world.now();
            world.set_link(BAD, &Link { loss, ..link });
            run_until(&mut world, FOUND_WITHIN, |world| suspected(world, since).0.is_some());
            run(&mut world, millis(200));
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
        let links = [50, 1].map(|span| Link { delay: millis(way), ..routed(rate, span) });
        let mut world = two_nodes(SEED, &links);
        let flow = world.start(Flow::bulk(0, 1));
        let since = world.now();
        let share = goodput(&mut world, flow, Duration::from_secs(10)) / (2e6 * rate as f64);
        let (found, _) = suspected(&world, since);
        println!("{rate} Mbit/s, {way} ms: {share:.2} of the sum, suspect {found:?}, {:?}", world.losses());
        assert!(found.is_none(), "{rate} Mbit/s, {way} ms: suspect after {found:?}");
        assert!(share > 0.8, "{rate} Mbit/s, {way} ms: {share} of the sum");
    }
}
