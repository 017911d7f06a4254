//! A change of the group key: what happens to nodes that have joined.

use crate::net::{KEY, Net};
use crate::{SETTLED, assert_frames_pass};
use core::time::Duration;
use tabane_proto::security::Rekey;
use tabane_proto::wire::cell::Kind;
use tabane_sim::random::{Random, Stream};

const NEW: [u8; 32] = [8; 32];
/// The keys of a node before a change, and in its three rounds.
const ROUNDS: [&[[u8; 32]]; 4] = [&[KEY], &[KEY, NEW], &[NEW, KEY], &[NEW]];
/// Sessions get new keys so often.
const REKEY: Rekey = Rekey { after: Duration::from_millis(40), cells: u64::MAX };
/// Sessions get no new keys by age.
const NEVER: Rekey = Rekey { after: Duration::from_secs(3_600), cells: u64::MAX };

fn joined(nodes: usize, rekey: Rekey) -> Net {
    let mut net = Net::of(nodes, rekey);
    net.run(SETTLED);
    net
}

/// Nodes send frames to everyone for so many milliseconds, one after the other.
fn talk(net: &mut Net, nodes: u8, millis: usize) {
    for node in (0..nodes).cycle().take(millis) {
        net.send_frame(node);
        net.run(1);
    }
}

#[test]
fn in_three_rounds_nobody_leaves_and_sessions_go_on_getting_keys() {
    let mut net = joined(2, REKEY);
    for keys in &ROUNDS[1..] {
        for node in 0..2 {
            net.change_keys(node, keys);
            let before = net.epoch(0);
            net.run(4 * SETTLED);
            assert_ne!(net.epoch(0), before, "new keys");
            assert_frames_pass(&mut net);
        }
    }
    assert_eq!(net.comings(0), ["1 joined, sealed"]);
    net.add(Some(KEY));
    net.run(1_000);
    assert!(net.comings(2).is_empty(), "the old key lets nobody in");
}

/// The last node receives from all others: it gets every frame, and in order. Sessions that go back to the old key are renewed as
/// soon as that is dropped.
#[test]
fn a_change_of_the_group_key_costs_no_frame() {
    let mut net = joined(3, NEVER);
    for keys in &ROUNDS[1..] {
        assert_eq!(net.epoch(0), 1);
        for node in 0..3 {
            net.change_keys(node, keys);
            talk(&mut net, 2, 50);
        }
    }
    assert_eq!(net.epoch(0), 2, "renewed once, when the old key was dropped");
    talk(&mut net, 2, 20_000);
    let (sent, delivered) = net.frames(2);
    assert!(delivered.iter().copied().eq(0..sent), "{} of {sent}", delivered.len());
    for node in 0..3 {
        assert_eq!(net.comings(node).len(), 2, "{:?}", net.comings(node));
        assert_eq!(net.counters(node).drop_forged + net.counters(node).cells_missed, 0);
    }
}

#[test]
fn who_has_only_the_old_key_is_out_after_ten_seconds_and_nobody_else_loses_anything() {
    let mut net = joined(3, NEVER);
    for keys in &ROUNDS[1..] {
        (0..2).for_each(|node| net.change_keys(node, keys));
        talk(&mut net, 1, 50);
    }
    net.run(9_900 - 50);
    assert_eq!((net.links_up(0), net.comings(0).len()), (4, 2));
    net.run(200);
    let out = ["1 joined, sealed", "2 joined, sealed", "2 expired: KeyDropped"];
    assert_eq!(net.comings(0), out);
    let before = net.frames(2).1.len();
    talk(&mut net, 1, 20_000);
    assert_eq!(net.frames(2).1.len(), before, "it receives nothing any more");
    assert_eq!(net.comings(2)[2..], ["0 left", "1 left"]);
    assert_eq!(net.comings(0), out, "and does not come back");
    let (sent, delivered) = net.frames(1);
    assert!(delivered.iter().copied().eq(0..sent), "{} of {sent}", delivered.len());
    assert_eq!(net.counters(1).drop_forged + net.counters(1).cells_missed, 0);
}

