//! What leaves at made-up times shows a rate, and how much may wait.

use super::*;
use alloc::vec::Vec;

fn queue() -> NicQueue {
    NicQueue::new(Instant::default(), None)
}

#[test]
fn a_busy_port_learns_its_rate_and_shortens_its_queue() {
    let mut queue = queue();
    assert_eq!(queue.limit(), UNPROVEN.0);
    queue.handle_sent(100_000);
    for millis in 0..20 {
        queue.handle_sent(12_500);
        queue.handle_queue(Instant::from_nanos(millis * 1_000_000), 100_000);
    }
    let rate = queue.rate().unwrap();
    assert!((12_400_000..12_600_000).contains(&rate), "12.5 MB/s leave, measured {rate}");
    assert!((18_500..19_000).contains(&queue.limit()), "{}", queue.limit());
}

#[test]
fn a_port_that_never_waits_has_no_rate() {
    let mut queue = queue();
    for round in 0..10 {
        queue.handle_sent(1_000_000);
        queue.handle_queue(Instant::from_nanos(round * 400_000), 0);
    }
    assert_eq!(queue.rate(), None);
    assert_eq!(queue.limit(), UNPROVEN.1);
    assert_eq!(queue.departed(), 10_000_000);
}

/// A token bucket lets go of a batch when it has the tokens for all of it: most of the time nothing leaves.
#[test]
fn what_leaves_in_lumps_shows_its_rate() {
    let mut queue = queue();
    let lump = 8_000;
    // Asked each 0.3 ms, and when a lump has left: each 0.64 ms at 12.5 MB/s, three of them waiting.
    let every = 640_000;
    let mut times: Vec<u64> = (1..1_000).flat_map(|number| [number * every, number * 300_000]).collect();
    times.sort_unstable();
    queue.handle_sent(3 * 8_000);
    for at in times {
        let waits = queue.sent() - at / every * lump;
        queue.handle_queue(Instant::from_nanos(at), usize::try_from(waits).unwrap());
        queue.handle_sent(usize::try_from(3 * lump - waits).unwrap());
        let rate = queue.rate().unwrap_or(12_500_000);
        assert!(at < 40_000_000 || (11_800_000..13_200_000).contains(&rate), "at {at} measured {rate}");
    }
    assert_eq!(queue.batch_limit(), queue.limit() / BATCHES.0);
}

#[test]
fn a_queue_that_ran_empty_can_only_raise_the_rate() {
    let mut queue = queue();
    let at = |micros: u64| Instant::from_nanos(micros * 1_000);
    queue.handle_sent(12_500);
    queue.handle_queue(at(0), 12_500);
    queue.handle_sent(12_500);
    queue.handle_queue(at(1_000), 12_500);
    assert_eq!(queue.rate(), Some(12_500_000));
    queue.handle_queue(at(9_000), 0);
    assert_eq!(queue.rate(), Some(12_500_000), "it may have been idle for long");
    queue.handle_sent(50_000);
    queue.handle_queue(at(10_000), 50_000);
    queue.handle_queue(at(12_000), 0);
    assert!(queue.rate() > Some(12_500_000), "50 KB left in 2 ms");
}

#[test]
fn batches_do_not_outgrow_a_queue_of_unknown_rate() {
    let mut queue = queue();
    assert_eq!((queue.batch_limit(), queue.wants_queue()), (UNPROVEN.0, false));
    queue.handle_sent(10_000);
    assert_eq!((queue.batch_limit(), queue.wants_queue()), (UNPROVEN.0 - 10_000, true));
    assert!(queue.wait() > Duration::ZERO && queue.wait() < QUEUE_FOR);
    queue.handle_sent(10_000);
    assert_eq!(queue.batch_limit(), UNPROVEN.0 / BATCHES.1, "the kernel says when it is full");
    queue.handle_queue(Instant::from_nanos(100_000), 0);
    assert_eq!(queue.wait(), Duration::ZERO);
    assert!(queue.batch_limit() > UNPROVEN.0, "it has proved itself");
}

#[test]
fn a_rate_measured_too_low_is_raised_by_what_passes() {
    let measured_low = || {
        let mut queue = queue();
        for millis in 0..3 {
            queue.handle_sent(2_000);
            queue.handle_queue(Instant::from_nanos(millis * 1_000_000), 1_000);
        }
        assert!(queue.rate() < Some(3_000_000));
        queue
    };
    let mut never_waits = measured_low();
    for round in 8..250 {
        never_waits.handle_sent(25_000);
        never_waits.handle_queue(Instant::from_nanos(round * 250_000), 0);
    }
    assert!(never_waits.rate() > Some(95_000_000), "100 MB/s pass: {:?}", never_waits.rate());
    let mut waits_shortly = measured_low();
    for round in 8..250 {
        waits_shortly.handle_sent(25_000);
        waits_shortly.handle_queue(Instant::from_nanos(round * 250_000), 2_000 * usize::from(round % 2 == 0));
    }
    assert!(waits_shortly.rate() > Some(95_000_000), "100 MB/s pass: {:?}", waits_shortly.rate());
}

#[test]
fn a_port_that_lets_much_pass_for_long_may_hold_more() {
    let mut queue = queue();
    for round in 0..1_000 {
        queue.handle_queue(Instant::from_nanos(round * 250_000), 0);
        queue.handle_sent(25_000);
    }
    assert_eq!(queue.rate(), None);
    assert_eq!(queue.limit(), bytes_in(100_000_000, QUEUE_FOR), "100 MB/s passed");
    assert_eq!(queue.batch_limit(), queue.limit() - 25_000, "what was handed over last may wait");
    queue.handle_queue(Instant::from_nanos(5_000_000_000), 0);
    assert_eq!(queue.limit(), bytes_in(100_000_000, QUEUE_FOR), "idle since");
}
