//! A link's queue and rate.

use super::*;

fn link() -> Link {
    let settings = LinkSettings::new(1452);
    Link::new(Instant::default(), settings)
}

#[test]
fn a_port_is_read_until_it_was_last_found_empty_but_not_for_ever() {
    let millis = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let mut link = Link::new(millis(0), LinkSettings::new(1_452));
    assert_eq!(link.read_until(millis(9)), millis(9), "nobody says otherwise");
    link.handle_read(millis(500), false);
    link.handle_read(millis(510), true);
    assert_eq!((link.read_until(millis(520)), link.is_behind), (millis(500), true));
    assert_eq!(link.read_until(millis(900)), millis(900) - ALL_SILENT_FOR);
    link.handle_read(millis(900), false);
    assert_eq!((link.read_until(millis(900)), link.is_behind), (millis(900), false));
}

#[test]
fn a_busy_port_learns_its_rate_and_shortens_its_queue() {
    let mut link = link();
    assert_eq!(link.queue_limit(), UNPROVEN.0);
    link.handle_sent(100_000);
    for millis in 0..20 {
        link.handle_sent(12_500);
        link.handle_queue(Instant::from_nanos(millis * 1_000_000), 100_000);
    }
    let rate = link.rate().unwrap();
    assert!((12_400_000..12_600_000).contains(&rate), "12.5 MB/s leave, measured {rate}");
    assert!((18_500..19_000).contains(&link.queue_limit()), "{}", link.queue_limit());
}

#[test]
fn a_port_that_never_waits_has_no_rate() {
    let mut link = link();
    for round in 0..10 {
        link.handle_sent(1_000_000);
        link.handle_queue(Instant::from_nanos(round * 400_000), 0);
    }
    assert_eq!(link.rate(), None);
    assert_eq!(link.queue_limit(), UNPROVEN.1);
    assert_eq!(link.departed(), 10_000_000);
}

/// A token bucket lets go of a batch when it has the tokens for all of it: most of the time nothing leaves.
#[test]
fn what_leaves_in_lumps_shows_its_rate() {
    let mut link = link();
    let lump = 8_000;
    // Asked each 0.3 ms, and when a lump has left: each 0.64 ms at 12.5 MB/s, three of them waiting.
    let every = 640_000;
    let mut times: Vec<u64> = (1..1_000).flat_map(|number| [number * every, number * 300_000]).collect();
    times.sort_unstable();
    link.handle_sent(3 * 8_000);
    for at in times {
        let waits = link.sent() - at / every * lump;
        link.handle_queue(Instant::from_nanos(at), usize::try_from(waits).unwrap());
        link.handle_sent(usize::try_from(3 * lump - waits).unwrap());
        let rate = link.rate().unwrap_or(12_500_000);
        assert!(at < 40_000_000 || (11_800_000..13_200_000).contains(&rate), "at {at} measured {rate}");
    }
    assert_eq!(link.batch_limit(), link.queue_limit() / BATCHES);
}

#[test]
fn a_queue_that_ran_empty_can_only_raise_the_rate() {
    let mut link = link();
    let at = |micros: u64| Instant::from_nanos(micros * 1_000);
    link.handle_sent(12_500);
    link.handle_queue(at(0), 12_500);
    link.handle_sent(12_500);
    link.handle_queue(at(1_000), 12_500);
    assert_eq!(link.rate(), Some(12_500_000));
    link.handle_queue(at(9_000), 0);
    assert_eq!(link.rate(), Some(12_500_000), "it may have been idle for long");
    link.handle_sent(50_000);
    link.handle_queue(at(10_000), 50_000);
    link.handle_queue(at(12_000), 0);
    assert!(link.rate() > Some(12_500_000), "50 KB left in 2 ms");
}

#[test]
fn batches_do_not_outgrow_a_queue_of_unknown_rate() {
    let mut link = link();
    assert_eq!((link.batch_limit(), link.wants_queue()), (UNPROVEN.0, false));
    link.handle_sent(10_000);
    assert_eq!((link.batch_limit(), link.wants_queue()), (UNPROVEN.0 - 10_000, true));
    assert!(link.wait() > Duration::ZERO && link.wait() < QUEUE_FOR);
    link.handle_sent(10_000);
    assert_eq!(link.batch_limit(), UNPROVEN.0 / BATCHES, "the kernel says when it is full");
    link.handle_queue(Instant::from_nanos(100_000), 0);
    assert_eq!(link.wait(), Duration::ZERO);
    assert!(link.batch_limit() > UNPROVEN.0, "it has proved itself");
}

#[test]
fn a_rate_measured_too_low_is_raised_by_what_passes() {
    let measured_low = || {
        let mut link = link();
        for millis in 0..3 {
            link.handle_sent(2_000);
            link.handle_queue(Instant::from_nanos(millis * 1_000_000), 1_000);
        }
        assert!(link.rate() < Some(3_000_000));
        link
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
    let mut link = link();
    for round in 0..1_000 {
        link.handle_queue(Instant::from_nanos(round * 250_000), 0);
        link.handle_sent(25_000);
    }
    assert_eq!(link.rate(), None);
    assert_eq!(link.queue_limit(), bytes_in(100_000_000, QUEUE_FOR), "100 MB/s passed");
    assert_eq!(link.batch_limit(), link.queue_limit() - 25_000, "what was handed over last may wait");
    link.handle_queue(Instant::from_nanos(5_000_000_000), 0);
    assert_eq!(link.queue_limit(), bytes_in(100_000_000, QUEUE_FOR), "idle since");
}
