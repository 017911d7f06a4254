//! Limits how many events are written to stderr, so that a host that makes peers come and go fills no disk.

use std::time::Duration;

/// Lines that may be written at once: what a bundle of a thousand nodes has to say when a switch dies.
const BURST: u64 = 4_096;
/// Time after which there may be one more: some 80 MB a day.
const EVERY: Duration = Duration::from_millis(100);

/// A token bucket.
#[derive(Debug)]
pub(super) struct Pace {
    tokens: u64,
    /// When the last token came, in nanoseconds.
    filled_ns: u64,
    /// Events that were not written since one was.
    left_out: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { tokens: BURST, filled_ns: 0, left_out: 0 }
    }
}

impl Pace {
    /// An event at this time: whether it is written, and how many before it were not.
    pub(super) fn admit(&mut self, at_ns: u64) -> Option<u64> {
        let every = u64::try_from(EVERY.as_nanos()).unwrap_or(u64::MAX);
        let more = at_ns.saturating_sub(self.filled_ns) / every;
        self.filled_ns += more * every;
        self.tokens = (self.tokens + more).min(BURST);
        if self.tokens == 0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_events_is_limited_and_the_rest_counted() {
        let (mut pace, begin) = (Pace::default(), 5_000_000_000_000);
        let admitted = (0..1_000_000).filter(|micros| pace.admit(begin + micros * 1_000).is_some()).count();
        assert_eq!(admitted as u64, BURST + 9, "a second of a million events");
        let after = begin + 3_600_000_000_000;
        assert_eq!(pace.admit(after), Some(99_999), "since the last that was written");
        assert_eq!(pace.admit(after), Some(0), "an hour later all is as at the beginning");
        assert_eq!(
            pace.admit(after - 1_000_000),
            Some(0),
            "workers read the clock before they take the lock"
        );
    }
}
