//! The guarantees of a bundle, scenario by scenario. Each test reads as a plan: a world, what happens in it, and the result that
//! it must have. Seeds differ in when things happen relative to heartbeats and batches.

use crate::seeds;
use crate::stage::{
    self, asking, counted, downs, goodput, goodputs, logged, micros, millis, run, stop, two_nodes,
};
use core::time::Duration;
use tabane_proto::{Direction, Event, Instant, Nature, PolicyKind};
use tabane_sim::fault::Fault;
use tabane_sim::flow::{Flow, Sizes};
use tabane_sim::frame::Heading;
use tabane_sim::injector::{Injection, InjectionSettings};
use tabane_sim::random::{Random, Stream};
use tabane_sim::topology::{Coalesce, Link, Topology};
use tabane_sim::world::World;

const SEEDS: u64 = 10;
const GIGABIT: f64 = 1e9;

#[test]
fn two_equal_links_double_the_goodput() {
    let one = of_links(&[Link::GIGABIT]);
    let two = of_links(&[Link::GIGABIT; 2]);
    println!("1 link {:.3} Gbit/s, 2 links {:.3} Gbit/s", one / GIGABIT, two / GIGABIT);
    assert!(one >= 0.98 * GIGABIT);
    assert!(two >= 1.98 * one);
}

#[test]
fn links_of_ten_to_one_carry_0_93_of_their_sum_and_more_than_the_better_one() {
    let better = of_links(&[Link::GIGABIT]);
    for delay in [micros(20), millis(1)] {
        let both = of_links(&[Link::GIGABIT, Link { delay, ..Link::FAST_ETHERNET }]);
        println!("1 Gbit/s and 100 Mbit/s, {delay:?} away: {:.3} Gbit/s", both / GIGABIT);
        assert!(both >= 0.93 * 1.1 * GIGABIT && both > better);
    }
}

/// The goodput of a bulk transfer over these links, once their queues have filled.
fn of_links(links: &[Link]) -> f64 {
    let mut world = settled(1, &Topology::new(2, links));
    let flow = world.start(Flow::bulk(0, 1));
    run(&mut world, millis(20));
    goodput(&mut world, flow, millis(100))
}

/// RFC 8290: a sparse flow does not wait behind bulk, and bulk flows share the links.
#[test]
fn a_sparse_flow_hardly_waits_behind_bulk_and_bulk_flows_share_what_there_is() {
    let mut world = settled(1, &Topology::new(2, &[Link::FAST_ETHERNET; 2]));
    let bulks = [world.start(Flow::bulk(0, 1)), world.start(Flow::bulk(0, 1))];
    run(&mut world, millis(300));
    let sparse = world.start(Flow::steady(0, 1, 200, millis(3)));
    let goodputs = goodputs(&mut world, bulks, millis(1_000));
    stop(&mut world, &[bulks[0], bulks[1], sparse], millis(500));

    let result = world.result(sparse);
    let trimmed = bulks.map(|flow| world.result(flow).trimmed);
    println!(
        "beside bulk of {:.1} and {:.1} Mbit/s: {:?} in the middle, {:?} at most; {trimmed:?} superframes trimmed",
        goodputs[0] / 1e6,
        goodputs[1] / 1e6,
        result.latency_median,
        result.latency_max
    );
    assert_eq!(result.lost(), 0);
    assert!(result.latency_max <= millis(10));
    assert!(goodputs.iter().sum::<f64>() >= 0.93 * 200e6);
    assert!(goodputs.iter().all(|goodput| *goodput >= 0.45 * 200e6));
    assert!(trimmed.iter().sum::<u64>() > 20, "who does not slow down is signalled ever more often");
    assert_eq!(counted(&world, "frames_trimmed"), trimmed.iter().sum::<u64>());
}

/// A flow that does not slow down loses frames, and costs no other flow any.
#[test]
fn a_flood_of_datagrams_harms_only_itself() {
    let mut world = settled(1, &Topology::new(2, &[Link::FAST_ETHERNET; 2]));
    let flood = world.start(Flow { heading: Heading::Ipv6, ..Flow::steady(0, 1, 1_400, micros(20)) });
    let tame = world.start(Flow::steady(0, 1, 65_160, millis(6)));
    let sparse = world.start(Flow::steady(0, 1, 200, millis(3)));
    run(&mut world, millis(300));
    let goodputs = goodputs(&mut world, [flood, tame], millis(1_000));
    stop(&mut world, &[sparse], millis(20));

    let result = world.result(sparse);
    let dropped = ["drop_queue_late", "drop_queue_full"].map(|name| counted(&world, name));
    println!(
        "560 Mbit/s of datagrams get {:.1} Mbit/s, bulk of 86.9 {:.1}, sparse {:?} at most; dropped {dropped:?}",
        goodputs[0] / 1e6,
        goodputs[1] / 1e6,
        result.latency_max
    );
    assert_eq!(result.lost(), 0);
    assert!(result.latency_max <= millis(10));
    assert!(goodputs.iter().all(|goodput| *goodput >= 0.4 * 200e6));
    assert_eq!(world.device_full(), 0);
}

