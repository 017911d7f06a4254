//! The size of cells when peers announce other sizes.

use super::*;
use crate::link::nic::CELL_LEAST;
use crate::send::fit::CHANGES;
use alloc::vec;
use core::time::Duration;

/// A peer announces another size of cells; returns whether the sender made a new ring.
fn says(bundle: &mut Bundle, cell_max: u16) -> bool {
    let before = bundle.cell_max();
    say(bundle, bundle.polled, 2, |hello| Hello { cell_max, ..hello });
    while bundle.poll_control(bundle.polled).is_some() {}
    assert!(bundle.cell_max() <= usize::from(cell_max.max(CELL_LEAST)) && bundle.wants_frames());
    bundle.cell_max() != before
}

fn bundle() -> Bundle {
    let start = Instant::from_nanos(1_000_000_000_000);
    Bundle::new(start, Settings::new(node(1), 1, vec![LinkSettings::new(1_452)]))
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
