//! What sealing a cell of 1,452 bytes costs, one way and another: `cargo run --release -p tabane-seal --example cell_cost`.
//!
//! The ring's bytes must stay as they are, so a cell is sealed from there to somewhere else. `copy, then in place` does
//! it in two passes, `in one pass` as `tabane_seal` does it.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::hint::black_box;
use std::time::Instant;
use tabane_proto::security::{Key, Number, TAG};
use tabane_seal::Cipher;

const HEADER: usize = 16;
const PAYLOAD: usize = 1_452 - HEADER - TAG;
/// A ring of 8,192 cells does not fit into the processor's caches; a batch of 45 does.
const RING: usize = 8_192;
const BATCH: usize = 45;
const ROUNDS: usize = 5;

/// A cell before it is sealed.
type Clear = [u8; HEADER + PAYLOAD];

fn main() {
    let ring: Vec<Clear> = vec![[0xa5; HEADER + PAYLOAD]; RING];
    for (name, cipher, algorithm) in [
        ("AES-256-GCM", Cipher::Aes256Gcm, &AES_256_GCM),
        ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305, &CHACHA20_POLY1305),
    ] {
        let key = cipher.key(&[7; 32]);
        let plain = UnboundKey::new(algorithm, &[7; 32]).map(LessSafeKey::new).expect("32 bytes");
        println!("{name}, ns per cell");
        println!(
            "  copy, then in place  {}",
            cost(&ring, |seq, cell, to| copy_then_seal(&plain, seq, cell, to))
        );
        println!("  in one pass          {}", cost(&ring, |seq, cell, to| seal_across(&*key, seq, cell, to)));
        println!(
            "  the same, and open   {}",
            cost(&ring, |seq, cell, to| seal_and_open(&*key, seq, cell, to))
        );
    }
}

/// The median over batches of some rounds over the ring, in nanoseconds per cell.
fn cost(ring: &[Clear], seal: impl Fn(u64, &Clear, &mut [u8])) -> u128 {
    let mut warm = vec![0; BATCH * (HEADER + PAYLOAD + TAG)];
    let mut spent = Vec::new();
    for _ in 0..ROUNDS {
        for (first, batch) in (0..).step_by(BATCH).zip(ring.chunks_exact(BATCH)) {
            let began = Instant::now();
            for (seq, cell) in (first..).zip(batch) {
                seal(seq, cell, place(&mut warm, seq));
            }
            spent.push(began.elapsed().as_nanos() / BATCH as u128);
            black_box(&warm);
        }
    }
    spent.sort_unstable();
    spent[spent.len() / 2]
}

fn copy_then_seal(key: &LessSafeKey, seq: u64, cell: &Clear, to: &mut [u8]) {
    to[..cell.len()].copy_from_slice(cell);
    let (header, rest) = to.split_at_mut(HEADER);
    let (payload, tag) = rest.split_at_mut(PAYLOAD);
    let nonce = Nonce::assume_unique_for_key(Number { link: 0, seq }.nonce());
    let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(&*header), payload);
    tag.copy_from_slice(sealed.expect("within the cipher's limits").as_ref());
}

fn seal_across(key: &dyn Key, seq: u64, cell: &Clear, to: &mut [u8]) {
    let (header, payload) = cell.split_at(HEADER);
    to[..HEADER].copy_from_slice(header);
    key.seal(Number { link: 0, seq }, header, payload, &mut to[HEADER..]);
}

fn seal_and_open(key: &dyn Key, seq: u64, cell: &Clear, to: &mut [u8]) {
    seal_across(key, seq, cell, to);
    let (header, sealed) = to.split_at_mut(HEADER);
    assert!(key.open(Number { link: 0, seq }, header, sealed));
}

/// Where the cell of this number is sealed.
fn place(warm: &mut [u8], seq: u64) -> &mut [u8] {
    let at = usize::try_from(seq).unwrap_or_default() % BATCH * (HEADER + PAYLOAD + TAG);
    &mut warm[at..at + HEADER + PAYLOAD + TAG]
}