/// P2: with two links, coalesced receive interrupts alone change the order of arrival.
#[test]
fn coalescing_reorders_nothing_and_holds_nothing_long() {
    let link = Link { coalesce: Coalesce { frames: 16, delay: micros(100) }, ..Link::GIGABIT };
    for policy in PolicyKind::ALL {
        let mut world = settled(1, &Topology::new(2, &[link; 2]).with(|node| node.policy = policy));
        let sparse = world.start(Flow::steady(0, 1, 200, micros(50)));
        let asking = world.start(asking(1, 0, millis(20)));
        run(&mut world, millis(100));
        stop(&mut world, &[sparse, asking], millis(10));
        let (sparse, asking) = (world.result(sparse), world.result(asking));
        println!("{}: 200 B {:?} at most, 64 KB {:?}", policy.name(), sparse.latency_max, asking.latency_max);
        assert_eq!((sparse.lost(), asking.lost()), (0, 0));
        // A flow that is bound to a link may wait there for a whole superframe.
        let spreads = policy.nature() == Nature::Spreads;
        assert!(sparse.latency_max <= micros(if spreads { 500 } else { 500 + 525 }));
        assert!(asking.latency_max <= millis(2));
    }
}

/// The links are 3 ms apart, and no recent measurement shows it.
#[test]
fn a_late_link_loses_nothing_after_a_quiet_time() {
    let late = Link { delay: millis(3), ..Link::GIGABIT };
    for policy in PolicyKind::ALL {
        let mut world =
            settled(1, &Topology::new(2, &[Link::GIGABIT, late]).with(|node| node.policy = policy));
        run(&mut world, millis(3_000));
        let flow = world.start(Flow::steady(0, 1, 30_000, millis(1)));
        run(&mut world, millis(100));
        stop(&mut world, &[flow], millis(50));
        println!("{}: {} of {} lost", policy.name(), world.result(flow).lost(), world.result(flow).taken);
        assert_eq!(world.result(flow).lost(), 0);
    }
}

#[test]
fn a_black_hole_under_load_is_noticed_within_5_ms_and_loses_no_frame() {
    let noticed = over_seeds(|seed| {
        let mut world = settled(seed, &Topology::new(2, &[Link::GIGABIT; 2]).with_repair());
        let flow = world.start(Flow::bulk(0, 1));
        run(&mut world, about(millis(50), seed));
        let since = world.begin(Fault::BlackHole(1, None));
        run(&mut world, millis(50));
        assert!(world.longest_pause(flow, since) <= millis(30), "seed {seed}");
        stop(&mut world, &[flow], millis(100));
        assert_eq!(world.result(flow).lost(), 0, "seed {seed}");
        noticed(&world, 0, since)
    });
    table("black hole under load", &noticed);
    assert!(noticed[noticed.len() / 2] <= millis(5) && noticed[noticed.len() - 1] <= millis(10));
}

#[test]
fn with_each_policy_a_link_that_dies_costs_no_frame_and_the_other_is_used_up() {
    for policy in PolicyKind::ALL {
        let topology = Topology::new(2, &[Link::GIGABIT; 2]).with_repair().with(|node| node.policy = policy);
        let mut world = settled(1, &topology);
        let flow = world.start(Flow::bulk(0, 1));
        run(&mut world, millis(50));
        world.begin(Fault::BlackHole(0, None));
        run(&mut world, millis(50));
        let left = goodput(&mut world, flow, millis(100));
        stop(&mut world, &[flow], millis(100));
        println!("{}: {:.3} Gbit/s over the other link", policy.name(), left / GIGABIT);
        assert!(left >= 0.93 * GIGABIT, "{}: {left:.3e} bit/s", policy.name());
        assert_eq!(world.result(flow).lost(), 0, "{}", policy.name());
    }
}

