//! Ways that carry shorter packets than the NICs at their ends take, and drop longer ones without a word.

use crate::seeds;
use crate::stage::{goodput, logged, millis, routed, run, window};
use core::time::Duration;
use tabane_proto::{Event, Instant, NodeId};
use tabane_sim::fault::Fault;
use tabane_sim::flow::{Flow, Sizes};
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

const SEEDS: u64 = 3;
/// Bytes of IPv6 and UDP before a cell.
const HEADERS: u16 = 48;
const FULL: usize = 1_452;

fn narrow(link: u8, packet: u16) -> Fault {
    Fault::Narrow(link, packet - HEADERS)
}

/// A world whose `faults` are there from the beginning, and in which every link is in use.
fn begun(seed: u64, links: &[Link], faults: &[Fault]) -> World<'static> {
    let mut world = World::new(seed, &Topology::new(2, links).with_repair(), None);
    faults.iter().for_each(|fault| _ = world.begin(*fault));
    world.settle(millis(1_000)).unwrap();
    world
}

fn transfer() -> Flow {
    window(0, 1, 12)
}

/// The size of each packet that a node found since then over a link.
fn found(world: &World<'_>, since: Instant, number: u8) -> Vec<u16> {
    let sizes = logged(world, since).filter_map(|entry| match entry.event {
        Event::PathMtu { link, packet, .. } if link == number && entry.node == 0 => Some(packet),
        _ => None,
    });
    sizes.collect()
}

/// What nodes said against paths since then.
fn against<'a>(world: &'a World<'_>, since: Instant) -> Vec<&'a Event> {
    let against = |event: &&Event| matches!(event, Event::LinkDown { .. } | Event::LinkSuspect { .. });
    logged(world, since).map(|entry| &entry.event).filter(against).collect()
}

#[test]
fn a_path_that_is_narrow_from_the_beginning_is_found_before_it_carries() {
    for seed in seeds(SEEDS) {
        let mut world = begun(seed, &[Link::FAST_ETHERNET; 2], &[narrow(1, 1_400)]);
        run(&mut world, millis(500));
        assert_eq!(found(&world, Instant::default(), 1), [1_400], "seed {seed}");
        assert_eq!(world.bundle(0).cell_max(), 1_352);
        let since = world.now();
        let flow = world.start(transfer());
        run(&mut world, Duration::from_secs(1));
        let share = world.goodput(flow, since) / 200e6;
        assert!(share > 0.9, "seed {seed}: {share}");
        let against = against(&world, Instant::default());
        assert!(against.is_empty(), "seed {seed}: {against:?}");
    }
}

#[test]
fn a_path_that_becomes_narrow_in_a_transfer_carries_on_and_grows_again() {
    for seed in seeds(SEEDS) {
        let mut world = begun(seed, &[Link::GIGABIT; 2], &[]);
        let flow = world.start(transfer());
        run(&mut world, millis(200));
        for packet in [1_400, 1_280] {
            let since = world.begin(narrow(1, packet));
            run(&mut world, Duration::from_secs(1));
            assert_eq!(found(&world, since, 1), [packet], "seed {seed}");
            assert_eq!(world.bundle(0).cell_max(), usize::from(packet - HEADERS), "seed {seed}");
            let share = goodput(&mut world, flow, millis(500)) / 2e9;
            println!("seed {seed}, {packet}: {share:.3} of the sum, {:?}", against(&world, since));
            assert!(share > 0.85, "seed {seed}, {packet}: {share}");
            assert!(against(&world, since).is_empty(), "seed {seed}: {:?}", against(&world, since));
        }
        let since = world.end(narrow(1, 1_280));
        world.stop(flow);
        run(&mut world, Duration::from_secs(35));
        assert_eq!(found(&world, since, 1), [1_500], "seed {seed}");
        assert_eq!(world.bundle(0).cell_max(), FULL);
    }
}

/// Heartbeats of a slow path are rare, and they are all that comes of it until the cells are shorter.
#[test]
fn a_slow_path_that_becomes_narrow_in_a_transfer_stays_up() {
    for (rate, way) in [(5, 10), (20, 10), (20, 0), (50, 1), (80, 10), (95, 0)] {
        let link = Link { delay: millis(way), ..routed(rate, 50) };
        for seed in seeds(1) {
            let case = format!("{rate} Mbit/s, {way} ms, seed {seed}");
            let mut world = begun(seed, &[link; 2], &[]);
            let flow = world.start(transfer());
            run(&mut world, Duration::from_secs(2));
            let since = world.begin(narrow(1, 1_400));
            run(&mut world, Duration::from_secs(2));
            assert_eq!(found(&world, since, 1).last(), Some(&1_400), "{case}");
            let share = goodput(&mut world, flow, Duration::from_secs(2)) / (2e6 * rate as f64);
            assert!(share > 0.8, "{case}: {share}");
            assert!(against(&world, since).is_empty(), "{case}: {:?}", against(&world, since));
        }
    }
}

