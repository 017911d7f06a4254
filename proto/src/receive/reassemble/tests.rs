//! Streams segmented at random places, with random cells given up, against the list of records that went in.

use super::*;
use crate::receive::pool::BUFFER;
use crate::send::ring::{Cell, Ring};
use crate::time::Instant;
use crate::wire::record::{ETHERNET, RECORD_START_MIN};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// A lane's receiving end with a pool of its own.
#[derive(Default)]
struct Lane {
    pool: Pool,
    reassembler: Reassembler,
    ready: Ready,
    counters: Counters,
}

impl Lane {
    fn new() -> Self {
        Self { pool: Pool::new(64), ..Self::default() }
    }

    fn cell(&mut self, payload: &[u8], first_record: u16) {
        let mut bytes = self.pool.lend().expect("delivered frames free their buffers");
        bytes[..payload.len()].copy_from_slice(payload);
        let buffer = self.pool.take_back(bytes);
        let payload = Piece { buffer, start: 0, length: u16::try_from(payload.len()).unwrap() };
        let cell = Arrived { payload, first_record, at: Instant::default() };
        self.reassembler.cell(cell, 7, &mut self.pool, &mut self.ready, &mut self.counters);
    }

    /// The same, where short cells share a buffer.
    fn short_cell(&mut self, payload: &[u8], first_record: u16) {
        let mut bytes = self.pool.lend().expect("short cells share buffers");
        bytes[..payload.len()].copy_from_slice(payload);
        let payload = self.pool.gather(bytes, payload.len()).unwrap();
        let cell = Arrived { payload, first_record, at: Instant::default() };
        self.reassembler.cell(cell, 7, &mut self.pool, &mut self.ready, &mut self.counters);
    }

    fn frames(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut pieces = Vec::new();
        while let Some(Arrival { peer, .. }) = self.ready.pop(&mut pieces) {
            assert_eq!(peer, 7);
            frames.push(pieces.iter().flat_map(|piece| self.pool.bytes(*piece).to_vec()).collect());
            pieces.drain(..).for_each(|piece| self.pool.release(piece.buffer));
        }
        frames
    }
}

fn record_of(number: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; PREFIX];
    record::emit(length, &mut bytes);
    bytes.extend((0..length).map(|index| u8::try_from((number * 31 + index * 7) % 251).unwrap()));
    bytes
}

/// The cells of a stream of records: payload and block offset.
fn cells(lengths: &[usize]) -> Vec<(Vec<u8>, u16)> {
    let mut ring = Ring::new(116, 4_096);
    let mut end = 0u64;
    for (number, length) in lengths.iter().enumerate() {
        let open = end.checked_sub(1);
        let slots = ring.append(&record_of(number, *length), open, Cell::default());
        end = if slots.cells > 0 { slots.last + 1 } else { end };
    }
    (0..end).map(|slot| (ring.filled(slot).to_vec(), ring.cell(slot).first_record)).collect()
}

#[test]
fn contradicting_block_offsets_spoil_the_record_and_nothing_else() {
    let mut lane = Lane::new();
    let stream = cells(&[150, 40, 50]);
    assert_eq!(stream.len(), 3);
    lane.cell(&stream[0].0, stream[0].1);
    lane.cell(&stream[1].0, stream[1].1 + 1);
    assert_eq!(lane.counters.records_malformed, 1);
    lane.cell(&stream[2].0, stream[2].1);
    let _ = lane.frames();
    assert_eq!(lane.pool.available(), 64, "every reference was given back");
}

#[test]
fn a_record_in_too_many_pieces_is_spoiled_and_the_next_one_comes() {
    let mut lane = Lane::new();
    let record = record_of(1, 65_563);
    lane.short_cell(&record[..RECORD_START_MIN], 0);
    record[RECORD_START_MIN..].iter().for_each(|byte| lane.short_cell(&[*byte], NO_RECORD));
    assert_eq!(lane.counters.records_malformed, 1);
    assert_eq!(lane.pool.available(), 63, "every reference was given back, and one buffer gathers");
    let next = record_of(2, 60);
    lane.short_cell(&next, 0);
    assert_eq!(lane.frames(), [next[PREFIX..].to_vec()]);
}

proptest! {
    #[test]
    fn whole_streams_come_out_as_they_went_in(lengths in proptest::collection::vec(VNET + ETHERNET..900, 1..40)) {
        let mut lane = Lane::new();
        let mut out = Vec::new();
        for (payload, first_record) in cells(&lengths) {
            lane.cell(&payload, first_record);
            out.extend(lane.frames());
        }
        let expected: Vec<_> = lengths.iter().enumerate().map(|(n, l)| record_of(n, *l)[PREFIX..].to_vec()).collect();
        prop_assert_eq!(out, expected);
        prop_assert_eq!(lane.pool.available(), 64);
    }

    #[test]
    fn what_comes_out_of_a_broken_stream_is_whole_and_in_order(
        lengths in proptest::collection::vec(VNET + ETHERNET..900, 1..40),
        losses in proptest::collection::vec(any::<bool>(), 400),
    ) {
        let mut lane = Lane::new();
        let mut out = Vec::new();
        let mut lost_before = false;
        for ((payload, first_record), lost) in cells(&lengths).into_iter().zip(losses) {
            match (lost, lost_before) {
                (true, false) => lane.reassembler.gap(&mut lane.pool, &mut lane.counters),
                (true, true) => {}
                (false, _) => lane.cell(&payload, first_record),
            }
            lost_before = lost;
            out.extend(lane.frames());
        }
        let mut expected = lengths.iter().enumerate().map(|(n, l)| record_of(n, *l)[PREFIX..].to_vec());
        for frame in &out {
            prop_assert!(expected.any(|sent| sent == *frame), "a frame that was not sent, or out of order");
        }
        prop_assert_eq!(lane.counters.records_malformed, 0);
    }

    #[test]
    fn random_bytes_never_panic_and_leak_nothing(
        garbage in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200), any::<u16>()), 0..60)
    ) {
        let mut lane = Lane::new();
        for (payload, first_record) in garbage {
            lane.cell(&payload, first_record % 256);
            lane.frames();
        }
        lane.reassembler.gap(&mut lane.pool, &mut lane.counters);
        prop_assert_eq!(lane.pool.available(), 64);
        prop_assert!(RECORD_START_MIN < BUFFER);
    }
}
