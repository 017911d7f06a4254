//! Whether values come in a rhythm: the autocorrelation of a series, and the first of its high peaks.
//!
//! A slow drift correlates with itself, too, but falls off without a peak. So a peak counts only behind the first lag
//! at which the series is unlike itself (no positive correlation), and after a straight line has been taken off.
//! It has to be higher than chance makes it with these very values ([`by_chance`]): of few values far from all others, two
//! correlate by a half at their distance, whatever that is.

use std::collections::BTreeMap;

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;
use serde::Serialize;

use super::summary::{mean, quantile, sorted};

/// The largest lag, as a part of the series: three cycles are the fewest that show one.
const CYCLES_MIN: usize = 3;
const STRENGTH_MIN: f64 = 0.3;
/// Probability that values without a period reach the least correlation of one, at any lag.
const BY_CHANCE: f64 = 1e-3;
/// Every multiple of a period is a peak, some higher by noise: the first one counts that is so many standard errors (one over the
/// root of the count) below the highest at most.
const ERRORS_MAX: f64 = 2.0;

/// Width of a bin of values, in natural logarithms, and the smallest that is told from 0, in standard deviations.
const BIN: f64 = 0.05;
const SMALLEST: f64 = 0.01;
/// Exponents of Chernoff's bound that are tried: each gives a bound, and the lowest is taken.
const TILTS: u32 = 24;

/// A rhythm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Period {
    /// After how many values the series resembles itself.
    pub lag: usize,
    /// The correlation at that lag, up to 1.
    pub strength: f64,
}

/// The period of `values`, if they have one.
pub fn period(values: &[f64]) -> Option<Period> {
    let values = without_trend(values);
    let correlation = autocorrelation(&values, values.len() / CYCLES_MIN);
    let unlike = correlation.iter().position(|value| *value <= 0.0)?;
    let is_peak = |lag: &usize| {
        let here = correlation[*lag];
        here >= correlation[lag - 1] && correlation.get(lag + 1).is_none_or(|next| here >= *next)
    };
    let peaks: Vec<usize> = (unlike.max(1)..correlation.len()).filter(is_peak).collect();
    let of_highest =
        *peaks.iter().max_by(|one, other| correlation[**one].total_cmp(&correlation[**other]))?;
    let highest = correlation[of_highest];
    if highest < STRENGTH_MIN || highest < by_chance(&values, of_highest, correlation.len()) {
        return None;
    }
    let noise = ERRORS_MAX / (values.len() as f64).sqrt();
    let lag = *peaks.iter().find(|lag| correlation[**lag] >= highest - noise)?;
    Some(Period { lag, strength: correlation[lag] })
}

/// The correlation at `lag` that chance exceeds at any of so many `lags` with the probability [`BY_CHANCE`] at most, when the
/// values come in a random order: Chernoff's bound for the mean of products of two of them.
/// Source: Chernoff, Annals of Mathematical Statistics 23, 1952.
fn by_chance(values: &[f64], lag: usize, lags: usize) -> f64 {
    let count = values.len() as f64;
    let deviation = (values.iter().map(|value| value.powi(2)).sum::<f64>() / count).sqrt();
    // By size, each counted as the largest of its bin: that makes the bound no smaller.
    let mut bins: BTreeMap<(bool, i64), f64> = BTreeMap::new();
    for value in values.iter().map(|value| value / deviation) {
        #[expect(clippy::cast_possible_truncation, reason = "a logarithm")]
        let bin = (value.abs().max(SMALLEST).ln() / BIN).ceil() as i64;
        *bins.entry((value < 0.0, bin)).or_default() += 1.0 / count;
    }
    let size =
        |(is_negative, bin): (bool, i64)| (bin as f64 * BIN).exp() * if is_negative { -1.0 } else { 1.0 };
    let bins: Vec<(f64, f64)> = bins.into_iter().map(|(bin, share)| (size(bin), share)).collect();
    let rarely = (lags as f64 / BY_CHANCE).ln() / (count - lag as f64);
    let bound = |tilt: f64| {
        let others =
            |one: f64| bins.iter().map(|(other, share)| share * (tilt * one * other).exp()).sum::<f64>();
        (bins.iter().map(|(one, share)| share * others(*one)).sum::<f64>().ln() + rarely) / tilt
    };
    (0..TILTS).map(|step| bound(0.5_f64.powf(f64::from(step) / 2.0))).fold(f64::INFINITY, f64::min)
}

/// Correlation of `values` with themselves `lag` values later, for lags 0 to `lags`; each is relative to the values
/// that overlap, so that it does not fall with the lag. Empty when the values do not vary.
pub fn autocorrelation(values: &[f64], lags: usize) -> Vec<f64> {
    let count = values.len();
    let centre = mean(values);
    let products = products(values.iter().map(|value| value - centre), count);
    let Some(whole) = products.first().copied().filter(|whole| *whole > f64::EPSILON * count as f64) else {
        return Vec::new();
    };
    let overlap = |lag: usize| count as f64 / (count - lag) as f64;
    products
        .iter()
        .take(count.min(lags + 1))
        .enumerate()
        .map(|(lag, sum)| sum / whole * overlap(lag))
        .collect()
}

