//! A trace that looks like that of a radio link: its rate falls and comes back within a second, and fades in between.
//!
//! The rule, for each millisecond of a period of six parts: the rate is high for one part, falls for two along half a cosine of its
//! logarithm, is low for one, and rises for two. It is multiplied by e to the power of n, where n is 0.95 of what it was a millisecond
//! before and a random number of -0.15 to 0.15 more, which is the sum of three; and it stays within its bounds. A packet leaves
//! whenever another 12,000 bits have passed, and one at the end.

use std::f64::consts::PI;

use super::PACKET_BITS;

/// How much of the fading stays for a millisecond, and the most that a random number adds to it.
const STAYS: f64 = 0.95;
const FADES: f64 = 0.15;

/// What such a trace is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeUp {
    /// Seed of the fading.
    pub(crate) seed: u64,
    /// Lowest and highest rate, in bits per second.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Milliseconds until it begins anew.
    pub(crate) period: u64,
}

impl MadeUp {
    /// From 50 to 5 Mbit/s and back, in 3 s.
    pub(crate) fn usual(seed: u64) -> MadeUp {
        MadeUp { seed, low: 5_000_000, high: 50_000_000, period: 3_000 }
    }

    /// When packets may leave, in milliseconds.
    pub(crate) fn times(&self) -> Vec<u64> {
        let [low, high, packet] = [self.low, self.high, PACKET_BITS].map(|number| number as f64);
        let (mut random, mut fading, mut bits) = (self.seed, 0.0, 0.0);
        let mut times = Vec::new();
        for time in 1..=self.period {
            let height = height(time as f64 / self.period as f64 * 6.0);
            let part = (0..3).map(|_| draw(&mut random)).sum::<f64>() / 3.0;
            fading = STAYS * fading + FADES * (2.0 * part - 1.0);
            let rate = (low * (high / low).powf(height) * f64::exp(fading)).clamp(low, high.max(low));
            bits += rate / 1e3;
            while bits >= packet {
                bits -= packet;
                times.push(time);
            }
        }
        if times.last() != Some(&self.period) {
            times.push(self.period);
        }
        times
    }
}

/// How high the rate is in a period of 6: 0 to 1.
fn height(at: f64) -> f64 {
    let falls = |part: f64| (1.0 + (PI * part).cos()) / 2.0;
    match at {
        at if at < 1.0 => 1.0,
        at if at < 3.0 => falls((at - 1.0) / 2.0),
        at if at < 4.0 => 0.0,
        at => 1.0 - falls((at - 4.0) / 2.0),
    }
}

/// A random number of 0 to 1. Source: SplitMix64 (Steele, Lea, Flood 2014).
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_and_comes_back_within_a_second() {
        let times = MadeUp::usual(1).times();
        assert!(times.is_sorted() && times.last() == Some(&3_000));
        let mbps = |from: u64| {
            let count = times.iter().filter(|time| (from..from + 200).contains(time)).count();
            count as f64 * PACKET_BITS as f64 / 200e3
        };
        assert!(mbps(200) > 35.0 && mbps(1_600) < 10.0 && mbps(2_800) > 30.0);
        assert_ne!(times, MadeUp::usual(2).times());
    }
}
