//! Links that join, leave, and change the size of their cells.

use super::pair::{LINK_COUNT, Pair};
use super::*;
use crate::link::health::HEARTBEAT_QUIET;
use crate::link::nic::CELL_LEAST;
use crate::outputs::event::Direction;
use alloc::vec;
use tabane_seal::Cipher;

fn bundle(links: usize) -> Bundle {
    alone(at(0), links)
}

/// Lets time pass until `millis`, and drops the control messages.
fn pass(bundle: &mut Bundle, millis: u64) {
    bundle.handle_timeout(at(millis));
    while bundle.poll_control(at(millis)).is_some() {}
}

#[test]
fn numbers_are_taken_in_order_and_again_when_they_are_free() {
    let mut bundle = bundle(2);
    assert_eq!(bundle.add_link(at(0), LinkSettings::new(1_452)), Some(2));
    bundle.remove_link(at(0), 1);
    assert!(bundle.has_link(1), "it still receives");
    assert_eq!(bundle.add_link(at(0), LinkSettings::new(1_452)), Some(3));
    pass(&mut bundle, 199);
    assert!(bundle.has_link(1));
    assert!(bundle.poll_timeout(at(199)) <= at(200));
    pass(&mut bundle, 200);
    assert!(!bundle.has_link(1));
    assert_eq!(bundle.add_link(at(200), LinkSettings::new(1_452)), Some(1));
    assert!(bundle.has_link(1) && !bundle.has_link(4));
}

/// A member that takes a link out and in, over and over.
#[test]
fn farewells_without_end_have_what_was_sent_looked_up_once() {
    let mut bundle = bundle(1);
    let hello = Hello { node: node(2), incarnation: 5, session: 7, ..bundle.hello(0, None) };
    let origin = Origin { link: 0, from: endpoint(2) };
    let mut looked_up = 0;
    for _ in 0..1_000 {
        bundle.handle_hello(at(0), origin, &hello);
        let path = &mut bundle.outbound()[0];
        path.rise(at(0));
        path.numbers.take(None);
        looked_up += bundle.handle_farewell(at(0), origin, &Hello { leaves: true, ..hello });
    }
    assert_eq!(looked_up, 1_000, "one number was taken in each round");
}

#[test]
fn no_more_links_than_the_wire_has_numbers() {
    let mut bundle = bundle(LINKS);
    assert_eq!(bundle.add_link(at(0), LinkSettings::new(1_452)), None);
    bundle.remove_link(at(0), 7);
    assert_eq!(bundle.add_link(at(0), LinkSettings::new(1_452)), None, "its number is not free yet");
    pass(&mut bundle, 200);
    assert_eq!(bundle.add_link(at(200), LinkSettings::new(1_452)), Some(7));
}

#[test]
fn cells_fit_the_links_that_are_there() {
    let mut bundle = bundle(1);
    assert_eq!(bundle.add_link(at(0), LinkSettings::new(1_232)), Some(1));
    assert_eq!(bundle.cell_max(), 1_232);
    bundle.remove_link(at(0), 1);
    assert_eq!(bundle.cell_max(), 1_452);
    bundle.replace_link(at(0), 0, LinkSettings::new(4_000));
    assert_eq!(bundle.cell_max(), 4_000);
}

#[test]
fn cells_follow_the_mtu_of_a_nic() {
    let mut bundle = bundle(2);
    pass(&mut bundle, 0);
    for (number, cell_max, fits) in [(0, 8_952, 1_452), (1, 8_952, 8_952), (0, 1_232, 1_232)] {
        bundle.resize_link(at(1), number, cell_max);
        assert_eq!(bundle.cell_max(), fits);
        assert!(bundle.poll_timeout(at(1)) <= at(1), "the peers get a hello at once");
        pass(&mut bundle, 1);
    }
    bundle.resize_link(at(1), 9, 1_000);
    assert_eq!(bundle.cell_max(), 1_232);
}

#[test]
fn a_nic_too_small_for_cells_carries_nothing_and_makes_no_cells_smaller() {
    for cell_max in [0, 16, 76, CELL_LEAST - 1] {
        let mut bundle = bundle(1);
        assert_eq!(bundle.add_link(at(0), LinkSettings::new(cell_max)), Some(1));
        assert_eq!((bundle.cell_max(), bundle.links[1].carries()), (1_452, false));
        bundle.resize_link(at(0), 0, cell_max);
        assert_eq!(bundle.cell_max(), usize::from(CELL_LEAST), "no link is left");
        bundle.resize_link(at(0), 1, CELL_LEAST + 1);
        assert_eq!((bundle.cell_max(), bundle.links[1].carries()), (usize::from(CELL_LEAST) + 1, true));
        let links = vec![LinkSettings::new(cell_max)];
        let mut bundle = Bundle::new(at(0), Settings { buffers: 16, ..Settings::new(node(1), 1, links) });
        bundle.touch_memory();
        assert_eq!(bundle.cell_max(), usize::from(CELL_LEAST));
    }
}

