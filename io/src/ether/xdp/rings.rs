//! The four rings that are shared with the kernel: one side puts entries in, the other takes them out.
//!
//! Each side has a count that only it moves, of all entries that it has put or taken; the place in the ring is the
//! count modulo the ring's size. The entries between the counts belong to the side that takes, the rest to the side
//! that puts. A count is stored after the entries that it covers were written or read (release), and loaded before they
//! are (acquire).
//!
//! The kernel's count is trusted to be right, but never to index: places are taken modulo the size, and the count is
//! limited to the size.
//!
//! Source: `Documentation/networking/af_xdp.rst`, `net/xdp/xsk_queue.h` of Linux 6.18.

use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, mem};

use memmap2::{MmapOptions, MmapRaw};
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions, XdpRingOffset};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// `XDP_RING_NEED_WAKEUP`.
const NEED_WAKEUP: u32 = 1;

/// A mapped ring of entries of one kind.
#[derive(Debug)]
pub(super) struct Ring<T> {
    memory: MmapRaw,
    at: XdpRingOffset,
    size: u32,
    /// This side's count, ahead of the one that the kernel sees.
    own: u32,
    entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` entries, a power of two, at `page` of the socket's mappings.
    /// Errors: the kernel's, or the layout that it gives is impossible.
    pub(super) fn map(socket: &OwnedFd, page: u64, at: XdpRingOffset, size: u32) -> io::Result<Self> {
        let entries = usize::try_from(size).ok().and_then(|size| size.checked_mul(mem::size_of::<T>()));
        let bytes = entries.and_then(|bytes| bytes.checked_add(usize::try_from(at.desc).ok()?));
        let bytes = bytes.ok_or(io::ErrorKind::InvalidData)?;
        let inside = |at: u64| at.is_multiple_of(4) && at.saturating_add(4) <= bytes as u64;
        let aligned = at.desc.is_multiple_of(mem::align_of::<T>() as u64) && size.is_power_of_two();
        if !inside(at.producer) || !inside(at.consumer) || !at.flags.is_none_or(inside) || !aligned {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let memory = MmapOptions::new().offset(page).len(bytes).populate().map_raw(socket)?;
        Ok(Self { memory, at, size, own: 0, entries: PhantomData })
    }

    /// Whether the kernel wants a call after entries were put in.
    pub(super) fn needs_wakeup(&self) -> bool {
        // Without flags (before Linux 5.4) it always does.
        self.at.flags.is_none_or(|at| self.word(at).load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }

    /// For the side that puts: how many entries find room.
    pub(super) fn room(&self) -> u32 {
        room(self.own, self.word(self.at.consumer).load(Ordering::Acquire), self.size)
    }

    /// For the side that puts: whether the kernel has taken all published entries.
    pub(super) fn is_taken(&self) -> bool {
        self.room() == self.size
    }

    /// For the side that puts: puts in an entry, which the kernel sees after [`Self::publish`]; there must be room.
    pub(super) fn put(&mut self, entry: T) {
        debug_assert!(self.room() > 0);
        // SAFETY: the place is inside the mapping and aligned, as `map` has checked, and belongs to this side.
        unsafe { self.place(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// For the side that puts: shows the kernel all entries.
    pub(super) fn publish(&self) {
        self.word(self.at.producer).store(self.own, Ordering::Release);
    }

    /// For the side that takes: how many entries there are.
    pub(super) fn waiting(&self) -> u32 {
        waiting(self.word(self.at.producer).load(Ordering::Acquire), self.own, self.size)
    }

    /// For the side that takes: the entry after `before` others, which must be fewer than [`Self::waiting`].
    pub(super) fn peek(&self, before: u32) -> T {
        debug_assert!(before < self.waiting());
        // SAFETY: as in `put`; the kernel has written the entry before the count that covers it. Any bytes are a `T`,
        // of which there are two kinds, both of integers.
        unsafe { self.place(self.own.wrapping_add(before)).read() }
    }

    /// For the side that takes: gives back the places of so many entries.
    pub(super) fn take(&mut self, count: u32) {
        self.own = self.own.wrapping_add(count);
        self.word(self.at.consumer).store(self.own, Ordering::Release);
    }

    /// Where the entry with this count lies.
    fn place(&self, count: u32) -> *mut T {
        let place = place(count, self.size);
        let at = usize::try_from(self.at.desc).unwrap_or_default() + place * mem::size_of::<T>();
        debug_assert!(at + mem::size_of::<T>() <= self.memory.len());
        // SAFETY: `place` is below the size, and `map` has made the mapping as long as entries and what is before them.
        unsafe { self.memory.as_mut_ptr().add(at).cast() }
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        let at = usize::try_from(at).unwrap_or_default();
        // SAFETY: `map` has checked that the word lies inside the mapping and is aligned; it lives as long as `self`,
        // and both sides use it by atomic operations.
        unsafe { AtomicU32::from_ptr(self.memory.as_mut_ptr().add(at).cast()) }
    }
}

/// How many entries find room after `put` were put in and `taken` were taken out.
fn room(put: u32, taken: u32, size: u32) -> u32 {
    size - waiting(put, taken, size)
}

fn waiting(put: u32, taken: u32, size: u32) -> u32 {
    put.wrapping_sub(taken).min(size)
}

fn place(count: u32, size: u32) -> usize {
    (count & (size - 1)) as usize
}

/// Frames into which the kernel may write received packets; this side puts.
#[derive(Debug)]
pub(super) struct FillRing(pub(super) Ring<u64>);

impl FillRing {
    /// Gives frames to the kernel, by where they begin; the ring has room for twice as many as were ever made.
    pub(super) fn give(&mut self, frames: impl Iterator<Item = u64>) {
        for frame in frames {
            if self.0.room() == 0 {
                debug_assert!(false, "more frames than there are");
                break;
            }
            self.0.put(frame);
        }
        self.0.publish();
    }

    /// Wakes up a driver that waits for frames.
    /// Errors: the kernel's, which the link's health shows anyway.
    pub(super) fn wake(&self, socket: &OwnedFd) -> io::Result<()> {
        if self.0.needs_wakeup() {
            recv(socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT)?;
        }
        Ok(())
    }
}

/// Frames that have left, which the kernel gives back; this side takes.
#[derive(Debug)]
pub(super) struct CompletionRing(pub(super) Ring<u64>);

impl CompletionRing {
    /// Takes all frames that have left, by where they begin.
    pub(super) fn reclaim(&mut self, mut take: impl FnMut(u64)) {
        let count = self.0.waiting();
        for before in 0..count {
            take(self.0.peek(before));
        }
        if count > 0 {
            self.0.take(count);
        }
    }
}

/// Most pieces of one packet: the kernel's bound is 18.
pub(super) const PIECES: usize = 20;

/// Received packets, in one frame each or several; this side takes.
#[derive(Debug)]
pub(super) struct ReceiveRing(pub(super) Ring<XdpDesc>);

impl ReceiveRing {
    /// The pieces of the oldest packet, and their number; `None` when none has come whole.
    pub(super) fn first(&self) -> Option<([XdpDesc; PIECES], usize)> {
        let mut pieces = [XdpDesc { addr: 0, len: 0, options: XdpDescOptions::empty() }; PIECES];
        let waiting = self.0.waiting();
        for (before, piece) in (0..waiting).zip(&mut pieces) {
            *piece = self.0.peek(before);
            if !piece.options.contains(XdpDescOptions::XDP_PKT_CONTD) {
                return Some((pieces, before as usize + 1));
            }
        }
        // A packet of more pieces than the kernel allows: each is then taken for a packet.
        (waiting as usize >= PIECES).then_some((pieces, PIECES))
    }

    /// Gives the places of so many pieces back.
    pub(super) fn take(&mut self, pieces: usize) {
        self.0.take(u32::try_from(pieces).unwrap_or_default());
    }
}

/// Packets to send, in one frame each or several; this side puts.
#[derive(Debug)]
pub(super) struct TransmitRing(pub(super) Ring<XdpDesc>);

impl TransmitRing {
    /// Puts in a piece of a packet; `more`: another one follows.
    pub(super) fn put(&mut self, frame: u64, length: u32, more: bool) {
        let options = if more { XdpDescOptions::XDP_PKT_CONTD } else { XdpDescOptions::empty() };
        self.0.put(XdpDesc { addr: frame, len: length, options });
    }

    /// Lets the kernel send the packets in the ring as far as it can now. In copy mode it takes 32 packets per call.
    /// Errors: the kernel's, such as `ENETDOWN`; what is in the ring stays there.
    pub(super) fn kick(&self, socket: &OwnedFd) -> io::Result<()> {
        self.0.publish();
        while !self.0.is_taken() && self.0.needs_wakeup() {
            let room = self.0.room();
            match send(socket, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) if self.0.room() > room => {}
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_round() {
        for begin in [0, 7, u32::MAX - 2, u32::MAX] {
            for there in 0..=8 {
                let put = begin.wrapping_add(there);
                assert_eq!((waiting(put, begin, 8), room(put, begin, 8)), (there, 8 - there), "{begin}");
                assert!(place(put, 8) < 8);
            }
        }
        assert_eq!([u32::MAX, 0, 1].map(|count| place(count, 8)), [7, 0, 1]);
    }

    #[test]
    fn an_impossible_count_is_limited_to_the_size() {
        for (put, taken) in [(9, 0), (0, 1), (5, u32::MAX - 8)] {
            assert_eq!((waiting(put, taken, 8), room(put, taken, 8)), (8, 0));
        }
    }
}
