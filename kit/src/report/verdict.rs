//! A requirement and whether it is met.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One requirement, what was wanted and what was got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Name of the figure.
    pub id: String,
    /// The requirement, for people.
    pub want: String,
    /// The figure; null when it could not be had.
    pub got: Value,
    /// Whether the requirement is met.
    pub ok: bool,
}

impl Verdict {
    /// Wants `got` to be `floor` or more.
    #[must_use]
    pub fn at_least(id: &str, got: f64, floor: f64) -> Verdict {
        Verdict { id: id.into(), want: format!(">= {floor}"), got: got.into(), ok: got >= floor }
    }

    /// Wants `got` to be `ceiling` or less.
    #[must_use]
    pub fn at_most(id: &str, got: f64, ceiling: f64) -> Verdict {
        Verdict { id: id.into(), want: format!("<= {ceiling}"), got: got.into(), ok: got <= ceiling }
    }

    /// Wants `got` to be `wanted`.
    #[must_use]
    pub fn equals<T: Into<Value> + PartialEq>(id: &str, got: T, wanted: T) -> Verdict {
        let ok = got == wanted;
        let wanted: Value = wanted.into();
        Verdict { id: id.into(), want: format!("= {wanted}"), got: got.into(), ok }
    }

    /// Whether the figure is no worse than `worst`; what is no number is not better or worse than anything.
    pub(super) fn is_within(&self, worst: f64) -> bool {
        let (Some(got), Some((limit, wanted))) = (self.got.as_f64(), self.want.split_once(' ')) else {
            return false;
        };
        match limit {
            ">=" => got >= worst,
            "<=" => got <= worst,
            _ => wanted.parse().is_ok_and(|wanted: f64| (got - wanted).abs() <= (worst - wanted).abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_themselves_are_met() {
        assert!(Verdict::at_least("a", 1.9, 1.9).ok && !Verdict::at_least("a", 1.89, 1.9).ok);
        assert!(Verdict::at_most("a", 100.0, 100.0).ok && !Verdict::at_most("a", 100.1, 100.0).ok);
        assert!(Verdict::equals("a", true, true).ok && !Verdict::equals("a", 1, 0).ok);
    }

    #[test]
    fn a_figure_that_is_not_a_number_meets_nothing() {
        assert!(!Verdict::at_least("a", f64::NAN, 0.0).ok && !Verdict::at_most("a", f64::NAN, 0.0).ok);
    }

    #[test]
    fn worse_is_less_more_or_further_away() {
        let within = |verdict: Verdict| verdict.is_within(3.0);
        assert!(within(Verdict::at_least("a", 3.0, 9.0)) && !within(Verdict::at_least("a", 2.9, 9.0)));
        assert!(within(Verdict::at_most("a", 3.0, 1.0)) && !within(Verdict::at_most("a", 3.1, 1.0)));
        assert!(within(Verdict::equals("a", 3, 4)) && within(Verdict::equals("a", 5, 4)));
        assert!(!within(Verdict::equals("a", 6, 4)) && !within(Verdict::equals("a", false, true)));
        assert!(!within(Verdict::at_most("a", f64::NAN, 1.0)));
    }

    #[test]
    fn the_form_is_id_want_got_ok() {
        let json = serde_json::to_value(Verdict::at_least("ratio", 1.95, 1.9)).unwrap();
        assert_eq!(json, serde_json::json!({"id": "ratio", "want": ">= 1.9", "got": 1.95, "ok": true}));
    }
}
