//! The ring: frames in cells, what waits, what is kept.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

fn stream(ring: &Ring, slots: Slots) -> Vec<u8> {
    (slots.first..=slots.last).flat_map(|slot| ring.filled(slot).to_vec()).collect()
}

fn slots(first: u64, cells: usize) -> Slots {
    Slots { first, last: first + cells as u64 - 1, cells }
}

fn read(ring: &mut Ring, bytes: &[u8]) {
    let mut rest = bytes.iter();
    ring.read_space().flatten().zip(&mut rest).for_each(|(place, byte)| *place = *byte);
    assert!(rest.next().is_none());
}

#[test]
fn a_frame_read_in_place_is_a_stream_of_cells() {
    let mut ring = Ring::new(116, 2048);
    let frame: Vec<u8> = (0..=255).cycle().take(1000).collect();
    read(&mut ring, &frame);
    let taken = ring.cut_in_place(frame.len(), Cell::default());
    assert_eq!(taken, slots(0, 11), "1004 bytes in cells of 100");
    let bytes = stream(&ring, taken);
    assert_eq!(bytes[..PREFIX], [1, 0, 3, 232]);
    assert_eq!(bytes[PREFIX..], frame);
    assert_eq!(ring.cell(0).first_record, 0);
    assert_eq!(ring.cell(1).first_record, NO_RECORD);
}

#[test]
fn a_cell_in_which_little_room_is_left_is_filled_up() {
    let mut ring = Ring::new(116, 2048);
    let cells = |ring: &mut Ring, length: usize| {
        read(ring, &[9; 2_000][..length]);
        let taken = ring.cut_in_place(length, Cell::default());
        let last = *ring.cell(taken.last);
        (taken.cells, last.length, last.is_padded)
    };
    assert_eq!(cells(&mut ring, 200 - PREFIX), (2, 100, false));
    assert_eq!(cells(&mut ring, 188 - PREFIX), (2, 100, true), "an eighth is at most 12 bytes");
    assert_eq!(ring.filled(3), [[9; 88].as_slice(), &[0; 12]].concat());
    assert_eq!(cells(&mut ring, 187 - PREFIX), (2, 87, false));
    assert_eq!(ring.append(&[3; 60], Some(3), Cell::default()), slots(6, 1), "behind padding nothing begins");
}

#[test]
fn small_records_share_a_cell_that_still_waits() {
    let mut ring = Ring::new(116, 2048);
    assert_eq!(ring.append(&[1; 60], None, Cell::default()), slots(0, 1));
    assert_eq!(ring.append(&[2; 60], Some(0), Cell::default()), slots(1, 1), "40 here, 20 there");
    assert_eq!(stream(&ring, slots(0, 2)), [[1; 60], [2; 60]].concat());
    assert_eq!(ring.cell(0).first_record, 0);
    assert_eq!(ring.cell(1).first_record, NO_RECORD);
    assert_eq!(ring.append(&[3; 60], Some(1), Cell::default()), Slots::default());
    assert_eq!(ring.cell(1).first_record, 20);
}

#[test]
fn the_smallest_ring_takes_a_frame_of_the_smallest_cells() {
    let mut ring = Ring::new(548 - 16, 256);
    assert!(!ring.is_nearly_full() && ring.has_room());
    read(&mut ring, &[1; 65_000]);
    ring.cut_in_place(65_000, Cell::default());
    assert!(ring.is_nearly_full());
}

#[test]
fn half_of_the_ring_may_wait_and_what_waits_for_long_holds_up_nobody() {
    let mut ring = Ring::new(1452, 512);
    let append = |ring: &mut Ring| ring.append(&[7; 1436], None, Cell::default()).first;
    let first: Vec<_> = (0..256).map(|_| append(&mut ring)).collect();
    assert!(ring.is_nearly_full() && ring.has_room());
    let stays = [first[0], first[100]];
    first.iter().filter(|slot| !stays.contains(slot)).for_each(|slot| ring.release(*slot));
    for _ in 0..10 * 512 {
        let slot = append(&mut ring);
        assert!(ring.keeps(slot) && stays.iter().all(|stays| ring.keeps(*stays)));
        read(&mut ring, &[8; 60_000]);
        assert!(stays.iter().all(|slot| ring.filled(*slot).iter().all(|byte| *byte == 7)));
        ring.release(slot);
        assert!(!ring.is_nearly_full() && ring.has_room());
    }
    stays.iter().for_each(|slot| ring.release(*slot));
    assert!(!ring.has_waiting() && stays.iter().all(|slot| ring.keeps(*slot)), "to be repaired");
}

