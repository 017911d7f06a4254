//! Receive buffers: the kernel writes datagrams into them, and cells stay there until their frame is delivered.
//!
//! Stands between the links and [`crate::receive::reorder`]. A buffer is lent to the I/O to be filled, comes back with cells in
//! it, and is free again when the last cell in it has been delivered or given up. The free list is last-in first-out,
//! so that a bundle without reordering works in the same few buffers, which stay in the processor's cache.
//!
//! Invariant: `buffers` never grows past its first size; a buffer is free, lent, or referenced.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of one buffer: the largest UDP datagram train that the kernel merges (64 KB).
pub const BUFFER: usize = 65_536;

/// A buffer that the I/O fills.
pub type Buffer = Box<[u8]>;

/// A run of bytes in a filled buffer. Whoever holds one owns a reference to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) buffer: u16,
    pub(crate) start: u16,
    pub(crate) length: u16,
}

struct Entry {
    bytes: Option<Buffer>,
    references: u32,
    /// The last call of [`Pool::count_distinct`] that saw it.
    counted: u64,
}

/// All receive buffers of a bundle.
#[derive(Default)]
pub(crate) struct Pool {
    entries: Vec<Entry>,
    /// Entries whose bytes are here and unreferenced.
    free: Vec<u16>,
    /// Entries whose bytes are lent.
    lent: Vec<u16>,
    /// The buffer that gathers sparse arrivals, and how much of it is used. It has a reference of its own.
    gathering: Option<(u16, usize)>,
    /// Calls of [`Pool::count_distinct`] since start.
    counts: u64,
}

impl Pool {
    pub(crate) fn new(buffers: u16) -> Self {
        let entry = || Entry { bytes: Some(vec![0; BUFFER].into_boxed_slice()), references: 0, counted: 0 };
        Self {
            entries: (0..buffers).map(|_| entry()).collect(),
            free: (0..buffers).rev().collect(),
            lent: Vec::with_capacity(usize::from(buffers)),
            ..Self::default()
        }
    }

    pub(crate) fn touch(&mut self) {
        self.entries.iter_mut().filter_map(|entry| entry.bytes.as_mut()).for_each(|bytes| bytes.fill(1));
    }

    pub(crate) fn lend(&mut self) -> Option<Buffer> {
        let index = self.free.pop()?;
        self.lent.push(index);
        self.entries[usize::from(index)].bytes.take()
    }

    /// How many more can be lent.
    pub(crate) fn available(&self) -> usize {
        self.free.len()
    }

    /// How many the I/O can receive into: buffers that are lent, and those that can be.
    pub(crate) fn usable(&self) -> usize {
        self.free.len() + self.lent.len()
    }

