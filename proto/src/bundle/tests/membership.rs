//! What peers say: hellos of strangers and of former incarnations, requests to repair, and other sizes of cells. And what is known
//! of those who left.

use super::*;
use crate::group::membership::ANSWERS_BEHIND;
use crate::link::nic::CELL_LEAST;
use crate::link::outbound::LOG;
use crate::policy::classify::Mac;
use crate::send::fit::CHANGES;
use crate::wire::cell::wire_seq;
use crate::wire::repair::Gap;
use core::time::Duration;

#[test]
fn hellos_without_end_are_not_all_answered() {
    let now = Instant::default();
    let mut bundle = alone(now, 1);
    let hello = Hello { node: node(2), incarnation: 5, ..bundle.hello(0, None) };
    let origin = Origin { link: 0, from: endpoint(2) };
    (0..5_000).for_each(|_| bundle.handle_hello(now, origin, &hello));
    assert_eq!(bundle.held().messages, ANSWERS_BEHIND);
    assert_eq!(bundle.counters().hellos_unanswered, 5_000 - ANSWERS_BEHIND as u64);
    while bundle.poll_control(now).is_some() {}
    bundle.handle_hello(now, origin, &hello);
    assert_eq!(bundle.held().messages, 1, "it is answered again");
}

#[test]
fn a_hello_of_a_former_self_that_comes_late_shuts_nobody_out() {
    let now = Instant::default();
    let mut bundle = alone(now, 1);
    let origin = Origin { link: 0, from: endpoint(2) };
    let hello = |bundle: &Bundle, incarnation| Hello { node: node(2), incarnation, ..bundle.hello(0, None) };
    let of = |bundle: &Bundle| {
        let peer = bundle.sessions.table().get(bundle.find(node(2)).unwrap()).unwrap();
        (peer.incarnation, peer.session_in)
    };
    for incarnation in [6, 5, 6] {
        let hello = hello(&bundle, incarnation);
        bundle.handle_hello(now, origin, &hello);
    }
    let (incarnation, given) = of(&bundle);
    assert_eq!(incarnation, 5, "the last one that was new");
    let alive = Hello { session: 7, your_session: given, ..hello(&bundle, 6) };
    bundle.handle_hello(now, origin, &alive);
    assert_eq!(of(&bundle).0, 6, "the incarnation that knows the latest session number is alive");
    let late = hello(&bundle, 5);
    bundle.handle_hello(now, origin, &late);
    assert_eq!(of(&bundle).0, 6);
}

#[test]
fn a_request_costs_no_more_than_the_log_holds() {
    let mut bundle = alone(at(0), 1);
    say(&mut bundle, at(0), 2, |hello| hello);
    let path = &mut bundle.outbound()[0];
    for _ in 0..LOG + 9 {
        path.numbers.take(None);
    }
    let first = wire_seq(path.numbers.next() - 60_000);
    let mut request = Request::default();
    while request.push(Gap { link: 0, count: u16::MAX, first }) {}
    let (sender, mut around) = bundle.sending(bundle.polled);
    assert_eq!(sender.handle_request(0, &request, &mut around), LOG as u64);
}

/// A peer announces another size of cells; returns whether the sender made a new ring.
fn says(bundle: &mut Bundle, cell_max: u16) -> bool {
    let before = bundle.cell_max();
    say(bundle, bundle.polled, 2, |hello| Hello { cell_max, ..hello });
    while bundle.poll_control(bundle.polled).is_some() {}
    assert!(bundle.cell_max() <= usize::from(cell_max.max(CELL_LEAST)) && bundle.wants_frames());
    bundle.cell_max() != before
}

fn bundle() -> Bundle {
    let links = alloc::vec![LinkSettings::new(1_452)];
    Bundle::new(at(1_000_000), Settings::new(node(1), 1, links))
}

#[test]
fn a_peer_that_says_another_size_each_time_makes_no_ring_each_time() {
    let (mut back_and_forth, mut downhill) = (bundle(), bundle());
    let sizes = (0..500).map(|turn| 1_000 + 400 * (turn % 2));
    let made = sizes.filter(|size| says(&mut back_and_forth, *size)).count();
    assert!(made <= CHANGES as usize, "{made}");
    let made = (600..1_400).rev().filter(|size| says(&mut downhill, *size)).count();
    assert_eq!(made, CHANGES as usize);
    assert_eq!(downhill.cell_max(), usize::from(CELL_LEAST));
}

#[test]
fn cells_grow_again_when_a_change_is_earned() {
    let mut bundle = bundle();
    assert!((600..1_400).rev().any(|size| says(&mut bundle, size) && bundle.cell_max() == 548));
    assert!(!says(&mut bundle, 1_452), "not yet");
    let spent = bundle.polled;
    let seconds = (1u32..100).find(|second| {
        bundle.handle_timeout(spent + Duration::from_secs(1) * *second);
        bundle.cell_max() == 1_452
    });
    assert!(seconds.is_some_and(|seconds| (20..=22).contains(&seconds)), "{seconds:?}");
}

/// A host behind a peer.
const HOST: Mac = [2, 0, 0, 0, 0, 9];

/// Reads a frame to [`HOST`] from the device; returns to how many peers it goes, and whether it was flooded.
fn send(bundle: &mut Bundle) -> (u64, u64) {
    let before = *bundle.counters();
    read(bundle, at(5_000), HOST, &[0; 46]);
    let after = bundle.counters();
    (after.frames_sent - before.frames_sent, after.frames_flooded - before.frames_flooded)
}

/// A frame of a peer that is gone before the frame is delivered, and whose index is another peer's by then.
#[test]
fn a_frame_teaches_nothing_about_who_got_its_senders_place() {
    let mut bundle = alone(at(5_000), 1);
    for number in [2, 3] {
        say(&mut bundle, at(5_000), number, |hello| hello);
    }
    let place = bundle.find(node(2)).unwrap();
    let session = bundle.session(place).session_in;
    let first = bundle.sessions.table().first_in(place).unwrap();
    let header = Header::new(Kind::Data, 0, session, first);
    let mut cell = [0; HEADER + 4 + 10 + 60];
    Header { lane_seq: wire_seq(first), block_offset: 0, ..header }.emit(&mut cell);
    crate::wire::record::emit(70, &mut cell[HEADER..]);
    cell[HEADER + 14 + 6..][..6].copy_from_slice(&HOST);
    let mut buffer = bundle.lend().unwrap();
    buffer[..cell.len()].copy_from_slice(&cell);
    bundle.handle_datagrams(at(5_000), 0, endpoint(2), buffer, cell.len(), cell.len());
    say(&mut bundle, at(5_000), 2, |hello| Hello { leaves: true, ends: true, ..hello });
    say(&mut bundle, at(5_000), 9, |hello| hello);
    assert_eq!(bundle.find(node(9)), Some(place));
    assert!(bundle.poll_frame(at(5_000)).is_some() && bundle.poll_frame(at(5_000)).is_none());
    assert_eq!(send(&mut bundle), (2, 1), "nobody knows the host");
}
