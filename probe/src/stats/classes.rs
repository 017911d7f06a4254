//! Which kinds of values there are: clusters in one dimension, as many as the data show.
//!
//! Durations of one kind of work lie close together in proportion, so their density is taken over the logarithm. Its
//! peaks are the kinds and its valleys the borders. A peak counts when it rises above the valley to a higher one by a
//! factor ([`PROMINENCE`]) and beyond chance ([`SIGNIFICANCE`]): the persistence of a mode, as in Chazal, Guibas, Oudot
//! and Skraba, JACM 60, 2013. So a long tail is no class, and few values far from all others are none either: they are
//! [`Classes::stray`].
//!
//! Clusters of least squares, k of them by the Bayesian information criterion (crate `ckmeans`), divide skewed classes
//! into pieces: an exponential tail into three, the copies of a loopback's `send()` into four.

use super::whole;

/// Standard deviation of the kernel that smooths the density, in natural logarithms: kinds that differ by less than a
/// third are one.
const BANDWIDTH: f64 = 0.1;
/// Width of a bin of the density, in natural logarithms.
const BIN: f64 = BANDWIDTH / 4.0;
/// Bins to each side that the kernel reaches: three of its standard deviations.
const REACH: usize = 12;
/// How often a peak is as high as the valley beside it.
const PROMINENCE: f64 = 2.0;
/// Standard errors by which a peak rises above its valley. Roots of counts all have the standard error one half.
const SIGNIFICANCE: f64 = 5.0;
/// The shortest value that is distinguished from shorter ones, in the unit of the values, as 0 has no logarithm.
const SMALLEST: f64 = 1e-9;

/// A kind of values: all from `from` to below `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Its lower border.
    pub from: f64,
    /// Its upper border.
    pub to: f64,
    /// Where its values are densest.
    pub peak: f64,
}

/// The kinds of values that a list holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    /// In ascending order.
    pub classes: Vec<Class>,
    /// How many values are of no class.
    pub stray: usize,
}

impl Classes {
    /// Finds the classes of `values`, which are positive.
    pub fn of(values: &[f64]) -> Classes {
        let Some(density) = Density::of(values) else { return Classes::default() };
        let mut peaks = density.peaks();
        peaks.sort_unstable();
        let classes: Vec<Class> = (0..peaks.len()).map(|number| density.class(&peaks, number)).collect();
        let mut found = Classes { classes, stray: 0 };
        found.stray = values.iter().filter(|value| found.class_of(**value).is_none()).count();
        found
    }

    /// The number of the class that `value` belongs to.
    pub fn class_of(&self, value: f64) -> Option<usize> {
        self.classes.iter().position(|class| (class.from..class.to).contains(&value))
    }
}

/// Values per bandwidth, over the logarithm.
struct Density {
    start: f64,
    bins: Vec<f64>,
}

impl Density {
    fn of(values: &[f64]) -> Option<Density> {
        let logarithms: Vec<f64> = values.iter().map(|value| value.max(SMALLEST).ln()).collect();
        let first = logarithms.iter().copied().min_by(f64::total_cmp)?;
        let last = logarithms.iter().copied().max_by(f64::total_cmp)?;
        let start = first - (REACH as f64 + 1.0) * BIN;
        let mut counts = vec![0.0; whole((last - start) / BIN) + REACH + 2];
        for logarithm in logarithms {
            counts[whole((logarithm - start) / BIN)] += 1.0;
        }
        Some(Density { start, bins: smoothed(&counts) })
    }

    fn value(&self, number: usize) -> f64 {
        (self.start + number as f64 * BIN).exp()
    }

