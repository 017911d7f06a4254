//! A router's queue behind the NICs, as the world simulates it.

use crate::stage::{
    MEGABIT, at_part, counted_by, downs, goodput, goodputs, micros, millis, pings, routed, run, settled,
    stop, two_nodes, window,
};
use core::time::Duration;
use tabane_proto::{Instant, PolicyKind};
use tabane_sim::cable::Place;
use tabane_sim::competitor::CompetitorSettings;
use tabane_sim::fault::Fault;
use tabane_sim::flow::Flow;
use tabane_sim::router::{Drops, RouterSettings};
use tabane_sim::topology::{Link, Topology};

const FAR: Place = Place { node: 1, nic: 0 };

#[test]
fn more_than_a_router_carries_waits_at_its_sender_and_neither_in_the_nic_nor_in_the_router() {
    let mut world = two_nodes(1, &[routed(50, 100)]);
    world.start(Flow::steady(0, 1, 1_000, micros(100)));
    run(&mut world, Duration::from_secs(2));
    // 80 Mbit/s for 50.
    let mut longest = 0;
    for _ in 0..100 {
        run(&mut world, millis(10));
        longest = longest.max(world.routing(FAR));
    }
    assert!(longest <= 62_500, "{longest} bytes are more than 10 ms");
    let (counted, found) = world.on_the_way();
    assert_eq!(counted, found);
    assert_eq!(world.losses().router, 0);
    let rate = world.bundle(0).peers().flat_map(|(_, mut paths)| paths.next()?.rate).next();
    assert!(rate.is_some_and(|rate| rate.abs_diff(50 * MEGABIT) <= 5 * MEGABIT), "{rate:?}");
}

#[test]
fn a_competing_flow_alone_takes_the_routers_rate_and_codel_keeps_its_queue_short() {
    let competitor = CompetitorSettings { round_trip: millis(20), begins: Duration::ZERO };
    for (drops, least, most) in [(Drops::Tail, 40.0, 100.0), (Drops::CoDel, 0.0, 20.0)] {
        let tail = RouterSettings::tail(50 * MEGABIT, millis(100));
        let router = RouterSettings { drops, competitor: Some(competitor), ..tail };
        let mut world = two_nodes(1, &[Link { router: Some(router), ..Link::GIGABIT }]);
        run(&mut world, Duration::from_secs(2));
        let before = world.competed(FAR);
        let mut waited = 0.0;
        for _ in 0..400 {
            run(&mut world, millis(10));
            waited += world.routing(FAR) as f64 * 8.0 / 50e3 / 400.0;
        }
        let speed = (world.competed(FAR) - before) as f64 * 8.0 / 4e6;
        println!("{drops:?}: {speed:.1} Mbit/s, {waited:.1} ms of queue");
        assert!(speed >= 45.0, "{drops:?}: {speed}");
        assert!((least..=most).contains(&waited), "{drops:?}: {waited} ms");
    }
}

/// A modem sends when it is its turn. A flow that begins finds a path of which nobody knows how long its turns are.
#[test]
fn a_router_that_sends_in_turns_is_not_dead_between_them() {
    for (rates, turns) in [([50, 20], 3), ([50, 20], 5), ([50, 20], 10), ([200, 100], 5), ([500, 200], 4)] {
        let links = rates.map(|rate| {
            let tail = RouterSettings::tail(rate * MEGABIT, millis(100));
            Link { router: Some(RouterSettings { turns: millis(turns), ..tail }), ..Link::GIGABIT }
        });
        let mut world = two_nodes(1, &links);
        let sum = rates.iter().sum::<u64>() * MEGABIT;
        let mut shares = Vec::new();
        for _ in 0..3 {
            let flow = world.start(filling(sum, millis(20)));
            run(&mut world, millis(1_000));
            shares.push(goodput(&mut world, flow, millis(1_000)) / sum as f64);
            stop(&mut world, &[flow], millis(300));
        }
        println!("{rates:?}, turns of {turns} ms: {shares:.2?} of the sum");
        let downs = downs(&world, Instant::default());
        assert!(downs.is_empty(), "{rates:?}, turns of {turns} ms: {downs:?}");
        assert!(shares.iter().all(|share| *share >= 0.9), "{rates:?}, turns of {turns} ms: {shares:?}");
    }
}

