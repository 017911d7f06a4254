//! Repeated measurements of one quantity.

use std::borrow::Cow;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize};
use tabane_probe::stats::{quantile, sorted};

/// Values in the order they were measured, with their unit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Samples {
    unit: Cow<'static, str>,
    #[serde(deserialize_with = "numbers")]
    values: Vec<f64>,
}

/// JSON has no word for what is not a number: such values are null there, and left out here.
fn numbers<'de, D: Deserializer<'de>>(values: D) -> Result<Vec<f64>, D::Error> {
    Ok(Vec::<Option<f64>>::deserialize(values)?.into_iter().flatten().collect())
}

impl Samples {
    /// `values` in `unit`.
    pub const fn new(unit: &'static str, values: Vec<f64>) -> Samples {
        Samples { unit: Cow::Borrowed(unit), values }
    }

    /// The unit.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The values, in the order they were measured.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Adds a measurement.
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// The middle value, or the mean of the two middle ones; NaN without values.
    pub fn median(&self) -> f64 {
        quantile(&sorted(&self.values), 0.5)
    }

    /// The smallest value; infinite without values.
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest value; minus infinite without values.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Serialize for Samples {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Samples", 5)?;
        fields.serialize_field("unit", &self.unit)?;
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
