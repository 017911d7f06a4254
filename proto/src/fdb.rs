//! The forwarding database (fdb): behind which node each MAC address lives, one for all workers of a bundle.
//!
//! Beside [`crate::fdb::view`], which is a worker's view of it. A frame comes in by one worker and its answer may leave by
//! another, so what one of them has learned the others have to know. Workers share this table and take no lock: an
//! address is one word ([`entry`]), which is read and written whole, so no reader sees half of a change. An address that
//! is in use is written once a second, however many frames carry it.
//!
//! An address has one set of [`WAYS`] places, found by a keyed hash ([`hash`]). Learning, looking up and forgetting look
//! at this set alone, so they cost the same however many addresses come, and whoever chooses them. When a set is full,
//! the address that leaves is one that was seen in one second only; when there is none, the one that was used least
//! recently; never one that was used in the last [`IDLE`] seconds.
//!
//! Entries name a node by a number that all workers agree on ([`nodes`]), for each of them has peers in places of its own.
//!
//! Source: IEEE 802.1Q, 8.7 (learning) and 8.8.3 (ageing time, 300 s).

mod entry;
mod hash;
mod nodes;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use crate::policy::classify::Mac;
use crate::time::Instant;
use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use entry::Entry;
use hash::{Hash, SET_BITS_MIN};
use nodes::Nodes;
pub(crate) use nodes::{Claim, NUMBERS, Refusal};

/// Addresses that a bundle's table is made for: with so many, chance fills none of the sets of [`Fdb::new`].
pub const ADDRESSES: usize = 131_072;
/// Places of a set: two cache lines.
const WAYS: usize = 16;
/// There are so many places for each address that the table is made for: sets fill by chance, and a full one is rare.
const SPARE: usize = 4;
/// An address that nothing came from for this time is forgotten, in seconds.
const AGE: u32 = 300;
/// An address that was used within so many seconds is in use: no other takes its place.
const IDLE: u32 = 2;
/// After so many seconds without use an address counts for no more than one that was seen in one second only.
const UNPROVEN_AFTER: u32 = 64;
/// All sets are looked through once in this time, in seconds. Times in entries are short numbers that come round; what
/// is too old leaves the table before they do.
const SWEEP: u64 = 32;
/// Sets that are looked through at once.
const SWEEP_MOST: u64 = 512;

/// A moment in whole seconds.
pub(crate) fn second(now: Instant) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

/// The table that all workers of a bundle share.
pub struct Fdb {
    /// Set after set.
    words: Box<[AtomicU64]>,
    hash: Hash,
    nodes: Nodes,
    /// Sets that were looked through since second 0, as if it had begun then; 0: it has not begun.
    swept: AtomicU64,
}

/// Where an address lives, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The number of the node.
    pub(crate) number: u16,
    /// In which second it was learned.
    pub(crate) learned: u32,
}