/// A node speaks the old key, but accepts the new one: the other begins. Holds for the smaller and the larger node.
#[test]
fn who_missed_the_second_round_stays() {
    for late in 0..2 {
        let mut net = joined(2, REKEY);
        net.change_keys(late, ROUNDS[1]);
        for keys in &ROUNDS[1..] {
            net.change_keys(1 - late, keys);
            net.run(SETTLED);
        }
        let epoch = net.epoch(0);
        net.run(20_000);
        assert_ne!(net.epoch(0), epoch, "new keys");
        assert_eq!([net.comings(0).len(), net.comings(1).len()], [1, 1], "{late} is late");
        assert_frames_pass(&mut net);
    }
}

/// Sends a frame each millisecond, while more than half of all handshake cells are lost.
fn talk_through_losses(net: &mut Net, millis: u64, random: &mut Random) {
    for _ in 0..millis {
        net.send_frame(0);
        net.run_through(1, |cell| !cell.is(Kind::Handshake) || random.chance(400_000));
    }
}

fn assert_nobody_left_and_nothing_is_lost(net: &Net, seed: u64) {
    let (sent, delivered) = net.frames(1);
    assert!(delivered.iter().copied().eq(0..sent), "seed {seed}: {} of {sent}", delivered.len());
    assert_eq!([net.comings(0).len(), net.comings(1).len()], [1, 1], "seed {seed}");
    assert_eq!([0, 1].map(|node| net.counters(node).drop_forged), [0, 0], "seed {seed}");
}

/// Each node goes through the rounds at times of its own.
#[test]
fn whenever_nodes_change_and_whatever_handshakes_are_lost_nobody_leaves() {
    for seed in 0..30 {
        let mut net = joined(2, Rekey { after: Duration::from_millis(500), ..REKEY });
        let mut random = Random::new(seed, Stream::Plan);
        for keys in &ROUNDS[1..] {
            let first = u8::from(random.chance(500_000));
            for node in [first, 1 - first] {
                net.change_keys(node, keys);
                let millis = random.below(256);
                talk_through_losses(&mut net, millis, &mut random);
            }
        }
        talk_through_losses(&mut net, 11_000, &mut random);
        assert_nobody_left_and_nothing_is_lost(&net, seed);
    }
}

/// Between the rounds one node speaks the old key, the other the new one, and both may begin at once.
#[test]
fn two_that_speak_different_keys_agree_when_both_begin() {
    for seed in 0..15 {
        for [one, other] in [[1, 2], [2, 1]] {
            let mut net = joined(2, REKEY);
            net.change_keys(0, ROUNDS[one]);
            net.change_keys(1, ROUNDS[other]);
            talk_through_losses(&mut net, 1_000, &mut Random::new(seed, Stream::Plan));
            let epoch = net.epoch(0);
            net.run(6_000);
            assert_ne!(net.epoch(0), epoch, "seed {seed}: new keys");
            assert_nobody_left_and_nothing_is_lost(&net, seed);
        }
    }
}

/// The bound holds for any reason: here no handshake passes.
#[test]
fn a_session_whose_keys_are_not_renewed_for_three_times_as_long_as_they_should_be_ends() {
    let mut net = joined(2, Rekey { after: Duration::from_secs(5), ..REKEY });
    let without_handshakes =
        |net: &mut Net, millis| net.run_through(millis, |cell| !cell.is(Kind::Handshake));
    without_handshakes(&mut net, 14_800);
    assert_frames_pass(&mut net);
    without_handshakes(&mut net, 200);
    assert_eq!(net.comings(0).len(), 2);
    assert!(net.comings(0)[1].starts_with("1 expired: Unrenewed"), "{:?}", net.comings(0));
    net.run(11_000);
    assert_eq!(net.comings(0)[2..], ["1 joined, sealed"], "with a handshake it comes back");
    assert_frames_pass(&mut net);
}
