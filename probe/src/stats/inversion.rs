//! Whether the larger message is the faster one (P4, finding 2): round trips below those of a smaller size.
//!
//! A network is not the same all the time, and the noise of neighbouring round trips is alike. So sizes are compared
//! within blocks of [`BLOCK`] rounds each, which are played in a random order of their own: whatever the network did
//! during a block fell on each size with the same probability (Fisher, The Design of Experiments, 1935). In each block
//! the fastest round trip of one size meets the fastest of the other; P4's anomaly has a larger median, and shows
//! below. The larger message is called faster if
//!
//! - it is so in more blocks than chance explains: a sign test, one-sided (Dixon and Mood, Journal of the American
//!   Statistical Association 41, 1946), which supposes nothing of the distribution, corrected for all pairs of sizes
//!   that are judged ([`holm`]);
//! - and by a noticeable part of the smaller message's time, in the median over the blocks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{quantile, sorted};

/// Rounds of each size in a block; round 1 is the first of the first one.
pub const BLOCK: usize = 10;
/// Least part of its time by which a smaller message is slower: chance is ruled out at smaller parts, which do not
/// matter.
const GAIN_MIN: f64 = 0.05;
/// The level of significance, over all pairs of a report.
const PROBABILITY_MAX: f64 = 1e-3;

/// A round trip: its number among those of its size, from 1 on, and its time.
pub type Round = (usize, f64);

/// Round trips of a larger message that took less time than those of a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Inversion {
    /// The smallest value of the smaller message.
    pub floor: f64,
    /// How many values of the larger message lie below it.
    pub below: usize,
    /// Their part of all values of the larger message, 0 to 1.
    pub share: f64,
    /// Blocks in which both have equally many values.
    pub blocks: usize,
    /// Of these, how many have their smallest value from the larger message.
    pub faster: usize,
    /// By how much the larger message's smallest value lies below the smaller one's: the median over the blocks.
    pub gain: f64,
    /// The same as a part of the smaller message's smallest value.
    pub gain_share: f64,
    /// Probability of as many `faster` blocks or more if the larger message were not the faster one, 0 to 1.
    pub probability: f64,
}

impl Inversion {
    /// Whether size and time are inverted, significantly and noticeably.
    pub fn is_anomaly(&self) -> bool {
        self.gain_share >= GAIN_MIN && self.probability <= PROBABILITY_MAX
    }

    /// Whether there are blocks enough for an anomaly to show among so many pairs of sizes.
    pub fn is_decided(&self, pairs: usize) -> bool {
        sign_test(self.blocks, self.blocks) * pairs as f64 <= PROBABILITY_MAX
    }
}

/// Compares round trips of a `smaller` message with those of a `larger` one, in any order; `None` when no block has
/// equally many of both.
pub fn inversion(smaller: &[Round], larger: &[Round]) -> Option<Inversion> {
    let floor = smaller.iter().map(|(_, time)| *time).min_by(f64::total_cmp)?;
    let below = larger.iter().filter(|(_, time)| *time < floor).count();
    let (ours, theirs) = (by_block(smaller), by_block(larger));
    let both = ours.iter().filter_map(|(block, one)| Some((one, theirs.get(block)?)));
    let (gains, shares): (Vec<f64>, Vec<f64>) = both
        .filter(|(one, other)| one.count == other.count)
        .map(|(one, other)| (one.fastest - other.fastest, 1.0 - other.fastest / one.fastest))
        .unzip();
    let (blocks, faster) = (gains.len(), gains.iter().filter(|gain| **gain > 0.0).count());
    (blocks > 0).then(|| Inversion {
        floor,
        below,
        share: below as f64 / larger.len() as f64,
        blocks,
        faster,
        gain: quantile(&sorted(&gains), 0.5),
        gain_share: quantile(&sorted(&shares), 0.5),
        probability: sign_test(blocks, faster),
    })
}

/// Probabilities of several tests, each so much larger that the level holds for all of them together (Holm,
/// Scandinavian Journal of Statistics 6, 1979).
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|one, other| probabilities[*one].total_cmp(&probabilities[*other]));
    let mut corrected = vec![1.0; probabilities.len()];
    let mut least = 0.0_f64;
    for (done, place) in order.iter().enumerate() {
        least = least.max(probabilities[*place] * (probabilities.len() - done) as f64).min(1.0);
        corrected[*place] = least;
    }
    corrected
}

