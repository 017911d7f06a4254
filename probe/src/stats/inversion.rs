//! Whether the larger message is the faster one (P4, finding 2): round trips below the minimum of a smaller size.
//!
//! A few are to be expected: the minimum of a sample is a chance value. How many, tells Rosenbaum's test (Annals of
//! Mathematical Statistics 25, 1954), which supposes nothing of the distribution: were both samples alike, the number
//! of values of one below the other's minimum would be distributed negative hypergeometrically.

use serde::Serialize;

/// Least share of round trips that makes an inversion worth a word: with thousands of them chance alone is ruled out
/// long before anybody would care.
const SHARE_MIN: f64 = 0.05;
/// Most probable accident that is not taken for one. Neighbouring round trips are not independent, so this is strict.
const PROBABILITY_MAX: f64 = 1e-6;

/// Round trips of a larger message that took less time than any of a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Inversion {
    /// The smallest value of the smaller message.
    pub floor: f64,
    /// How many values of the larger message lie below it.
    pub below: usize,
    /// Their part of all values of the larger message, 0 to 1.
    pub share: f64,
    /// Probability of as many or more if the sizes made no difference, 0 to 1.
    pub probability: f64,
}

impl Inversion {
    /// Whether size and time are inverted, beyond chance and beyond notice.
    #[must_use]
    pub fn is_anomaly(&self) -> bool {
        self.share >= SHARE_MIN && self.probability <= PROBABILITY_MAX
    }
}

/// Compares round trips of a `smaller` message with those of a `larger` one, in any order; `None` when there are none
/// of one size.
#[must_use]
pub fn inversion(smaller: &[f64], larger: &[f64]) -> Option<Inversion> {
    let floor = smaller.iter().copied().min_by(f64::total_cmp)?;
    let below = larger.iter().filter(|value| **value < floor).count();
    let share = below as f64 / larger.len() as f64;
    let probability = probability(smaller.len(), larger.len(), below);
    (!larger.is_empty()).then_some(Inversion { floor, below, share, probability })
}

/// That the `below` smallest of all values are of the larger message: drawn one after the other, each is so with the
/// part that these still have of the rest.
fn probability(smaller: usize, larger: usize, below: usize) -> f64 {
    let of_the_larger = |drawn: usize| (larger - drawn) as f64 / (smaller + larger - drawn) as f64;
    (0..below).map(of_the_larger).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_message_that_is_slower_is_no_anomaly() {
        let found = inversion(&[10.0, 11.0, 12.0], &[13.0, 14.0]).unwrap();
        assert_eq!((found.below, found.is_anomaly()), (0, false));
        assert!((found.probability - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_early_value_is_chance_and_a_quarter_of_them_is_not() {
        let smaller = vec![104.59; 200];
        let larger = |early: usize| -> Vec<f64> {
            (0..200).map(|number| if number < early { 92.0 } else { 130.0 }).collect()
        };
        assert!(!inversion(&smaller, &larger(1)).unwrap().is_anomaly());
        let found = inversion(&smaller, &larger(51)).unwrap();
        assert!(found.is_anomaly() && (found.share - 0.255).abs() < 1e-12);
    }

    #[test]
    fn few_values_prove_nothing() {
        assert!(!inversion(&[10.0; 3], &[9.0; 3]).unwrap().is_anomaly());
        assert!(inversion(&[], &[1.0]).is_none() && inversion(&[1.0], &[]).is_none());
    }
}
