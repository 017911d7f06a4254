//! Many runs at once; each belongs to one thread.

use crate::run::run as run_seed;
use crate::statistics::Statistics;
use crate::surroundings::Violation;
use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

const NO_PANIC: &str = "runs do not panic";

#[derive(Debug, Default)]
pub struct Outcome {
    pub statistics: Statistics,
    /// The seeds that failed, and what did not hold.
    pub failed: BTreeMap<u64, Violation>,
}

/// The seeds that a text names: `0..5000`, or one of them.
pub fn seeds(text: &str) -> Result<Range<u64>, String> {
    let seed = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("'{text}' is not a seed: expected a number, or A..B, as 0..2000"))
    };
    let (first, end) = match text.split_once("..") {
        Some((first, end)) => (seed(first)?, seed(end)?),
        None => (seed(text)?, seed(text)?.saturating_add(1)),
    };
    if first < end { Ok(first..end) } else { Err(format!("there is no seed in {text}")) }
}

/// Runs seeds on so many threads until so many have failed. `tell` hears of each one's end, and of what became of all until then.
pub fn run(
    seeds: Range<u64>,
    threads: usize,
    failures: usize,
    tell: impl Fn(u64, &Outcome) + Sync,
) -> Outcome {
    let outcome = Mutex::new(Outcome::default());
    let goes_on = |_: &u64| outcome.lock().expect(NO_PANIC).failed.len() < failures;
    each(seeds.take_while(goes_on), threads, |seed| {
        let report = run_seed(seed, None);
        let mut outcome = outcome.lock().expect(NO_PANIC);
        outcome.statistics.add(&report);
        outcome.failed.extend(report.violation.map(|violation| (seed, violation)));
        tell(seed, &outcome);
    });
    outcome.into_inner().expect(NO_PANIC)
}

pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

pub fn each<T>(items: impl Iterator<Item = T> + Send, threads: usize, work: impl Fn(T) + Sync) {
    let items = Mutex::new(items);
    let next = || items.lock().expect(NO_PANIC).next();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_understood_or_refused_with_what_is_allowed() {
        assert_eq!((seeds("5..9"), seeds("7")), (Ok(5..9), Ok(7..8)));
        for (text, what) in
            [("x", "'x' is not a seed"), ("0..", "expected a number, or A..B"), ("9..5", "no seed")]
        {
            let reason = seeds(text).unwrap_err();
            assert!(reason.contains(what), "{reason}");
        }
    }
}