/// What a bulk flow gets of two nodes' links, once it has found out what they carry.
struct Measured {
    /// Share of the sum of the routers' rates.
    share: f64,
    /// Of the datagrams, those that routers dropped, in parts of a million.
    dropped: u64,
    /// Round trip of a small frame in milliseconds: median and the longest but 1 %.
    round_trip: [f64; 2],
}

/// A transfer whose window is what links of this rate in all carry in a round trip and 10 ms.
fn filling(rate: u64, way: Duration) -> Flow {
    let frame = Duration::from_secs_f64(8.0 * Flow::bulk(0, 1).sizes.average() as f64 / rate as f64);
    let frames = (2 * way + millis(10)).as_nanos() / frame.as_nanos() + 4;
    window(0, 1, u16::try_from(frames).unwrap())
}

/// A transfer whose window is so many bytes.
fn held_back(bytes: u64) -> Flow {
    window(0, 1, u16::try_from(bytes / Flow::bulk(0, 1).sizes.average() as u64).unwrap())
}

fn measure(links: &[Link], span: Duration) -> Measured {
    let mut world = two_nodes(1, links);
    let rates = links.iter().filter_map(|link| link.router).map(|router| router.rate);
    let sum = rates.sum::<u64>();
    let (flow, pings) = (world.start(filling(sum, links[0].delay)), world.start(pings()));
    run(&mut world, millis(2_000));
    let (since, dropped, sent) = (world.now(), world.losses().router, counted_by(&world, 0, "cells_sent"));
    let share = goodput(&mut world, flow, span) / sum as f64;
    let (dropped, sent) = (world.losses().router - dropped, counted_by(&world, 0, "cells_sent") - sent);
    let trips = world.round_trips(pings, since);
    let mut trips: Vec<f64> = trips.iter().map(|trip| trip.as_secs_f64() * 1e3).collect();
    let round_trip = [50, 99].map(|hundredths| at_part(&mut trips, hundredths));
    Measured { share, dropped: dropped * 1_000_000 / sent, round_trip }
}

/// Routers of these rates in Mbit/s and queues in milliseconds, each way so long, are used up, and a ping takes little more than
/// the way.
fn uses_up(routers: &[(u64, u64)], way: u64, share: f64, more: f64) {
    let delay = millis(way);
    let links: Vec<Link> =
        routers.iter().map(|(rate, span)| Link { delay, ..routed(*rate, *span) }).collect();
    let got = measure(&links, millis(3_000));
    println!(
        "{routers:?}, {way} ms: {:.3} of the sum, {} ppm dropped, ping {:.1?} ms",
        got.share, got.dropped, got.round_trip
    );
    assert!(got.share >= share, "{routers:?}, {way} ms: {} of the sum", got.share);
    let most = 2.0 * way as f64 + more;
    assert!(got.round_trip[0] <= most, "{routers:?}, {way} ms: {} ms", got.round_trip[0]);
    assert!(got.dropped <= 2_000, "{routers:?}, {way} ms: {} ppm dropped", got.dropped);
}

/// The rate of the other link is not known, for it carries nothing.
#[test]
fn who_sends_little_waits_for_no_long_turn_of_others_where_one_link_of_two_is_used() {
    let topology = Topology::new(2, &[routed(4, 100); 2]).with_repair();
    let mut world = settled(1, &topology.with(|node| node.policy = PolicyKind::ActiveBackup), millis(2_000));
    world.start(filling(4 * MEGABIT, millis(100)));
    run(&mut world, millis(2_000));
    let (since, asked) = (world.now(), world.start(pings()));
    run(&mut world, millis(4_000));
    let mut trips: Vec<_> =
        world.round_trips(asked, since).iter().map(|trip| trip.as_secs_f64() * 1e3).collect();
    let [half, most] = [50, 95].map(|part| at_part(&mut trips, part));
    println!("ping {half:.1}, {most:.1} ms");
    assert!(half <= 30.0 && most <= 45.0, "ping {half:.1}, {most:.1} ms");
}