/// Both ends stop using it: the one whose MTU has shrunk, and the one that receives its hello.
#[test]
fn a_link_too_small_for_cells_is_left_and_taken_again_when_it_is_larger() {
    let mut bundle = bundle(2);
    let peer = node(2);
    let say = |bundle: &mut Bundle, millis, cell_max| {
        say(bundle, at(millis), 2, |hello| Hello { cell_max, ..hello });
    };
    let rise = |bundle: &mut Bundle, millis| {
        let path = &mut bundle.outbound()[0];
        path.rise(at(millis));
        path.is_up()
    };
    say(&mut bundle, 1, 1_232);
    assert!(rise(&mut bundle, 1));
    assert_eq!(bundle.cell_max(), 1_232);
    say(&mut bundle, 2, 60);
    assert!(!rise(&mut bundle, 2), "it leads nowhere");
    assert_eq!(bundle.cell_max(), 1_452, "and makes no cells smaller");
    say(&mut bundle, 3, 1_232);
    assert!(rise(&mut bundle, 3));
    while bundle.poll_event().is_some() {}
    bundle.resize_link(at(4), 0, 60);
    let direction = Direction::Sending;
    let left = Event::LinkDown { peer, link: 0, direction, signal: Signal::TooSmall };
    assert_eq!(bundle.poll_event(), Some(left));
    pass(&mut bundle, 100);
    let heartbeat = |message: &[u8]| message[0] & 0x0f == crate::wire::cell::Kind::Heartbeat as u8;
    let mut said = |millis| {
        bundle.handle_timeout(at(millis));
        let said = core::iter::from_fn(|| bundle.poll_control(at(millis)).map(|m| heartbeat(m.bytes)));
        said.filter(|is_heartbeat| *is_heartbeat).count()
    };
    assert_eq!(said(200), 0, "no heartbeat brings it back");
}

#[test]
fn a_node_that_ends_says_so_over_all_links_and_is_forgotten_at_once() {
    let (mut bundle, mut ends) = (bundle(2), bundle(2));
    let peer = node(2);
    let say = |bundle: &mut Bundle, incarnation, leaves| {
        say(bundle, at(1), 2, |hello| Hello { incarnation, leaves, ends: leaves, ..hello });
    };
    say(&mut bundle, 5, false);
    assert!(!bundle.was_left());
    say(&mut bundle, 4, true);
    assert!(bundle.find(peer).is_some() && !bundle.was_left(), "a farewell of a former incarnation");
    say(&mut bundle, 5, true);
    assert!(bundle.find(peer).is_none() && bundle.was_left() && !bundle.has_way());
    say(&mut bundle, 6, false);
    assert!(bundle.find(peer).is_some() && !bundle.was_left());

    say(&mut ends, 5, false);
    pass(&mut ends, 1);
    ends.end(at(2));
    let said = core::iter::from_fn(|| ends.poll_control(at(2)).map(|message| message.bytes.to_vec()));
    let hellos: Vec<_> = said.filter_map(|cell| Hello::parse(cell.get(16..)?).ok()).collect();
    assert!(hellos.iter().any(|hello| hello.leaves && hello.ends), "{hellos:?}");
}

#[test]
fn a_link_that_is_no_member_is_left_alone() {
    let mut bundle = bundle(2);
    bundle.remove_link(at(0), 1);
    pass(&mut bundle, 100);
    bundle.remove_link(at(100), 1);
    bundle.replace_link(at(100), 1, LinkSettings::new(1_000));
    bundle.handle_carrier(at(100), 1, true);
    pass(&mut bundle, 200);
    assert!(!bundle.has_link(1), "its time has not begun anew");
    bundle.remove_link(at(200), 9);
    pass(&mut bundle, 300);
    assert!(bundle.poll_timeout(at(300)) > at(300));
}

#[test]
fn cells_follow_a_nic_that_takes_less_and_more_again() {
    let mut pair = Pair::new(Cipher::Aegis128L);
    for cell_max in [1_252, 1_452, 8_952, 1_452] {
        for link in 0..LINK_COUNT {
            pair.nodes[0].resize_link(pair.now, link, cell_max);
            pair.nodes[1].resize_link(pair.now, link, cell_max);
        }
        (0..10).for_each(|_| pair.pass(HEARTBEAT_QUIET));
        for node in &pair.nodes {
            assert_eq!(node.cell_max(), usize::from(cell_max));
            let paths = node.links.paths(0).unwrap();
            assert!(paths.outbound.iter().all(|path| path.path_mtu.size() == cell_max && path.is_up()));
        }
    }
}
