//! Two bundles with real keys: they send sealed cells, and refuse all others.

use super::pair::{LINK_COUNT, Pair, Sent, address, session};
use super::*;
use crate::link::health::HEARTBEAT_QUIET;
use crate::wire::cell::Kind;
use alloc::vec;
use core::time::Duration;
use tabane_seal::Cipher;

#[test]
fn frames_cross_and_nothing_of_them_is_seen() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::new(cipher);
        let frames = vec![pair.read(0, 60_000, 0xa5), pair.read(0, 100, 0xa5)];
        let counters = pair.nodes[0].counters();
        assert_eq!((counters.frames_sent, counters.frame_bytes_sent), (2, 60_100));
        let sent = pair.sent_by(0);
        assert!(sent.iter().any(|sent| sent.bytes.len() == 1_452), "cells are as large as the link takes");
        for cell in &sent {
            assert_eq!(cell.bytes[1], 1, "the epoch");
            assert!(cell.bytes.len() <= 1_452);
            assert!(cell.bytes.windows(8).all(|window| window != [0xa5; 8]));
        }
        sent.iter().for_each(|cell| pair.deliver(cell));
        assert_eq!(pair.delivered[1], frames);
        assert_eq!(pair.nodes[1].counters().drop_forged + pair.nodes[1].counters().drop_replayed, 0);
        assert_eq!(pair.nodes[1].cell_max(), 1_452);
    }
}

#[test]
fn whatever_is_touched_is_refused_and_counts_for_nothing() {
    let mut pair = Pair::new(Cipher::fastest());
    let frame = pair.read(0, 300, 1);
    let sent = pair.sent_by(0).pop().unwrap();
    let (received, refused) = (pair.received(1), |counters: &crate::Counters| {
        counters.drop_forged + counters.drop_replayed + counters.drop_malformed + counters.drop_session
    });
    for at in 0..sent.bytes.len() {
        for bit in 0..8 {
            let mut touched = sent.clone();
            touched.bytes[at] ^= 1 << bit;
            let before = refused(pair.nodes[1].counters());
            pair.deliver(&touched);
            assert_eq!(refused(pair.nodes[1].counters()), before + 1, "bit {bit} of byte {at}");
        }
    }
    for length in HEADER..sent.bytes.len() {
        let mut shorter = sent.clone();
        shorter.bytes.truncate(length);
        pair.deliver(&shorter);
    }
    assert_eq!((pair.received(1), pair.delivered[1].len()), (received, 0));
    pair.deliver(&sent);
    assert_eq!((pair.received(1), &pair.delivered[1]), (received + 1, &vec![frame]));
}

/// Where links take frames of the kernel path is for peers alone, and what greetings say of it counts for nothing.
#[test]
fn where_a_link_takes_frames_is_said_in_sealed_hellos() {
    let mut pair = Pair::new(Cipher::fastest());
    let (mac, address) = ([2, 0xcc, 0xcc, 0xcc, 0xcc, 9], core::net::Ipv6Addr::LOCALHOST);
    let end = crate::KernelEnd { mac, address, port: 7421, orders: false };
    pair.nodes[0].links[1].settings.kernel = Some(end);
    assert_eq!(pair.nodes[0].hello(1, None).kernel, None);
    let to = super::pair::address(1, 1);
    pair.nodes[0].out.outbox.push(Control::Answer { link: 1, peer: 0, to });
    let sent = pair.sent_by(0);
    assert!(sent.iter().all(|cell| cell.bytes.windows(6).all(|window| window != mac)));
    sent.iter().for_each(|cell| pair.deliver(cell));
    let known =
        |pair: &mut Pair| pair.nodes[1].outbound().iter().map(|path| path.end.kernel).collect::<Vec<_>>();
    assert_eq!(known(&mut pair), [None, Some(end)]);
}

