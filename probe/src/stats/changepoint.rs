//! Where a series changes its level: PELT, the exact search for the best division into segments.
//!
//! Source: Killick, Fearnhead and Eckley, "Optimal detection of changepoints with a linear computational cost", JASA
//! 107,
//! 2012. A segment costs its squared distances from its mean, and each change the penalty.

use super::summary::{quantile, sorted};

/// A median absolute deviation times this is the standard deviation of a normal distribution.
const NORMAL: f64 = 1.482_602_218_505_602;

/// The places at which a new level begins, ascending, for the division of least cost: no segment is shorter than
/// `shortest`.
pub fn changepoints(values: &[f64], shortest: usize, penalty: f64) -> Vec<usize> {
    let shortest = shortest.max(1);
    let sums = Sums::of(values);
    // Least cost of the first n values, and where their last segment begins.
    let mut cost = vec![f64::INFINITY; values.len() + 1];
    let mut begin = vec![0; values.len() + 1];
    cost[0] = -penalty;
    let mut candidates = vec![0];
    for end in shortest..=values.len() {
        let through = |start: &usize| cost[*start] + sums.cost(*start, end);
        let best = candidates.iter().map(|start| (through(start), *start));
        let (least, start) = best.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0));
        candidates.retain(|start| through(start) <= least + penalty);
        (cost[end], begin[end]) = (least + penalty, start);
        let next = end + 1 - shortest;
        if next >= shortest {
            candidates.push(next);
        }
    }
    changes(&begin)
}

/// A penalty for `values` that noise alone does not exceed: three times the variance of the noise, times the logarithm
/// of the count. The noise is read from differences of neighbours, which a few changes of level do not touch.
pub fn penalty(values: &[f64]) -> f64 {
    let differences: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    if differences.is_empty() {
        return 0.0;
    }
    let deviation = NORMAL * quantile(&sorted(&differences), 0.5) / std::f64::consts::SQRT_2;
    3.0 * deviation.powi(2) * (values.len() as f64).ln()
}

fn changes(begin: &[usize]) -> Vec<usize> {
    let last = begin.len().checked_sub(1).map(|end| begin[end]);
    let mut changes: Vec<usize> =
        std::iter::successors(last, |place| Some(begin[*place])).take_while(|place| *place > 0).collect();
    changes.reverse();
    changes
}

/// Sums of the first n values and of their squares, so that any segment's cost takes one step.
struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn of(values: &[f64]) -> Sums {
        let running = |of: fn(f64) -> f64| {
            let sums = values.iter().scan(0.0, move |sum, value| {
                *sum += of(*value);
                Some(*sum)
            });
            std::iter::once(0.0).chain(sums).collect()
        };
        Sums { values: running(|value| value), squares: running(|value| value * value) }
    }

    /// Squared distances from the mean of the values `start..end`.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let sum = self.values[end] - self.values[start];
        self.squares[end] - self.squares[start] - sum * sum / (end - start) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three levels with a small regular ripple.
    fn levels() -> Vec<f64> {
        let level = |place: usize| match place {
            0..40 => 1.0,
            40..100 => 5.0,
            _ => 2.0,
        };
        (0..150).map(|place| level(place) + 0.1 * ((place * 7 % 11) as f64 - 5.0)).collect()
    }

    #[test]
    fn one_level_is_not_divided() {
        let values: Vec<f64> = levels().into_iter().take(40).collect();
        assert!(changepoints(&values, 2, penalty(&values)).is_empty());
        assert!(changepoints(&[], 2, 1.0).is_empty() && changepoints(&[1.0], 2, 1.0).is_empty());
    }

    #[test]
    fn no_segment_is_shorter_than_allowed() {
        let values: Vec<f64> =
            (0..90).map(|place| if (44..46).contains(&place) { 9.0 } else { 0.0 }).collect();
        let changes = changepoints(&values, 10, 0.5);
        let edges: Vec<usize> = [0].into_iter().chain(changes).chain([90]).collect();
        assert!(edges.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{edges:?}");
    }
}
