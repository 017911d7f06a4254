//! What the parts of a path do together.

use super::*;
use crate::link::gaps::Gaps;

#[test]
fn a_path_that_was_left_in_error_goes_on_with_its_window() {
    for (received, goes_on) in [(8, true), (7, false), (2, false)] {
        let now = Instant::default();
        let mut path = Outbound::new(now);
        path.end.endpoint = Some(([10, 0, 0, 1], 7_420).into());
        path.rise(now);
        (0..10).for_each(|slot| _ = path.numbers.take(Some((slot, false))));
        path.handle_sent(now, 0, 1 << 20);
        path.handle_received(now, 2, 2, 0);
        assert!(path.leave(now, true) && path.is_full(now), "a window is on the way");
        path.handle_received(now, received, if goes_on { 8 } else { 2 }, 0);
        path.rise(now);
        assert_eq!(path.is_full(now), goes_on, "{received} cells were passed");
    }
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

/// A way that begins to drop long packets brings heartbeats alone, which are rare on a slow path, and a busy processor may be late with
/// the next one.
#[test]
fn a_path_is_left_when_a_heartbeat_is_missing_too() {
    const CELLS: u64 = 30;
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let left = |apart: u64| {
        let mut path = Outbound::new(at(0));
        path.receipts.watch.gaps = Gaps::steady(at(0));
        path.take_heartbeat_number(at(1_100 - apart));
        path.give_back_numbers(1);
        (0..CELLS).for_each(|slot| _ = path.numbers.take(Some((slot, false))));
        path.numbers.mark(0);
        path.handle_received(at(1_000), 0, 0, 0);
        assert_eq!(path.overdue(at(1_100)), None, "no heartbeat was written");
        path.take_heartbeat_number(at(1_100));
        let missing = (1_100..1_200).find(|millis| path.overdue(at(*millis)).is_some());
        (missing.unwrap() - 1_100, path)
    };
    assert_eq!([1, 5, 90].map(|apart| left(apart).0), [1, 5, 10], "it has had time to arrive");
    let (_, mut path) = left(1);
    path.handle_received(at(1_101), CELLS + 1, 1, 0);
    path.numbers.take(None);
    path.numbers.mark(0);
    path.handle_received(at(1_102), CELLS + 1, 1, 0);
    assert_eq!(path.overdue(at(1_200)), None, "it has arrived");
}