#[test]
fn what_is_repeated_is_refused() {
    let mut pair = Pair::new(Cipher::fastest());
    let frame = pair.read(0, 300, 1);
    pair.now = pair.now + HEARTBEAT_QUIET;
    let sent = pair.sent_by(0);
    assert!(sent.len() > 2, "heartbeats and data");
    sent.iter().for_each(|sent| pair.deliver(sent));
    let received = pair.received(1);
    sent.iter().rev().for_each(|sent| pair.deliver(sent));
    assert_eq!(pair.nodes[1].counters().drop_replayed, sent.len() as u64);
    assert_eq!((pair.received(1), &pair.delivered[1]), (received, &vec![frame]));
}

#[test]
fn what_is_not_sealed_is_refused() {
    let mut pair = Pair::new(Cipher::fastest());
    let seq = pair.nodes[0].outbound()[0].numbers.next();
    let session = pair.nodes[0].session(0).session_out;
    for kind in [Kind::Data, Kind::Hello, Kind::Heartbeat, Kind::Repair] {
        let mut bytes = vec![0; 100];
        Header { block_offset: 0, ..Header::new(kind, 0, session, seq) }.emit(&mut bytes);
        let received = pair.received(1);
        pair.deliver(&Sent { from: 0, link: 0, to: address(1, 0), bytes });
        assert_eq!(pair.received(1), received);
    }
    let counters = *pair.nodes[1].counters();
    assert_eq!((counters.drop_forged, counters.drop_tag), (3, 1), "a greeting needs a tag");
}

#[test]
fn a_change_of_keys_loses_no_cell() {
    let mut pair = Pair::new(Cipher::fastest());
    let [one, other] = session(Cipher::fastest(), 2, 20);
    let now = pair.now;
    let mut frames = vec![pair.read(0, 9_000, 1)];
    let before = pair.sent_by(0);
    pair.keys(1).offer(now, other);
    let mut back = vec![pair.read(1, 9_000, 4)];
    let late = pair.sent_by(1);
    pair.keys(0).install(now, one);
    frames.push(pair.read(0, 9_000, 2));
    let after = pair.sent_by(0);
    assert!(before.iter().all(|cell| cell.bytes[1] == 1) && after.iter().all(|cell| cell.bytes[1] == 2));

    // The cells under the new keys overtake those under the old ones, on both links.
    after.iter().chain(&before).for_each(|cell| pair.deliver(cell));
    back.push(pair.read(1, 9_000, 5));
    let new = pair.sent_by(1);
    assert!(late.iter().all(|cell| cell.bytes[1] == 1) && new.iter().all(|cell| cell.bytes[1] == 2));
    late.iter().chain(&new).for_each(|cell| pair.deliver(cell));
    let fills = |frames: &[Vec<u8>]| frames.iter().map(|frame| frame[30]).collect::<Vec<_>>();
    assert_eq!((fills(&pair.delivered[0]), fills(&pair.delivered[1])), (vec![4, 5], vec![1, 2]));
    assert!(pair.delivered == [back, frames]);
    assert_eq!([0, 1].map(|node| pair.nodes[node].counters().drop_forged), [0, 0]);
}

#[test]
fn old_keys_die() {
    let mut pair = Pair::new(Cipher::fastest());
    pair.now = pair.now + HEARTBEAT_QUIET;
    let old = pair.sent_by(0);
    let [one, other] = session(Cipher::fastest(), 2, 20);
    let now = pair.now;
    pair.keys(1).offer(now, other);
    pair.keys(0).install(now, one);
    pair.pass(HEARTBEAT_QUIET);
    assert_eq!((pair.keys(0).epoch(), pair.keys(1).epoch()), (2, 2));
    let (early, late) = old.split_at(1);
    pair.deliver(&early[0]);
    assert_eq!(pair.nodes[1].counters().drop_forged, 0);
    pair.now = pair.now + Duration::from_secs(11);
    late.iter().for_each(|cell| pair.deliver(cell));
    assert_eq!(pair.nodes[1].counters().drop_forged, late.len() as u64);
}

