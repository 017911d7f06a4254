//! The report of `rtt` over made-up networks with noise that treat all sizes alike, where it must name nothing; and
//! over the same with one size that is slower.

use fastrand::Rng;

use super::play::Order;
use super::report::{Report, Source};
use crate::trace::RoundTrip;
use crate::window::Window;

/// Runs of each network. A run names an anomaly by chance with a probability of 0.001 at most.
const RUNS: u32 = 200;
/// Runs in which chance may do so: 4 of 200 or more have a probability below 0.0001.
const BY_CHANCE: usize = 3;
const ROUNDS: usize = 200;
const SIZES: [u32; 3] = [1, 64, 1024];

/// A network: the time of each round trip, in the order in which they are played.
type Network = fn(&mut Rng) -> Box<dyn FnMut(usize) -> f64 + '_>;

const NETWORKS: [(&str, Network); 5] = [
    ("noise", |random| Box::new(|_| 20.0 + noise(random))),
    ("drift", |random| Box::new(|round| 20.0 + round as f64 * 0.05 + noise(random))),
    ("warming up", |random| Box::new(|round| (if round < 250 { 45.0 } else { 20.0 }) + noise(random))),
    // Each round trip resembles the one before.
    ("correlated", |random| {
        let mut level = 0.0;
        Box::new(move |_| {
            level = 0.97 * level + noise(random) - 1.0;
            40.0 + level
        })
    }),
    // A processor that falls asleep, a link that changes: fast and slow stretches, of 40 round trips in the mean.
    ("stretches", |random| {
        let mut slow = false;
        Box::new(move |_| {
            slow ^= random.u8(..40) == 0;
            (if slow { 60.0 } else { 20.0 }) + noise(random)
        })
    }),
];

/// One in the mean, mostly less, and seldom twenty times as much.
fn noise(random: &mut Rng) -> f64 {
    let seldom = if random.u8(..100) == 0 { 20.0 } else { 1.0 };
    -(1.0 - random.f64()).ln() * seldom
}

/// Runs over `network` that name an anomaly, when messages of the smallest size take so much longer.
fn named(network: Network, slower: f64) -> usize {
    let names = |seed: &u32| {
        let mut random = Rng::with_seed(u64::from(*seed) + 1_000_000);
        let mut time = network(&mut random);
        let mut rounds = [0; SIZES.len()];
        let trace: Vec<RoundTrip> = Order::new(3, ROUNDS, *seed)
            .enumerate()
            .map(|(number, place)| {
                let place = usize::from(place);
                rounds[place] += 1;
                let rtt_us = time(number) + if place == 0 { slower } else { 0.0 };
                RoundTrip { size_bytes: SIZES[place], round: rounds[place], rtt_us, stages: None }
            })
            .collect();
        Report::new(&trace, Window::All, Source::Kept(String::new())).findings().next().is_some()
    };
    (0..RUNS).filter(names).count()
}

#[test]
fn an_unquiet_network_is_no_anomaly() {
    for (name, network) in NETWORKS {
        let named = named(network, 0.0);
        assert!(named <= BY_CHANCE, "{name}: {named} of {RUNS}");
    }
}

#[test]
fn a_slower_small_message_is_found_in_an_unquiet_network() {
    for (name, network) in NETWORKS {
        let named = named(network, 10.0);
        assert_eq!(named, RUNS as usize, "{name}");
    }
}
