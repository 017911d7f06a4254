//! The forwarding database (fdb): behind which node each MAC address lives, one for all workers of a bundle.
//!
//! Beside [`crate::fdb::view`], which is a worker's view of it. A frame may arrive at one worker and its answer leave by
//! another, so workers share this table. They take no lock: an address is one word ([`entry`]), which they read and write
//! whole, so no reader sees half of a change. An address in use is written once a second, however many frames carry it.
//!
//! A keyed hash ([`hash`]) gives an address one set of [`WAYS`] places. Learning, look-up and ageing touch this set alone,
//! so their cost does not depend on how many addresses there are, or who chooses them. In a full set a new address takes
//! the place of one that was seen in one second only, else of the one that was used least recently; never of one that was
//! used in the last [`IDLE`] seconds.
//!
//! Entries name a node by a number that all workers agree on ([`nodes`]), for each worker has its own index of a peer.
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

/// Addresses that a bundle's table is made for: with so many, no set of [`Fdb::new`] fills by chance.
pub const ADDRESSES: usize = 131_072;
/// Places of a set: two cache lines.
const WAYS: usize = 16;
/// Places for each address that the table is made for, so that full sets are rare.
const SPARE: usize = 4;
/// Ageing time in seconds: an address that sent no frame for so long is forgotten.
const AGE: u32 = 300;
/// An address that was used within so many seconds is in use: no other takes its place.
const IDLE: u32 = 2;
/// After so many seconds without use an address is as dispensable as one that was seen in one second only.
const UNPROVEN_AFTER: u32 = 64;
/// A sweep passes all sets once in this time, in seconds. Times in entries are short numbers that wrap; the sweep takes
/// old entries out before they do.
const SWEEP: u64 = 32;
/// Sets that one call sweeps.
const SWEEP_MOST: u64 = 512;

pub(crate) fn second(now: Instant) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

/// The table that all workers of a bundle share.
pub struct Fdb {
    /// Set after set.
    words: Box<[AtomicU64]>,
    hash: Hash,
    nodes: Nodes,
    /// Sets that were swept since second 0, as if the sweep had begun then; 0: it has not begun.
    swept: AtomicU64,
}

/// Where an address lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) number: u16,
    /// In which second it was learned.
    pub(crate) learned: u32,
}

impl Fdb {
    /// An empty table for so many addresses: 32 bytes for each, and 512 KiB at least. `seed` decides which addresses share
    /// a set; who could choose addresses must not be able to guess it.
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

    /// A frame came from `mac`, which lives behind the node of this number. Returns whether it was written: once in a second.
    pub(crate) fn learn(&self, second: u32, mac: Mac, number: u16) -> bool {
        let (set, tag) = self.place(mac);
        let new = Entry::new(tag, number, second);
        let known = set.iter().map(read).find(|(_, entry)| entry.is_of(tag));
        let Some((word, entry)) = known else {
            return take_place(set, second, new);
        };
        if entry.number == number && entry.is_learned_in(second) {
            return false;
        }
        let age = entry.age(second);
        // A source that sends in another second, too, is no address that somebody made up for one frame.
        let is_proven = age < AGE && (entry.is_proven || age > 0);
        let is_written = write(word, entry, Entry { is_proven, ..new });
        if is_written {
            drop_others(set, word, tag);
        }
        is_written
    }

    /// Where `mac` lives. The caller has a frame for it: the look-up counts as a use.
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

    /// Takes old entries out of the sets whose turn it is. Workers call it several times in a second, any of them.
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
            // Nobody has swept for a whole round: all workers stood still, and no entry's age is sure.
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
        // The seed stays secret.
        out.debug_struct("Fdb").field("places", &self.words.len()).finish_non_exhaustive()
    }
}

fn read(word: &AtomicU64) -> (&AtomicU64, Entry) {
    (word, Entry::from_word(word.load(Ordering::Relaxed)))
}

/// Changes a word, unless another worker has just changed it; returns whether it did.
fn write(word: &AtomicU64, old: Entry, new: Entry) -> bool {
    word.compare_exchange(old.to_word(), new.to_word(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Puts a new address into the most dispensable place, if there is one that is not in use; returns whether it has one.
fn take_place(set: &[AtomicU64], second: u32, new: Entry) -> bool {
    let least = set.iter().map(read).max_by_key(|(_, entry)| dispensable(*entry, second));
    let free = least.filter(|(_, entry)| dispensable(*entry, second) > 0);
    free.is_some_and(|(word, entry)| write(word, entry, new))
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
