//! A member that holds the key and sends anything: the guarantees hold among the others, as if it were not there.

use core::time::Duration;
use tabane_proto::security::Rekey;
use tabane_proto::{Direction, Event};
use tabane_sim::flow::{Flow, Pace};
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
        for deed in HARMLESS.into_iter().filter(|deed| is_sealed || *deed != Deed::Claims) {
            harms_nobody(&without, deed, is_sealed);
        }
    }
}

/// The deeds of the test.
const HARMLESS: [Deed; 10] = [
    Deed::Crumbs,
    Deed::Records,
    Deed::Lanes,
    Deed::Numbers,
    Deed::Reports,
    Deed::Hellos,
    Deed::Farewells,
    Deed::Sessions,
    Deed::Noise,
    Deed::Claims,
];

fn harms_nobody(without: &Others, deed: Deed, is_sealed: bool) {
    let others = others(Some(deed), Duration::from_micros(500), is_sealed);
    println!("{deed:?}: {others:?}");
    assert_eq!((others.lost, others.links_down), (0, 0), "{deed:?}");
    assert!(others.latency_max <= without.latency_max + millis(5), "{deed:?}: {others:?}");
    assert!(others.goodput >= 0.85 * without.goodput, "{deed:?}: {others:?}");
    assert!(others.said > 500 && others.peer_bytes <= PEER_BYTES_MAX, "{deed:?}: {others:?}");
}

/// The worst figures of two other nodes that exchange frames for 300 ms.
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
    let rekey = Rekey::default();
    let topology = Topology::new(3, &[Link::FAST_ETHERNET; 2]).with_repair();
    let topology = if is_sealed { topology.sealed(rekey) } else { topology };
    let mut world = World::new(1, &topology.with(|node| node.may_be_hostile = true), None);
    let hostility =
        deed.map(|deed| Hostility { node: HOSTILE, after: millis(200), every, deeds: vec![deed] });
    world.set_hostile(hostility);
    world.settle(millis(200)).unwrap();
    for node in 0..3 {
        world.start(Flow { to: None, frames: 1, ..Flow::steady(node, 0, 60, millis(1)) });
    }
    world.run_for(millis(190)).unwrap();
    let before = world.log().len();
    let flows = [
        world.start(Flow { pace: Pace::Asking { timeout: millis(500) }, ..Flow::bulk(0, 1) }),
        world.start(Flow::steady(0, 1, 200, millis(1))),
        world.start(Flow::steady(1, 0, 9_000, millis(2))),
    ];
    world.start(Flow::steady(0, HOSTILE, 3_000, millis(2)));
    let since = world.now();
    world.run_for(millis(400)).unwrap();
    let goodput = world.goodput(flows[0], since);
    flows.iter().for_each(|flow| world.stop(*flow));
    world.run_for(millis(50)).unwrap();
    let results = flows.map(|flow| world.result(flow));
    let hostile = world.bundle(HOSTILE).node();
    let is_down = |event| matches!(event, Event::LinkDown { peer, direction: Direction::Receiving, .. } if peer != hostile);
    let links_down =
        world.log()[before..].iter().filter(|entry| entry.node != HOSTILE && is_down(entry.event)).count();
    Others {
        lost: results.iter().map(|result| result.lost()).sum(),
        latency_max: results.iter().map(|result| result.latency_max).max().unwrap_or_default(),
        goodput,
        links_down,
        said: world.hostile().0,
        peer_bytes: (0..2).flat_map(|node| world.bundle(node).peer_bytes()).max().unwrap_or_default(),
    }
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
