//! Nodes with keys of their own: who is let in besides the group, and who is shut out.

use crate::net::{KEY, Net, endpoint, identity, node_key, node_secret};
use crate::{SETTLED, handshake_step};
use core::time::Duration;
use tabane_proto::security::Rekey;
use tabane_proto::wire::cell::Kind;
use tabane_proto::wire::handshake::Step;
use tabane_proto::wire::hello::Hello;
use tabane_seal::{Cipher, Group, Random};
use tabane_sim::hostile;

/// Sessions get new keys so often.
const REKEY: Rekey = Rekey { after: Duration::from_millis(40), cells: u64::MAX };

/// So many nodes of one group that have just started, those in `own` with keys of their own.
fn nodes(count: u8, own: &[u8], rekey: Rekey) -> Net {
    let mut net = Net::empty(rekey);
    for node in 0..count {
        net.add(Some(KEY));
        net.trust(node, own.contains(&node), None);
    }
    net
}

fn talk(net: &mut Net, millis: usize) {
    for _ in 0..millis {
        net.send_frame(0);
        net.run(1);
    }
}

#[test]
fn nodes_with_keys_of_their_own_and_without_mix() {
    let mut net = nodes(3, &[0, 1], REKEY);
    net.run(4 * SETTLED);
    for node in 0..3 {
        assert_eq!(net.links_up(node), 4);
        assert_eq!(net.comings(node).len(), 2);
        let mut others: Vec<_> = (0..3).filter(|other| *other != node).collect();
        others.sort_unstable();
        let known = others.iter().map(|other| (*other, [0, 1].contains(other).then(|| node_key(*other))));
        assert_eq!(net.peer_keys(node), known.collect::<Vec<_>>());
        assert_eq!(net.counters(node).drop_forged, 0);
    }
    assert!(net.epoch(0) > 1, "and agree on new keys");
}

/// The third node has the group key all the time: stolen, it is out as soon as its own key is off the list.
#[test]
fn a_node_whose_key_is_taken_off_is_out_at_once_and_nobody_else_loses_anything() {
    let mut net = nodes(3, &[0, 1, 2], REKEY);
    (0..3).for_each(|node| net.trust(node, true, Some(&[0, 1, 2])));
    net.run(SETTLED);
    talk(&mut net, 50);
    assert_eq!(net.links_up(0), 4);
    for node in 0..2 {
        net.trust(node, true, Some(&[0, 1]));
    }
    assert_eq!([net.links_up(0), net.links_up(1)], [2, 2], "at once");
    let received = net.frames(2).1.len();
    talk(&mut net, 20_000);
    assert_eq!(net.frames(2).1.len(), received, "it receives nothing any more");
    assert_eq!([net.links_up(0), net.links_up(1), net.links_up(2)], [2, 2, 0]);
    for node in 0..2 {
        let comings = net.comings(node);
        assert!(comings[2].starts_with("2 refused: NotAllowed { key: Some("), "{comings:?}");
        assert!((4..=5).contains(&comings.len()), "reported once in 10 s: {comings:?}");
        assert!(comings[3..].iter().all(|coming| *coming == comings[2]), "{comings:?}");
        assert!(net.counters(node).drop_not_allowed > 10, "it tries again and again");
    }
    let (sent, delivered) = net.frames(1);
    assert!(delivered.iter().copied().eq(0..sent), "{} of {sent}", delivered.len());
    assert_eq!(net.counters(1).drop_forged + net.counters(1).cells_missed, 0);
}

#[test]
fn where_keys_are_allowed_who_has_none_or_another_is_refused() {
    let mut net = nodes(3, &[0, 2], Rekey::default());
    net.trust(0, true, Some(&[1]));
    net.run(2_000);
    let mut comings = net.comings(0);
    comings.sort();
    assert_eq!(comings[0], "1 refused: NotAllowed { key: None }");
    assert!(comings[1].starts_with("2 refused: NotAllowed { key: Some("), "{comings:?}");
    assert_eq!((net.links_up(0), net.comings(0).len()), (0, 2));
    assert_eq!((net.links_up(1), net.links_up(2)), (2, 2), "the others have no list");
    net.trust(0, true, None);
    net.run(2_000);
    assert_eq!(net.links_up(0), 4);
}