#[test]
fn when_all_paths_become_narrow_at_once_nothing_stands_still() {
    for seed in seeds(SEEDS) {
        let mut world = begun(seed, &[Link::FAST_ETHERNET; 2], &[]);
        // Of a window of which all is lost nothing comes back.
        let flow = world.start(Flow::bulk(0, 1));
        run(&mut world, millis(200));
        let since = world.begin(narrow(0, 1_280));
        world.begin(narrow(1, 1_400));
        run(&mut world, Duration::from_secs(2));
        let share = goodput(&mut world, flow, millis(500)) / 200e6;
        println!("seed {seed}: {share:.3}, {:?}", against(&world, since));
        assert!(share > 0.8, "seed {seed}: {share}");
        assert_eq!(world.bundle(0).cell_max(), 1_232);
    }
}

/// A path that carries less than the least packets of IPv6 does not make all cells as small, unless it is the last.
#[test]
fn a_path_far_smaller_than_the_other_is_left_out_as_long_as_that_lives() {
    let mut world = begun(1, &[Link::FAST_ETHERNET; 2], &[narrow(1, 1_006)]);
    run(&mut world, Duration::from_secs(1));
    assert_eq!((found(&world, Instant::default(), 1), world.bundle(0).cell_max()), (vec![1_006], FULL));
    let since = world.now();
    let flow = world.start(Flow::bulk(0, 1));
    run(&mut world, millis(300));
    assert!(world.goodput(flow, since) > 0.9 * 90e6);
    world.begin(Fault::BlackHole(0, None));
    run(&mut world, millis(500));
    assert_eq!(world.bundle(0).cell_max(), usize::from(1_006 - HEADERS));
    let since = world.now();
    run(&mut world, millis(300));
    assert!(world.goodput(flow, since) > 0.8 * 100e6, "{}", world.goodput(flow, since));
    world.end(Fault::BlackHole(0, None));
    run(&mut world, Duration::from_secs(1));
    assert_eq!(world.bundle(0).cell_max(), FULL);
}

/// Links that drop much of everything, also of what is short, keep their size.
#[test]
fn losses_of_all_lengths_are_not_taken_for_an_mtu() {
    for loss in [10_000, 100_000, 300_000] {
        for seed in seeds(SEEDS) {
            let mut world = begun(seed, &[Link::FAST_ETHERNET; 2], &[]);
            let since = world.begin(Fault::Loss(1, loss));
            world.start(transfer());
            world.start(Flow { sizes: Sizes::Fixed(98), ..Flow::steady(1, 0, 98, millis(5)) });
            run(&mut world, Duration::from_secs(4));
            let found = found(&world, since, 1);
            assert!(found.is_empty() || loss == 300_000 && found.len() <= 2, "{seed}, {loss}: {found:?}");
        }
    }
}

/// A bundle without probes would name the path's peer.
#[test]
fn the_event_names_the_peer_and_both_sizes() {
    let mut world = begun(3, &[Link::FAST_ETHERNET; 2], &[narrow(0, 1_420)]);
    run(&mut world, Duration::from_secs(1));
    let event =
        Event::PathMtu { peer: NodeId::new([2, 0, 0, 0, 0, 1], 7420), link: 0, packet: 1_420, nic: 1_500 };
    assert_eq!(world.log().iter().filter(|entry| entry.node == 0 && entry.event == event).count(), 1);
}

/// What was cut for the size of before goes over the slow path, which still takes it, or is dropped: not for long.
#[test]
fn a_fast_path_that_becomes_narrow_does_not_wait_for_a_slow_one_that_is_not() {
    for seed in seeds(SEEDS) {
        let slow = Link { rate: 20_000_000, ..Link::GIGABIT };
        let mut world = begun(seed, &[slow, Link::GIGABIT], &[]);
        let flow = world.start(Flow::bulk(0, 1));
        run(&mut world, millis(300));
        let since = world.begin(narrow(1, 1_400));
        run(&mut world, millis(600));
        assert_eq!(found(&world, since, 1), [1_400], "seed {seed}");
        let share = goodput(&mut world, flow, millis(400)) / 1_020e6;
        println!("seed {seed}: {share:.3}, a pause of {:?}", world.longest_pause(flow, since));
        assert!(share > 0.9, "seed {seed}: {share}");
        assert!(world.longest_pause(flow, since) < millis(250));
    }
}
