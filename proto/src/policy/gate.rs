//! The gates of flows: the device refuses superframes of a flow that has enough waiting in the queue.
//!
//! Part of `send::queue`. Where the I/O has gates, a hash of the flow selects one, and the device drops a superframe of TCP
//! at a closed gate. TCP takes that for local congestion: it slows down at once and loses nothing. So the queue stays short
//! before `send::codel` signals anyone, and the worker reads the device all the time. A flow whose gate is closed has cells
//! here, so their acknowledgements let it try again.
//!
//! Invariant: a gate that is closed is opened when its queue runs empty.

use alloc::collections::VecDeque;

/// How many gates there are.
pub const GATES: usize = 1 << (32 - SHIFT);
/// A gate is the upper bits of a hash of 32 bits.
pub const SHIFT: u32 = 19;
/// For each word of input the hash is multiplied by this, and the word added; words are in the machine's byte order.
pub const STEP: u32 = 0x85eb_ca6b;
/// At the end the hash is multiplied by this.
pub const SPREAD: u32 = 0x9e37_79b1;

/// Changes that wait for the caller; where there are no gates nobody takes them.
const CHANGES: usize = 4 * 1_024;

/// The gate of a flow with these addresses (a multiple of four bytes) and links.
pub fn gate_of(addresses: &[u8], links: [u8; 4]) -> u16 {
    let words = addresses.as_chunks().0.iter().copied().chain(core::iter::once(links));
    let add = |hash: u32, word| hash.wrapping_mul(STEP).wrapping_add(u32::from_ne_bytes(word));
    (words.fold(0, add).wrapping_mul(SPREAD) >> SHIFT) as u16
}

/// A gate of the device is to be closed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which, below [`GATES`].
    pub gate: u16,
    /// Whether it is closed from now on.
    pub is_closed: bool,
}

/// Changes that the I/O has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Changes(VecDeque<Change>);

impl Changes {
    pub(crate) fn push(&mut self, change: Change) {
        if self.0.len() == CHANGES {
            self.0.pop_front();
        }
        self.0.push_back(change);
    }

    pub(crate) fn pop(&mut self) -> Option<Change> {
        self.0.pop_front()
    }
}
