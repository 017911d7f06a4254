//! Repeated measurements of one quantity.

use serde::Serialize;
use serde::ser::SerializeStruct;

/// Values in the order they were measured, with their unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    unit: &'static str,
    values: Vec<f64>,
}

impl Samples {
    /// `values` in `unit`.
    #[must_use]
    pub const fn new(unit: &'static str, values: Vec<f64>) -> Samples {
        Samples { unit, values }
    }

    /// Adds a measurement.
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// The middle value, or the mean of the two middle ones; NaN without values.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len() / 2, sorted.len() % 2) {
            (0, 0) => f64::NAN,
            (middle, 0) => f64::midpoint(sorted[middle - 1], sorted[middle]),
            (middle, _) => sorted[middle],
        }
    }

    /// The smallest value; infinite without values.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest value; minus infinite without values.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Serialize for Samples {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Samples", 5)?;
        fields.serialize_field("unit", self.unit)?;
        fields.serialize_field("values", &self.values)?;
        fields.serialize_field("median", &self.median())?;
        fields.serialize_field("min", &self.min())?;
        fields.serialize_field("max", &self.max())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers_of_values() {
        assert_eq!(Samples::new("s", vec![3.0, 1.0, 2.0]).median().to_bits(), 2.0_f64.to_bits());
        assert_eq!(Samples::new("s", vec![4.0, 1.0]).median().to_bits(), 2.5_f64.to_bits());
        assert!(Samples::new("s", vec![]).median().is_nan());
    }

    #[test]
    fn spread_reaches_from_the_smallest_to_the_largest() {
        let samples = Samples::new("s", vec![3.0, 1.0, 2.0]);
        assert_eq!(
            (samples.min().to_bits(), samples.max().to_bits()),
            (1.0_f64.to_bits(), 3.0_f64.to_bits())
        );
    }
}