#[test]
fn a_black_hole_in_quiet_is_noticed_within_50_ms() {
    let noticed = over_seeds(|seed| {
        let mut world = settled(seed, &Topology::new(2, &[Link::GIGABIT; 2]));
        run(&mut world, about(millis(20), seed));
        let since = world.begin(Fault::BlackHole(1, None));
        run(&mut world, millis(100));
        noticed(&world, 0, since).max(noticed(&world, 1, since))
    });
    table("black hole in quiet", &noticed);
    assert!(noticed[noticed.len() - 1] <= millis(50));
}

/// Node 0 is no longer received from on link 1, but receives.
#[test]
fn a_link_that_is_dead_one_way_is_used_the_other_way() {
    let mut world = settled(1, &Topology::new(2, &[Link::GIGABIT; 2]).with_repair());
    let (there, back) = (world.start(Flow::bulk(0, 1)), world.start(Flow::bulk(1, 0)));
    run(&mut world, millis(50));
    world.begin(Fault::Mute(1, Some(0)));
    run(&mut world, millis(20));
    let [there, back] = goodputs(&mut world, [there, back], millis(100));
    println!("dead way {:.3} Gbit/s, other way {:.3} Gbit/s", there / GIGABIT, back / GIGABIT);
    assert!((0.93..1.0).contains(&(there / GIGABIT)));
    assert!(back >= 1.9 * GIGABIT);
}

#[test]
fn a_revived_link_is_used_again_within_100_ms() {
    let used = over_seeds(|seed| {
        let mut world = settled(seed, &Topology::new(2, &[Link::GIGABIT; 2]).with_repair());
        let flow = world.start(Flow::bulk(0, 1));
        world.begin(Fault::BlackHole(1, None));
        run(&mut world, about(millis(60), seed));
        let since = world.end(Fault::BlackHole(1, None));
        run(&mut world, millis(100));
        let used = first(&world, 0, since, |event| {
            matches!(event, Event::LinkUp { link: 1, direction: Direction::Sending, .. })
        });
        run(&mut world, millis(20));
        assert!(goodput(&mut world, flow, millis(20)) >= 1.9 * GIGABIT, "seed {seed}");
        used
    });
    table("revived link in use", &used);
    assert!(used[used.len() - 1] <= millis(100));
}

#[test]
fn a_lost_carrier_costs_no_frame() {
    let noticed = over_seeds(|seed| {
        let mut world = settled(seed, &Topology::new(2, &[Link::GIGABIT; 2]).with_repair());
        let flow = world.start(Flow::bulk(0, 1));
        run(&mut world, about(millis(30), seed));
        let since = world.begin(Fault::NoCarrier(1, Some(0)));
        run(&mut world, millis(30));
        stop(&mut world, &[flow], millis(100));
        assert_eq!(world.result(flow).lost(), 0, "seed {seed}");
        noticed(&world, 0, since)
    });
    table("carrier lost", &noticed);
    assert!(noticed[noticed.len() - 1] <= millis(1));
}

/// One end takes a link out and in again in mid-traffic; the other end is signalled at once.
#[test]
fn a_link_that_leaves_and_joins_costs_no_frame() {
    let link = Link { rate: 250_000_000, ..Link::GIGABIT };
    for repair in [true, false] {
        let signalled = over_seeds(|seed| {
            let mut world = settled(seed, &Topology::new(2, &[link; 3]).with(|node| node.repair = repair));
            let flows = [
                world.start(Flow::bulk(0, 1)),
                world.start(Flow::bulk(1, 0)),
                world.start(Flow::steady(0, 1, 1_400, micros(500))),
                world.start(Flow::steady(1, 0, 1_400, micros(500))),
            ];
            run(&mut world, about(millis(30), seed));
            let since = world.begin(Fault::Removed(1, 0));
            run(&mut world, about(millis(250), seed));
            assert!(world.bundle(0).peers().all(|(_, links)| links.count() == 2), "seed {seed}");
            assert!(world.bundle(1).peers().all(|(_, links)| links.count() == 2), "seed {seed}");
            world.end(Fault::Removed(1, 0));
            run(&mut world, millis(60));
            assert!(world.is_settled(), "seed {seed}: the link is in use again");
            let goodput = goodput(&mut world, flows[0], millis(50)) / GIGABIT;
            assert!(goodput >= 0.9 * 3.0 * 0.25, "seed {seed}: {goodput:.3} Gbit/s");
            stop(&mut world, &flows, millis(100));
            for flow in flows {
                assert_eq!(world.result(flow).lost(), 0, "seed {seed}, repair {repair}");
            }
            noticed(&world, 1, since)
        });
        table("link removed by the peer", &signalled);
        assert!(signalled[signalled.len() - 1] <= millis(5));
    }
}

