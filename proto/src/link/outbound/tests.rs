//! Numbers and log of what was sent over a path.

use super::*;

#[test]
fn a_number_leads_to_its_slot_once() {
    let mut path = Outbound::new(Instant::default());
    assert_eq!(path.take_seq(Some(70)), 0);
    assert_eq!(path.take_seq(None), 1);
    assert_eq!(path.take_seq(Some(72)), 2);
    assert_eq!(path.take_for_repair(2), Some(72));
    assert_eq!(path.take_for_repair(2), None);
    assert_eq!(path.take_for_repair(1), None, "a heartbeat");
    assert_eq!(path.take_for_repair(3), None, "not sent yet");
    assert_eq!(path.take_for_repair(0), Some(70));
    path.return_seqs(1);
    assert_eq!(path.next_seq(), 2);
    path.take_seq(Some(73));
    path.void_seqs(1);
    assert_eq!((path.next_seq(), path.take_for_repair(2)), (3, None), "it may have reached the network");
}

#[test]
fn a_path_that_was_left_in_error_goes_on_with_its_window() {
    for (received, goes_on) in [(8, true), (7, false), (2, false)] {
        let now = Instant::default();
        let mut path = Outbound { endpoint: Some(([10, 0, 0, 1], 7_420).into()), ..Outbound::new(now) };
        path.rise(now);
        (0..10).for_each(|slot| _ = path.take_seq(Some(slot)));
        path.handle_sent(now, 0, 1 << 20);
        path.handle_received(now, 2, 2, 0);
        assert!(path.leave(now, true) && path.is_full(now), "a window is on the way");
        path.handle_received(now, received, if goes_on { 8 } else { 2 }, 0);
        path.rise(now);
        assert_eq!(path.is_full(now), goes_on, "{received} cells were passed");
    }
}

#[test]
fn what_is_not_received_is_looked_up_once_even_if_its_number_is_given_again() {
    let mut path = Outbound::new(Instant::default());
    for slot in 0..4 {
        path.take_seq(Some(slot));
    }
    path.handle_received(Instant::default(), 1, 1, 0);
    assert_eq!(path.take_unreceived(), 1..4);
    assert!(path.take_unreceived().is_empty());
    path.return_seqs(2);
    path.take_seq(Some(70));
    assert_eq!(path.take_unreceived(), 2..3);
}

#[test]
fn the_log_forgets_the_oldest() {
    let mut path = Outbound::new(Instant::default());
    for slot in 0..=LOG as u64 {
        path.take_seq(Some(slot));
    }
    assert_eq!(path.take_for_repair(0), None);
    assert_eq!(path.take_for_repair(1), Some(1));
}

#[test]
fn a_link_that_is_withdrawn_keeps_its_numbers() {
    let mut path = Outbound::new(Instant::default());
    path.take_seq(Some(70));
    path.mark(1_000);
    path.withdraw();
    assert_eq!((path.departed(0), path.next_seq()), (1, 1), "another link begins with no bytes sent");
    assert_eq!(path.take_seq(Some(71)), 1);
    assert_eq!(path.take_for_repair(0), Some(70));
}

#[test]
fn no_peer_makes_a_path_longer_than_any_is() {
    let mut path = Outbound::new(Instant::default());
    for _ in 0..100 {
        path.handle_round_trip(Duration::from_secs(4_000));
        path.handle_skew(Duration::from_secs(4_000));
    }
    assert_eq!((path.round_trip, path.skew), (Some(ESTIMATE_MAX), ESTIMATE_MAX));
}

#[test]
fn departure_follows_the_port() {
    let mut path = Outbound::new(Instant::default());
    path.take_seq(Some(0));
    path.mark(1_000);
    path.take_seq(Some(1));
    path.mark(2_000);
    assert_eq!(path.departed(999), 0);
    assert_eq!(path.departed(1_999), 1);
    assert_eq!(path.departed(2_000), 2);
}

/// A way that begins to drop long packets brings heartbeats alone, and a busy processor may be late with the next one.
#[test]
fn a_path_is_left_when_a_heartbeat_is_missing_too() {
    const CELLS: u64 = 30;
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let mut path = Outbound { gaps: Gaps::steady(at(0)), ..Outbound::new(at(0)) };
    (0..CELLS).for_each(|slot| _ = path.take_seq(Some(slot)));
    path.mark(0);
    path.handle_received(at(1_000), 0, 0, 0);
    assert_eq!(path.overdue(at(1_100)), None, "no heartbeat was written");
    path.take_heartbeat_seq(at(1_100));
    assert_eq!(path.overdue(at(1_100)), None, "it has not had time to arrive");
    assert_eq!(path.overdue(at(1_101)), Some((CELLS, Duration::from_millis(101))));
    path.handle_received(at(1_101), CELLS + 1, 1, 0);
    path.take_seq(None);
    path.mark(0);
    path.handle_received(at(1_102), CELLS + 1, 1, 0);
    assert_eq!(path.overdue(at(1_200)), None, "it has arrived");
}
