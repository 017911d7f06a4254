//! What sealing and opening a cell of 1,452 bytes costs: `cargo run --release -p tabane-seal --example cell_cost`.
//!
//! The ring's bytes stay as they are, so a cell is sealed from there to somewhere else. `fresh` cells have just been read from
//! the device and are in the cache, `old` ones, which are sent again, are not.

use std::hint::black_box;
use std::time::Instant;
use tabane_proto::security::{Key, Number, TAG};
use tabane_seal::Cipher;

const HEADER: usize = 16;
const CELL: usize = 1_452 - TAG;
/// A ring of 8,192 cells does not fit into the processor's caches; a batch of 45 does.
const RING: usize = 8_192;
const BATCH: usize = 45;
const ROUNDS: usize = 5;

fn main() {
    let mut ring = vec![[0xa5; CELL]; RING];
    println!("ns per cell                       fresh    old");
    for cipher in Cipher::ALL {
        let key = cipher.key(&[7; 32]);
        for (what, opens) in [("sealed", false), ("and opened", true)] {
            let [fresh, old] = [true, false].map(|fresh| cost(&mut ring, fresh, &*key, opens));
            println!("{:18} {what:13} {fresh:6} {old:6}", cipher.name());
        }
    }
}

/// The median over batches of some rounds over the ring, in nanoseconds per cell.
fn cost(ring: &mut [[u8; CELL]], fresh: bool, key: &dyn Key, opens: bool) -> u128 {
    let mut sealed = vec![[0; CELL + TAG]; BATCH];
    let mut spent = Vec::new();
    for _ in 0..ROUNDS {
        for (first, batch) in (0..).step_by(BATCH).zip(ring.chunks_exact_mut(BATCH)) {
            if fresh {
                black_box(&mut *batch).fill([0xa5; CELL]);
            }
            let began = Instant::now();
            for ((seq, cell), to) in (first..).zip(&*batch).zip(&mut sealed) {
                let ((header, payload), number) = (cell.split_at(HEADER), Number { link: 0, seq });
                to[..HEADER].copy_from_slice(header);
                key.seal(number, header, payload, &mut to[HEADER..]);
                assert!(!opens || key.open(number, header, &mut to[HEADER..]));
            }
            spent.push(began.elapsed().as_nanos() / BATCH as u128);
            black_box(&sealed);
        }
    }
    spent.sort_unstable();
    spent[spent.len() / 2]
}
