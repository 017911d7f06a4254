//! Who is let in: bundles of one group, and others, on the same segments, with the real cryptography.

mod key_change;
mod net;
mod node_keys;

use std::collections::{BTreeMap, BTreeSet};

use core::net::{Ipv6Addr, SocketAddr};
use core::time::Duration;
use net::{KEY, Net, endpoint, identity};
use tabane_proto::PolicyKind;
use tabane_proto::security::{Rekey, Security, TAG};
use tabane_proto::wire::cell::{HEADER, Kind};
use tabane_proto::wire::handshake::{Message, Step};
use tabane_proto::wire::hello::{HELLO_MAX, Hello};
use tabane_seal::{Cipher, Group, Random};
use tabane_sim::random::{self, Stream};
use tabane_sim::table::Sent;

/// Nodes that start together have all links up after this many milliseconds: three heartbeats and a few more.
const SETTLED: u64 = 60;

/// Two nodes that know each other.
fn joined() -> Net {
    let mut net = Net::new(2);
    net.run(SETTLED);
    assert_eq!((net.links_up(0), net.links_up(1)), (2, 2));
    net
}

/// A frame of each node arrives at the other.
fn assert_frames_pass(net: &mut Net) {
    for (from, to) in [(0, 1), (1, 0)] {
        net.send_frame(from);
        net.run(1);
        let (sent, delivered) = net.frames(to);
        assert_eq!(delivered.last(), Some(&(sent - 1)), "from {from} to {to}");
    }
}

fn handshake_step(cell: &Sent) -> Step {
    Message::parse(&cell.bytes[..cell.bytes.len() - 2 * TAG]).expect("nodes say nothing else").step
}

#[test]
fn nodes_that_start_together_join_once_and_say_only_greetings_and_handshakes_openly() {
    let mut net = Net::new(3);
    net.run(SETTLED);
    for node in 0..3 {
        let mut expected: Vec<_> =
            (0..3).filter(|peer| *peer != node).map(|peer| format!("{peer} joined, sealed")).collect();
        let mut comings = net.comings(node);
        comings.sort();
        expected.sort();
        assert_eq!(comings, expected);
        assert_eq!(net.links_up(node), 4);
        assert_eq!(net.counters(node).drop_tag + net.counters(node).drop_forged, 0);
    }
    net.send_frame(0);
    net.run(1);
    assert_eq!((net.frames(1).1, net.frames(2).1), (vec![0], vec![0]));
    let open = |cell: &&Sent| cell.header().epoch == 0;
    let allowed =
        |cell: &Sent| cell.is(Kind::Handshake) || cell.is(Kind::Hello) && cell.header().session == 0;
    assert!(net.said.iter().filter(open).all(allowed));
}

#[test]
fn a_node_that_is_restarted_is_let_in_again_and_its_former_self_is_void() {
    let mut net = joined();
    net.restart(1);
    net.run(2 * SETTLED);
    assert_eq!(net.comings(0), ["1 joined, sealed", "1 left", "1 joined, sealed"]);
    assert_eq!(net.comings(1), ["0 joined, sealed"]);
    assert_eq!((net.links_up(0), net.links_up(1)), (2, 2));
    assert_frames_pass(&mut net);
}

/// How many cells a node has sealed under a number under which it had sealed another.
fn sealed_twice(net: &Net, node: u8) -> usize {
    let (mut first, mut twice) = (BTreeMap::new(), 0);
    for cell in net.said.iter().filter(|cell| cell.from.node == node && cell.header().epoch != 0) {
        let header = cell.header();
        let number = (header.session, header.epoch, header.link, header.link_seq);
        twice += usize::from(first.entry(number).or_insert(&cell.bytes) != &&cell.bytes);
    }
    twice
}

/// A node that goes on from a snapshot begins anew with its peer, whether that still has the keys of then, or others, or has forgotten it.
#[test]
fn who_goes_on_from_a_snapshot_is_told_by_its_peers_and_begins_anew() {
    let rekey = Rekey { after: Duration::from_secs(4), ..Rekey::default() };
    for (key, lived, off, within, twice) in [
        (Some(KEY), 100, 0, 200, 4),
        (Some(KEY), 4_000, 0, 300, 40),
        (Some(KEY), 100, 11_000, 500, 40),
        (None, 100, 0, 300, 0),
    ] {
        let [mut net, snapshot] = [(); 2].map(|()| {
            let mut net = Net::empty(rekey);
            (0..2).for_each(|_| net.add(key));
            net.run(2_000);
            net
        });
        for _ in 0..lived / 2 {
            assert_frames_pass(&mut net);
        }
        net.run_through(off, |cell| cell.from.node != 0);
        net.roll_back(0, snapshot);
        net.run(within);
        assert_eq!((net.links_up(0), net.links_up(1)), (2, 2), "{lived} ms and {off} ms after the snapshot");
        assert_frames_pass(&mut net);
        assert!(sealed_twice(&net, 0) <= twice, "{} of {}", sealed_twice(&net, 0), net.said.len());
    }
}

