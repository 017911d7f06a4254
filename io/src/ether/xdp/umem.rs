//! The memory of the packets: frames of one size, some to receive into and some to send from.
//!
//! Each frame belongs to one side at a time. The kernel has those in the fill ring or taken from it, and those in the
//! transmit ring up to their completion; this side has all others. The side that has a frame may write it; the rings
//! pass it on.

use std::io;

use memmap2::{MmapOptions, MmapRaw};
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};

/// The frames, in a mapping of their own.
#[derive(Debug)]
pub(super) struct Umem {
    memory: MmapRaw,
    frames: usize,
    /// Bytes of a frame, a power of two.
    frame: usize,
}

impl Umem {
    /// So many frames of `frame` bytes: 2,048, or a page.
    pub(super) fn new(frames: usize, frame: usize) -> io::Result<Self> {
        let memory = MmapOptions::new().len(frames * frame).populate().map_anon()?.into();
        Ok(Self { memory, frames, frame })
    }

    /// Its description for the kernel.
    pub(super) fn registration(&self) -> XdpUmemReg {
        XdpUmemReg {
            addr: self.memory.as_ptr().addr() as u64,
            len: self.memory.len() as u64,
            chunk_size: u32::try_from(self.frame).unwrap_or_default(),
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        }
    }

    /// Bytes of a frame.
    pub(super) fn frame(&self) -> usize {
        self.frame
    }

    /// Where a frame begins.
    pub(super) fn place(&self, frame: usize) -> u64 {
        (frame * self.frame) as u64
    }

    /// The frame that a place lies in, if it lies in any.
    pub(super) fn frame_at(&self, place: u64) -> Option<usize> {
        let frame = usize::try_from(place).ok()? / self.frame;
        (frame < self.frames).then_some(frame)
    }

    /// Bytes in one of the frames that this side has; `None`: they do not lie within one.
    pub(super) fn bytes_at(&self, place: u64, length: usize) -> Option<&[u8]> {
        let at = self.within(place, length)?;
        // SAFETY: `within` has checked that the bytes lie inside the memory, which lives as long as `self`; the frame
        // is this side's, so the kernel does not write there.
        Some(unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at), length) })
    }

    /// The same, to be written.
    pub(super) fn bytes_at_mut(&mut self, place: u64, length: usize) -> Option<&mut [u8]> {
        let at = self.within(place, length)?;
        // SAFETY: as above; `&mut self` makes it the only way there.
        Some(unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().add(at), length) })
    }

    fn within(&self, place: u64, length: usize) -> Option<usize> {
        let at = usize::try_from(place).ok()?;
        let fits = length <= self.frame - at % self.frame;
        (self.frame_at(place).is_some() && fits).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_within_one_frame() {
        let mut umem = Umem::new(4, 2048).expect("memory");
        umem.bytes_at_mut(4096 + 256, 3).expect("inside").copy_from_slice(b"abc");
        assert_eq!(umem.bytes_at(4096 + 256, 3), Some(&b"abc"[..]));
        assert_eq!((umem.frame_at(4096 + 256), umem.place(2)), (Some(2), 4096));
        for (place, length) in [(0, 2049), (2047, 2), (8192, 0), (u64::MAX, 1), (8191, 2)] {
            assert!(umem.bytes_at(place, length).is_none(), "{length} at {place}");
        }
        assert!(umem.bytes_at(8191, 1).is_some());
    }
}
