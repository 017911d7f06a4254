//! Figures of a list of measured values: extremes, centre, spread and percentiles.
//!
//! Percentiles are interpolated linearly between order statistics (Hyndman and Fan 1996, definition 7), as NumPy's are.

use serde::Serialize;

use super::whole;

/// Figures of a list of values, in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many values there are.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The 50th percentile.
    pub median: f64,
    /// The standard deviation of the sample (divided by the count less one); 0 for a single value.
    pub sd: f64,
    /// The 5th percentile.
    pub p5: f64,
    /// The 25th percentile.
    pub p25: f64,
    /// The 75th percentile.
    pub p75: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The median of the distances from the median: a spread that outliers do not move.
    pub mad: f64,
}

impl Summary {
    /// The figures of `values` in any order; `None` without values.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let ordered = sorted(values);
        let (min, max) = (*ordered.first()?, *ordered.last()?);
        let median = quantile(&ordered, 0.5);
        let mean = mean(values);
        let distances: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        Some(Summary {
            count: values.len(),
            min,
            max,
            mean,
            median,
            sd: deviation(values, mean),
            p5: quantile(&ordered, 0.05),
            p25: quantile(&ordered, 0.25),
            p75: quantile(&ordered, 0.75),
            p90: quantile(&ordered, 0.9),
            p99: quantile(&ordered, 0.99),
            p999: quantile(&ordered, 0.999),
            mad: quantile(&sorted(&distances), 0.5),
        })
    }

    /// From the 25th percentile to the 75th.
    pub fn interquartile_range(&self) -> f64 {
        self.p75 - self.p25
    }

    /// The standard deviation as a part of the mean; NaN when the mean is 0.
    pub fn variation(&self) -> f64 {
        self.sd / self.mean
    }
}

/// `values` in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered
}

/// The value below which the part `share` (0 to 1) of the values lies; NaN without values.
pub fn quantile(ordered: &[f64], share: f64) -> f64 {
    let Some(last) = ordered.len().checked_sub(1) else { return f64::NAN };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = super::whole(place).min(last);
    let above = (below + 1).min(last);
    ordered[below] + (ordered[above] - ordered[below]) * (place - below as f64)
}

/// The arithmetic mean; NaN without values.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len().saturating_sub(1).max(1) as f64).sqrt()
}

// How often values of each size occur: bins of equal width, as wide as Freedman and Diaconis (1981) advise.

const BINS_MAX: usize = 40;
/// The bins end at this quantile, so that one late value in a hundred does not squeeze all others into one bin.
const END: f64 = 0.99;

/// Counts of values in bins of equal width.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histogram {
    /// Where the first bin begins: the smallest value.
    pub start: f64,
    /// Width of each bin, in the unit of the values.
    pub width: f64,
    /// Values in each bin; the last one includes its upper edge.
    pub counts: Vec<usize>,
    /// Values beyond the last bin.
    pub above: usize,
}

impl Histogram {
    /// The histogram of `ordered` values; `None` without values.
    pub fn of(ordered: &[f64]) -> Option<Histogram> {
        let (start, end) = (*ordered.first()?, quantile(ordered, END));
        let bins = bins(ordered, end - start);
        let width = (end - start) / bins as f64;
        let mut counts = vec![0; bins];
        let inside = ordered.partition_point(|value| *value <= end);
        for value in &ordered[..inside] {
            let bin = if width > 0.0 { whole((value - start) / width) } else { 0 };
            counts[bin.min(bins - 1)] += 1;
        }
        Some(Histogram { start, width, counts, above: ordered.len() - inside })
    }

    /// Where bin `number` begins.
    pub fn edge(&self, number: usize) -> f64 {
        self.start + self.width * number as f64
    }
}

/// Bins of a width of two interquartile ranges divided by the cube root of the count.
fn bins(ordered: &[f64], range: f64) -> usize {
    let quartiles = quantile(ordered, 0.75) - quantile(ordered, 0.25);
    let width = 2.0 * quartiles / (ordered.len() as f64).cbrt();
    if width > 0.0 { whole((range / width).ceil()).clamp(1, BINS_MAX) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::super::sorted;
    use super::*;

    #[test]
    fn one_value_is_all_of_its_figures() {
        let summary = Summary::of(&[7.0]).unwrap();
        for figure in [summary.min, summary.max, summary.mean, summary.median, summary.p5, summary.p999] {
            assert!((figure - 7.0).abs() < 1e-12);
        }
        assert!(summary.sd.abs() < 1e-12 && summary.mad.abs() < 1e-12);
        assert!(Summary::of(&[]).is_none());
    }

    #[test]
    fn equal_values_are_one_bin() {
        let histogram = Histogram::of(&[3.0; 9]).unwrap();
        assert_eq!((histogram.counts, histogram.above), (vec![9], 0));
    }

    #[test]
    fn a_late_value_stands_apart() {
        let mut values: Vec<f64> = (0..999).map(|number| f64::from(number % 10)).collect();
        values.push(1e6);
        let histogram = Histogram::of(&sorted(&values)).unwrap();
        assert_eq!(histogram.above, 1);
        assert!(histogram.edge(histogram.counts.len()) < 10.0);
    }
}
