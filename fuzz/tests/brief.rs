//! Every fuzz body over a few thousand inputs: random bytes, and valid ones with random faults. A failure names the seed.

use tabane_fuzz::{
    bundle, cell, config, control, fleet, handshake, overheard, probe, reassemble, recorded, told, window,
};

/// Inputs for each body, and for those that take longest: `make fuzz` goes on for as long as one likes.
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

fn over_inputs(valid: &[&[u8]], body: fn(&[u8])) {
    over_some(INPUTS, valid, body);
}

fn over_some(inputs: u64, valid: &[&[u8]], body: fn(&[u8])) {
    valid.iter().for_each(|bytes| body(bytes));
    for seed in 0..inputs {
        let mut source = Source(seed);
        let input = match source.below(3) {
            0 => source.bytes(300),
            _ => {
                let chosen = source.below(valid.len());
                source.mutated(valid[chosen])
            }
        };
        let outcome = std::panic::catch_unwind(|| body(&input));
        assert!(outcome.is_ok(), "seed {seed}, input {input:02x?}");
    }
}

#[test]
fn any_cell() {
    let valid: [&[u8]; 5] = [
        include_bytes!("../corpus/cell/data"),
        include_bytes!("../corpus/cell/handshake"),
        include_bytes!("../corpus/cell/hello"),
        include_bytes!("../corpus/cell/heartbeat"),
        include_bytes!("../corpus/cell/repair"),
    ];
    over_inputs(&valid, cell);
}

#[test]
fn any_datagrams() {
    let valid: [&[u8]; 2] =
        [include_bytes!("../corpus/reassemble/records"), include_bytes!("../corpus/reassemble/control")];
    over_inputs(&valid, reassemble);
}

#[test]
fn any_handshakes() {
    let valid: [&[u8]; 2] =
        [include_bytes!("../corpus/handshake/steps"), include_bytes!("../corpus/handshake/claims")];
    over_some(INPUTS_FEW, &valid, handshake);
}

#[test]
fn any_repetition() {
    let valid: [&[u8]; 1] = [include_bytes!("../corpus/recorded/steps")];
    over_some(INPUTS_FEW, &valid, recorded);
}

#[test]
fn any_member() {
    let valid: [&[u8]; 5] = [
        include_bytes!("../corpus/bundle/all_lanes"),
        include_bytes!("../corpus/bundle/control"),
        include_bytes!("../corpus/bundle/open"),
        include_bytes!("../corpus/bundle/crumbs"),
        include_bytes!("../corpus/bundle/pieces"),
    ];
    over_some(INPUTS_FEW, &valid, bundle);
}

#[test]
fn any_request() {
    let valid: [&[u8]; 2] =
        [include_bytes!("../corpus/control/requests"), include_bytes!("../corpus/control/follow")];
    over_inputs(&valid, control);
}

#[test]
fn any_configuration() {
    over_inputs(&[include_bytes!("../corpus/config/all.toml")], config);
}

#[test]
fn any_packet() {
    let valid: [&[u8]; 3] = [
        include_bytes!("../corpus/overheard/datagram"),
        include_bytes!("../corpus/overheard/refusal"),
        include_bytes!("../corpus/overheard/frame"),
    ];
    valid[..2].iter().for_each(|bytes| assert!(tabane_io::overhear::parse(bytes).is_some()));
    over_inputs(&valid, overheard);
}

#[test]
fn any_client_of_the_probe() {
    let valid: [&[u8]; 4] = [
        include_bytes!("../corpus/probe/answer"),
        include_bytes!("../corpus/probe/echo"),
        include_bytes!("../corpus/probe/sink"),
        include_bytes!("../corpus/probe/stamped"),
    ];
    over_some(INPUTS_FEW, &valid, probe);
}

#[test]
fn any_fleet() {
    let valid: [&[u8]; 3] = [
        include_bytes!("../corpus/fleet/cache"),
        include_bytes!("../corpus/fleet/etcd"),
        include_bytes!("../corpus/fleet/records"),
    ];
    over_inputs(&valid, fleet);
}

#[test]
fn any_process() {
    let valid: [&[u8]; 3] = [
        include_bytes!("../corpus/told/handover"),
        include_bytes!("../corpus/told/line"),
        include_bytes!("../corpus/told/resolver"),
    ];
    over_inputs(&valid, told);
}

#[test]
fn any_window() {
    over_inputs(&[include_bytes!("../corpus/window/messages")], window);
}
