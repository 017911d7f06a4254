//! A node whose neighbour writes anything anywhere at any time, from another thread: the node stays inside the memory
//! (else [`Words`] would panic), does bounded work per call, and receives and sends again when the neighbour behaves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tabane_shm_ring::{Message, Seat, Shape};

use crate::words::Words;

/// Calls of the node for each seed.
const ROUNDS: u64 = 3_000;
const SEEDS: u64 = 8;

/// A small deterministic source of numbers (`SplitMix64`).
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

    /// Words that look like epochs, counts and heads, or like nothing.
    fn word(&mut self) -> u64 {
        let small = self.next() % 300;
        match self.below(4) {
            0 => self.next(),
            1 => 1 << 32 | small,
            2 => (small << 32) | (self.next() % 70_000),
            _ => (2 << 32) | (u64::from(u32::MAX) - small),
        }
    }
}

#[test]
fn nonsense_in_the_memory_costs_bounded_work() {
    for seed in 0..SEEDS {
        let shape = Shape::new(512, 128 << 10, 3, 1).expect("allowed");
        let words = Words::new(shape);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let neighbour = scope.spawn(|| scribble(&words, shape, seed, &over));
            let result = std::panic::catch_unwind(|| live(&words, shape, seed));
            over.store(true, Ordering::Relaxed);
            let scribbled = neighbour.join().expect("no panic");
            result.unwrap_or_else(|_| panic!("seed {seed}, {scribbled} words scribbled"));
        });
        behaves_again(&words, shape);
    }
}

fn scribble(words: &Words, shape: Shape, seed: u64, over: &AtomicBool) -> usize {
    let mut source = Source(seed);
    let places: Vec<usize> = (0..6)
        .map(|pair| shape.window(0, pair / 2, (pair / 2 + 1 + pair % 2) % 3).place().start / 8)
        .flat_map(|start| [start, start + 1, start + 8, start + 16, start + 512, start + 576])
        .collect();
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        let chosen = source.below(places.len());
        let index = if source.below(8) == 0 { source.below(words.count()) } else { places[chosen] };
        words.scribble(index, source.word());
        count += 1;
    }
    count
}

/// One node for a while; every call is bounded.
fn live(words: &Words, shape: Shape, seed: u64) {
    let mut source = Source(!seed);
    let mut seat = Seat::take(words, shape, 0, 0, 1);
    let (mut into, message) = (vec![0; 1 << 16], [7_u8; 3_000]);
    for round in 0..ROUNDS {
        words.take_uses();
        let limit = match source.below(4) {
            0 => {
                seat.service(Duration::from_millis(round * 10));
                2 * 4
            }
            1 => {
                let (to, length) = (1 + u16::from(source.below(2) == 1), 1 + source.below(3_000));
                let _ = seat.send(to, &[&message[..length], &message[..5]], 1_000);
                8
            }
            2 => {
                let _ = (seat.has_room_again(), seat.waiting(), seat.has_news());
                6
            }
            _ => {
                if let Some((Message { length, segment }, from)) = seat.receive(&mut into) {
                    assert!((1..=into.len()).contains(&length) && (1..=length).contains(&segment));
                    assert!(length.div_ceil(segment) <= Message::DATAGRAMS_MAX && (1..3).contains(&from));
                }
                2 * 6
            }
        };
        let uses = words.take_uses();
        assert!(uses <= limit, "{uses} uses of the memory in one call, {limit} are enough");
    }
}

/// Whatever lies in the memory, nodes that sit down now understand each other.
fn behaves_again(words: &Words, shape: Shape) {
    let mut seats: Vec<_> = (0..3).map(|slot| Seat::take(words, shape, 0, slot, 77)).collect();
    let mut into = vec![0; 1 << 16];
    for round in 0..4 {
        for seat in &mut seats {
            seat.service(Duration::from_millis(round * 10));
            while seat.receive(&mut into).is_some() {}
        }
    }
    assert_eq!(seats[0].send(1, &[&b"hello"[..]], 5), Ok(()));
    let (message, from) = seats[1].receive(&mut into).expect("it was sent");
    assert_eq!((&into[..message.length], from), (&b"hello"[..], 0));
}
