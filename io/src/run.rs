//! Segments a run into single datagrams, for links without GSO.

use std::io::IoSlice;

/// The rest of a run that is not yet segmented. A copy keeps a place to return to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    slices: &'a [IoSlice<'a>],
    /// Bytes of the first slice that are taken; less than its length unless no slice is left.
    gone: usize,
}

impl<'a> Run<'a> {
    pub(crate) fn new(slices: &'a [IoSlice<'a>]) -> Self {
        let mut run = Self { slices, gone: 0 };
        run.skip_empty();
        run
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum::<usize>() - self.gone
    }

    /// Takes one datagram of `segment` bytes, or the shorter last one, off the front. Writes its
    /// pieces into `pieces` and says how many; `None` when they do not fit, and nothing is taken then.
    pub(crate) fn take(&mut self, segment: usize, pieces: &mut [IoSlice<'a>]) -> Option<usize> {
        let (mut rest, mut wanted, mut count) = (*self, segment, 0);
        while wanted > 0 && !rest.is_empty() {
            let piece = &rest.slices[0][rest.gone..];
            let length = piece.len().min(wanted);
            *pieces.get_mut(count)? = IoSlice::new(&piece[..length]);
            count += 1;
            wanted -= length;
            rest.gone += length;
            rest.skip_empty();
        }
        *self = rest;
        Some(count)
    }

    /// Takes so many bytes off the front, or all.
    pub(crate) fn skip(&mut self, mut bytes: usize) {
        while bytes > 0 && !self.is_empty() {
            let step = (self.slices[0].len() - self.gone).min(bytes);
            (self.gone, bytes) = (self.gone + step, bytes - step);
            self.skip_empty();
        }
    }

    /// Takes as many bytes as `room` has off the front and copies them there; there are as many.
    pub(crate) fn copy_to(&mut self, mut room: &mut [u8]) {
        while !room.is_empty() && !self.is_empty() {
            let piece = &self.slices[0][self.gone..];
            let (now, later) = room.split_at_mut(piece.len().min(room.len()));
            now.copy_from_slice(&piece[..now.len()]);
            self.gone += now.len();
            room = later;
            self.skip_empty();
        }
    }

    fn skip_empty(&mut self) {
        while let Some((first, others)) = self.slices.split_first()
            && self.gone == first.len()
        {
            (self.slices, self.gone) = (others, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(slices: &[&[u8]], segment: usize) -> Vec<Vec<u8>> {
        let slices: Vec<IoSlice<'_>> = slices.iter().map(|s| IoSlice::new(s)).collect();
        let (mut run, mut datagrams) = (Run::new(&slices), Vec::new());
        while !run.is_empty() {
            let mut pieces = [IoSlice::new(&[]); 8];
            let count = run.take(segment, &mut pieces).unwrap();
            datagrams.push(pieces[..count].iter().flat_map(|piece| piece.to_vec()).collect());
        }
        datagrams
    }

    #[test]
    fn equals_the_chunks_of_all_bytes() {
        let bytes: Vec<u8> = (0..60).collect();
        for first in 0..20 {
            for second in 0..20 {
                for segment in [1, 3, 7, 10, 60, 100] {
                    let (a, rest) = bytes.split_at(first);
                    let (b, c) = rest.split_at(second);
                    let expected: Vec<Vec<u8>> = bytes.chunks(segment).map(<[u8]>::to_vec).collect();
                    assert_eq!(take_all(&[a, &[], b, &[], c, &[]], segment), expected);
                }
            }
        }
    }

    #[test]
    fn bytes_are_copied_across_slices() {
        let slices = [&b"ab"[..], b"", b"cde"].map(IoSlice::new);
        let mut run = Run::new(&slices);
        let mut room = [0; 3];
        run.copy_to(&mut room);
        assert_eq!((&room, run.bytes()), (b"abc", 2));
        run.skip(1);
        run.copy_to(&mut room[..1]);
        assert_eq!((&room, run.is_empty()), (b"ebc", true));
    }

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let slices = [b"a", b"b", b"c"].map(|s| IoSlice::new(s));
        let mut run = Run::new(&slices);
        assert_eq!(run.take(3, &mut [IoSlice::new(&[]); 2]), None);
        assert_eq!(run.take(3, &mut [IoSlice::new(&[]); 3]), Some(3));
        assert!(run.is_empty());
    }
}