#[test]
fn a_link_that_both_add_while_they_know_each_other_gets_paths() {
    for key in [Some(KEY), None] {
        let mut net = Net::empty(Rekey::default());
        (0..2).for_each(|_| net.add(key));
        net.run(SETTLED);
        (0..2).for_each(|node| net.add_link(node));
        net.run(SETTLED);
        assert_eq!((net.links_up(0), net.links_up(1)), (3, 3));
        assert_eq!(net.counters(0).drop_session + net.counters(1).drop_session, 0);
        assert_frames_pass(&mut net);
    }
}

/// A former incarnation wanted new keys, and its initiation arrives only when the new one has been answered and has not
/// confirmed yet.
#[test]
fn what_a_former_self_says_late_does_not_displace_the_new_session() {
    let mut net = Net::of(2, Rekey { after: Duration::from_millis(100), cells: u64::MAX });
    let is = |cell: &Sent, from, step| {
        cell.from.node == from && cell.is(Kind::Handshake) && handshake_step(cell) == step
    };
    net.run(SETTLED);
    let mut late = Vec::new();
    net.run_through(100, |cell| {
        let is_held = is(cell, 0, Step::Initiation);
        late.extend(is_held.then(|| cell.clone()));
        !is_held
    });
    assert!(!late.is_empty());
    net.restart(0);
    let mut is_answered = false;
    for _ in 0..2_000 {
        net.run_through(1, |cell| {
            is_answered |= is(cell, 1, Step::Response);
            if is_answered { cell.from.node == 1 } else { !is(cell, 1, Step::Initiation) }
        });
        if is_answered {
            break;
        }
    }
    assert!(is_answered);
    late.iter().for_each(|cell| net.pass(cell));
    net.run(2 * SETTLED);
    assert_eq!(net.comings(1), ["0 joined, sealed", "0 left", "0 joined, sealed"]);
    assert_eq!((net.links_up(0), net.links_up(1)), (2, 2));
    assert_frames_pass(&mut net);
}

/// A NAT gives a node another port: the other one answers there as soon as a heartbeat has come from there.
#[test]
fn who_speaks_from_another_address_is_answered_there_within_a_heartbeat() {
    let mut net = joined();
    let elsewhere = endpoint(100, 0);
    for _ in 0..11 {
        let mut moved = Vec::new();
        net.run_through(1, |cell| {
            let is_moved = cell.from.node == 0 && cell.from.nic == 0;
            moved.extend((is_moved && cell.is(Kind::Heartbeat)).then(|| cell.clone()));
            !is_moved
        });
        moved.iter().for_each(|cell| net.receive(1, 0, elsewhere, &cell.bytes));
    }
    let before = net.said.len();
    net.run_through(11, |cell| cell.from.node != 0 || cell.from.nic != 0);
    let to = |node| {
        net.said[before..].iter().any(|cell| cell.from.node == 1 && cell.from.nic == 0 && cell.is_to(node))
    };
    assert!(to(100) && !to(0));
    assert_eq!(net.links_up(1), 2, "no path was given up meanwhile");
}

/// Cells that somebody recorded change nothing when they are repeated, from whatever address.
#[test]
fn what_was_said_before_changes_nothing() {
    let mut net = joined();
    assert_frames_pass(&mut net);
    net.restart(1);
    net.run(2 * SETTLED);
    assert_frames_pass(&mut net);
    let (recorded, comings) = (net.said.clone(), [net.comings(0), net.comings(1)]);
    let frames = [net.frames(0).1.len(), net.frames(1).1.len()];
    let elsewhere = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 9);
    for cell in &recorded {
        for from in [cell.from.endpoint(), elsewhere] {
            net.receive(1 - cell.from.node, cell.from.nic, from, &cell.bytes);
        }
        (0..2).for_each(|node| net.transmit(node).truncate(0));
    }
    assert_eq!(frames, [net.frames(0).1.len(), net.frames(1).1.len()], "nothing is delivered twice");
    assert!(net.counters(0).drop_replayed > 0);
    net.run(3_000);
    assert_eq!(comings, [net.comings(0), net.comings(1)], "nobody came or went");
    assert_eq!((net.links_up(0), net.links_up(1)), (2, 2));
    assert_frames_pass(&mut net);
}

