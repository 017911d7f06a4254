//! Many seeds: all invariants must hold, whatever the plan. Two threads share the seeds; each run belongs to one thread.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tabane_sim::run::{Report, run};
use tabane_sim::statistics::Statistics;

const THREADS: usize = 2;
/// The test stops after so many failing seeds.
const FAILURES: usize = 5;

#[test]
fn everything_holds_whatever_the_seed() {
    let seeds = crate::seeds(crate::SWARM).end;
    let next = AtomicU64::new(0);
    let runs = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| work(&next, seeds))).collect();
        workers.into_iter().map(|worker| worker.join().expect("runs do not panic")).collect::<Vec<_>>()
    });
    let mut statistics = Statistics::default();
    runs.iter().for_each(|(sums, _)| statistics.merge(sums));
    println!("{statistics}");
    let failures: Vec<_> = runs.into_iter().flat_map(|(_, failures)| failures).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Runs seeds until there are no more, or too many have failed.
fn work(next: &AtomicU64, seeds: u64) -> (Statistics, Vec<String>) {
    let (mut statistics, mut failures) = (Statistics::default(), Vec::new());
    while failures.len() < FAILURES {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            break;
        }
        let report = run(seed, None);
        statistics.add(&report);
        if let Some(violation) = report.violation {
            failures.push(format!("seed {seed}: {violation}\n  replay: make sim SEED={seed}"));
        }
    }
    (statistics, failures)
}

/// The same seed is the same run, line by line.
#[test]
fn a_seed_is_a_run() {
    for seed in [1, 2, 3, 5, 8] {
        let (first, lines) = traced(seed);
        let (second, again) = traced(seed);
        assert!(lines == again, "seed {seed}");
        assert_eq!((first.events, first.counted), (second.events, second.counted));
    }
    assert_ne!(traced(1).1, traced(2).1);
}

fn traced(seed: u64) -> (Report, String) {
    let mut lines = String::new();
    let report = run(seed, Some(&mut |line| _ = writeln!(lines, "{line}")));
    (report, lines)
}