    pub(crate) fn size(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn count_distinct(&mut self, buffers: impl Iterator<Item = u16>) -> usize {
        self.counts += 1;
        let (entries, count) = (&mut self.entries, self.counts);
        buffers
            .filter(|index| core::mem::replace(&mut entries[usize::from(*index)].counted, count) != count)
            .count()
    }

    pub(crate) fn lent(&self) -> usize {
        self.lent.len()
    }

    /// How many are referenced.
    pub(crate) fn held(&self) -> usize {
        self.entries.iter().filter(|entry| entry.references > 0).count()
    }

    /// Takes a lent buffer back, with one reference for the caller.
    pub(crate) fn take_back(&mut self, buffer: Buffer) -> u16 {
        assert_eq!(buffer.len(), BUFFER, "only lent buffers come back");
        let index = self.lent.pop().expect("as many come back as were lent");
        let entry = &mut self.entries[usize::from(index)];
        (entry.bytes, entry.references) = (Some(buffer), 1);
        index
    }

    /// Takes a lent buffer of which only `length` bytes are used: copies them into the gathering buffer, and frees the lent
    /// one. Returns where they are, with one reference for the caller, or `None` when every buffer is taken.
    ///
    /// A kernel without GRO delivers a cell per buffer; without gathering, 128 cells would take all buffers.
    pub(crate) fn gather(&mut self, buffer: Buffer, length: usize) -> Option<Piece> {
        let sparse = self.take_back(buffer);
        // A byte stays free at the end, so that every position in a buffer fits into 16 bits.
        if self.gathering.is_none_or(|(_, used)| used + length >= BUFFER) {
            self.gather_anew();
        }
        let gathered = self.gathering.map(|(index, used)| {
            let bytes = self.entries[usize::from(sparse)].bytes.take().expect("it has just come back");
            if let Some(target) = &mut self.entries[usize::from(index)].bytes {
                target[used..used + length].copy_from_slice(&bytes[..length]);
            }
            self.entries[usize::from(sparse)].bytes = Some(bytes);
            self.gathering = Some((index, used + length));
            self.retain(index);
            #[expect(clippy::cast_possible_truncation, reason = "within a buffer of 64 KB")]
            let (start, length) = (used as u16, length as u16);
            Piece { buffer: index, start, length }
        });
        self.release(sparse);
        gathered
    }

    fn gather_anew(&mut self) {
        if let Some((full, _)) = self.gathering.take() {
            self.release(full);
        }
        self.gathering = self.free.pop().map(|index| {
            self.retain(index);
            (index, 0)
        });
    }

    pub(crate) fn retain(&mut self, index: u16) {
        self.entries[usize::from(index)].references += 1;
    }

    pub(crate) fn release(&mut self, index: u16) {
        let entry = &mut self.entries[usize::from(index)];
        debug_assert!(entry.references > 0);
        entry.references -= 1;
        if entry.references == 0 {
            self.free.push(index);
        }
    }

    pub(crate) fn buffer(&self, index: u16) -> &[u8] {
        self.entries[usize::from(index)].bytes.as_deref().unwrap_or_default()
    }

    /// The bytes of a piece, to be opened where they lie.
    pub(crate) fn bytes_mut(&mut self, piece: Piece) -> &mut [u8] {
        let buffer = self.entries[usize::from(piece.buffer)].bytes.as_deref_mut().unwrap_or_default();
        &mut buffer[usize::from(piece.start)..][..usize::from(piece.length)]
    }

    pub(crate) fn bytes(&self, piece: Piece) -> &[u8] {
        &self.buffer(piece.buffer)[usize::from(piece.start)..][..usize::from(piece.length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_arrivals_share_a_buffer() {
        let mut pool = Pool::new(2);
        let mut pieces = Vec::new();
        for tag in 0..40 {
            let mut buffer = pool.lend().unwrap();
            buffer[..1_500].fill(tag);
            pieces.push(pool.gather(buffer, 1_500).unwrap());
        }
        assert_eq!(pool.available(), 1);
        for (tag, piece) in (0..).zip(&pieces) {
            assert!(pool.bytes(*piece).iter().all(|byte| *byte == tag));
        }
        pieces.drain(..).for_each(|piece| pool.release(piece.buffer));
        for _ in 0..200 {
            let buffer = pool.lend().unwrap();
            let piece = pool.gather(buffer, 1_500).unwrap();
            pool.release(piece.buffer);
        }
    }

    #[test]
    fn positions_fit_however_a_buffer_is_filled() {
        let mut pool = Pool::new(3);
        for _ in 0..3 * BUFFER / 16 {
            let buffer = pool.lend().unwrap();
            let piece = pool.gather(buffer, 16).unwrap();
            assert!(piece.start.checked_add(piece.length).is_some());
            pool.release(piece.buffer);
        }
    }

    #[test]
    fn a_buffer_is_free_again_after_its_last_reference() {
        let mut pool = Pool::new(2);
        let buffer = pool.lend().unwrap();
        assert!(pool.lend().is_some());
        assert!(pool.lend().is_none(), "bounded");
        let index = pool.take_back(buffer);
        pool.retain(index);
        pool.release(index);
        assert_eq!(pool.available(), 0);
        pool.release(index);
        assert_eq!(pool.available(), 1);
    }
}