/// Both begin at once, and whatever is lost: in the end they are in the same session.
#[test]
fn two_that_begin_at_once_agree_whatever_is_lost() {
    for seed in 0..200_u64 {
        let mut net = Net::new(2);
        let mut random = random::Random::new(seed, Stream::Plan);
        net.run_through(400, |_| random.chance(500_000));
        net.run(1_500);
        assert_eq!((net.links_up(0), net.links_up(1)), (2, 2), "seed {seed}");
        assert_frames_pass(&mut net);
    }
}

#[test]
fn a_stranger_is_neither_answered_nor_remembered() {
    let mut net = joined();
    net.add(Some([8; 32]));
    let bytes = net.counters(0).cells_received;
    net.run(1_000);
    assert!(net.counters(0).cells_received > bytes);
    assert!(net.counters(0).drop_tag >= 10 && net.counters(2).drop_tag >= 2);
    assert!(net.comings(2).is_empty());
    assert!(net.said.iter().all(|cell| !cell.is_to(2)), "nobody speaks to it");
    assert_eq!(net.comings(0), ["1 joined, sealed"]);
}

#[test]
fn sealed_and_open_nodes_do_not_meet() {
    let mut net = Net::new(1);
    net.add(None);
    net.run(1_000);
    assert!(net.comings(0).is_empty());
    assert_eq!(net.comings(1), ["0 refused: Seals"], "reported once");
    assert!(net.counters(0).drop_tag > 0);
}

/// A node that does not exist greets the first one with this version, and a tag that is made with this key, as a member of the
/// group could, or somebody who has recorded many.
fn greet(net: &mut Net, key: [u8; 32], node: u8, version: u8) {
    let group = Group::new(&[key], Cipher::fastest(), Random::seeded(99));
    let greeting = &net.said.iter().find(|cell| cell.to.is_none()).expect("nodes greet").bytes;
    let mut covered = greeting[..greeting.len() - TAG].to_vec();
    covered[0] = version << 4 | Kind::Hello as u8;
    covered[HEADER..HEADER + 8].copy_from_slice(&identity(node).0.to_be_bytes());
    net.receive(0, 0, endpoint(node, 0), &[&covered[..], &group.tag(0, &covered)].concat());
}

/// A node of another version that has the key is reported, once in 10 s. Without the key nobody can cause a report, and all
/// members together cause 16 in that time at most.
#[test]
fn a_node_of_another_version_is_reported_if_it_has_the_key() {
    let mut net = joined();
    let greet = |net: &mut Net, key, node: u8| {
        greet(net, key, node, 2);
        assert!(net.transmit(0).is_empty(), "no answer");
    };
    (50..250).for_each(|node| greet(&mut net, [8; 32], node));
    assert_eq!(net.comings(0), ["1 joined, sealed"], "forged");
    greet(&mut net, KEY, 0);
    assert_eq!(net.comings(0).len(), 1, "its own, as after an upgrade");
    (0..3).for_each(|_| greet(&mut net, KEY, 50));
    assert_eq!(net.comings(0)[1..], ["50 refused: Version { ours: 1, theirs: 2 }"]);
    (50..250).for_each(|node| greet(&mut net, KEY, node));
    assert_eq!(net.comings(0).len(), 1 + 16);
    net.run(10_000);
    greet(&mut net, KEY, 50);
    assert_eq!(net.comings(0).len(), 1 + 17);
    assert_frames_pass(&mut net);
}

