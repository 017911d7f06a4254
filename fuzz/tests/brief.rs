//! Every fuzz body over a few thousand inputs: random bytes, and valid ones with random faults. A failure names the seed.

use std::path::Path;
use std::{fs, panic, thread};
use tabane_fuzz::TARGETS;
use tabane_sim::random::{Random, Stream};

/// Inputs for most bodies, and for those that take longest: `make fuzz` goes on for as long as one likes.
const INPUTS: u64 = 3_000;
const INPUTS_FEW: u64 = 300;

/// `valid` with a few bytes changed, removed or doubled.
fn mutated(random: &mut Random, valid: &[u8]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..random.within(1..=4) {
        let at = random.index(bytes.len());
        match random.below(4) {
            0 if !bytes.is_empty() => random.fill(&mut bytes[at..=at]),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes
}

/// The valid inputs of a target, by name; those that fuzzing has found are named by their sums.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let entries =
        fs::read_dir(folder).expect("each target has a corpus").map(|entry| entry.expect("a file").path());
    let is_found = |path: &Path| path.file_name().is_some_and(|name| name.len() == 40);
    let mut named: Vec<_> = entries.filter(|path| !is_found(path)).collect();
    named.sort();
    named.iter().map(|path| fs::read(path).expect("a file that can be read")).collect()
}

fn over_inputs(target: &str) {
    let valid = corpus(target);
    let (_, body) = TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target");
    valid.iter().for_each(|bytes| body(bytes));
    let takes_long = ["bundle", "handshake", "probe", "recorded"].contains(&target);
    for seed in 0..if takes_long { INPUTS_FEW } else { INPUTS } {
        let mut random = Random::new(seed, Stream::Injector);
        let input = if random.below(3) == 0 {
            let mut bytes = vec![0; random.index(300)];
            random.fill(&mut bytes);
            bytes
        } else {
            let chosen = random.index(valid.len());
            mutated(&mut random, &valid[chosen])
        };
        let outcome = panic::catch_unwind(|| body(&input));
        assert!(outcome.is_ok(), "{target}, seed {seed}, input {input:02x?}");
    }
}

#[test]
fn any_input() {
    thread::scope(|scope| {
        for (target, _) in TARGETS.into_iter().filter(|(target, _)| *target != "bundle") {
            scope.spawn(|| over_inputs(target));
        }
    });
}

#[test]
fn any_member() {
    over_inputs("bundle");
}

#[test]
fn a_datagram_and_a_refusal_are_overheard() {
    let heard = corpus("overheard").into_iter().filter(|bytes| tabane_io::overhear::parse(bytes).is_some());
    assert_eq!(heard.count(), 2);
}
