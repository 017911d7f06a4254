//! How many bytes of a path's data are on their way: sent, and neither received nor passed by a later cell that was.
//!
//! Beside [`crate::link::congestion`]. Reports name numbers; the ends of batches say how many bytes those are.

use alloc::collections::VecDeque;

/// Batches whose ends are remembered; later ones are merged.
const BATCHES: usize = 256;

/// What is on the way.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Bytes sent, and of these bytes that have arrived or are lost.
    sent: u64,
    passed: u64,
    /// The end of what has passed, and of each batch behind it: number and bytes.
    passed_end: (u64, u64),
    batches: VecDeque<(u64, u64)>,
}

impl Flight {
    /// Nothing is on the way; numbers go on from `next`.
    pub(super) fn from(next: u64) -> Self {
        Self { passed_end: (next, 0), ..Self::default() }
    }

    /// Bytes that it has on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.batches.capacity() * size_of::<(u64, u64)>()
    }

    pub(super) fn on_the_way(&self) -> u64 {
        self.sent - self.passed
    }

    /// Bytes that have arrived or are lost.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Nobody knows what became of what is on the way: it counts no longer.
    pub(super) fn give_up(&mut self) {
        self.passed = self.sent;
        if let Some(end) = self.batches.back() {
            self.passed_end = *end;
        }
        self.batches.clear();
    }

    /// `bytes` were sent; the next number is `next`.
    pub(super) fn handle_sent(&mut self, next: u64, bytes: u64) {
        self.sent += bytes;
        if self.batches.len() == BATCHES {
            self.batches.pop_back();
        }
        self.batches.push_back((next, self.sent));
    }

    /// Numbers before `next` have arrived or are lost.
    pub(super) fn pass(&mut self, next: u64) {
        if self.batches.is_empty() {
            // Numbers between batches are those of messages.
            self.passed_end.0 = self.passed_end.0.max(next);
        }
        while let Some((end, bytes)) = self.batches.front().copied() {
            let (from, before) = self.passed_end;
            if next >= end {
                self.passed_end = (end, bytes);
                self.passed = bytes;
                self.batches.pop_front();
                continue;
            }
            if next > from {
                self.passed = self.passed.max(before + (bytes - before) * (next - from) / (end - from));
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_batch_passes_as_a_part_of_its_bytes() {
        let mut flight = Flight::from(100);
        flight.handle_sent(110, 10_000);
        flight.handle_sent(111, 500);
        flight.pass(104);
        assert_eq!((flight.passed(), flight.on_the_way()), (4_000, 6_500));
        flight.pass(110);
        flight.pass(105);
        assert_eq!(flight.on_the_way(), 500, "a report that came late takes nothing back");
        flight.pass(111);
        assert_eq!(flight.on_the_way(), 0);
    }

    #[test]
    fn batches_beyond_those_that_are_remembered_are_merged() {
        let mut flight = Flight::from(0);
        for batch in 1..=2 * BATCHES as u64 {
            flight.handle_sent(batch, 10);
        }
        flight.pass(2 * BATCHES as u64 - 1);
        assert_eq!(flight.batches.len(), 1);
        flight.pass(2 * BATCHES as u64);
        assert_eq!(flight.on_the_way(), 0);
    }
}