/// Every link loses one cell in a hundred.
#[test]
fn repair_hides_loss_by_chance() {
    let link = Link { loss: 10_000, ..Link::GIGABIT };
    for repair in [false, true] {
        let topology = Topology::new(2, &[link; 2]).with(|node| node.repair = repair);
        let mut world = stage::settled(1, &topology, millis(2_000));
        let flow = world.start(Flow::steady(0, 1, 64_000, millis(1)));
        run(&mut world, millis(1_000));
        stop(&mut world, &[flow], millis(50));
        let result = world.result(flow);
        println!("1 % loss, repair {repair}: {} of {} superframes lost", result.lost(), result.taken);
        assert!(result.lost() >= if repair { 0 } else { result.taken / 5 });
        assert!(result.lost() <= if repair { result.taken / 500 } else { result.taken });
    }
}

/// A node that fills both links must also send its requests over them, such as for lost acknowledgements of its own flow.
#[test]
fn repair_reaches_the_peer_over_links_that_are_full() {
    let link = Link { loss: 10_000, ..Link::FAST_ETHERNET };
    let mut world = two_nodes(1, &[link; 2]);
    let flows = [world.start(Flow::bulk(0, 1)), world.start(Flow::steady(1, 0, 66, millis(1)))];
    run(&mut world, millis(2_000));
    stop(&mut world, &flows, millis(500));
    println!("1 % loss: {} cells given up", counted(&world, "cells_given_up"));
    assert!(counted(&world, "cells_repaired") > 100);
    assert_eq!(counted(&world, "cells_given_up"), 0);
    assert!(flows.iter().all(|flow| world.result(*flow).lost() == 0));
}

/// The cells on a fast and long link when it died would occupy the slow one for more than a second.
#[test]
fn repairs_that_come_too_late_leave_the_way_free() {
    let long = Link { delay: millis(20), ..Link::GIGABIT };
    let slow = Link { rate: 20_000_000, ..Link::GIGABIT };
    let mut world = settled(1, &Topology::new(2, &[long, slow]).with_repair());
    let flow = world.start(Flow::bulk(0, 1));
    run(&mut world, millis(100));
    world.begin(Fault::BlackHole(0, None));
    stop(&mut world, &[flow], millis(200));
    let sparse = world.start(Flow::steady(0, 1, 200, millis(1)));
    run(&mut world, millis(100));
    stop(&mut world, &[sparse], millis(50));
    let result = world.result(sparse);
    println!("behind late repairs: {} of 200 B, {:?} at most", result.delivered, result.latency_max);
    assert!(result.delivered >= 99);
    assert!(result.latency_max <= millis(20));
}

/// Every frame arrives although one link drops everything, without repair and before any node notices.
#[test]
fn duplicates_lose_nothing_when_one_link_drops_everything() {
    let topology = Topology::new(2, &[Link::GIGABIT; 2]).with(|node| node.policy = PolicyKind::Duplicate);
    let mut world = settled(1, &topology);
    let bulk = world.start(Flow::bulk(0, 1));
    let sparse = world.start(Flow::steady(1, 0, 200, micros(100)));
    run(&mut world, millis(50));
    let (replicas, wasted) = (counted(&world, "replicas_sent"), counted(&world, "drop_duplicate"));
    println!("{replicas} replicas, {wasted} of them the second to arrive");
    assert!(wasted <= replicas && wasted + 1_000 >= replicas);
    assert!(world.goodput(bulk, world.now() - millis(40)) >= 0.97 * GIGABIT);
    world.begin(Fault::BlackHole(1, None));
    run(&mut world, millis(100));
    stop(&mut world, &[bulk, sparse], millis(150));
    assert_eq!((world.result(bulk).lost(), world.result(sparse).lost()), (0, 0));
    assert_eq!(counted(&world, "cells_given_up"), 0);
}