struct InBlock {
    count: usize,
    fastest: f64,
}

fn by_block(rounds: &[Round]) -> BTreeMap<usize, InBlock> {
    let mut blocks = BTreeMap::new();
    for (number, time) in rounds {
        let block = number.saturating_sub(1) / BLOCK;
        let seen = blocks.entry(block).or_insert(InBlock { count: 0, fastest: f64::INFINITY });
        *seen = InBlock { count: seen.count + 1, fastest: seen.fastest.min(*time) };
    }
    blocks
}

/// The probability of `heads` or more of so many `tosses` of a fair coin.
fn sign_test(tosses: usize, heads: usize) -> f64 {
    if 2 * heads <= tosses {
        // The other tail has the smaller terms.
        return 1.0 - if heads == 0 { 0.0 } else { sign_test(tosses, tosses - heads + 1) };
    }
    let factorial = |number: usize| libm::lgamma(number as f64 + 1.0);
    let log = factorial(tosses) - factorial(heads) - factorial(tosses - heads);
    let mut term = (log - tosses as f64 * std::f64::consts::LN_2).exp();
    let mut sum = 0.0;
    for count in heads..=tosses {
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
        term *= (tosses - count) as f64 / (count + 1) as f64;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(count: usize, time: impl Fn(usize) -> f64) -> Vec<Round> {
        (1..=count).map(|number| (number, time(number))).collect()
    }

    #[test]
    fn a_larger_message_that_is_slower_is_no_anomaly() {
        let found = inversion(&rounds(200, |_| 10.0), &rounds(200, |_| 13.0)).unwrap();
        assert_eq!((found.below, found.blocks, found.faster, found.is_anomaly()), (0, 20, 0, false));
        assert!((found.probability - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_early_value_is_chance_and_a_quarter_of_them_is_not() {
        let smaller = rounds(200, |_| 104.59);
        let larger = |every: usize| rounds(200, |number| if number % every == 0 { 92.0 } else { 130.0 });
        assert!(!inversion(&smaller, &larger(200)).unwrap().is_anomaly());
        let found = inversion(&smaller, &larger(4)).unwrap();
        assert!(found.is_anomaly() && (found.share - 0.25).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn trifles_are_no_anomaly() {
        let found = inversion(&rounds(2_000, |_| 10.0), &rounds(2_000, |_| 9.6)).unwrap();
        assert!(found.probability < 1e-50 && !found.is_anomaly(), "{found:?}");
        assert!(inversion(&rounds(2_000, |_| 10.0), &rounds(2_000, |_| 9.4)).unwrap().is_anomaly());
    }

    #[test]
    fn few_values_prove_nothing() {
        let found = inversion(&rounds(90, |_| 10.0), &rounds(90, |_| 5.0)).unwrap();
        assert!(!found.is_anomaly() && !found.is_decided(1));
        let found = inversion(&rounds(100, |_| 10.0), &rounds(100, |_| 5.0)).unwrap();
        assert!(found.is_anomaly() && found.is_decided(1) && !found.is_decided(2));
        assert!(inversion(&[], &rounds(1, |_| 1.0)).is_none());
        assert!(inversion(&rounds(1, |_| 1.0), &[]).is_none());
    }

    #[test]
    fn a_block_that_was_ended_early_does_not_count() {
        let found = inversion(&rounds(105, |_| 10.0), &rounds(104, |_| 5.0)).unwrap();
        assert_eq!((found.blocks, found.faster), (10, 10));
    }

    #[test]
    fn coins_are_tossed_as_the_textbooks_say() {
        let near = |tosses, heads, expected: f64| {
            let found = sign_test(tosses, heads);
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{heads} of {tosses}: {found}, expected {expected}"
            );
        };
        near(10, 10, 1.0 / 1_024.0);
        near(10, 8, 56.0 / 1_024.0);
        near(10, 5, 638.0 / 1_024.0);
        near(3, 1, 7.0 / 8.0);
        near(4, 0, 1.0);
        near(20, 18, 211.0 / 1_048_576.0);
        assert!(sign_test(10_000_000, 10_000_000) < 1e-300 && sign_test(10_000_000, 5_000_000) > 0.5);
    }

    #[test]
    fn several_tests_share_one_level() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.9]);
        for (found, expected) in corrected.iter().zip([0.04, 0.09, 0.09, 0.9]) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }
}
