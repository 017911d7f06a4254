//! What people with two uplinks feel: a live stream, a call, a flow of few packets, while links behind routers fail, lose or slow down.

use crate::stage::{MEGABIT, at_part, downs, millis, pings, routed, run, settled, two_nodes, window};
use core::time::Duration;
use tabane_proto::{Instant, PolicyKind};
use tabane_sim::fault::{Fault, FaultPeriod};
use tabane_sim::flow::{Flow, Pace, Sizes};
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

fn at(rate: u64, queue: u64, way: u64) -> Link {
    Link { delay: millis(way), ..routed(rate, queue) }
}

/// A fault comes after `first`, and again each `every`, for `lasts`.
fn recur(world: &mut World<'_>, fault: Fault, first: Duration, every: Duration, lasts: Duration) {
    let now = world.now().since(Instant::default());
    for time in 0..12 {
        let begins = now + first + every * time;
        world.schedule(&FaultPeriod { fault, begins, ends: Some(begins + lasts) });
    }
}

/// The longest pause of a flow that has a frame each `every`, beyond that time, and the part of its frames that came.
fn gap_of(world: &mut World<'_>, flow: Flow, span: Duration, every: Duration) -> (Duration, f64) {
    let flow = world.start(flow);
    run(world, Duration::from_secs(1));
    let since = world.now();
    run(world, span);
    let came = world.goodput(flow, since) * every.as_secs_f64() / (8 * FRAME) as f64;
    (world.longest_pause(flow, since).saturating_sub(every), came)
}

/// Bytes of a frame of the flows below.
const FRAME: usize = 1_000;

#[test]
fn a_live_stream_goes_on_while_a_link_loses_in_bursts_or_is_dead_for_half_a_minute() {
    let every = Duration::from_millis(1);
    for (links, fault, cycle, lasts, most) in [
        ([at(6, 200, 50), at(6, 200, 25)], Fault::Loss(1, 100_000), millis(3_000), millis(300), 150),
        ([at(12, 100, 20), at(12, 100, 20)], Fault::BlackHole(1, None), millis(40_000), millis(30_000), 90),
    ] {
        let mut world = two_nodes(1, &links);
        recur(&mut world, fault, millis(2_000), cycle, lasts);
        let span = Duration::from_secs(36);
        let (gap, came) = gap_of(&mut world, Flow::steady(0, 1, FRAME, every), span, every);
        println!("8 Mbit/s, {fault:?}: {came:.4} came, longest pause {gap:?}");
        // What is lost twice takes two round trips of 50 ms.
        assert!(came >= 0.995 && gap <= millis(most), "{fault:?}: {came:.4}, {gap:?}");
    }
}

#[test]
fn a_flow_of_ten_packets_a_second_goes_on_when_its_link_dies_or_carries_next_to_nothing() {
    let every = millis(100);
    let mut worst = [Duration::ZERO; 2];
    for seed in 0..20 {
        for (number, fault) in [Fault::BlackHole(0, None), Fault::Rate(0, 1)].into_iter().enumerate() {
            let mut world = two_nodes(seed, &[at(50, 100, 10), at(20, 100, 15)]);
            let (flow, minute) = (Flow::steady(0, 1, FRAME, every), millis(60_000));
            recur(&mut world, fault, millis(3_000 + 7 * seed), minute, minute);
            let (gap, _) = gap_of(&mut world, flow, millis(4_000), every);
            worst[number] = worst[number].max(gap);
        }
    }
    println!("longest pause beyond 100 ms: dead {:?}, next to nothing {:?}", worst[0], worst[1]);
    // The receiver says over the other link what it lacks, and gets it there: 20 ms more than the usual way.
    assert!(worst[0] <= millis(50 + 20) && worst[1] <= millis(150), "{worst:?}");
}

#[test]
fn a_call_is_no_later_beside_sixteen_bulky_flows() {
    let mut world = two_nodes(1, &[at(50, 150, 10), at(20, 150, 15)]);
    let call = Flow { sizes: Sizes::Fixed(172), pace: Pace::Asking { timeout: millis(1_000) }, ..pings() };
    let p99 = |world: &mut World<'_>, span| {
        let flow = world.start(call);
        let since = world.now();
        run(world, span);
        let mut trips: Vec<f64> =
            world.round_trips(flow, since).iter().map(|trip| trip.as_secs_f64() * 1e3).collect();
        world.stop(flow);
        at_part(&mut trips, 99)
    };
    let idle = p99(&mut world, Duration::from_secs(2));
    (0..16).for_each(|_| _ = world.start(window(0, 1, 4)));
    run(&mut world, Duration::from_secs(3));
    let loaded = p99(&mut world, Duration::from_secs(6));
    println!("call: {idle:.1} ms idle, {loaded:.1} ms beside 16 flows, 99 of 100 round trips");
    assert!(loaded <= idle + 30.0, "{idle:.1} ms, then {loaded:.1} ms");
}

#[test]
fn replicas_on_a_slow_link_make_no_flow_worse_than_the_fast_link_alone() {
    let every = millis(1);
    let [fast, slow] = [at(50, 200, 20), at(5, 200, 60)];
    let gap = |links: &[Link]| {
        let topology = Topology::new(2, links).with_repair().with(|node| node.policy = PolicyKind::Duplicate);
        let mut world = settled(1, &topology, millis(2_000));
        let (gap, came) = gap_of(&mut world, Flow::steady(0, 1, FRAME, every), Duration::from_secs(6), every);
        let queue = world.bundle(0).peers().flat_map(|(_, paths)| paths.map(|path| path.queue_behind)).max();
        (gap, came, queue.unwrap_or_default())
    };
    let (alone, both) = (gap(&[fast]), gap(&[fast, slow]));
    println!("duplicate, 8 Mbit/s: fast alone {alone:?}, with replicas on the slow link {both:?}");
    assert!(both.1 >= alone.1 - 0.001 && both.0 <= alone.0 + millis(5) && both.2 <= millis(100), "{both:?}");
}

#[test]
fn two_lines_that_drop_in_turn_carry_what_is_there() {
    let mut world = two_nodes(1, &[at(20, 100, 10), at(20, 100, 10)]);
    let flow = world.start(window(0, 1, 6));
    run(&mut world, Duration::from_secs(3));
    for link in 0..2 {
        let second = Duration::from_secs(1);
        recur(&mut world, Fault::BlackHole(link, None), 5 * second * u32::from(link), 10 * second, second);
    }
    let began = world.now();
    let seconds: Vec<f64> = (0..40)
        .map(|_| {
            let since = world.now();
            run(&mut world, Duration::from_secs(1));
            world.goodput(flow, since) / (20 * MEGABIT) as f64
        })
        .collect();
    let (mean, worst) =
        (seconds.iter().sum::<f64>() / 40.0, seconds.iter().copied().fold(f64::MAX, f64::min));
    println!("two lines in turn: {mean:.3} of one in the mean, {worst:.3} in the worst second");
    // While one is down, the other carries all.
    assert!(worst >= 0.7 && mean >= 1.6, "{seconds:.2?}");
    let downs = downs(&world, began).len();
    assert!(downs <= 32, "8 cuts, seen {downs} times at two ends of two directions");
}