/// A member that knows the group's key begins a handshake in another's name, or as who it was before.
#[test]
fn a_hello_that_contradicts_what_stands_in_the_clear_is_refused() {
    let mut net = joined();
    let greeting = net.said.iter().find(|cell| cell.to.is_none()).expect("nodes greet").bytes.clone();
    let known = Hello::parse(&greeting[HEADER..greeting.len() - TAG]).expect("nodes say nothing else");
    let mut group = Group::new(&[KEY], Cipher::fastest(), Random::seeded(99));
    let mut serial = 0;
    let mut begin = |hello: Hello| {
        let (mut payload, mut body) = ([0; HELLO_MAX], Vec::new());
        let length = hello.emit(&mut payload);
        group.initiate().write(&payload[..length], &mut body).expect("a first step");
        serial += 1;
        let (node, addressee) = (identity(200), identity(0));
        let step = Step::Initiation;
        let message = Message { step, epoch: 1, serial, node, incarnation: 5, addressee, body: &body };
        let covered = message.emit();
        let before = net.counters(0).drop_malformed;
        let cell = [&covered[..], &group.tag(0, &covered), &[0; TAG]].concat();
        net.receive(0, 0, endpoint(200, 0), &cell);
        let is_answered = net.transmit(0).iter().any(|cell| cell.is(Kind::Handshake));
        (net.counters(0).drop_malformed - before, is_answered)
    };
    let true_one = Hello { node: identity(200), incarnation: 5, session: 9, your_session: 0, ..known };
    assert_eq!(begin(Hello { node: identity(201), ..true_one }), (1, false));
    assert_eq!(begin(Hello { incarnation: 6, ..true_one }), (1, false));
    assert_eq!(begin(Hello { session: 0, ..true_one }), (1, false));
    assert_eq!(begin(true_one), (0, true));
}

/// Initiations with valid tags, as a member of the group could make them, or somebody could record of many.
fn flood(count: u32) -> Vec<Vec<u8>> {
    let group = Group::new(&[KEY], Cipher::fastest(), Random::seeded(99));
    let initiation = |serial| {
        let message = Message {
            step: Step::Initiation,
            epoch: 1,
            serial,
            node: identity(200),
            incarnation: u64::from(serial),
            addressee: identity(0),
            body: &[1; 115],
        };
        let covered = message.emit();
        [&covered[..], &group.tag(0, &covered), &[0; TAG]].concat()
    };
    (1..=count).map(initiation).collect()
}

#[test]
fn under_a_flood_only_who_shows_its_address_is_answered() {
    let mut net = joined();
    let (flood, attacker) = (flood(2_000), SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 9));
    let before = net.counters(0);
    flood.iter().for_each(|cell| net.receive(0, 0, attacker, cell));
    let answers = net.transmit(0).iter().filter(|cell| cell.is(Kind::Handshake)).count();
    assert!(answers <= 256, "{answers} cookies");
    assert!(net.counters(0).drop_forged - before.drop_forged <= 64, "so many were computed");
    assert!(net.counters(0).drop_flood > 1_000);

    net.add(Some(KEY));
    for millis in 0..1_000 {
        flood[millis % 1_000..][..50].iter().for_each(|cell| net.receive(0, 0, attacker, cell));
        net.run_through(1, |cell| cell.to.is_some() || cell.from.node == 2);
    }
    let stamped =
        |cell: &&Sent| cell.from.node == 2 && cell.is(Kind::Handshake) && !cell.bytes.ends_with(&[0; TAG]);
    assert!(
        net.said.iter().any(|cell| stamped(&cell)) || net.comings(2).contains(&"0 joined, sealed".to_owned())
    );
    assert_eq!(net.links_up(1), 4, "the legitimate nodes have met");
}

#[test]
fn greetings_of_any_number_of_nodes_begin_64_handshakes() {
    let mut net = joined();
    (50..=250).for_each(|node| greet(&mut net, KEY, node, 1));
    let begun = net.transmit(0).iter().filter(|cell| cell.is(Kind::Handshake)).count();
    assert_eq!(begun, 64);
    net.run(SETTLED);
    assert_frames_pass(&mut net);
}

/// Anyone can read a greeting; session numbers travel only sealed.
#[test]
fn greetings_are_readable_and_what_handshakes_carry_is_not() {
    let net = joined();
    let says_its_name = |cell: &&Sent| cell.bytes.windows(4).any(|window| window == b"node");
    let (telling, silent): (Vec<_>, Vec<_>) = net.said.iter().partition(says_its_name);
    assert!(telling.iter().all(|cell| cell.is(Kind::Hello) && cell.header().epoch == 0));
    assert!(silent.iter().any(|cell| cell.is(Kind::Handshake)));
    let hello = Hello::parse(&telling[0].bytes[HEADER..]).expect("anyone can read it");
    assert_eq!((hello.node, hello.session, hello.your_session), (identity(telling[0].from.node), 0, 0));
}

