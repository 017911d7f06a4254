//! What sealing a cell of 1,452 bytes costs, one way and another: `cargo run --release -p tabane-seal --example
//! cell_cost`.
//!
//! The ring's bytes must stay as they are, so a cell is sealed from there to somewhere else: `sealed` is how
//! `tabane_seal` does it, `copied before` takes aws-lc's ciphers over the bytes twice. `fresh` cells have just been
//! read from the device and are in the cache, `old` ones, which are sent again, are not.

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
    let mut ring: Vec<Clear> = vec![[0xa5; HEADER + PAYLOAD]; RING];
    println!("ns per cell                       fresh    old");
    for (name, cipher) in [
        ("AES-256-GCM", Cipher::Aes256Gcm),
        ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305),
        ("AEGIS-128L", Cipher::Aegis128L),
    ] {
        let key = cipher.key(&[7; 32]);
        report(&mut ring, name, "sealed", |seq, cell, to| seal_across(&*key, seq, cell, to));
        report(&mut ring, name, "and opened", |seq, cell, to| seal_and_open(&*key, seq, cell, to));
    }
    for (name, algorithm) in [("AES-256-GCM", &AES_256_GCM), ("ChaCha20-Poly1305", &CHACHA20_POLY1305)] {
        let plain = UnboundKey::new(algorithm, &[7; 32]).map(LessSafeKey::new).expect("32 bytes");
        report(&mut ring, name, "copied before", |seq, cell, to| copy_then_seal(&plain, seq, cell, to));
    }
}

fn report(ring: &mut [Clear], cipher: &str, how: &str, seal: impl Fn(u64, &Clear, &mut [u8])) {
    let [fresh, old] = [true, false].map(|fresh| cost(ring, fresh, &seal));
    println!("{cipher:18} {how:13} {fresh:6} {old:6}");
}

/// The median over batches of some rounds over the ring, in nanoseconds per cell.
fn cost(ring: &mut [Clear], fresh: bool, seal: impl Fn(u64, &Clear, &mut [u8])) -> u128 {
    let mut warm = vec![0; BATCH * (HEADER + PAYLOAD + TAG)];
    let mut spent = Vec::new();
    for _ in 0..ROUNDS {
        for (first, batch) in (0..).step_by(BATCH).zip(ring.chunks_exact_mut(BATCH)) {
            if fresh {
                black_box(&mut *batch).fill([0xa5; HEADER + PAYLOAD]);
            }
            let began = Instant::now();
            for (seq, cell) in (first..).zip(&*batch) {
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
