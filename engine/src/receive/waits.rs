//! How long the worker waited for frames lately, and how long to spin for the next one.
//!
//! Part of [`super`]. A wait that the worker spun through costs its length; another one costs what it spun in vain, and
//! a sleep. [`Waits::best`] computes the time to spin that would have cost least, so short and long waits need no
//! model.

use core::time::Duration;

/// How many waits are remembered: enough to distinguish two kinds, few enough to forget soon.
const REMEMBERED: usize = 16;
/// The next wait is not exactly as long as one before it.
const MARGIN: u32 = 4;

/// The last waits, in nanoseconds, in no order that matters.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    lengths: [u32; REMEMBERED],
    /// The number of all waits so far.
    count: usize,
}

impl Waits {
    /// Adds the length of a wait; longer than 4 s counts as 4 s.
    pub(super) fn record(&mut self, length: Duration) {
        self.lengths[self.count % REMEMBERED] = u32::try_from(length.as_nanos()).unwrap_or(u32::MAX);
        self.count += 1;
    }

    /// How long to spin for the next frame, when a sleep costs as much as spinning for `sleep`.
    pub(super) fn best(&self, sleep: Duration) -> Duration {
        let lengths = &self.lengths[..self.count.min(REMEMBERED)];
        let sleep = u64::try_from(sleep.as_nanos()).unwrap_or(u64::MAX);
        let cost = |spin: u32| -> u64 {
            let cost = |wait: u32| if wait <= spin { u64::from(wait) } else { u64::from(spin) + sleep };
            lengths.iter().map(|wait| cost(*wait)).sum()
        };
        let never = (sleep * lengths.len() as u64, 0);
        // Of equals the shortest.
        let (_, best) = lengths.iter().map(|spin| (cost(*spin), *spin)).fold(never, Ord::min);
        let best = Duration::from_nanos(best.into());
        best + best / MARGIN
    }
}
