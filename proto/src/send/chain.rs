//! The cells of a lane that wait, in order: a list whose links lie in the ring.
//!
//! Part of [`crate::send::queue`]. Cells are linked because a lane's slots are neighbours only as far as its frames were read
//! one after the other. Together the cells are a stream of records; bytes can be cut out of it where they lie, as long as
//! the cells have no numbers yet.
//!
//! Invariant: from the first cell on, the links lead to `cells` cells, the last of them `last`.

use crate::send::ring::{Ring, Slots};
use crate::wire::cell::NO_RECORD;
use crate::wire::record::{self, PREFIX, Start};

/// Linked cells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    slots: Slots,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The cell in which it begins, and where in the payload its prefix begins.
    pub(crate) slot: u64,
    pub(crate) at: usize,
    /// Bytes of the chain before that cell.
    before: usize,
    /// Bytes behind the prefix: virtio header and frame.
    pub(crate) length: usize,
}

impl Chain {
    pub(crate) fn first(&self) -> Option<u64> {
        (self.slots.cells > 0).then_some(self.slots.first)
    }

    pub(crate) fn last(&self) -> Option<u64> {
        (self.slots.cells > 0).then_some(self.slots.last)
    }

    /// How many cells they are.
    pub(crate) fn cells(&self) -> usize {
        self.slots.cells
    }

    /// Appends slots that have just been filled.
    pub(crate) fn push(&mut self, ring: &mut Ring, slots: Slots) {
        ring.link(&mut self.slots, slots);
    }

    /// Takes the first cell out; it goes on waiting.
    pub(crate) fn pop(&mut self, ring: &Ring) -> Option<u64> {
        let slot = self.first()?;
        self.slots.first = ring.cell(slot).next;
        self.slots.cells -= 1;
        Some(slot)
    }

    /// The first record that begins in the first cell, if one does.
    pub(crate) fn record(&self, ring: &Ring) -> Option<Record> {
        first_record(ring, self.first()?, 0)
    }

    /// The first record that begins in any cell.
    pub(crate) fn next_record(&self, ring: &Ring) -> Option<Record> {
        let (mut slot, mut before) = (self.first()?, 0);
        // At most as many rounds as the record that has begun has cells.
        for _ in 1..self.cells() {
            if ring.cell(slot).first_record != NO_RECORD {
                break;
            }
            before += ring.filled(slot).len();
            slot = ring.cell(slot).next;
        }
        first_record(ring, slot, before)
    }

    pub(crate) fn drop_record(&mut self, ring: &mut Ring, record: Record) {
        self.cut_out(ring, record.before + record.at, PREFIX + record.length);
    }

    /// Cuts `bytes` off the end of that record.
    pub(crate) fn shorten_record(&mut self, ring: &mut Ring, record: Record, bytes: usize) {
        let length = record.length - bytes;
        record::emit(length, &mut ring.filled_mut(record.slot)[record.at..]);
        self.cut_out(ring, record.before + record.at + PREFIX + length, bytes);
    }

    /// Cuts out `count` bytes of the stream, up to the end of a record, from `offset` on, counted from the first cell's
    /// payload. Cells that become empty leave the chain.
    fn cut_out(&mut self, ring: &mut Ring, mut offset: usize, mut count: usize) {
        let (mut before, mut slot) = (None, self.slots.first);
        loop {
            let length = ring.filled(slot).len();
            if offset < length {
                break;
            }
            offset -= length;
            (before, slot) = (Some(slot), ring.cell(slot).next);
        }
        while count > 0 {
            let here = count.min(ring.filled(slot).len() - offset);
            let next = ring.cell(slot).next;
            if ring.cut_from_cell(slot, offset, here) {
                before = Some(slot);
            } else {
                self.unlink(ring, before, slot);
            }
            (slot, offset, count) = (next, 0, count - here);
        }
    }

    fn unlink(&mut self, ring: &mut Ring, before: Option<u64>, slot: u64) {
        let next = ring.cell(slot).next;
        match before {
            Some(before) => ring.cell_mut(before).next = next,
            None => self.slots.first = next,
        }
        if slot == self.slots.last {
            self.slots.last = before.unwrap_or_default();
        }
        self.slots.cells -= 1;
        ring.release(slot);
    }
}

