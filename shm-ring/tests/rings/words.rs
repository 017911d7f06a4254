//! Memory that the nodes of one test share, also between threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tabane_shm_ring::{Memory, Shape};

/// Words, and how often they were used.
pub struct Words {
    words: Vec<AtomicU64>,
    uses: AtomicUsize,
}

impl Words {
    /// As many as `shape` needs, all 0.
    pub fn new(shape: Shape) -> Self {
        let bytes = usize::try_from(shape.bytes()).expect("fits");
        Self { words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(), uses: AtomicUsize::new(0) }
    }

    /// How many words there are.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// Stores any word anywhere, uncounted.
    pub fn scribble(&self, index: usize, word: u64) {
        self.words[index].store(word, Ordering::Relaxed);
    }

    /// Calls of [`Memory`] since the last time.
    pub fn take_uses(&self) -> usize {
        self.uses.swap(0, Ordering::Relaxed)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8));
        self.uses.fetch_add(1, Ordering::Relaxed);
        &self.words[at / 8]
    }
}

impl Memory for &Words {
    fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    fn store(&self, at: usize, word: u64) {
        self.word(at).store(word, Ordering::Release);
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.word(at);
        for (index, chunk) in into.chunks_mut(8).enumerate() {
            let bytes = self.words[at / 8 + index].load(Ordering::Relaxed).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.uses.fetch_add(1, Ordering::Relaxed);
        for (offset, byte) in (at..).zip(bytes) {
            let place = offset % 8;
            let set = |word: u64| {
                let mut all = word.to_le_bytes();
                all[place] = *byte;
                Some(u64::from_le_bytes(all))
            };
            self.words[offset / 8].fetch_update(Ordering::Relaxed, Ordering::Relaxed, set).expect("set");
        }
    }
}
