//! Handovers: one node, and two peers that pause and return as new incarnations.

use super::*;
use crate::group::handover::{PAUSE, PAUSES};
use crate::policy::classify::Mac;
use alloc::vec;

fn host(number: u8) -> Mac {
    [2, 0, 0, 0, 1, number]
}

fn bundle() -> Bundle {
    alone(at(0), 1)
}

/// A hello of a node: its incarnation, and whether it pauses.
fn say(bundle: &mut Bundle, number: u8, millis: u64, incarnation: u64, pauses: bool) {
    super::say(bundle, at(millis), number, |hello| Hello { incarnation, pauses, ..hello });
    // Nobody waits for heartbeats here.
    if let Some(index) = bundle.find(node(number)) {
        bundle.paths(index).outbound.iter_mut().for_each(|path| path.pacing.grow_old());
    }
}

fn with_peers() -> Bundle {
    let mut bundle = bundle();
    for number in [2, 3] {
        say(&mut bundle, number, 0, 5, false);
        let index = bundle.find(node(number)).unwrap();
        bundle.sender.learn(at(0), host(number), index);
    }
    bundle
}

/// Reads a frame of so many bytes for the host behind a node.
fn read(bundle: &mut Bundle, number: u8, millis: u64, length: usize) {
    super::read(bundle, at(millis), host(number), &vec![number; length - 14]);
}

/// To whom cells go now, each once.
fn sent(bundle: &mut Bundle, millis: u64) -> Vec<SocketAddr> {
    let mut sent = Vec::new();
    while let Some(batch) = bundle.poll_batch(at(millis)) {
        sent.push(batch.to);
        bundle.handle_sent(at(millis), Outcome::Sent);
    }
    // Who receives it says so.
    for index in bundle.sessions.table().indices() {
        for path in bundle.paths(index).outbound.iter_mut() {
            path.congestion.restart(path.numbers.next());
        }
    }
    bundle.sender.unpark();
    sent.dedup();
    sent
}

#[test]
fn a_pause_keeps_only_what_goes_to_who_pauses_and_the_new_process_gets_it() {
    let mut bundle = with_peers();
    say(&mut bundle, 2, 10, 5, true);
    for number in [2, 3] {
        assert!(bundle.takes_frames());
        read(&mut bundle, number, 11, 100);
    }
    assert_eq!(sent(&mut bundle, 11), [endpoint(3)]);
    assert!(bundle.has_way() && !bundle.has_unsent());
    say(&mut bundle, 2, 20, 6, false);
    assert_eq!(sent(&mut bundle, 20), [endpoint(2)]);
    let index = bundle.find(node(2)).unwrap();
    assert_eq!(bundle.session(index).incarnation, 6);
    read(&mut bundle, 2, 21, 100);
    assert_eq!(sent(&mut bundle, 21), [endpoint(2)], "the frames for peer 2 do not wait");
    assert_eq!(bundle.counters().frames_flooded, 0, "its host is still known, at whatever index");
    assert_eq!((bundle.counters().frames_sent, bundle.counters().drop_deferred), (3, 0));
}

#[test]
fn what_is_for_everyone_waits_for_who_pauses_alone() {
    let mut bundle = with_peers();
    say(&mut bundle, 2, 10, 5, true);
    read(&mut bundle, 99, 11, 100);
    assert_eq!(sent(&mut bundle, 11), [endpoint(3)]);
    say(&mut bundle, 2, 20, 6, false);
    assert_eq!(sent(&mut bundle, 20), [endpoint(2)]);
}

#[test]
fn a_pause_ends_when_it_is_taken_back_and_by_itself() {
    let mut bundle = with_peers();
    say(&mut bundle, 2, 10, 5, true);
    read(&mut bundle, 2, 10, 100);
    assert_eq!(sent(&mut bundle, 19), []);
    say(&mut bundle, 2, 20, 5, false);
    assert_eq!(sent(&mut bundle, 20), [endpoint(2)]);
    say(&mut bundle, 2, 30, 5, true);
    read(&mut bundle, 2, 31, 100);
    assert!(bundle.poll_timeout(at(31)) <= at(30) + PAUSE);
    assert_eq!(sent(&mut bundle, 179), []);
    bundle.handle_timeout(at(180));
    assert_eq!(sent(&mut bundle, 180), [endpoint(2)]);
    assert!(bundle.sender.deferred().is_empty());
}

#[test]
fn a_stranger_pauses_nobody() {
    let mut bundle = bundle();
    say(&mut bundle, 2, 0, 5, true);
    assert!(bundle.sender.deferred().is_empty() && bundle.find(node(2)).is_none());
}

