//! The model of one direction, to the nanosecond.

use tabane_io::packet::HEADER;

use super::*;
use crate::emulator::Coalescing;
use crate::rate::Bitrate;

const MS: u64 = 1_000_000;

/// A frame of 1,000 bytes on the wire, told from others by `number`.
fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![0; HEADER + 1000];
    frame[HEADER] = number;
    frame
}

fn line(impairment: Impairment) -> Line {
    let mut line = Line::new(1);
    line.set(impairment);
    line
}

/// What departs, and when, if the line is looked at whenever it asks for it until `end_ns`.
fn departures(line: &mut Line, end_ns: u64) -> Vec<(u64, u8)> {
    let mut seen = Vec::new();
    while let Some(next_ns) = line.next_ns().filter(|next_ns| *next_ns <= end_ns) {
        while let Some(frame) = line.depart(next_ns) {
            seen.push((next_ns, frame[HEADER]));
        }
    }
    seen
}

#[test]
fn without_flaw_frames_pass_at_once() {
    let mut line = line(Impairment::default());
    assert!(line.arrive(5, &mut frame(1)));
    assert_eq!((line.next_ns(), line.depart(u64::MAX)), (None, None));
}

#[test]
fn a_delay_is_exact() {
    let mut line = line(Impairment::delay(Duration::from_millis(20)));
    assert!(!line.arrive(5, &mut frame(1)));
    assert_eq!(line.depart(20 * MS + 4), None);
    assert_eq!(departures(&mut line, u64::MAX), [(20 * MS + 5, 1)]);
}

#[test]
fn a_rate_spaces_frames_and_its_queue_drops_the_rest() {
    let rate = Impairment { queue_bytes: Some(2500), ..Impairment::rate(Bitrate::mbit(8)) };
    let mut line = line(rate);
    for number in 0..4 {
        assert!(!line.arrive(0, &mut frame(number)));
    }
    assert_eq!(line.counters().dropped, 2, "two frames are 2,000 of 2,500 bytes");
    assert_eq!(departures(&mut line, u64::MAX), [(MS, 0), (2 * MS, 1)]);
    assert!(!line.arrive(10 * MS, &mut frame(9)));
    assert_eq!(departures(&mut line, u64::MAX), [(11 * MS, 9)]);
}

#[test]
fn order_is_kept_when_the_delay_falls() {
    let mut line = line(Impairment::delay(Duration::from_millis(20)));
    line.arrive(0, &mut frame(1));
    line.set(Impairment::default());
    assert!(!line.arrive(1, &mut frame(2)), "it must not overtake");
    assert_eq!(departures(&mut line, u64::MAX), [(20 * MS, 1), (20 * MS, 2)]);
}

#[test]
fn jitter_leaves_the_order() {
    let jitter = Duration::from_millis(5);
    let mut line = line(Impairment { jitter, ..Impairment::default() });
    for number in 0..100 {
        line.arrive(u64::from(number) * 1000, &mut frame(number));
    }
    let seen = departures(&mut line, u64::MAX);
    assert_eq!(seen.len(), 100);
    assert!(seen.is_sorted_by_key(|(_, number)| *number));
    assert!(seen.iter().all(|(at_ns, _)| *at_ns <= 5 * MS + 100_000));
}

#[test]
fn a_share_is_lost() {
    let mut line = line(Impairment::loss(0.05));
    let passed = (0..10_000).filter(|_| line.arrive(0, &mut frame(1))).count() as u64;
    assert_eq!(passed + line.counters().lost, 10_000);
    assert!((400..600).contains(&line.counters().lost), "{}", line.counters().lost);
}

#[test]
fn a_share_is_corrupted_and_passes() {
    let mut line = line(Impairment::corruption(0.5));
    let original = frame(1);
    let mut changed = 0;
    for _ in 0..1000 {
        let mut frame = original.clone();
        assert!(line.arrive(0, &mut frame));
        changed += u64::from(frame != original);
    }
    assert_eq!(changed, line.counters().corrupted);
    assert!((400..600).contains(&changed), "{changed}");
}

#[test]
fn coalesced_frames_wait_for_company_or_time() {
    let coalescing = Some(Coalescing { frames: 3, wait: Duration::from_millis(1) });
    let mut line = line(Impairment { coalescing, ..Impairment::default() });
    for (at_ns, number) in [(10, 1), (20, 2), (30, 3), (40, 4)] {
        assert!(!line.arrive(at_ns, &mut frame(number)));
        line.land(at_ns);
        if number == 3 {
            assert_eq!(departures(&mut line, at_ns).len(), 3);
        }
    }
    assert_eq!(departures(&mut line, u64::MAX), [(MS + 40, 4)]);
}

#[test]
fn a_black_hole_swallows_what_is_on_the_way_too() {
    let mut line = line(Impairment::delay(Duration::from_millis(20)));
    line.arrive(0, &mut frame(1));
    line.set(Impairment::black_hole());
    assert!(!line.arrive(1, &mut frame(2)));
    assert_eq!((line.counters().swallowed, line.next_ns()), (2, None));
    line.set(Impairment::default());
    assert!(line.arrive(2, &mut frame(3)));
}

#[test]
fn memory_is_bounded() {
    let mut line = line(Impairment::delay(Duration::from_secs(3600)));
    let frames = 2 * STORED_BYTES_MAX / frame(0).len();
    for _ in 0..frames {
        line.arrive(0, &mut frame(0));
    }
    assert!(line.stored_bytes <= STORED_BYTES_MAX);
    assert!(line.counters().dropped >= frames as u64 / 2);
}