fn first_record(ring: &Ring, slot: u64, before: usize) -> Option<Record> {
    let at = ring.cell(slot).first_record;
    if at == NO_RECORD {
        return None;
    }
    let at = usize::from(at);
    match record::parse(&ring.filled(slot)[at..]) {
        Ok(Start::Frame(length)) => Some(Record { slot, at, before, length }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::ring::Cell;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const CELL: u16 = 116;

    /// A record whose bytes are all `mark` behind the prefix.
    fn made(length: usize, mark: u8) -> Vec<u8> {
        let mut bytes = alloc::vec![mark; PREFIX + length];
        record::emit(length, &mut bytes);
        bytes
    }

    fn append(chain: &mut Chain, ring: &mut Ring, record: &[u8]) {
        let slots = ring.append(record, chain.last(), Cell::default());
        chain.push(ring, slots);
    }

    /// The records that begin in a chain, as a receiver finds them: lengths and marks. Checks where cells say that
    /// records begin.
    fn records(chain: &Chain, ring: &Ring) -> Vec<(usize, u8)> {
        let (mut chain, mut found) = (*chain, Vec::new());
        let begun = chain.next_record(ring).map(|record| record.before + record.at);
        let mut lacking = begun.unwrap_or_default();
        while let Some(slot) = chain.pop(ring).filter(|_| begun.is_some()) {
            let bytes = ring.filled(slot);
            assert!(!bytes.is_empty());
            let mut at = lacking.min(bytes.len());
            lacking -= at;
            let begins = at < bytes.len() && bytes[at] != 0;
            assert!(!begins || !bytes[..at].contains(&0), "nothing is behind padding");
            assert_eq!(
                ring.cell(slot).first_record,
                if begins { u16::try_from(at).unwrap() } else { NO_RECORD }
            );
            while let Ok(Start::Frame(length)) = record::parse(&bytes[at..]) {
                found.push((length, bytes[at + PREFIX]));
                let here = length.min(bytes.len() - at - PREFIX);
                assert!(bytes[at + PREFIX..][..here].iter().all(|byte| *byte == bytes[at + PREFIX]));
                (at, lacking) = (at + PREFIX + here, length - here);
            }
        }
        assert_eq!(lacking, 0, "the last record is whole");
        found
    }

    proptest! {
        #[test]
        fn records_are_dropped_and_shortened_where_they_lie(
            lengths in proptest::collection::vec(24usize..400, 1..20),
            acts in proptest::collection::vec((0u8..4, 1usize..300), 1..40),
        ) {
            let mut ring = Ring::new(CELL, 2_048);
            let mut chain = Chain::default();
            let mut expected: Vec<(usize, u8)> = lengths.into_iter().zip(1..).collect();
            for (length, mark) in &expected {
                append(&mut chain, &mut ring, &made(*length, *mark));
            }
            prop_assert_eq!(records(&chain, &ring), expected.clone());
            for (act, bytes) in acts {
                let Some(record) = chain.next_record(&ring) else { break };
                prop_assert_eq!(record.length, expected[0].0);
                if act == 3 {
                    // The first cell leaves, and with it the beginnings of some records.
                    ring.release(chain.pop(&ring).unwrap());
                    let rest = records(&chain, &ring);
                    expected.drain(..expected.len() - rest.len());
                    prop_assert_eq!(rest, expected.clone());
                    continue;
                }
                if act == 0 {
                    let cut = bytes.min(record.length - 24);
                    chain.shorten_record(&mut ring, record, cut);
                    expected[0].0 -= cut;
                } else {
                    chain.drop_record(&mut ring, record);
                    expected.remove(0);
                }
                prop_assert_eq!(records(&chain, &ring), expected.clone());
                append(&mut chain, &mut ring, &made(60, 200 + act));
                expected.push((60, 200 + act));
                prop_assert_eq!(records(&chain, &ring), expected.clone());
            }
        }
    }

    #[test]
    fn behind_the_end_of_a_record_that_has_begun_the_next_is_cut_out() {
        let mut ring = Ring::new(CELL, 2_048);
        let mut chain = Chain::default();
        for mark in 1..=3 {
            append(&mut chain, &mut ring, &made(126, mark));
        }
        assert_eq!(chain.cells(), 4, "3 x 130 bytes in cells of 100");
        assert_eq!(chain.pop(&ring), Some(0));
        let record = chain.record(&ring).unwrap();
        assert_eq!((record.slot, record.at, record.length), (1, 30, 126));
        chain.drop_record(&mut ring, record);
        assert_eq!((chain.cells(), ring.filled(1).len()), (3, 30));
        assert_eq!(chain.record(&ring), None, "the end of the first one");
        let record = chain.next_record(&ring).unwrap();
        assert_eq!((record.slot, record.at, record.length), (2, 0, 126));
        chain.drop_record(&mut ring, record);
        assert_eq!((chain.cells(), chain.first(), chain.last()), (1, Some(1), Some(1)));
    }

    #[test]
    fn nothing_is_put_behind_padding() {
        let mut ring = Ring::new(CELL, 2_048);
        let mut chain = Chain::default();
        for (mark, length) in [(1, 126), (2, 62), (3, 60)] {
            append(&mut chain, &mut ring, &made(length, mark));
        }
        assert_eq!((chain.cells(), ring.filled(1).len()), (3, 100), "30 + 66 bytes: no room for a record");
        assert_eq!(chain.pop(&ring), Some(0));
        for _ in 0..2 {
            let record = chain.next_record(&ring).unwrap();
            chain.drop_record(&mut ring, record);
        }
        assert_eq!((chain.cells(), chain.last()), (1, Some(1)), "the end of the first record");
        append(&mut chain, &mut ring, &made(60, 4));
        assert_eq!(records(&chain, &ring), [(60, 4)]);
    }
}
