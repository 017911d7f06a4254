//! Every fuzz body over a few thousand inputs: random bytes, and valid ones with random faults. A failure names the seed.

use std::path::Path;
use std::{fs, panic};
use tabane_fuzz::TARGETS;

/// Inputs for most bodies, and for those that take longest: `make fuzz` goes on for as long as one likes.
const INPUTS: u64 = 3_000;
const INPUTS_FEW: u64 = 300;

/// A small deterministic source of bytes (`SplitMix64`).
struct Source(u64);

impl Source {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// `valid` with a few bytes changed, removed or doubled.
    fn mutated(&mut self, valid: &[u8]) -> Vec<u8> {
        let mut bytes = valid.to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match self.below(4) {
                0 if !bytes.is_empty() => bytes[at] = self.next().to_le_bytes()[0],
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at),
                _ => bytes.extend_from_within(at..),
            }
        }
        bytes
    }
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

fn over_inputs(target: &str, inputs: u64) {
    let valid = corpus(target);
    let (_, body) = TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target");
    valid.iter().for_each(|bytes| body(bytes));
    for seed in 0..inputs {
        let mut source = Source(seed);
        let input = match source.below(3) {
            0 => source.bytes(300),
            _ => {
                let chosen = source.below(valid.len());
                source.mutated(&valid[chosen])
            }
        };
        let outcome = panic::catch_unwind(|| body(&input));
        assert!(outcome.is_ok(), "seed {seed}, input {input:02x?}");
    }
}

#[test]
fn any_cell() {
    over_inputs("cell", INPUTS);
}

#[test]
fn any_datagrams() {
    over_inputs("reassemble", INPUTS);
}

#[test]
fn any_handshakes() {
    over_inputs("handshake", INPUTS_FEW);
}

#[test]
fn any_repetition() {
    over_inputs("recorded", INPUTS_FEW);
}

#[test]
fn any_member() {
    over_inputs("bundle", INPUTS_FEW);
}

#[test]
fn any_request() {
    over_inputs("control", INPUTS);
}

#[test]
fn any_configuration() {
    over_inputs("config", INPUTS);
}

#[test]
fn any_packet() {
    let heard =
        corpus("overheard").iter().filter(|bytes| tabane_io::overhear::parse(bytes).is_some()).count();
    assert_eq!(heard, 2, "a datagram and a refusal");
    over_inputs("overheard", INPUTS);
}

#[test]
fn any_client_of_the_probe() {
    over_inputs("probe", INPUTS_FEW);
}

#[test]
fn any_fleet() {
    over_inputs("fleet", INPUTS);
}

#[test]
fn any_process() {
    over_inputs("told", INPUTS);
}

#[test]
fn any_window() {
    over_inputs("window", INPUTS);
}
