//! How often values of each size occur: bins of equal width, as wide as Freedman and Diaconis (1981) advise.

use serde::Serialize;

use super::summary::quantile;
use super::whole;

/// Most bins: what fits on a screen.
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
    use proptest::prelude::*;

    use super::super::sorted;
    use super::*;

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

    proptest! {
        #[test]
        fn every_value_is_counted_once(values in prop::collection::vec(0.0_f64..1e6, 1..300)) {
            let histogram = Histogram::of(&sorted(&values)).unwrap();
            prop_assert_eq!(histogram.counts.iter().sum::<usize>() + histogram.above, values.len());
            prop_assert!(histogram.counts.len() <= BINS_MAX);
        }
    }
}