#[test]
fn new_keys_cost_no_cell() {
    let mut net = Net::of(2, Rekey { after: Duration::from_millis(40), cells: u64::MAX });
    net.run(SETTLED);
    for _ in 0..1_000 {
        (0..4).for_each(|_| net.send_frame(0));
        net.run(1);
    }
    let (sent, delivered) = net.frames(1);
    assert!(delivered.iter().copied().eq(0..sent), "all, in order");
    assert!(net.epoch(0) > 8 && net.epoch(0).abs_diff(net.epoch(1)) <= 1, "epoch {}", net.epoch(0));
    assert_eq!(net.comings(0), ["1 joined, sealed"]);
    assert_eq!(net.counters(1).cells_missed + net.counters(1).drop_forged + net.counters(0).drop_forged, 0);
}

#[test]
fn keys_are_renewed_after_so_many_cells_too() {
    let mut net = Net::of(2, Rekey { after: Duration::from_secs(3_600), cells: 300 });
    net.run(2_000);
    assert!(net.epoch(0) > 1);
    assert_frames_pass(&mut net);
}

/// The former key still opens a late cell; not after ten seconds.
#[test]
fn an_old_epoch_dies() {
    let mut net = Net::of(2, Rekey { after: Duration::from_secs(5), cells: u64::MAX });
    net.run(4_980);
    let mut late = Vec::new();
    for _ in 0..2 {
        net.send_frame(0);
        net.run_through(1, |cell| {
            let passes = !cell.is(Kind::Data);
            if !passes {
                late.push(cell.clone());
            }
            passes
        });
    }
    let epoch = late[0].header().epoch;
    net.run(200);
    assert_ne!(net.epoch(1), epoch, "the keys have changed");
    let before = net.counters(1);
    net.pass(&late[0]);
    assert_eq!(net.counters(1).drop_forged, before.drop_forged, "opened under the key before");
    net.run(11_000);
    let before = net.counters(1);
    net.pass(&late[1]);
    assert_eq!(net.counters(1).drop_forged, before.drop_forged + 1);
}

/// A stranger chooses how long its cells are, and not how much is hashed for them.
#[test]
fn a_long_cell_is_dropped_before_its_tag_is_computed() {
    let mut net = Net::new(1);
    net.run(20);
    let greeting = net.said.iter().find(|cell| cell.is(Kind::Hello)).expect("nodes greet").bytes.clone();
    for (length, dropped) in [(512, (1, 0)), (513, (1, 1)), (9_000, (1, 2))] {
        let mut cell = greeting.clone();
        cell.resize(length, 0);
        net.receive(0, 0, endpoint(1, 0), &cell);
        let counters = net.counters(0);
        assert_eq!((counters.drop_tag, counters.drop_malformed), dropped, "{length} bytes");
    }
}

// Which lanes flows take, by the headers of their cells.

/// The links that the cells of each lane have taken since so many cells were sent.
fn links_of_lanes(net: &Net, since: usize) -> BTreeMap<u8, BTreeSet<u8>> {
    let mut lanes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for cell in net.said[since..].iter().filter(|cell| cell.is(Kind::Data)) {
        lanes.entry(cell.header().lane).or_default().insert(cell.from.nic);
    }
    lanes
}

/// Frames of this many flows, one each millisecond.
fn talk(net: &mut Net, flows: u8) {
    for flow in 0..flows {
        net.send_frame_of(0, flow);
        net.run(1);
    }
}

#[test]
fn flows_that_are_bound_to_different_links_share_no_lane() {
    for policy in [PolicyKind::Hash, PolicyKind::Tlb, PolicyKind::TlbHistory] {
        let mut net = joined();
        net.set_policy(0, policy);
        let since = net.said.len();
        talk(&mut net, 64);
        let lanes = links_of_lanes(&net, since);
        assert!(lanes.values().all(|links| links.len() == 1), "{policy:?}: {lanes:?}");
        for link in [0, 1] {
            let of_it = lanes.values().filter(|links| links.contains(&link)).count();
            assert_eq!(of_it, 8, "{policy:?}: {lanes:?}");
        }
    }
}

#[test]
fn a_flow_that_moves_to_another_link_keeps_its_lane() {
    let mut net = joined();
    net.set_policy(0, PolicyKind::Hash);
    let since = net.said.len();
    talk(&mut net, 16);
    let before = links_of_lanes(&net, since);
    net.set_policy(0, PolicyKind::ActiveBackup);
    let since = net.said.len();
    talk(&mut net, 16);
    let after = links_of_lanes(&net, since);
    assert!(before.keys().eq(after.keys()), "{before:?}, then {after:?}");
    assert_eq!(after.values().flatten().collect::<BTreeSet<_>>().len(), 1, "all take one link: {after:?}");
}
