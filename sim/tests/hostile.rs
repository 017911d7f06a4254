//! A member that holds the key and sends anything: the guarantees hold among the others, as if it were not there.

use crate::stage::{asking, goodput, introduce, logged, micros, millis, run, stop};
use core::time::Duration;
use tabane_proto::security::Rekey;
use tabane_proto::{Direction, Event};
use tabane_sim::flow::Flow;
use tabane_sim::hostile::{Deed, Hostility};
use tabane_sim::topology::{Link, Topology};
use tabane_sim::world::World;

const HOSTILE: u8 = 2;
/// What [`tabane_proto::Bundle::peer_bytes`] may be for one peer: a full window and a record in pieces on each of 16 lanes.
const PEER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One deed at a time, each 500 us: the hostile member costs the others a tenth of their links at most.
#[test]
fn no_deed_of_a_member_harms_others() {
    for is_sealed in [false, true] {
        let without = others(None, millis(0), is_sealed);
        println!("sealed {is_sealed}, nobody is hostile: {without:?}");
        for deed in Deed::ALL.into_iter().filter(|deed| is_sealed || *deed != Deed::Claims) {
            let others = others(Some(deed), micros(500), is_sealed);
            println!("{deed:?}: {others:?}");
            assert_eq!((others.lost, others.links_down), (0, 0), "{deed:?}");
            assert!(others.latency_max <= without.latency_max + millis(5), "{deed:?}: {others:?}");
            assert!(others.goodput >= 0.85 * without.goodput, "{deed:?}: {others:?}");
            assert!(others.said > 500 && others.peer_bytes <= PEER_BYTES_MAX, "{deed:?}: {others:?}");
        }
    }
}

/// The cost of a request does not depend on how many numbers it names.
#[test]
fn requests_for_everything_cost_as_little_as_others() {
    let least = |deed| {
        let took = |_| {
            let began = std::time::Instant::now();
            others(deed, micros(100), false);
            began.elapsed()
        };
        (0..3).map(took).min().unwrap_or_default()
    };
    let (without, with) = (least(None), least(Some(Deed::AllGaps)));
    println!("computing without {without:?}, with {with:?}");
    assert!(with <= 3 * without + millis(200), "{with:?} instead of {without:?}");
}

/// 65,540 cells of one byte are one record: more pieces than 16 bits count.
#[test]
fn a_record_in_crumbs_is_delivered_or_dropped() {
    let mut world = World::new(1, &Topology::new(2, &[Link::GIGABIT; 2]), None);
    let (after, every) = (millis(60), micros(100));
    world.set_hostile(Some(Hostility { node: 1, after, every, deeds: vec![Deed::Crumbs] }));
    world.settle(after).unwrap();
    run(&mut world, millis(400));
    assert!(world.hostile().0 > 2 * 65_540);
}

/// The worst figures of two other nodes that exchange frames for 400 ms.
#[derive(Debug)]
struct Others {
    lost: u64,
    latency_max: Duration,
    goodput: f64,
    links_down: usize,
    said: u64,
    peer_bytes: usize,
}

fn others(deed: Option<Deed>, every: Duration, is_sealed: bool) -> Others {
    let topology = Topology::new(3, &[Link::FAST_ETHERNET; 2]).with_repair();
    let topology = if is_sealed { topology.sealed(Rekey::default()) } else { topology };
    let mut world = World::new(1, &topology.with(|node| node.may_be_hostile = true), None);
    let deeds = deed.map(|deed| Hostility { node: HOSTILE, after: millis(200), every, deeds: vec![deed] });
    world.set_hostile(deeds);
    world.settle(millis(200)).unwrap();
    introduce(&mut world, 3);
    run(&mut world, millis(190));
    let since = world.now();
    let flows = [
        world.start(asking(0, 1, millis(500))),
        world.start(Flow::steady(0, 1, 200, millis(1))),
        world.start(Flow::steady(1, 0, 9_000, millis(2))),
    ];
    world.start(Flow::steady(0, HOSTILE, 3_000, millis(2)));
    let goodput = goodput(&mut world, flows[0], millis(400));
    stop(&mut world, &flows, millis(50));
    let results = flows.map(|flow| world.result(flow));
    let hostile = world.bundle(HOSTILE).node();
    let is_down = |event| matches!(event, Event::LinkDown { peer, direction: Direction::Receiving, .. } if peer != hostile);
    Others {
        lost: results.iter().map(|result| result.lost()).sum(),
        latency_max: results.iter().map(|result| result.latency_max).max().unwrap_or_default(),
        goodput,
        links_down: logged(&world, since)
            .filter(|entry| entry.node != HOSTILE && is_down(entry.event))
            .count(),
        said: world.hostile().0,
        peer_bytes: (0..2).flat_map(|node| world.bundle(node).peer_bytes()).max().unwrap_or_default(),
    }
}