proptest! {
    /// Whatever is released when, a slot that waits is neither read into nor filled again.
    #[test]
    fn what_waits_is_never_overwritten(steps in proptest::collection::vec((1usize..66_000, 0usize..200), 1..300)) {
        let mut ring = Ring::new(548, 512);
        let mut waiting = Vec::new();
        for (number, (length, releases)) in (0..=255_u8).cycle().zip(steps) {
            if ring.has_room() {
                let frame = alloc::vec![number; length.min(65_563)];
                read(&mut ring, &frame);
                let slots = ring.cut_in_place(frame.len(), Cell::default());
                let mut slot = slots.first;
                for _ in 0..slots.cells {
                    waiting.push((slot, number));
                    slot = ring.cell(slot).next;
                }
            }
            for (slot, number) in &waiting {
                let prefix = if ring.cell(*slot).first_record == 0 { PREFIX } else { 0 };
                let bytes = &ring.filled(*slot)[prefix..];
                let is_padding = |byte: &u8| ring.cell(*slot).is_padded && *byte == 0;
                let whole = bytes.iter().all(|byte| byte == number || is_padding(byte));
                prop_assert!(ring.keeps(*slot) && whole);
            }
            for _ in 0..releases.min(waiting.len()) {
                let (slot, _) = waiting.swap_remove(releases % waiting.len());
                ring.release(slot);
            }
        }
    }
}

#[test]
fn a_frame_is_read_around_what_waits() {
    let mut ring = Ring::new(116, 2048);
    let waits: Vec<_> = (0..30).map(|_| ring.append(&[1; 100], None, Cell::default()).first).collect();
    waits.iter().filter(|slot| *slot % 3 != 0).for_each(|slot| ring.release(*slot));
    while ring.head() < 2048 {
        let slot = ring.append(&[2; 100], None, Cell::default()).first;
        ring.release(slot);
    }
    let frame: Vec<u8> = (0..=255).cycle().take(1000).collect();
    read(&mut ring, &frame);
    let taken = ring.cut_in_place(frame.len(), Cell::default());
    assert_eq!((taken.first, taken.last, taken.cells), (2049, 2064, 11), "every third slot is passed by");
    let mut bytes = Vec::new();
    let mut slot = taken.first;
    for _ in 0..taken.cells {
        bytes.extend_from_slice(ring.filled(slot));
        slot = ring.cell(slot).next;
    }
    assert_eq!(bytes[PREFIX..], frame);
}

#[test]
fn a_run_ends_behind_a_short_cell_a_jump_and_the_end_of_the_ring() {
    let mut ring = Ring::new(1452, 128);
    for length in [1436, 1436, 100, 100] {
        ring.append(&alloc::vec![1; length], None, Cell::default());
    }
    let run = |ring: &Ring, slots: &[u64]| ring.run(slots).map(|(bytes, count)| (bytes.len(), count));
    assert_eq!(run(&ring, &[0, 1, 2, 3]), Some((1452 + 1452 + 116, 3)));
    assert_eq!(run(&ring, &[3]), Some((116, 1)));
    assert_eq!(run(&ring, &[1, 0]), Some((1452, 1)));
    assert_eq!(run(&ring, &[]), None);
    for slot in 4..140 {
        ring.append(&[1; 1436], None, Cell::default());
        ring.release(slot);
    }
    assert_eq!(run(&ring, &[126, 127, 128]), Some((2 * 1452, 2)));
}

#[test]
fn the_ring_keeps_what_was_sent_until_it_comes_round() {
    let mut ring = Ring::new(1452, 128);
    for slot in 0..100 {
        ring.append(&[1; 1000], None, Cell::default());
        ring.release(slot);
    }
    assert!(ring.keeps(99));
    assert!(!ring.keeps(100), "not yet filled");
    assert!(ring.keeps(100 + 46 - 128));
    assert!(!ring.keeps(100 + 46 - 128 - 1), "may be overwritten by the next read");
    ring.set_cell_max(1252);
    assert!(!ring.keeps(99));
}
