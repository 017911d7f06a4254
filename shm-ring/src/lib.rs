//! Rings in a window of memory that nodes share without trusting each other: a link without wire, socket or
//! interrupt.
//!
//! ```text
//!   node 0                                        node 1
//!   Seat::send --> Sender ==> window of 1 from 0 ==> Receiver --> Seat::receive
//!   Seat::receive <-- Receiver <== window of 0 from 1 <== Sender <-- Seat::send
//! ```
//!
//! The layout is that of `docs/shm-ring.md`. Each pair of nodes has a receive window for each direction; all of it is
//! written by one node and read by one other, so a node writes far memory and reads near memory, as the DIMMnet-2
//! driver does (paper P3). Messages lie there in the order they were sent.
//!
//! The rule of this crate: it is `no_std`, without `unsafe`, and knows memory only by offsets through [`Memory`], whose
//! owner checks them. What the other side has written is treated as a stranger's:
//!
//! - A word is read once, and checked before it is used.
//! - A message is copied out before it is parsed.
//! - Whatever the words say, a call reads and writes inside the windows of its node, and does bounded work.
//!
//! `tests/model.rs` walks through all interleavings of a small ring (loom), `tests/rings` compares with a plain queue,
//! and lets the other side write anything anywhere.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod count;
pub mod receiver;
pub mod seat;
pub mod sender;
pub mod shape;

pub use count::Count;
pub use receiver::{Message, Receiver};
pub use seat::{Faults, Seat};
pub use sender::{Sender, Unsent};
pub use shape::{HEADER, MESSAGE_MAX, Shape, ShapeError, Window};

/// Memory that others write at the same time, by offsets from its beginning.
///
/// An implementation checks every offset and panics when one lies outside: offsets come from this crate's own
/// arithmetic, never from the memory.
pub trait Memory {
    /// The word at `at`, a multiple of 8. What was written before it was stored is seen by whoever has loaded it
    /// (acquire).
    fn load(&self, at: usize) -> u64;

    /// Stores a word at `at`, a multiple of 8, after all that was read and written before (release).
    fn store(&self, at: usize, word: u64);

    /// Copies out what lies from `at` on, a multiple of 8. Others may write meanwhile; then the bytes are any.
    fn read(&self, at: usize, into: &mut [u8]);

    /// Copies `bytes` in from `at` on.
    fn write(&self, at: usize, bytes: &[u8]);
}
