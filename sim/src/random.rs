//! The only source of randomness: a generator that gives the same numbers for the same seed, on every machine and for ever.
//!
//! Beside everything that draws. Each part of a run draws from a stream of its own, so that one more draw in the
//! traffic does not change the network. Written out here because `rand` does not promise that its small generators and
//! its ranges stay the same between versions, and a seed that was written down must stay the same run.
//!
//! Source: `SplitMix64`, Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; bounds
//! by multiplication, Lemire 2019 (its bias is below 2^-32 for the small bounds used here).

use core::ops::RangeInclusive;
use core::time::Duration;
use tabane_proto::time::nanos;

/// A part of a run that draws for itself.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// The plan of the run.
    Plan = 1,
    /// Jitter and loss.
    Network = 2,
    /// The bytes of frames.
    Traffic = 3,
    /// The datagrams of strangers.
    Injector = 4,
    /// Keys and ciphers.
    Security = 5,
    /// Adversities.
    Adversity = 6,
    /// The cells of a hostile member.
    Hostile = 7,
}

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, stream: Stream) -> Self {
        let mut mixer = Self(seed);
        let start = mixer.number() ^ (stream as u64).rotate_left(56);
        Self(start)
    }

    /// A stream that goes its own way from here on.
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(bound);
        (product >> 64) as u64
    }

    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    pub fn span(&mut self, range: RangeInclusive<Duration>) -> Duration {
        Duration::from_nanos(self.within(nanos(*range.start())..=nanos(*range.end())))
    }

    /// `true` so many times in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < u64::from(per_million)
    }

    /// One of several; the same one written twice is twice as likely.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A number that looks random and depends on `number` alone.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut random = Random(1_234_567);
        let numbers: [u64; 3] = core::array::from_fn(|_| random.number());
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn bounds_hold_and_are_reached() {
        let mut random = Random::new(1, Stream::Plan);
        let mut seen = [0; 6];
        for _ in 0..6_000 {
            let number = random.within(10..=15);
            seen[usize::try_from(number - 10).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (900..1_100).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert!(!random.chance(0) && random.chance(1_000_000));
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::new(7, Stream::Plan).number(), Random::new(7, Stream::Network).number());
    }
}