#[test]
fn routers_are_used_up_in_both_directions_at_once() {
    for (routers, way) in [
        (&[(50, 100), (20, 100)][..], 0),
        (&[(500, 10), (200, 10)], 0),
        (&[(50, 100), (20, 100)], 10),
        (&[(50, 100)], 15),
        (&[(500, 10), (200, 10)], 40),
    ] {
        let delay = millis(way);
        let links: Vec<_> =
            routers.iter().map(|(rate, span)| Link { delay, ..routed(*rate, *span) }).collect();
        let sum = routers.iter().map(|(rate, _)| rate * MEGABIT).sum::<u64>();
        let mut world = two_nodes(1, &links);
        let far = delay + millis(10);
        let there = world.start(filling(sum, far));
        let back = world.start(Flow { from: 1, to: Some(0), ..filling(sum, far) });
        run(&mut world, millis(2_000));
        let shares = goodputs(&mut world, [there, back], millis(3_000)).map(|got| got / sum as f64);
        println!("{routers:?}, {way} ms, both ways: {shares:.3?} of the sum");
        assert!(shares.iter().all(|share| *share >= 0.9), "{routers:?}, {way} ms: {shares:.3?}");
    }
}

#[test]
fn routers_are_used_up_and_their_queues_stay_short_however_long_the_way_is() {
    uses_up(&[(50, 100), (20, 100)], 0, 0.93, 20.0);
    uses_up(&[(500, 10), (200, 10)], 0, 0.93, 5.0);
    uses_up(&[(500, 4), (500, 4)], 0, 0.93, 5.0);
    uses_up(&[(50, 100)], 0, 0.95, 30.0);
    uses_up(&[(50, 100), (20, 100)], 10, 0.9, 20.0);
    uses_up(&[(500, 10), (200, 10)], 10, 0.9, 10.0);
    uses_up(&[(500, 4), (500, 4)], 10, 0.9, 10.0);
    uses_up(&[(50, 100)], 10, 0.95, 30.0);
    uses_up(&[(50, 100), (20, 100)], 40, 0.9, 20.0);
    uses_up(&[(500, 10), (200, 10)], 40, 0.9, 10.0);
    uses_up(&[(500, 4), (500, 4)], 40, 0.9, 10.0);
}

/// The world judges that each flow keeps its order.
#[test]
fn a_link_that_is_too_far_away_to_share_a_flow_has_whole_ones_and_the_last_flow_goes_by_the_near_link() {
    let at = |rate, way| Link { delay: millis(way), ..routed(rate, 100) };
    let sum = 70 * MEGABIT;
    // At 600 ms the next flow may be moving just then.
    for (away, share, stays) in
        [(120, 0.9, 0), (300, 0.9, 0), (300, 0.9, 1), (300, 0.9, 2), (300, 0.9, 3), (600, 0.8, 1)]
    {
        let mut world = two_nodes(1, &[at(50, 15), at(20, away)]);
        let flows = [0; 4].map(|_| world.start(filling(sum / 4, millis(away))));
        run(&mut world, Duration::from_secs(20));
        let all = goodputs(&mut world, flows, Duration::from_secs(4)).iter().sum::<f64>() / sum as f64;
        assert!(all >= share, "{away} ms: {all:.3} of the sum");
        let last = flows[stays];
        flows.into_iter().filter(|flow| *flow != last).for_each(|flow| world.stop(flow));
        run(&mut world, Duration::from_secs(12));
        let alone = goodput(&mut world, last, Duration::from_secs(2)) / (50 * MEGABIT) as f64;
        assert!(alone >= 0.9, "{away} ms: flow {stays} has {alone:.3} of the near link");
    }
}