/// Both links lose one cell in twenty: each brings cells that the other loses, and only cells that both lose are sent again,
/// unless a request is lost, too.
#[test]
fn cells_of_duplicate_are_repaired_only_when_every_replica_is_lost() {
    let link = Link { loss: 50_000, ..Link::GIGABIT };
    let topology =
        Topology::new(2, &[link; 2]).with_repair().with(|node| node.policy = PolicyKind::Duplicate);
    let mut world = stage::settled(1, &topology, millis(2_000));
    let flow = world.start(Flow::steady(0, 1, 10_000, micros(500)));
    run(&mut world, millis(500));
    stop(&mut world, &[flow], millis(200));
    let (missed, repaired) = (counted(&world, "cells_missed"), counted(&world, "cells_repaired"));
    let result = world.result(flow);
    println!("{missed} missed, {repaired} repaired, {} of {} frames lost", result.lost(), result.taken);
    assert!(result.lost() * 200 <= result.taken);
    assert!(repaired > 0 && repaired * 8 < missed);
}

/// Both ends change their policies every few milliseconds, under load in both directions.
#[test]
fn a_change_of_policy_costs_no_frame() {
    let late = Link { delay: millis(1), ..Link::FAST_ETHERNET };
    let mut world = settled(1, &Topology::new(2, &[Link::GIGABIT, late]));
    let flows = [world.start(Flow::bulk(0, 1)), world.start(Flow::steady(1, 0, 3_000, micros(200)))];
    let changes = PolicyKind::ALL.into_iter().cycle().take(40).zip(PolicyKind::ALL.into_iter().rev().cycle());
    let begin = world.now().since(Instant::default());
    for ((kind, other), turn) in changes.zip(1..) {
        world.schedule_policy(begin + turn * millis(5), 0, kind);
        world.schedule_policy(begin + turn * millis(5), 1, other);
    }
    run(&mut world, millis(250));
    stop(&mut world, &flows, millis(150));
    for flow in flows {
        println!("{} frames, {} lost", world.result(flow).taken, world.result(flow).lost());
        assert_eq!(world.result(flow).lost(), 0);
    }
}

/// Heartbeats and requests wait for room as other cells do: a link that is only full loses no cell.
#[test]
fn a_link_that_is_full_loses_no_cell() {
    let slow = Link { rate: 20_000_000, ..Link::FAST_ETHERNET };
    let mut world = settled(1, &Topology::new(2, &[Link::FAST_ETHERNET, slow]).with_repair());
    let flows = [world.start(Flow::bulk(0, 1)), world.start(Flow::bulk(1, 0))];
    run(&mut world, millis(1_000));
    stop(&mut world, &flows, millis(300));
    assert_eq!((counted(&world, "cells_missed"), counted(&world, "drop_refused")), (0, 0));
    assert_eq!(world.losses().total(), 0);
}

/// Random bytes, foreign sessions, truncated cells and repeated data cells: a bundle counts and drops them, and nothing else
/// happens.
#[test]
fn what_strangers_inject_is_counted_and_dropped() {
    let kinds = [Injection::Noise, Injection::Stranger, Injection::Truncated, Injection::DataAgain];
    let mut world = settled(1, &Topology::new(2, &[Link::GIGABIT; 2]).with_repair());
    let flows = [
        world.start(Flow::steady(0, 1, 9_000, micros(500))),
        world.start(Flow::steady(1, 0, 60, micros(300))),
    ];
    let before = world.log().len();
    world.inject(Some(InjectionSettings { every: micros(50), choices: kinds.to_vec() }));
    run(&mut world, millis(200));
    world.inject(None);
    stop(&mut world, &flows, millis(50));

    let [noise, foreign, truncated, again] = kinds.map(|kind| world.injected(kind));
    println!("{noise} noise, {foreign} of foreign sessions, {truncated} truncated, {again} again");
    assert!([noise, foreign, truncated, again].iter().all(|count| *count > 500));
    assert_eq!(counted(&world, "drop_malformed"), noise + truncated);
    assert_eq!(counted(&world, "drop_session"), foreign);
    assert_eq!(counted(&world, "drop_duplicate"), again);
    assert_eq!(world.log().len(), before, "no peer and no link was taken for anything else than before");
    for name in ["cells_missed", "cells_given_up", "cells_repaired", "records_malformed", "drop_window"] {
        assert_eq!(counted(&world, name), 0, "{name}");
    }
    assert!(flows.iter().all(|flow| world.result(*flow).lost() == 0));
}

