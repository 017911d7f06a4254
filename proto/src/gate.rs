//! The gates of flows: a flow of which enough waits here gives no more superframes until some of it has left.
//!
//! Part of `send::queue`. The device passes superframes of TCP by gates, where the I/O has such gates: a hash of the
//! flow says which. A frame that a closed gate refuses is congestion that TCP notices at once and without a loss, so what
//! waits stays short before `send::codel` has anyone pay for it, and the device is read all the time. A flow whose gate is
//! closed has cells here, so their acknowledgements let it try again.
//!
//! Invariant: a gate that is closed is opened when its queue runs empty.

use alloc::collections::VecDeque;

/// How many gates there are.
pub const GATES: usize = 1 << (32 - SHIFT);
/// A gate is the upper bits of a hash of 32 bits.
pub const SHIFT: u32 = 19;
/// For each word, the hash so far is multiplied by this, and the word added; words are loaded as they lie in memory.
pub const STEP: u32 = 0x85eb_ca6b;
/// In the end the hash is multiplied by this.
pub const SPREAD: u32 = 0x9e37_79b1;

/// Changes that are kept until someone asks; nobody asks where there are no gates.
const CHANGES: usize = 4 * 1_024;

/// The gate of a flow with these addresses (a multiple of four bytes) and links.
#[must_use]
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
