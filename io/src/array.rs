//! An array that BPF programs count in, mapped: reading a counter takes no call.
//!
//! Source: `BPF_F_MMAPABLE` and `array_map_mmap` in `kernel/bpf/arraymap.c` of Linux 6.18 (since 5.5).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The words of an array of BPF, which programs write meanwhile.
#[derive(Debug)]
pub struct MappedArray {
    memory: MmapRaw,
}

impl MappedArray {
    /// Maps the first `words` words of an array that was made with `BPF_F_MMAPABLE`.
    /// Errors: `EINVAL` when the array cannot be mapped or is shorter.
    pub fn new(map: impl AsFd, words: usize) -> io::Result<Self> {
        // All pages at once: who reads it may be in a hurry.
        let memory =
            MmapOptions::new().len(words * WORD).populate().map_raw_read_only(map.as_fd().as_raw_fd())?;
        Ok(Self { memory })
    }

    /// A word as it is at the moment; `None` beyond the end.
    pub fn word(&self, index: usize) -> Option<u64> {
        if index >= self.memory.len() / WORD {
            return None;
        }
        // SAFETY: the word lies inside the mapping, which lives as long as `self` and begins at a page; the kernel writes it by
        // single accesses.
        let word = unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().cast::<u64>().add(index)) };
        Some(word.load(Ordering::Relaxed))
    }
}