/// Cells that were sent to a node before it restarted must not reach its new incarnation.
#[test]
fn a_restart_mixes_nothing_up() {
    let joined = over_seeds(|seed| {
        let far = Link { delay: millis(1), ..Link::GIGABIT };
        let mut world = settled(seed, &Topology::new(2, &[Link::GIGABIT, far]));
        world.start(Flow::bulk(0, 1));
        world.start(Flow::steady(1, 0, 3_000, micros(100)));
        run(&mut world, about(millis(20), seed));
        let since = world.begin(Fault::Restart(1));
        run(&mut world, millis(100));
        first(&world, 0, since, |event| matches!(event, Event::LinkUp { direction: Direction::Sending, .. }))
    });
    table("restart, link in use", &joined);
    assert!(joined[joined.len() - 1] <= millis(60));
}

/// A world in which every link is in use.
fn settled(seed: u64, topology: &Topology) -> World<'static> {
    stage::settled(seed, topology, millis(500))
}

/// A span around `middle` that depends on the seed: longer or shorter by up to 10 ms.
fn about(middle: Duration, seed: u64) -> Duration {
    Random::new(seed, Stream::Plan).span(middle - millis(10)..=middle + millis(10))
}

/// One figure for each seed, sorted.
fn over_seeds(figure: impl Fn(u64) -> Duration) -> Vec<Duration> {
    let mut figures: Vec<_> = seeds(SEEDS).map(figure).collect();
    figures.sort_unstable();
    figures
}

/// How long after `since` a node stopped to send on link 1.
fn noticed(world: &World<'_>, node: u8, since: Instant) -> Duration {
    first(world, node, since, |event| {
        matches!(event, Event::LinkDown { link: 1, direction: Direction::Sending, .. })
    })
}

/// How long after `since` a node logged such an event first.
fn first(world: &World<'_>, node: u8, since: Instant, wanted: impl Fn(&Event) -> bool) -> Duration {
    let mut entries = logged(world, since).filter(|entry| entry.node == node);
    entries.find(|entry| wanted(&entry.event)).expect("it happened").at.since(since)
}

/// Cells for which the kernel has no memory are repaired like any loss; the link stays up.
#[test]
fn a_kernel_that_is_short_of_memory_costs_no_link() {
    for seed in seeds(SEEDS) {
        let mut world = settled(seed, &Topology::new(2, &[Link::FAST_ETHERNET; 2]).with_repair());
        let flow = world.start(Flow::steady(0, 1, 1_400, micros(500)));
        let since = world.begin(Fault::NoMemory(0, 0));
        run(&mut world, millis(50));
        world.end(Fault::NoMemory(0, 0));
        run(&mut world, millis(50));
        stop(&mut world, &[flow], millis(50));
        assert!(counted(&world, "drop_refused") > 0);
        assert_eq!(world.result(flow).lost(), 0, "seed {seed}");
        assert!(downs(&world, since).is_empty(), "seed {seed}");
    }
}

/// The figures of a flow follow the changes of its link.
#[test]
fn a_link_that_changes_shows_in_goodput_round_trips_and_pauses() {
    let link = Link::FAST_ETHERNET;
    let mut world = settled(1, &Topology::new(2, &[link]));
    let asking = Flow { sizes: Sizes::Fixed(67), ..asking(0, 1, millis(500)) };
    let (bulk, asking) = (world.start(Flow::bulk(0, 1)), world.start(asking));
    run(&mut world, millis(50));
    let fast = goodput(&mut world, bulk, millis(200));
    world.set_link(0, &Link { rate: link.rate / 4, delay: millis(5), ..link });
    run(&mut world, millis(300));
    let after = world.now();
    let slow = goodput(&mut world, bulk, millis(200));
    println!("{:.1} Mbit/s, then {:.1}", fast / 1e6, slow / 1e6);
    assert!(fast >= 95e6 && (0.9 * 25e6..=25e6).contains(&slow));

    let trips = world.round_trips(asking, after);
    assert!(!trips.is_empty() && trips.iter().all(|trip| *trip >= millis(10)));
    let usual = world.longest_pause(bulk, after);
    world.begin(Fault::BlackHole(0, None));
    run(&mut world, millis(60));
    let dead = world.longest_pause(bulk, after);
    assert!(usual < millis(45) && (millis(50)..millis(60) + usual).contains(&dead), "{usual:?}, {dead:?}");
}

fn table(title: &str, sorted: &[Duration]) {
    let [least, median, most] = [0, sorted.len() / 2, sorted.len() - 1].map(|index| sorted[index]);
    println!(
        "{title:<24} {} seeds: {least:>9.2?} least, {median:>9.2?} median, {most:>9.2?} most",
        sorted.len()
    );
}
