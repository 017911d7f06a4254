//! Whether values come in a rhythm: the autocorrelation of a series, and the first of its high peaks.
//!
//! A slow drift correlates with itself, too, but falls off without a peak. So a peak counts only behind the first lag
//! at which the series is unlike itself (no positive correlation), and after a straight line has been taken off.

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;
use serde::Serialize;

use super::summary::mean;

/// The largest lag, as a part of the series: three cycles are the fewest that show one.
const CYCLES_MIN: usize = 3;
/// Least correlation of a period.
const STRENGTH_MIN: f64 = 0.3;
/// Standard errors (one over the root of the count) that a peak stands above noise; 4.5 of them are passed by chance
/// at none of thousands of lags.
const ERRORS_MIN: f64 = 4.5;
/// Every multiple of a period is a peak, some a little higher: the first one that reaches this part of the highest.
const FIRST_OF: f64 = 0.9;

/// A rhythm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Period {
    /// After how many values the series resembles itself.
    pub lag: usize,
    /// The correlation at that lag, up to 1.
    pub strength: f64,
}

/// The period of `values`, if they have one.
#[must_use]
pub fn period(values: &[f64]) -> Option<Period> {
    let correlation = autocorrelation(&without_trend(values), values.len() / CYCLES_MIN);
    let unlike = correlation.iter().position(|value| *value <= 0.0)?;
    let is_peak = |lag: &usize| {
        let here = correlation[*lag];
        here >= correlation[lag - 1] && correlation.get(lag + 1).is_none_or(|next| here >= *next)
    };
    let peaks: Vec<usize> = (unlike.max(1)..correlation.len()).filter(is_peak).collect();
    let highest = peaks.iter().map(|lag| correlation[*lag]).max_by(f64::total_cmp)?;
    let noise = ERRORS_MIN / (values.len() as f64).sqrt();
    let lag = *peaks.iter().find(|lag| correlation[**lag] >= FIRST_OF * highest)?;
    (highest >= STRENGTH_MIN.max(noise)).then(|| Period { lag, strength: correlation[lag] })
}

/// Correlation of `values` with themselves `lag` values later, for lags 0 to `lags`; each is relative to the values
/// that overlap, so that it does not fall with the lag. Empty when the values do not vary.
#[must_use]
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
    fn a_sawtooth_under_noise_has_its_period() {
        let noise = noise(200);
        let values: Vec<f64> = (0..200_u32).map(|n| f64::from(n % 9) + 2.0 * noise[n as usize]).collect();
        let found = period(&values).unwrap();
        assert_eq!(found.lag, 9);
        assert!(found.strength > 0.8);
    }

    #[test]
    fn rare_events_have_the_period_of_their_distance() {
        let values: Vec<f64> = (0..5_000).map(|call| f64::from(u8::from(call % 328 == 17))).collect();
        assert_eq!(period(&values).unwrap().lag, 328);
    }

    #[test]
    fn noise_drift_and_constants_have_none() {
        let drift: Vec<f64> =
            noise(500).iter().enumerate().map(|(n, value)| value + n as f64 * 0.1).collect();
        for values in [noise(200), noise(5_000), drift, vec![5.0; 100], vec![1.0], vec![]] {
            assert_eq!(period(&values), None, "{} values", values.len());
        }
    }
}