/// The list changes while a handshake is under way: a handshake under the old list fails, whichever of the two has begun. The
/// other node goes on sending under the keys that the handshake gave it.
#[test]
fn a_handshake_under_way_goes_by_the_new_list() {
    for changes in 0..2 {
        let mut net = nodes(2, &[0, 1], Rekey::default());
        let mut response_passed = false;
        net.run_through(30, |cell| {
            response_passed |= cell.is(Kind::Handshake) && handshake_step(cell) == Step::Response;
            cell.header().epoch == 0
        });
        assert!(response_passed && net.links_up(0) + net.links_up(1) == 0);
        net.trust(changes, true, Some(&[]));
        for _ in 0..20 {
            net.run(100);
            assert!(net.peer_keys(changes).is_empty(), "{:?}", net.comings(changes));
        }
    }
}

/// The number that a node puts into its sealed cells to the only other one.
fn session(net: &Net, from: u8) -> u16 {
    let cell = net.said.iter().rfind(|cell| cell.from.node == from && cell.header().epoch != 0);
    cell.expect("heartbeats are sealed").header().session
}

/// An initiation to a node in the name of the only other one, by somebody who knows the group key, claims this key, and has read
/// what stands in the clear. `renews`: of the session that the two have; else of a new one.
fn initiation(net: &Net, to: u8, (own, serial, renews): (u8, u32, bool)) -> Vec<u8> {
    let from = 1 - to;
    let greeting =
        net.said.iter().find(|cell| cell.from.node == from && cell.to.is_none()).expect("nodes greet");
    let hello = hostile::greeting(&greeting.bytes).expect("a hello");
    let (session, your_session) = if renews { (session(net, to), session(net, from)) } else { (4_444, 0) };
    let hello = Hello { session, your_session, ..hello };
    let group = Group::new(&[KEY], Cipher::fastest(), Random::seeded(net.now.as_nanos() ^ u64::from(serial)));
    let mut group = group.with_node_key(&node_secret(own));
    let numbers = (net.epoch(to) % u8::MAX + 1, serial);
    hostile::initiation(&mut group, &hello, identity(to), numbers, &[]).expect("it begins")
}

/// Numbers of sessions stand in the clear: a member with the group key could begin a handshake for new keys in another's name,
/// and the others would take its keys for theirs.
#[test]
fn who_lacks_the_keys_of_a_session_does_not_renew_them() {
    let mut net = nodes(2, &[0, 1], Rekey::default());
    net.run(SETTLED);
    for own in [2, 1] {
        let cell = initiation(&net, 0, (own, 1_000, true));
        net.receive(0, 0, endpoint(1, 0), &cell);
        assert!(!net.transmit(0).iter().any(|cell| cell.is(Kind::Handshake)), "with the key of node {own}");
    }
    assert_eq!(net.counters(0).drop_forged, 2);
    assert_eq!(net.comings(0)[1..].len(), 1);
    assert!(net.comings(0)[1].starts_with("1 refused: OtherKey"), "{:?}", net.comings(0));
}

/// A thief of the group key claims the keys of both nodes, with the last serial and with others, for the session that they have and
/// for new ones, each 5 ms at both ends, also while they join, renew keys, and one of them starts anew.
#[test]
fn who_claims_the_keys_of_others_parts_and_stops_nobody() {
    let rekey = Rekey { after: Duration::from_millis(400), cells: u64::MAX };
    let mut net = nodes(2, &[0, 1], rekey);
    net.run(5);
    let mut greeted = 0;
    for milli in 0..6_000_u32 {
        if milli == 3_000 {
            net.restart(1);
            net.trust(1, true, None);
        }
        if milli % 5 == 0 && net.said.iter().any(|cell| cell.from.node == 1 && cell.to.is_none()) {
            for to in 0..2 {
                let renews = milli % 2 == 0 && net.links_up(to) > 0;
                let cell = initiation(&net, to, (1 - to, u32::MAX - milli % 3, renews));
                net.receive(to, u8::from(milli % 2 == 0), endpoint(1 - to, 0), &cell);
                greeted += 1;
            }
        }
        net.send_frame(0);
        net.run(1);
    }
    assert!(greeted > 1_000);
    let (rekeys, received) = (net.counters(0).rekeys + net.counters(1).rekeys, net.frames(1).1.len());
    assert!(rekeys >= 6, "{rekeys} in 2.9 s of the second session alone");
    assert!(received > 5_900, "{received} of 6,000 frames, some sent before they had joined");
    let comings = net.comings(0);
    assert_eq!(comings, ["1 joined, sealed", "1 left", "1 joined, sealed"]);
    assert_eq!(net.comings(1), ["0 joined, sealed"], "since it started anew");
}