#[test]
fn keys_under_a_dropped_group_key_are_renewed_at_once_whatever_is_offered_under_it() {
    let mut pair = Pair::new(Cipher::fastest());
    let [_, other] = session(Cipher::fastest(), 2, 20);
    let (now, limits) = (pair.now, Rekey::default());
    pair.keys(1).offer(now, other);
    assert!(!pair.keys(1).is_old(now, &limits));
    pair.keys(1).review(now, |_| false);
    assert!(pair.keys(1).is_old(now, &limits));
    assert_eq!(pair.keys(1).age().1, Some(now));
    pair.keys(1).review(now + HEARTBEAT_QUIET, |_| false);
    assert_eq!(pair.keys(1).age().1, Some(now), "it was dropped before");
    pair.keys(1).review(now, |_| true);
    assert!(!pair.keys(1).is_old(now, &limits));
}

#[test]
fn lost_cells_are_sealed_again_under_other_numbers() {
    let mut pair = Pair::new(Cipher::fastest());
    let frame = pair.read(0, 40_000, 3);
    let sent = pair.sent_by(0);
    let kept = sent.iter().enumerate().filter(|(number, _)| number % 5 != 1).map(|(_, cell)| cell);
    kept.for_each(|cell| pair.deliver(cell));
    assert_eq!(pair.delivered[1].len(), 0);
    let waiting = |pair: &Pair| pair.nodes[1].peers().next().map(|(peer, _)| peer.reorder_cells);
    assert!(waiting(&pair).is_some_and(|cells| cells > 10), "{:?}", waiting(&pair));
    (0..3).for_each(|_| pair.pass(Duration::from_millis(1)));
    assert_eq!(pair.delivered[1], [frame]);
    assert_eq!(waiting(&pair), Some(0));
    assert!(pair.nodes[0].counters().cells_repaired > 0);
    assert_eq!(pair.nodes[1].counters().drop_replayed, 0);
}

#[test]
fn a_number_is_given_again_only_if_nothing_left_under_it() {
    let mut pair = Pair::new(Cipher::fastest());
    let next = |pair: &Pair| -> u64 {
        let paths = pair.nodes[0].links.paths(0).unwrap();
        paths.outbound.iter().map(|path| path.numbers.next()).sum()
    };
    pair.read(0, 9_000, 1);
    let before = next(&pair);
    let now = pair.now;
    pair.nodes[0].poll_batch(now).unwrap();
    let cells = next(&pair) - before;
    pair.nodes[0].handle_sent(now, Outcome::Full);
    assert_eq!(next(&pair), before);
    pair.nodes[0].poll_batch(now).unwrap();
    pair.nodes[0].handle_sent(now, Outcome::Refused);
    assert_eq!(next(&pair), before + cells);
}

/// The next control messages of a node to its peer on each link, and their outcomes.
fn say(pair: &mut Pair, outcomes: [Outcome; LINK_COUNT as usize]) -> Vec<(Sent, Kind, Outcome)> {
    let mut said = Vec::new();
    while let Some(message) = pair.nodes[0].poll_control(pair.now) {
        let (link, outcome) = (message.link, outcomes[usize::from(message.link)]);
        if message.to.is_some() {
            let kind = Header::parse(message.bytes).unwrap().kind;
            said.push((
                Sent { from: 0, link, to: address(1, link), bytes: message.bytes.to_vec() },
                kind,
                outcome,
            ));
        }
        pair.nodes[0].handle_control_sent(outcome);
    }
    said
}

