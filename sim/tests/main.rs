//! What has to hold in simulated worlds. `-- --nocapture` shows the figures.
//!
//! `TABANE_SEEDS` names the seeds for what holds whatever the seed, as `0..5000`, or one of them: 1,000, unless it says otherwise.
//! Where a test takes fewer, it takes as many times more or less.

mod ceiling;
mod hostile;
mod loss;
mod mesh;
mod path_mtu;
mod router;
mod scenarios;
mod stage;
mod trials;
mod uplinks;

use std::fmt::Write as _;
use std::ops::Range;
use tabane_sim::many::{self, Outcome};
use tabane_sim::run::{Report, run};

/// How many seeds the swarm has, unless `TABANE_SEEDS` says otherwise.
const SWARM: u64 = 1_000;

/// The seeds of a test that takes so many where the swarm takes [`SWARM`].
fn seeds(ordinary: u64) -> Range<u64> {
    let named = std::env::var("TABANE_SEEDS").unwrap_or_else(|_| format!("0..{SWARM}"));
    let Range { start, end } = many::seeds(&named).expect("seeds");
    start..start + (ordinary * (end - start)).div_ceil(SWARM)
}

// Many seeds: all invariants must hold, whatever the plan. Two threads share the seeds; each run belongs to one thread.

const THREADS: usize = 2;
/// The test stops after so many failing seeds.
const FAILURES: usize = 5;

#[test]
fn everything_holds_whatever_the_seed() {
    let Outcome { statistics, failed } = many::run(seeds(SWARM), THREADS, FAILURES, |_, _| {});
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