/// A member that pauses, with a new incarnation each millisecond: the traffic of the others does not wait.
#[test]
fn who_pauses_over_and_over_delays_nobody_and_soon_has_no_pause_left() {
    let mut bundle = with_peers();
    let mut pauses = 0;
    for round in 0..2_000 {
        let incarnation = 6 + round;
        say(&mut bundle, 2, round, incarnation, false);
        say(&mut bundle, 2, round, incarnation, true);
        say(&mut bundle, 2, round, incarnation, true);
        assert!(bundle.takes_frames());
        read(&mut bundle, 3, round, 100);
        assert_eq!(sent(&mut bundle, round), [endpoint(3)]);
        bundle.handle_timeout(at(round));
        while bundle.poll_control(at(round)).is_some() {}
        // The next one finds the place taken or not; what counts is how often it was.
        pauses += u64::from(bundle.sender.deferred().has_room(node(2)));
    }
    assert!(bundle.sender.deferred().is_empty());
    assert!(pauses <= u64::from(PAUSES) * 150, "{pauses} ms");
    let takes = |bundle: &mut Bundle, millis| bundle.group.handover_mut().take_pause(at(millis), node(2));
    assert!(!takes(&mut bundle, 9_000), "all are used up");
    assert!(takes(&mut bundle, 10_100) && !takes(&mut bundle, 10_200), "one has been earned");
    assert!(takes(&mut bundle, 200_000), "after a while all are");
}

/// A member that takes each pause back at once, and whose rooms are empty again before the next one.
#[test]
fn pauses_without_end_set_memory_aside_eight_times() {
    let mut bundle = with_peers();
    let pausing = Hello { node: node(2), incarnation: 5, session: 7, pauses: true, ..bundle.hello(0, None) };
    bundle.outbound()[0].standing = crate::link::outbound::Standing::Up;
    let mut rooms = 0;
    for _ in 0..1_000 {
        rooms += u32::from(bundle.handle_pause(at(10), &pausing));
        say(&mut bundle, 2, 10, 5, false);
        let (sender, mut around) = bundle.sending(bundle.polled);
        sender.readmit(at(10), &mut around);
        while bundle.poll_control(at(10)).is_some() {}
        assert!(bundle.sender.deferred().is_empty());
    }
    assert_eq!(rooms, PAUSES);
}

#[test]
fn what_waits_for_one_peer_is_bounded_and_costs_the_others_nothing() {
    let mut bundle = with_peers();
    say(&mut bundle, 2, 10, 5, true);
    for _ in 0..200 {
        assert!(bundle.takes_frames());
        read(&mut bundle, 2, 11, 60_000);
    }
    read(&mut bundle, 3, 11, 100);
    assert_eq!(sent(&mut bundle, 11), [endpoint(3)]);
    let dropped = bundle.counters().drop_deferred;
    assert!((150..200).contains(&dropped), "{dropped} of 12 MB have no room in 2 MiB");
    say(&mut bundle, 2, 20, 6, false);
    let mut frames = 0;
    for millis in 20..2_000 {
        frames += sent(&mut bundle, millis).len();
    }
    assert!(frames > 0 && bundle.sender.deferred().is_empty());
    assert_eq!(bundle.counters().frames_sent, 201 - dropped);
}

#[test]
fn when_all_frames_are_for_who_pauses_the_device_keeps_those_that_have_no_room() {
    let mut bundle = bundle();
    say(&mut bundle, 2, 0, 5, false);
    say(&mut bundle, 2, 10, 5, true);
    let mut frames = 0;
    while bundle.takes_frames() {
        read(&mut bundle, 2, 11, 1_400);
        frames += 1;
    }
    assert!((1_300..1_500).contains(&frames), "{frames}");
    say(&mut bundle, 2, 20, 6, false);
    (20..2_000).for_each(|millis| drop(sent(&mut bundle, millis)));
    assert_eq!((bundle.counters().frames_sent, bundle.counters().drop_deferred), (frames, 0));
    assert!(bundle.takes_frames());
}

#[test]
fn who_makes_way_itself_first_gives_away_what_waits() {
    let mut bundle = with_peers();
    bundle.drain(at(5));
    say(&mut bundle, 2, 10, 5, true);
    read(&mut bundle, 2, 10, 100);
    assert!(!bundle.is_settled(at(50)));
    bundle.handle_timeout(at(160));
    drop(sent(&mut bundle, 160));
    assert!(bundle.sender.deferred().is_empty());
}

#[test]
fn a_process_that_took_over_waits_for_its_peers() {
    let mut bundle = bundle();
    bundle.take_over(at(0), 1);
    assert!(!bundle.takes_frames() && bundle.has_way());
    assert!(bundle.poll_timeout(at(0)) <= at(0) + PAUSE);
    say(&mut bundle, 2, 5, 5, false);
    assert!(bundle.takes_frames());
    bundle.take_over(at(10), 0);
    assert!(bundle.takes_frames(), "the former process had no peer");
    bundle.take_over(at(10), 2);
    bundle.handle_timeout(at(159));
    assert!(!bundle.takes_frames());
    bundle.handle_timeout(at(160));
    assert!(bundle.takes_frames(), "it waits no longer");
}
