//! The completion ring: frames that have left, which the kernel gives back.

use super::ring::Ring;

/// This side takes.
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
