//! Heartbeats of a peer that reports anything: what they cost, and how far they are believed.

use super::*;
use crate::link::outbound::LOG;
use crate::wire::cell::wire_seq;
use crate::wire::heartbeat::Report;
use alloc::vec;

/// A bundle that has a peer on each of `links` links, and whose paths to it are up at `now`.
fn bundle(now: Instant, links: u8) -> Bundle {
    let settings = Settings::new(node(1), 1, vec![LinkSettings::new(1_452); usize::from(links)]);
    let mut bundle = Bundle::new(now, settings);
    for link in 0..links {
        let hello = Hello { node: node(2), incarnation: 5, session: 7, ..bundle.hello(link, None) };
        let from = SocketAddr::from(([192, 0, link, 2], 7420));
        bundle.handle_hello(now, Origin { link, from }, &hello);
    }
    bundle.outbound().iter_mut().for_each(|path| path.rise(now));
    bundle
}

/// A heartbeat that reports the same of all links: nothing received, and whether they are up.
fn heartbeat(bundle: &mut Bundle, now: Instant, serial: u16, up: bool) -> Heartbeat {
    let count = bundle.outbound().len();
    let next = wire_seq(bundle.outbound()[0].receipts.next());
    let mut heartbeat =
        Heartbeat { serial, sent_at: now.as_wire_micros(), echo_age: u32::MAX, ..Heartbeat::default() };
    heartbeat.reported_links = u8::try_from(count).expect("at most 16");
    heartbeat.reports[..count].fill(Report { next, up, ..Report::default() });
    heartbeat
}

#[test]
fn heartbeats_have_each_number_looked_up_once_and_each_link_answered_once_a_turn() {
    const FLIPS: u16 = 1_000;
    let mut bundle = bundle(at(0), 16);
    for path in bundle.outbound() {
        for _ in 0..LOG + 9 {
            path.numbers.take(None);
        }
    }
    bundle.out.outbox.waiting().clear();
    let mut looked_up = 0;
    for serial in 1..=FLIPS {
        let now = at(1_000 + u64::from(serial));
        let heartbeat = heartbeat(&mut bundle, now, serial, serial.is_multiple_of(2));
        looked_up += bundle.handle_heartbeat(now, (0, 0), 0, &heartbeat);
    }
    assert_eq!(looked_up, 16 * LOG as u64);
    bundle.handle_timeout(at(1_001 + u64::from(FLIPS)));
    let answers =
        bundle.out.outbox.waiting().iter().filter(|control| matches!(control, Control::Heartbeat { .. }));
    assert_eq!(answers.count(), 16);
}

/// Cells have been overdue for three seconds. A peer echoes a heartbeat that is ten seconds old, so that its report would count as
/// of a time before any cell was overdue; but a report counts as two seconds old at most.
#[test]
fn an_echo_sets_a_report_back_by_two_seconds_at_most() {
    let mut bundle = bundle(at(9_000), 1);
    let path = &mut bundle.outbound()[0];
    for _ in 0..100 {
        path.take_heartbeat_number(at(9_000));
    }
    path.numbers.mark(0);
    let first = heartbeat(&mut bundle, at(10_000), 1, true);
    bundle.handle_heartbeat(at(10_000), (0, 0), 0, &first);
    let second = heartbeat(&mut bundle, at(13_000), 2, true);
    let echo = at(13_000 - 10_000).as_wire_micros();
    bundle.handle_heartbeat(at(13_000), (0, 0), 0, &Heartbeat { echo, echo_age: 0, ..second });
    assert!(!bundle.outbound()[0].is_up(), "cells are overdue for longer than any path is long");
}

#[test]
fn paths_that_all_lack_cells_are_not_given_up_as_soon_as_one_is() {
    for lacking in [1, 2] {
        let mut bundle = bundle(at(9_000), 2);
        for path in &mut bundle.outbound()[..lacking] {
            (0..100).for_each(|_| _ = path.take_heartbeat_number(at(9_000)));
            path.numbers.mark(0);
        }
        for (serial, millis) in [(1, 10_000), (2, 10_030)] {
            let heartbeat = heartbeat(&mut bundle, at(millis), serial, true);
            let echo = at(millis - 1).as_wire_micros();
            bundle.handle_heartbeat(at(millis), (0, 0), 0, &Heartbeat { echo, echo_age: 0, ..heartbeat });
        }
        assert_eq!(bundle.outbound()[0].is_up(), lacking == 2, "{lacking} of 2 lack cells");
    }
}
