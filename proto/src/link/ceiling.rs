//! A stated rate, which what leaves does not exceed.
//!
//! Beside [`crate::link::congestion`], which finds the rate that a way has. A link has a ceiling for what this node sends over it to
//! all peers, and a path one for what the peer wants to receive there; hellos tell it. Bytes count with the headers of their
//! packets, for that is what a provider counts. Control messages count, and do not wait.

use crate::link::nic::{bytes_in, time_of};
use crate::time::Instant;
use core::time::Duration;

/// What leaves at once lasts so long.
const BATCH: Duration = Duration::from_millis(1);
/// Who comes late catches up with so much: a busy processor is not there for some milliseconds.
const CATCH_UP: Duration = Duration::from_millis(5);

/// What leaves is spread over time.
#[derive(Debug, Default)]
pub(crate) struct Ceiling {
    /// Bytes per second; `None`: there is none.
    rate: Option<u64>,
    next_at: Instant,
}

impl Ceiling {
    /// Of so many bits per second.
    pub(crate) fn new(bits: Option<u64>) -> Self {
        Self { rate: bits.map(|bits| (bits / 8).max(1)), next_at: Instant::default() }
    }

    /// Another rate, in bits per second.
    pub(crate) fn set(&mut self, bits: Option<u64>) {
        *self = Self { next_at: self.next_at, ..Self::new(bits) };
    }

    /// A peer states it, in kbit/s.
    pub(crate) fn state(&mut self, kilobits: Option<u32>) {
        self.set(kilobits.map(|kilobits| u64::from(kilobits) * 1_000));
    }

    pub(crate) fn is_stated(&self, kilobits: Option<u32>) -> bool {
        self.rate == Self::new(kilobits.map(|kilobits| u64::from(kilobits) * 1_000)).rate
    }

    /// Bytes per second.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.rate.is_some() && now < self.next_at
    }

    /// When it allows a batch that is worth to be woken for.
    pub(crate) fn opens_at(&self) -> Instant {
        self.rate.map_or(Instant::default(), |_| self.next_at + BATCH / 2)
    }

    pub(crate) fn batch_limit(&self) -> u64 {
        self.rate.map_or(u64::MAX, |rate| bytes_in(rate, BATCH))
    }

    pub(crate) fn handle_sent(&mut self, now: Instant, bytes: u64) {
        if let Some(rate) = self.rate {
            self.next_at = self.next_at.max(now - CATCH_UP) + time_of(bytes, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a sender with always more to send gets through in a second, which looks each so many microseconds.
    fn passed(ceiling: &mut Ceiling, every: u64) -> u64 {
        let mut bytes = 0;
        for turn in 0..1_000_000 / every {
            let now = Instant::default() + Duration::from_secs(1) + Duration::from_micros(turn * every);
            while !ceiling.is_full(now) {
                let batch = ceiling.batch_limit().min(1_500);
                ceiling.handle_sent(now, batch);
                bytes += batch;
            }
        }
        bytes
    }

    #[test]
    fn what_leaves_has_the_stated_rate_however_often_the_sender_looks() {
        for every in [10, 100, 900, 4_500] {
            let bytes = passed(&mut Ceiling::new(Some(20_000_000)), every);
            assert!(bytes.abs_diff(2_500_000) <= 15_000, "{bytes} bytes in a second, looked each {every} us");
        }
    }

    #[test]
    fn without_a_rate_nothing_is_held_back() {
        let mut ceiling = Ceiling::new(None);
        ceiling.handle_sent(Instant::default(), 1 << 40);
        assert!(!ceiling.is_full(Instant::default()));
        assert_eq!((ceiling.batch_limit(), ceiling.opens_at()), (u64::MAX, Instant::default()));
        ceiling.set(Some(8));
        ceiling.handle_sent(Instant::default(), 3);
        assert!(ceiling.is_full(Instant::default() + Duration::from_secs(2)), "a byte in a second");
        ceiling.set(None);
        assert!(!ceiling.is_full(Instant::default()));
    }
}
