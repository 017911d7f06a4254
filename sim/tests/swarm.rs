//! Many seeds: all invariants must hold, whatever the plan. Two threads share the seeds; each run belongs to one thread.

use std::fmt::Write as _;
use tabane_sim::many::{self, Outcome};
use tabane_sim::run::{Report, run};

const THREADS: usize = 2;
/// The test stops after so many failing seeds.
const FAILURES: usize = 5;

#[test]
fn everything_holds_whatever_the_seed() {
    let Outcome { statistics, failed } = many::run(crate::seeds(crate::SWARM), THREADS, FAILURES, |_, _| {});
    println!("{statistics}");
    let failure = |(seed, violation)| format!("\nseed {seed}: {violation}\n  replay: make sim SEED={seed}");
    assert!(failed.is_empty(), "{}", failed.iter().map(failure).collect::<String>());
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
