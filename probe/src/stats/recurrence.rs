//! How often an event comes back: distances between events in a series.
//!
//! An autocorrelation fades when the distances vary a little; their median does not.

use serde::Serialize;

use super::summary::{quantile, sorted};

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
#[must_use]
pub fn beginnings(series: &[bool]) -> Vec<usize> {
    let begins = |place: &usize| series[*place] && (*place == 0 || !series[*place - 1]);
    (0..series.len()).filter(begins).collect()
}

/// The distances between ascending `places`, in their unit; `None` with fewer than two places.
#[must_use]
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
