//! Many seeds: one by one up to the first that fails, as `make sim` runs them; or on all processors, where each run belongs to one thread,
//! and the others go on, for `make sim ARGS="--nightly …"`.

use core::ops::Range;
use core::time::Duration;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use tabane_sim::run::run as run_seed;
use tabane_sim::statistics::Statistics;

/// From one line of progress to the next.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// What the threads share.
struct Shared {
    /// Whether other runs go on when one has failed.
    goes_on: bool,
    next: AtomicU64,
    done: AtomicU64,
    failed: Mutex<Vec<u64>>,
    reported: Mutex<Instant>,
    began: Instant,
}

/// Runs `seeds`: up to the first that fails, or all of them on all processors.
pub(crate) fn run(seeds: &Range<u64>, all: bool) -> ExitCode {
    let began = Instant::now();
    let shared = Shared {
        goes_on: all,
        next: AtomicU64::new(seeds.start),
        done: AtomicU64::new(0),
        failed: Mutex::default(),
        reported: Mutex::new(began),
        began,
    };
    let threads = if all { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let mut statistics = Statistics::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(seeds, &shared))).collect();
        for worker in workers {
            statistics.merge(&worker.join().expect("runs do not panic"));
        }
    });
    let mut failed = shared.failed.into_inner().expect("runs do not panic");
    failed.sort_unstable();
    println!("{statistics}\n{:.1} s, {} seeds failed", began.elapsed().as_secs_f64(), failed.len());
    for seed in &failed {
        println!("make sim SEED={seed}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work(seeds: &Range<u64>, shared: &Shared) -> Statistics {
    let mut statistics = Statistics::default();
    loop {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        let has_failed = || !shared.failed.lock().expect("runs do not panic").is_empty();
        if seed >= seeds.end || !shared.goes_on && has_failed() {
            return statistics;
        }
        let report = run_seed(seed, None);
        statistics.add(&report);
        if let Some(violation) = &report.violation {
            println!("seed {seed} FAILED: {violation}\nreplay: make sim SEED={seed}");
            shared.failed.lock().expect("runs do not panic").push(seed);
        }
        let done = shared.done.fetch_add(1, Ordering::Relaxed) + 1;
        tell(seeds, shared, done);
    }
}

/// Prints the progress every [`PROGRESS_EVERY`].
fn tell(seeds: &Range<u64>, shared: &Shared, done: u64) {
    let mut reported = shared.reported.lock().expect("runs do not panic");
    if reported.elapsed() < PROGRESS_EVERY {
        return;
    }
    *reported = Instant::now();
    let (count, seconds) = (seeds.end - seeds.start, shared.began.elapsed().as_secs_f64());
    let left = seconds / done as f64 * (count - done) as f64;
    println!("{done} of {count} seeds, {seconds:.0} s, {left:.0} s left");
}
