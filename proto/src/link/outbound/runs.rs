//! Whether the way swallows cells that leave together, by one call, and lets those pass that leave alone. NICs whose segmentation is broken
//! do, and filters that drop frames longer than a packet.
//!
//! Beside `send::repair`: the peer asks for what is missing, and the log of numbers knows what left together. A full queue drops runs whole,
//! too, but not nearly all of them; and a dead link swallows heartbeats as well, which leave alone.

use crate::link::outbound::numbers::{LOG, Numbers};
use crate::time::Instant;
use core::ops::Range;
use core::time::Duration;

/// What is counted begins anew after so long.
const PERIOD: Duration = Duration::from_secs(1);
/// So many cells of runs have to be missing.
const MISSING: u32 = 64;
/// So many single cells have to have come.
const CAME: u32 = 4;

#[derive(Debug, Default)]
pub(crate) struct Runs {
    since: Instant,
    /// The first number that is not counted yet.
    next: u64,
    together: Count,
    alone: Count,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    missing: u32,
}

impl Runs {
    /// The peer misses these numbers, and has those between them and the ones that it missed before. Returns whether runs are swallowed.
    pub(crate) fn handle_missing(&mut self, now: Instant, missing: &Range<u64>, numbers: &Numbers) -> bool {
        if now.since(self.since) >= PERIOD {
            *self = Self { since: now, next: self.next.max(missing.start), ..Self::default() };
        }
        for number in numbers.remembered(self.next..missing.end, LOG as u64) {
            let count = if numbers.left_together(number) { &mut self.together } else { &mut self.alone };
            count.all += 1;
            count.missing += u32::from(missing.contains(&number));
        }
        self.next = self.next.max(missing.end);
        let (together, alone) = (self.together, self.alone);
        let are_swallowed = together.missing >= MISSING && 8 * together.missing >= 7 * together.all;
        let is_way = alone.all - alone.missing >= CAME && 4 * alone.missing <= alone.all;
        if are_swallowed && is_way {
            (self.together, self.alone) = Default::default();
        }
        are_swallowed && is_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of 20 runs are missing, how many cells each has, and whether the heartbeat behind it is; whether that shows that runs are
    /// swallowed.
    fn shows(cells: u64, is_missing: impl Fn(u64) -> bool, heartbeat_is: impl Fn(u64) -> bool) -> bool {
        let (mut runs, mut numbers) = (Runs::default(), Numbers::default());
        let mut shown = false;
        for run in 0..20 {
            let start = numbers.next();
            (0..cells).for_each(|cell| _ = numbers.take(Some((run * cells + cell, cells > 1))));
            let end = numbers.next();
            numbers.take(None);
            let missing = match (is_missing(run), heartbeat_is(run)) {
                (false, false) => continue,
                (true, false) => start..end,
                (true, true) => start..end + 1,
                (false, true) => end..end + 1,
            };
            shown |= runs.handle_missing(Instant::from_nanos(run * 10_000_000), &missing, &numbers);
        }
        shown
    }

    #[test]
    fn runs_are_swallowed_where_single_cells_come() {
        let (all, none) = (|_| true, |_| false);
        assert!(shows(20, all, none));
        assert!(shows(20, |run| run != 7, none), "one slipped through");
        assert!(shows(20, all, |run| run == 7), "a heartbeat is lost by chance");
        assert!(!shows(20, all, all), "a dead link");
        assert!(!shows(20, all, |run| run % 2 == 0), "a bad link");
        assert!(!shows(20, |run| run % 2 == 0, none), "a full queue");
        assert!(!shows(1, all, none), "cells that left alone");
        assert!(!shows(3, all, none), "too few");
    }
}
