//! Where a peer listens: it moves, and it has several addresses.

use super::pair::{Pair, Sent, address};
use super::*;
use crate::group::hotplug::GRACE;
use crate::link::health::HEARTBEAT_QUIET;
use core::time::Duration;
use tabane_seal::Cipher;

/// Where the first node sends what goes to the second over link 0.
fn endpoint(pair: &Pair) -> Option<SocketAddr> {
    pair.nodes[0].links.paths(0).expect("a peer").outbound[0].end.endpoint
}

/// The next heartbeat of the second node over link 0 seems to come from there.
fn heartbeat_from(pair: &mut Pair, from: SocketAddr) {
    pair.now = pair.now + HEARTBEAT_QUIET;
    let sent: Vec<Sent> = pair.sent_by(1);
    let heartbeat = sent.iter().find(|sent| sent.link == 0).expect("a heartbeat is due");
    pair.deliver_from(heartbeat, from);
}

/// A router on the way translates addresses, and takes another port in the middle of a session.
#[test]
fn a_peer_that_has_another_port_is_followed() {
    let mut pair = Pair::new(Cipher::Aes256Gcm);
    let moved = SocketAddr::new(address(1, 0).ip(), 31_337);
    heartbeat_from(&mut pair, moved);
    assert_eq!(endpoint(&pair), Some(moved));
}

/// Both ends greet both addresses of the other: neither changes between them, else both would for ever.
#[test]
fn between_two_addresses_that_are_greeted_the_path_stays_where_it_works() {
    let mut pair = Pair::new(Cipher::Aes256Gcm);
    let (first, second) = (address(1, 0), SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 7420)));
    let now = pair.now;
    pair.nodes[0].set_greeted(now, 0, [first, second].to_vec());
    heartbeat_from(&mut pair, second);
    assert_eq!(endpoint(&pair), Some(first));
    pair.nodes[0].set_greeted(now, 0, [first].to_vec());
    heartbeat_from(&mut pair, second);
    assert_eq!(endpoint(&pair), Some(second));
}

/// A name has another address: it is greeted at once, and the former one no more.
#[test]
fn another_endpoint_is_greeted_at_once() {
    let mut pair = Pair::new(Cipher::Aes256Gcm);
    pair.pass(Duration::from_secs(1));
    let (former, later) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let greeted = |pair: &mut Pair, to: [u8; 4]| {
        let (now, bundle) = (pair.now, &mut pair.nodes[0]);
        bundle.set_greeted(now, 1, [SocketAddr::from((to, 7420))].to_vec());
        bundle.handle_timeout(now);
        let mut greeted = Vec::new();
        while let Some(message) = bundle.poll_control(now) {
            if message.link == 1
                && let Some(to) = message.to
            {
                greeted.push(to.ip());
            }
        }
        greeted.retain(|to| *to != address(1, 1).ip());
        greeted
    };
    assert_eq!(greeted(&mut pair, former), [core::net::IpAddr::from(former)]);
    assert_eq!(greeted(&mut pair, later), [core::net::IpAddr::from(later)]);
}

/// The second node has one link, to which both links of the first one send: each ends at a number of its own there, so data takes both
/// ways back, too. A link of the first one that goes and comes finds its end again.
#[test]
fn a_link_that_listens_has_an_end_for_each_link_of_a_peer() {
    let mut pair = Pair::new(Cipher::Aes256Gcm);
    let now = pair.now;
    pair.nodes[1].remove_link(now, 1);
    pair.pass(GRACE);
    pair.nodes[0].set_greeted(now, 1, [address(1, 0)].to_vec());
    let pass = |pair: &mut Pair| {
        pair.now = pair.now + HEARTBEAT_QUIET;
        let mut returned = [0; 2];
        for node in [0, 1, 0, 1] {
            for mut sent in pair.sent_by(node) {
                let from = address(node, if node == 0 { sent.link } else { 0 });
                assert!(node == 0 || sent.link == 0, "it has one socket");
                sent.link = if node == 0 { 0 } else { u8::from(sent.to == address(0, 1)) };
                returned[usize::from(sent.link)] += u32::from(node == 1);
                pair.deliver_from(&sent, from);
            }
        }
        returned
    };
    let both_up = |pair: &Pair| {
        let ends = |node: usize| pair.nodes[node].links.paths(0).expect("a peer").outbound.iter();
        [0, 1].map(|node| ends(node).filter(|path| path.is_up()).count()) == [2, 2]
    };
    assert!((0..100).any(|_| {
        pass(&mut pair);
        both_up(&pair)
    }));
    let wanted: Vec<_> = (0..40).map(|fill| pair.read(1, 1_000, fill)).collect();
    let returned = pass(&mut pair);
    assert!(returned.iter().all(|cells| *cells >= 10), "cells by each link: {returned:?}");
    assert_eq!(pair.delivered[0], wanted);
    let sockets: Vec<_> =
        pair.nodes[1].peers().flat_map(|(_, paths)| paths).map(|path| (path.link, path.socket)).collect();
    assert_eq!(sockets, [(0, 0), (1, 0)]);

    let now = pair.now;
    pair.nodes[1].handle_carrier(now, 0, false);
    pair.nodes[1].handle_carrier(now, 0, true);
    assert!(!both_up(&pair), "the carrier is that of both");
    assert!((0..200).any(|_| {
        pass(&mut pair);
        both_up(&pair)
    }));
}
