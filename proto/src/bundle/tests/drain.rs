//! Links that are drained: what still goes over them, and when.

use super::pair::{LINK_COUNT, Pair, Sent, address};
use super::*;
use crate::link::health::HEARTBEAT_QUIET;
use crate::outputs::event::Event;
use alloc::vec::Vec;
use core::time::Duration;
use tabane_seal::Cipher;

fn pair() -> Pair {
    Pair::new(Cipher::Aegis128L)
}

fn drain(pair: &mut Pair, node: usize, link: u8, drained: bool) {
    let now = pair.now;
    pair.nodes[node].drain_link(now, link, drained);
}

fn is_kind(sent: &Sent, kind: Kind) -> bool {
    sent.bytes[0] & 0x0f == kind as u8
}

/// How many data cells each link gets of frames that a node reads now, all of which arrive.
fn data(pair: &mut Pair, node: usize) -> [usize; LINK_COUNT as usize] {
    const FRAMES: u8 = 12;
    let other = 1 - node;
    pair.delivered[other].clear();
    let frames: Vec<_> = (0..FRAMES).map(|fill| pair.read(node, 1_400, fill)).collect();
    let mut sent = Vec::new();
    for _ in 0..2 * FRAMES {
        let now = pair.sent_by(node);
        now.iter().for_each(|sent| pair.deliver(sent));
        sent.extend(now);
        pair.now = pair.now + Duration::from_millis(1);
    }
    assert_eq!(pair.delivered[other].len(), frames.len());
    let data = |link| sent.iter().filter(|sent| sent.link == link && is_kind(sent, Kind::Data)).count();
    core::array::from_fn(|link| data(u8::try_from(link).unwrap()))
}

fn events(pair: &mut Pair, node: usize) -> Vec<Event> {
    core::iter::from_fn(|| pair.nodes[node].poll_event()).collect()
}

#[test]
fn data_leaves_a_drained_link_at_both_ends_and_heartbeats_do_not() {
    let mut pair = pair();
    for node in 0..2 {
        let [first, second] = data(&mut pair, node);
        assert!(first > 0 && second > 0, "{first} and {second} under round robin");
        events(&mut pair, node);
    }
    drain(&mut pair, 0, 1, true);
    let says = pair.sent_by(0);
    assert!(says.iter().all(|sent| sent.link == 1 || !is_kind(sent, Kind::Hello)));
    says.iter().for_each(|sent| pair.deliver(sent));
    let peer = pair.nodes[0].node();
    assert_eq!(events(&mut pair, 1), [Event::LinkDrained { peer, link: 1 }]);
    for node in 0..2 {
        assert_eq!(data(&mut pair, node)[1], 0, "node {node}");
        pair.now = pair.now + HEARTBEAT_QUIET;
        let beats = pair.sent_by(node).iter().any(|sent| sent.link == 1 && is_kind(sent, Kind::Heartbeat));
        assert!(beats, "node {node} does not judge the link any more");
    }
    drain(&mut pair, 0, 1, false);
    pair.pass(Duration::ZERO);
    assert!(events(&mut pair, 1).contains(&Event::LinkResumed { peer, link: 1 }));
    for node in 0..2 {
        assert!(data(&mut pair, node)[1] > 0, "node {node}");
    }
}

#[test]
fn a_lost_hello_is_made_up_by_a_greeting() {
    let mut pair = pair();
    let now = pair.now;
    pair.nodes[0].set_greeted(now, 1, alloc::vec![address(1, 1)]);
    (0..110).for_each(|_| pair.pass(HEARTBEAT_QUIET));
    drain(&mut pair, 0, 1, true);
    pair.sent_by(0);
    pair.pass(HEARTBEAT_QUIET);
    assert!(!pair.nodes[1].outbound()[1].end.is_drained, "nobody has said so");
    (0..110).for_each(|_| pair.pass(HEARTBEAT_QUIET));
    let told = [0, 1].map(|link: usize| pair.nodes[1].outbound()[link].end.is_drained);
    assert_eq!(told, [false, true]);
}

#[test]
fn a_drained_link_is_better_than_none() {
    let mut pair = pair();
    drain(&mut pair, 0, 1, true);
    pair.pass(Duration::ZERO);
    let now = pair.now;
    pair.nodes[0].handle_carrier(now, 0, false);
    assert_eq!(data(&mut pair, 0)[0], 0);
    assert!(data(&mut pair, 0)[1] > 0);
}

#[test]
fn the_last_way_to_a_peer_may_not_be_drained() {
    let mut pair = pair();
    let may_drain = |pair: &Pair, node: usize| [0, 1].map(|link| pair.nodes[node].may_drain(1 << link));
    assert_eq!(may_drain(&pair, 0), [true, true]);
    drain(&mut pair, 1, 1, true);
    pair.pass(Duration::ZERO);
    assert_eq!(may_drain(&pair, 0), [false, true], "the peer drains the other one");
    drain(&mut pair, 1, 1, false);
    pair.pass(Duration::ZERO);
    let now = pair.now;
    pair.nodes[0].handle_carrier(now, 0, false);
    assert_eq!(may_drain(&pair, 0), [true, false], "the other one has no carrier");
    pair.nodes[0].handle_carrier(now, 0, true);
    (0..10).for_each(|_| pair.pass(HEARTBEAT_QUIET));
    assert_eq!(may_drain(&pair, 0), [true, true]);
}

#[test]
fn without_peers_one_link_stays() {
    let mut bundle = alone(at(0), 2);
    assert!(bundle.may_drain(1) && !bundle.may_drain(3));
    bundle.drain_link(at(0), 0, true);
    assert!(!bundle.may_drain(2));
    assert!(bundle.hello(0, None).drains && !bundle.hello(1, None).drains);
}

#[test]
fn what_is_stated_of_a_link_counts_at_once() {
    let mut pair = pair();
    let now = pair.now;
    let state = |pair: &mut Pair, rates, weight| {
        pair.nodes[0].state_link(now, 1, rates, weight);
        pair.sent_by(0).iter().for_each(|sent| pair.deliver(sent));
        [0, 1].map(|link: usize| pair.nodes[1].outbound()[link].ceiling.rate())
    };
    let told = state(&mut pair, [Some(80_000_000), Some(40_000_000)], Some(3));
    assert_eq!(told, [None, Some(5_000_000)], "the peer knows what it may send");
    let link = &pair.nodes[0].links[1];
    assert_eq!((link.queue.rate(), link.ceiling.rate()), (Some(10_000_000), Some(10_000_000)));
    assert_eq!(link.settings.weight, Some(3));
    assert_eq!(state(&mut pair, [None, None], None), [None, None]);
    assert_eq!((pair.nodes[0].links[1].queue.rate(), pair.nodes[0].links[1].ceiling.rate()), (None, None));
    pair.nodes[0].state_link(now, 9, [Some(1), None], None);
}
