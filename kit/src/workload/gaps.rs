//! Times in which a receiver got nothing: what an application sees of an outage.

use std::time::Duration;

/// Shorter gaps are not told apart: any scheduler makes them.
const NOTED_NS: u64 = 1_000_000;
/// Most gaps that are kept, the first ones.
const KEPT: usize = 100_000;

/// The gaps between arrivals.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    first_ns: Option<u64>,
    last_ns: u64,
    kept: Vec<Gap>,
}

/// A time without arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// When it began, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long it was.
    pub length: Duration,
}

impl Gaps {
    /// Something arrived at `now_ns` of CLOCK_MONOTONIC.
    pub fn note(&mut self, now_ns: u64) {
        // The clock of an emulated machine that was stopped for a minute may come back a little earlier.
        let length_ns = now_ns.saturating_sub(self.last_ns);
        if self.first_ns.is_some() && length_ns >= NOTED_NS && self.kept.len() < KEPT {
            self.kept.push(Gap { at_ns: self.last_ns, length: Duration::from_nanos(length_ns) });
        }
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
    }

    /// The longest gap; what is shorter than a millisecond counts as none.
    pub fn longest(&self) -> Gap {
        self.longest_within(0, u64::MAX)
    }

    /// The longest of the gaps that overlap the time from `from_ns` to `to_ns`.
    pub fn longest_within(&self, from_ns: u64, to_ns: u64) -> Gap {
        let overlaps = |gap: &&Gap| gap.at_ns <= to_ns && gap.end_ns() >= from_ns;
        self.kept.iter().filter(overlaps).max_by_key(|gap| gap.length).copied().unwrap_or_default()
    }

    /// From the first arrival to the last.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns)))
    }

    /// From `start_ns` of CLOCK_MONOTONIC to the last arrival; zero without one.
    pub fn until_last(&self, start_ns: u64) -> Duration {
        Duration::from_nanos(self.last_ns.saturating_sub(start_ns))
    }
}

impl Gap {
    fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_of_a_time_is_found() {
        let mut gaps = Gaps::default();
        for millisecond in [10, 15, 35, 40, 40] {
            gaps.note(millisecond * 1_000_000);
        }
        let gap = |at: u64, length| Gap { at_ns: at * 1_000_000, length: Duration::from_millis(length) };
        assert_eq!(gaps.longest(), gap(15, 20));
        assert_eq!(gaps.longest_within(36_000_000, u64::MAX), gap(35, 5));
        assert_eq!(gaps.longest_within(34_000_000, 34_000_000), gap(15, 20));
        assert_eq!(gaps.longest_within(50_000_000, u64::MAX), Gap::default());
        assert_eq!(gaps.duration(), Duration::from_millis(30));
    }
}