    /// The bins of the peaks that count, highest first. Each bin, from the highest down, joins the peak of the
    /// neighbour that was there before; where two peaks meet is the valley between them, and the lower one counts only
    /// if it is prominent.
    fn peaks(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.bins.len()).filter(|bin| self.bins[*bin] > 0.0).collect();
        order.sort_by(|a, b| self.bins[*b].total_cmp(&self.bins[*a]));
        let mut owner: Vec<Option<usize>> = vec![None; self.bins.len()];
        let mut merged: Vec<usize> = (0..self.bins.len()).collect();
        let mut peaks = Vec::new();
        for bin in order {
            let beside = [bin.checked_sub(1), Some(bin + 1)].into_iter().flatten();
            let mut owners: Vec<usize> =
                beside.filter_map(|beside| *owner.get(beside)?).map(|peak| root(&merged, peak)).collect();
            owners.sort_by(|a, b| self.bins[*b].total_cmp(&self.bins[*a]));
            let highest = owners.first().copied().unwrap_or(bin);
            owner[bin] = Some(highest);
            if let [highest, lower] = owners[..]
                && highest != lower
            {
                if self.stands_out(lower, self.bins[bin]) {
                    peaks.push(lower);
                }
                merged[lower] = highest;
            }
        }
        // A peak that met no higher one rises above zero.
        let alone = (0..self.bins.len()).filter(|bin| owner[*bin] == Some(*bin) && merged[*bin] == *bin);
        peaks.extend(alone.filter(|bin| self.stands_out(*bin, 0.0)));
        peaks
    }

    fn stands_out(&self, peak: usize, valley: f64) -> bool {
        let height = self.bins[peak];
        height >= PROMINENCE * valley && 2.0 * (height.sqrt() - valley.sqrt()) >= SIGNIFICANCE
    }

    /// The class around peak `number`: to the lowest point on the way to the next peak, and not beyond empty bins.
    fn class(&self, peaks: &[usize], number: usize) -> Class {
        let peak = peaks[number];
        let before = number.checked_sub(1).map_or(0, |before| peaks[before]);
        let after = peaks.get(number + 1).copied().unwrap_or(self.bins.len() - 1);
        let lowest =
            |range: std::ops::Range<usize>| range.min_by(|a, b| self.bins[*a].total_cmp(&self.bins[*b]));
        let gap_before = (before..peak).rev().find(|bin| self.bins[*bin] <= 0.0);
        let gap_after = (peak..after).find(|bin| self.bins[*bin] <= 0.0);
        let from = gap_before.or_else(|| lowest(before..peak)).unwrap_or(peak);
        let to = gap_after.or_else(|| lowest(peak..after)).unwrap_or(after);
        Class { from: self.value(from), to: self.value(to), peak: self.value(peak) }
    }
}

fn root(merged: &[usize], peak: usize) -> usize {
    let mut peak = peak;
    while merged[peak] != peak {
        peak = merged[peak];
    }
    peak
}

/// Counts under a Gaussian kernel of height 1, so that a peak is the number of values that made it; 0 where no value
/// is in reach.
fn smoothed(counts: &[f64]) -> Vec<f64> {
    let weight = |distance: usize| (-0.5 * (distance as f64 * BIN / BANDWIDTH).powi(2)).exp();
    let kernel: Vec<f64> = (0..=REACH).map(weight).collect();
    let at = |bin: usize| -> f64 {
        let near = bin.saturating_sub(REACH)..(bin + REACH + 1).min(counts.len());
        near.map(|other| counts[other] * kernel[other.abs_diff(bin)]).sum()
    };
    (0..counts.len()).map(at).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_tail_is_not_a_class_and_few_far_values_are_stray() {
        let tail = (1..2_000).map(|number| 1.0 - 2.0 * (1.0 - f64::from(number) / 2_000.0).ln());
        let values: Vec<f64> = tail.chain([1e6, 1.1e6]).collect();
        let found = Classes::of(&values);
        assert_eq!((found.classes.len(), found.stray), (1, 2), "{found:?}");
    }

    #[test]
    fn too_few_values_show_no_class() {
        assert!(Classes::of(&[1.0, 2.0]).classes.is_empty());
        assert_eq!(Classes::of(&[]), Classes::default());
        assert_eq!(Classes::of(&[0.0; 50]).classes.len(), 1);
    }

    proptest! {
        #[test]
        fn classes_are_apart_and_every_value_has_one_place(values in prop::collection::vec(1e-3_f64..1e9, 0..400)) {
            let found = Classes::of(&values);
            prop_assert!(found.classes.windows(2).all(|pair| pair[0].to <= pair[1].from));
            prop_assert!(found.classes.iter().all(|class| class.from <= class.peak && class.peak < class.to));
            let inside = values.iter().filter(|value| found.class_of(**value).is_some()).count();
            prop_assert_eq!(inside + found.stray, values.len());
        }
    }
}
