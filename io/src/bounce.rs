//! Hands frames in many pieces to the kernel, which gathers them, or copies the first pieces into one before.
//!
//! A frame that came in cells has as many pieces as there were cells.
//! `engine/src/fragments.rs` decides how many of them are copied, from costs that [`measure`] finds at the start.
//!
//! Source: Shimizu et al., section 5.3, "adaptive bounce buffer".

use std::io::IoSlice;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv, sendmsg,
    socketpair,
};
use tabane_engine::fragments::Fragments;
use tabane_engine::fragments::{Costs, Trial};

use crate::now_ns;
use crate::tap::FRAME_MAX;

/// Most pieces of a frame.
pub const PIECES: usize = 128;
const FRAMES: usize = 32;
/// How often each measurement is repeated; the fastest counts.
const REPEATS: usize = 16;

/// The buffer into which pieces are copied, and how many.
#[derive(Debug)]
pub struct Bounce {
    fragments: Fragments,
    buffer: Box<[u8]>,
    copied: u64,
}

impl Bounce {
    pub fn new(fragments: Fragments) -> Self {
        Self { fragments, buffer: vec![0; FRAME_MAX].into(), copied: 0 }
    }

    pub fn fragments(&self) -> &Fragments {
        &self.fragments
    }

    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Gives the pieces of a frame to `take`, at most [`PIECES`], the first of them copied into one as planned.
    pub fn pass<T>(&mut self, pieces: &[IoSlice<'_>], take: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let copied = self.fragments.copied(pieces.len(), bytes);
        let (first, others) = pieces.split_at(copied);
        let mut filled = 0;
        for piece in first {
            let Some(room) = self.buffer.get_mut(filled..filled + piece.len()) else { return take(pieces) };
            room.copy_from_slice(piece);
            filled += piece.len();
        }
        if copied == 0 || others.len() >= PIECES {
            return take(pieces);
        }
        self.copied += 1;
        let mut gathered = [IoSlice::new(&[]); PIECES];
        gathered[0] = IoSlice::new(&self.buffer[..filled]);
        gathered[1..=others.len()].copy_from_slice(others);
        take(&gathered[..=others.len()])
    }
}

/// What it costs to hand the kernel packets in pieces of `piece` bytes, with the first of them copied before: takes
/// some 5 ms. Where the kernel refuses a pair of sockets nothing is measured.
///
/// The pieces go through a pair of Unix sockets: there is no device yet, and the kernel gathers alike wherever it copies.
pub fn measure(piece: usize) -> Costs {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok((near, far)) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None) else {
        return Costs::default();
    };
    let (mut there, mut control) = (vec![0; FRAME_MAX], SendAncillaryBuffer::default());
    measure_through(
        piece,
        |pieces| sendmsg(&near, pieces, &mut control, SendFlags::empty()).is_ok(),
        || recv(&far, &mut there[..], RecvFlags::empty()).is_ok(),
    )
}

/// The same through whatever takes the pieces: `pass` says whether it took them, and `settle`, whose time does not count, whether
/// it can take more. A single piece is not measured.
///
/// The frames begin with zeros, as a TAP device takes them. They lie one behind the other in more memory than a processor's
/// nearest caches hold, and each is written just before it is passed on, as the cells of a frame are by the kernel.
pub fn measure_through(
    piece: usize,
    mut pass: impl FnMut(&[IoSlice<'_>]) -> bool,
    mut settle: impl FnMut() -> bool,
) -> Costs {
    let mut costs = Costs::default();
    let mut frames = vec![0; FRAMES * FRAME_MAX];
    let mut bounce = Bounce::new(Fragments::ScatterGather);
    let mut trials: Vec<Trial> = Costs::trials().filter(|trial| trial.bytes > piece).collect();
    for at in 0..REPEATS * trials.len() {
        // In alternating order, so that no measurement always comes first with cold caches.
        if at % trials.len() == 0 {
            trials.reverse();
        }
        let trial = trials[at % trials.len()];
        let frame = &mut frames[at % FRAMES * FRAME_MAX..][..trial.bytes];
        frame.fill(0);
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let chunks = frame.chunks(piece.max(trial.bytes.div_ceil(PIECES)));
        let count = chunks.len();
        pieces.iter_mut().zip(chunks).for_each(|(piece, bytes)| *piece = IoSlice::new(bytes));
        bounce.fragments = Fragments::CopyFirst(trial.first);
        let start = now_ns();
        let passed = bounce.pass(&pieces[..count], &mut pass);
        let took = Duration::from_nanos(now_ns() - start);
        if passed & settle() {
            costs.record(trial, costs.took(trial).map_or(took, |least| least.min(took)));
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(fragments: Fragments, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
        let mut bounce = Bounce::new(fragments);
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let seen = bounce.pass(&slices, |pieces| pieces.iter().map(|piece| piece.to_vec()).collect());
        (seen, bounce.copied())
    }

    #[test]
    fn the_first_pieces_become_one() {
        let pieces: [&[u8]; 4] = [b"a", b"", b"bc", b"def"];
        let owned = |pieces: &[&[u8]]| pieces.iter().map(|piece| piece.to_vec()).collect::<Vec<_>>();
        assert_eq!(passed(Fragments::ScatterGather, &pieces), (owned(&pieces), 0));
        assert_eq!(passed(Fragments::CopyFirst(3), &pieces), (owned(&[b"abc", b"def"]), 1));
        assert_eq!(passed(Fragments::CopyAll, &pieces), (owned(&[b"abcdef"]), 1));
        assert_eq!(passed(Fragments::CopyAll, &pieces[..1]), (owned(&[b"a"]), 0), "one piece alone");
        assert_eq!(passed(Fragments::CopyAll, &[]), (owned(&[]), 0));
    }

    #[test]
    fn every_number_of_pieces_passes_whole() {
        let bytes: Vec<u8> = (0..=u8::MAX).take(PIECES).collect();
        for count in 0..=PIECES {
            let pieces: Vec<&[u8]> = bytes[..count].chunks(1).collect();
            for first in [0, 2, 3, count / 2, count, PIECES + 1] {
                let (seen, _) = passed(Fragments::CopyFirst(first), &pieces);
                assert_eq!(seen.concat(), bytes[..count], "{count} pieces, the first {first} copied");
            }
        }
    }

    #[test]
    fn what_is_longer_than_any_frame_is_gathered() {
        let long = vec![7; FRAME_MAX];
        let (seen, copied) = passed(Fragments::CopyAll, &[b"a", &long]);
        assert_eq!((seen.len(), copied), (2, 0));
    }

    #[test]
    fn every_trial_of_several_pieces_is_measured() {
        let costs = measure(1_436);
        assert!(Costs::trials().all(|trial| costs.took(trial).is_some() == (trial.bytes > 1_436)));
    }
}