/// Sums of products of the series with itself, for all lags, through its power spectrum (Wiener and Khinchin).
fn products(centred: impl Iterator<Item = f64>, count: usize) -> Vec<f64> {
    // Zeros behind the values, so that the end does not meet the beginning.
    let length = (2 * count).next_power_of_two().max(2);
    let mut series: Vec<f64> = centred.chain(std::iter::repeat(0.0)).take(length).collect();
    let mut planner = RealFftPlanner::<f64>::new();
    let forward = planner.plan_fft_forward(length);
    let mut spectrum = forward.make_output_vec();
    let mut sums = vec![0.0; length];
    let transformed = forward.process(&mut series, &mut spectrum).and_then(|()| {
        spectrum.iter_mut().for_each(|value| *value = Complex::new(value.norm_sqr(), 0.0));
        planner.plan_fft_inverse(length).process(&mut spectrum, &mut sums)
    });
    assert!(transformed.is_ok(), "buffers are as long as the plan says, and a power spectrum is real");
    sums.truncate(count);
    sums.iter().map(|sum| sum / length as f64).collect()
}

/// `values` less the straight line that fits them best.
fn without_trend(values: &[f64]) -> Vec<f64> {
    let middle = values.len().saturating_sub(1) as f64 / 2.0;
    let centre = mean(values);
    let place = |number: usize| number as f64 - middle;
    let both: f64 = values.iter().enumerate().map(|(number, value)| place(number) * (value - centre)).sum();
    let square: f64 = (0..values.len()).map(|number| place(number).powi(2)).sum();
    let slope = if square > 0.0 { both / square } else { 0.0 };
    values.iter().enumerate().map(|(number, value)| value - centre - slope * place(number)).collect()
}

// How often an event comes back: distances between events in a series.
//
// An autocorrelation fades when the distances vary a little; their median does not.

/// Distances from one event to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recurrence {
    /// How many distances there are.
    pub count: usize,
    /// The median distance.
    pub median: f64,
    /// Nine of ten distances are not shorter.
    pub p10: f64,
    /// Nine of ten distances are not longer.
    pub p90: f64,
}

/// Where events begin in a series; events that follow one another at once are one.
pub fn beginnings(series: &[bool]) -> Vec<usize> {
    let begins = |place: &usize| series[*place] && (*place == 0 || !series[*place - 1]);
    (0..series.len()).filter(begins).collect()
}

/// The distances between ascending `places`, in their unit; `None` with fewer than two places.
pub fn recurrence(places: &[f64]) -> Option<Recurrence> {
    let ordered = sorted(&places.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<f64>>());
    (!ordered.is_empty()).then(|| Recurrence {
        count: ordered.len(),
        median: quantile(&ordered, 0.5),
        p10: quantile(&ordered, 0.1),
        p90: quantile(&ordered, 0.9),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed series without rhythm: the high bits of a multiplicative congruential generator.
    fn noise(count: usize) -> Vec<f64> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn rare_events_have_the_period_of_their_distance() {
        let values: Vec<f64> = (0..5_000).map(|call| f64::from(u8::from(call % 328 == 17))).collect();
        assert_eq!(period(&values).unwrap().lag, 328);
    }

    #[test]
    fn few_values_far_from_all_others_are_no_rhythm() {
        for far in [&[40][..], &[40, 57], &[40, 57, 74], &[31, 90, 107, 166]] {
            let mut values = noise(200);
            far.iter().for_each(|place| values[*place] += 60.0);
            assert_eq!(period(&values), None, "{far:?}");
        }
    }

    #[test]
    fn noise_drift_and_constants_have_none() {
        let drift: Vec<f64> =
            noise(500).iter().enumerate().map(|(n, value)| value + n as f64 * 0.1).collect();
        for values in [noise(200), noise(5_000), drift, vec![5.0; 100], vec![1.0], vec![]] {
            assert_eq!(period(&values), None, "{} values", values.len());
        }
    }

    #[test]
    fn neighbours_are_one_event() {
        assert_eq!(beginnings(&[true, true, false, true, false, false, true]), [0, 3, 6]);
        assert!(beginnings(&[]).is_empty());
    }

    #[test]
    fn distances_have_a_median_and_a_spread() {
        let found = recurrence(&[0.0, 25.0, 50.0, 100.0, 125.0]).unwrap();
        assert_eq!(found.count, 4);
        assert!((found.median - 25.0).abs() < 1e-12 && found.p90 > 25.0);
        assert_eq!(recurrence(&[1.0]), None);
    }
}