/// Who sends as much as is on the way where nothing waits keeps no queue in one router while another idles: the frames of a flow
/// come as late as the latest of their cells.
#[test]
fn a_flow_that_its_own_window_holds_back_fills_all_routers_alike() {
    for (routers, share) in [([(500, 10), (200, 10)], 0.88), ([(500, 4), (500, 4)], 0.85)] {
        let way = millis(10);
        let links = routers.map(|(rate, span)| Link { delay: way, ..routed(rate, span) });
        let sum = routers.iter().map(|(rate, _)| rate * MEGABIT).sum::<u64>();
        let mut world = two_nodes(1, &links);
        let full = world.start(filling(sum, way));
        run(&mut world, millis(3_000));
        world.stop(full);
        // The bytes of 10 and 11 ms: the simulator's flow hears at once what has arrived.
        let millis_on_the_way = if routers[0] == routers[1] { 10 } else { 11 };
        let flow = world.start(held_back(sum / 8 / 1_000 * millis_on_the_way));
        run(&mut world, millis(1_000));
        let got = goodput(&mut world, flow, millis(3_000)) / sum as f64;
        println!("{routers:?}: {got:.3} of the sum");
        assert!(got >= share, "{routers:?}: {got}");
    }
}

/// A radio link of 5 to 50 Mbit/s, with fading, beside one of 20: a flow that its own window holds back never lets the steady one
/// idle while its cells queue at the other.
#[test]
fn a_flow_that_its_own_window_holds_back_leaves_a_radio_link_that_slows_down() {
    let mut world = two_nodes(1, &[routed(50, 1_000), routed(20, 100)]);
    let flow = world.start(held_back(200_000));
    let (mut since, mut offered, mut fading) = (world.now(), 0.0, 0.0);
    // Three periods of three seconds, the first of which does not count.
    for step in 0..450u32 {
        if step == 150 {
            (since, offered) = (world.now(), 0.0);
        }
        let turn = f64::from(step) / 150.0 * std::f64::consts::TAU;
        fading = 0.7 * fading + 0.3 * f64::from(step * 7_919 % 101) / 50.0 - 0.3;
        let megabits = (50.0 * 10f64.powf((turn.cos() - 1.0) / 2.0) * f64::exp(fading)).clamp(5.0, 50.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "5,000 to 50,000")]
        let rate = Fault::Rate(0, (megabits * 1e3) as u32);
        world.begin(rate);
        run(&mut world, millis(20));
        offered += (megabits + 20.0) * 1e6 * 0.02;
    }
    let share = world.goodput(flow, since) * world.now().since(since).as_secs_f64() / offered;
    println!("{share:.3} of what the links offer");
    assert!(share >= 0.85, "{share}");
}

/// A flow of somebody else at one of two links gets a fair part of it, and leaves one: the median of five that begin at different
/// times.
#[test]
fn a_competing_flow_shares_its_link() {
    for round_trip in [10, 40] {
        let mut parts = [0, 1, 2, 3, 4].map(|turn| contested(round_trip, 2_000 + 137 * turn));
        let median = at_part(&mut parts, 50);
        println!("round trip {round_trip} ms: it gets {parts:.2?} of its link");
        assert!((0.3..=0.7).contains(&median), "{median}");
    }
}

/// The part of its link that the other flow gets, with a round trip of so many milliseconds, when it begins at so many.
fn contested(round_trip: u64, begins: u64) -> f64 {
    let [round_trip, begins] = [round_trip, begins].map(millis);
    let competitor = Some(CompetitorSettings { round_trip, begins });
    let tail = RouterSettings::tail(50 * MEGABIT, millis(100));
    let shared = Link { router: Some(RouterSettings { competitor, ..tail }), ..Link::GIGABIT };
    let mut world = two_nodes(1, &[shared, routed(50, 100)]);
    let flow = world.start(filling(100 * MEGABIT, millis(100)));
    run(&mut world, Duration::from_secs(8));
    let before = world.competed(FAR);
    let bundle = goodput(&mut world, flow, Duration::from_secs(12)) / 50e6;
    let competed = (world.competed(FAR) - before) as f64 * 8.0 / (12.0 * 50e6);
    assert!(bundle >= 1.1, "with one link of its own and a part of the other it has {bundle} of a link");
    competed
}