#[test]
fn a_heartbeat_that_finds_no_room_waits_for_it_and_leaves_no_gap() {
    use Outcome::{Full, Sent};
    let mut pair = Pair::new(Cipher::fastest());
    let state = |pair: &Pair| {
        let links = &pair.nodes[0].links.paths(0).unwrap().outbound;
        let link = &pair.nodes[0].links[1];
        (links[1].numbers.next(), link.queue.sent(), link.queue.queued(), link.full)
    };
    let before = state(&pair);
    pair.now = pair.now + HEARTBEAT_QUIET;
    pair.nodes[0].handle_timeout(pair.now);
    let said = say(&mut pair, [Sent, Full]);
    let refused = said.iter().filter(|(.., outcome)| *outcome == Full).count();
    assert_eq!((said.len(), refused), (2, 1), "one on each link");
    assert_eq!(state(&pair), (before.0, before.1, before.2, true));
    said.iter().filter(|(.., outcome)| *outcome == Sent).for_each(|(sent, ..)| pair.deliver(sent));
    pair.now = pair.now + HEARTBEAT_QUIET;
    pair.nodes[0].handle_timeout(pair.now);
    let said = say(&mut pair, [Sent, Sent]);
    assert!(said.iter().all(|(sent, ..)| sent.link == 0), "the other one is full");
    said.iter().for_each(|(sent, ..)| pair.deliver(sent));
    pair.nodes[0].handle_writable(1);
    let said = say(&mut pair, [Sent, Sent]);
    assert_eq!((said.len(), said[0].0.link, said[0].1), (1, 1, Kind::Heartbeat));
    pair.deliver(&said[0].0);
    let counters = *pair.nodes[1].counters();
    assert_eq!((counters.cells_missed, counters.drop_forged, counters.drop_replayed), (0, 0, 0));
    assert_eq!(state(&pair).0, before.0 + 1);
}

#[test]
fn a_control_message_that_may_have_left_keeps_its_number() {
    let mut pair = Pair::new(Cipher::fastest());
    for (outcome, round) in [(Outcome::Lost, 1), (Outcome::Refused, 2)] {
        let next = |pair: &Pair| pair.nodes[0].links.paths(0).unwrap().outbound[0].numbers.next();
        let (before, bytes) = (next(&pair), pair.nodes[0].links[0].queue.sent());
        pair.now = pair.now + HEARTBEAT_QUIET;
        pair.nodes[0].handle_timeout(pair.now);
        say(&mut pair, [outcome, Outcome::Sent]);
        assert_eq!((next(&pair), pair.nodes[0].links[0].queue.sent()), (before + 1, bytes));
        assert_eq!((pair.nodes[0].counters().drop_refused, pair.nodes[0].links[0].full), (round, false));
    }
}

/// Numbers of the second node's first link are found missing.
fn miss(pair: &mut Pair, numbers: core::ops::Range<u64>) {
    let Bundle { receiver, out, .. } = &mut pair.nodes[0];
    receiver.miss(pair.now, 0, 0, numbers, &mut out.outbox);
}

/// Both sendings of a request find no room, or one, or neither: the peer gets it as soon as there is room.
#[test]
fn a_request_that_finds_no_room_goes_over_another_link_or_later() {
    use Outcome::{Full, Sent};
    for outcomes in [[Sent, Sent], [Full, Sent], [Sent, Full], [Full, Full]] {
        let mut pair = Pair::new(Cipher::fastest());
        miss(&mut pair, 7..8);
        let went = |said: &[(self::Sent, Kind, Outcome)]| {
            said.iter().filter(|(_, kind, outcome)| (*kind, *outcome) == (Kind::Repair, Sent)).count()
        };
        let said = say(&mut pair, outcomes);
        assert_eq!(went(&said), if outcomes == [Full, Full] { 0 } else { 2 }, "{outcomes:?}");
        (0..LINK_COUNT).for_each(|link| pair.nodes[0].handle_writable(link));
        let later = say(&mut pair, [Sent, Sent]);
        assert_eq!(went(&later), if outcomes == [Full, Full] { 2 } else { 0 }, "{outcomes:?}");
    }
}

#[test]
fn what_no_lane_waits_for_any_more_is_not_asked_for() {
    use Outcome::{Full, Sent};
    let mut pair = Pair::new(Cipher::fastest());
    miss(&mut pair, 7..8);
    say(&mut pair, [Full, Full]);
    pair.now = pair.now + crate::receive::reorder_timeout::LONGEST;
    (0..LINK_COUNT).for_each(|link| pair.nodes[0].handle_writable(link));
    assert!(say(&mut pair, [Sent, Sent]).iter().all(|(_, kind, _)| *kind != Kind::Repair));
    miss(&mut pair, 9..10);
    assert_eq!(pair.nodes[0].receiver.get(0).unwrap().missing(), 1, "what is missing now");
}