impl Fdb {
    /// A table for so many addresses, empty, all of its memory taken: 32 bytes for each, and 512 KiB at least. `seed`
    /// decides which addresses share a set; nobody may guess it who could choose addresses.
    #[must_use]
    pub fn new(addresses: usize, seed: u64) -> Self {
        let sets = (addresses * SPARE / WAYS).next_power_of_two().max(1 << SET_BITS_MIN);
        Self {
            words: (0..sets * WAYS).map(|_| AtomicU64::new(0)).collect(),
            hash: Hash::new(sets.ilog2(), seed),
            nodes: Nodes::new(),
            swept: AtomicU64::new(0),
        }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// A frame came from `mac`, which lives behind the node of this number.
    pub(crate) fn learn(&self, second: u32, mac: Mac, number: u16) {
        let (set, tag) = self.place(mac);
        let new = Entry::new(tag, number, second);
        let known = set.iter().map(read).find(|(_, entry)| entry.is_of(tag));
        let Some((word, entry)) = known else {
            return take_place(set, second, new);
        };
        if entry.number == number && entry.is_learned_in(second) {
            return;
        }
        let age = entry.age(second);
        // A source that sends in another second, too, is no address that somebody made up for one frame.
        let is_proven = age < AGE && (entry.is_proven || age > 0);
        if write(word, entry, Entry { is_proven, ..new }) {
            drop_others(set, word, tag);
        }
    }

    /// Where `mac` lives; to be asked for its destination by who has a frame for it, for this counts as a use.
    pub(crate) fn look_up(&self, second: u32, mac: Mac) -> Option<Found> {
        let (set, tag) = self.place(mac);
        let (word, entry) = set.iter().map(read).find(|(_, entry)| entry.is_of(tag))?;
        let age = entry.age(second);
        if age >= AGE {
            return None;
        }
        if !entry.is_proven || !entry.is_used_in(second) {
            // Another worker's change counts as much: nothing is tried again.
            write(word, entry, entry.used(second));
        }
        Some(Found { number: entry.number, learned: second.saturating_sub(age) })
    }

    /// Forgets what is too old, in the sets whose turn it is. To be called several times in a second, by any worker.
    pub(crate) fn sweep(&self, second: u32) {
        let sets = (self.words.len() / WAYS) as u64;
        let wanted = u64::from(second) * (sets / SWEEP);
        let done = self.swept.load(Ordering::Relaxed);
        let (is_first, is_late) = (done == 0, wanted.saturating_sub(done) > sets);
        let end = if is_first || is_late { wanted } else { wanted.min(done + SWEEP_MOST) };
        let turn = || self.swept.compare_exchange(done, end, Ordering::Relaxed, Ordering::Relaxed);
        if end <= done || turn().is_err() || is_first {
            return;
        }
        if is_late {
            // Nobody has looked for a whole round: all workers stood still, and no entry's age is sure.
            self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            return;
        }
        for set in done..end {
            #[expect(clippy::cast_possible_truncation, reason = "below the number of sets")]
            let first = (set % sets) as usize * WAYS;
            self.words[first..first + WAYS].iter().for_each(|word| sweep_word(word, second));
        }
    }

    fn place(&self, mac: Mac) -> (&[AtomicU64], u64) {
        let (set, tag) = self.hash.place(mac);
        (&self.words[set * WAYS..][..WAYS], tag)
    }

    #[cfg(test)]
    fn entries(&self) -> usize {
        self.words.iter().filter(|word| !read(word).1.is_vacant()).count()
    }
}

impl fmt::Debug for Fdb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed is nobody's business.
        out.debug_struct("Fdb").field("places", &self.words.len()).finish_non_exhaustive()
    }
}

fn read(word: &AtomicU64) -> (&AtomicU64, Entry) {
    (word, Entry::from_word(word.load(Ordering::Relaxed)))
}

/// Changes a word, unless another worker has just changed it; returns whether.
fn write(word: &AtomicU64, old: Entry, new: Entry) -> bool {
    word.compare_exchange(old.to_word(), new.to_word(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Puts an address that no place has into the one that is needed least, if there is one that is not in use.
fn take_place(set: &[AtomicU64], second: u32, new: Entry) {
    let least = set.iter().map(read).max_by_key(|(_, entry)| dispensable(*entry, second));
    if let Some((word, entry)) = least.filter(|(_, entry)| dispensable(*entry, second) > 0) {
        write(word, entry, new);
    }
}

/// How little an entry is needed; 0: it stays.
fn dispensable(entry: Entry, second: u32) -> u32 {
    const UNPROVEN: u32 = 1 << 16;
    let (age, idle) = (entry.age(second), entry.idle(second));
    match entry.is_proven {
        _ if entry.is_vacant() || age >= AGE => u32::MAX,
        false => UNPROVEN + age,
        true if idle < IDLE => 0,
        true => idle,
    }
}

/// Two workers that learn the same address at once may give it two places; one is enough.
fn drop_others(set: &[AtomicU64], kept: &AtomicU64, tag: u64) {
    let others = set.iter().filter(|word| !core::ptr::eq(*word, kept)).map(read);
    for (word, entry) in others.filter(|(_, entry)| entry.is_of(tag)) {
        write(word, entry, Entry::VACANT);
    }
}

fn sweep_word(word: &AtomicU64, second: u32) {
    let (word, entry) = read(word);
    if entry.is_vacant() {
        return;
    }
    if entry.age(second) >= AGE {
        write(word, entry, Entry::VACANT);
    } else if entry.is_proven && entry.idle(second) >= UNPROVEN_AFTER {
        write(word, entry, Entry { is_proven: false, ..entry });
    }
}
