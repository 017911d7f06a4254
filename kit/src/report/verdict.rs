//! A requirement and whether it is met.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One requirement, what was wanted and what was got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use = "a verdict that no report has judges nothing"]
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
    /// Wants `got` to be within `bound`.
    pub fn within(id: &str, got: f64, bound: Bound) -> Verdict {
        match bound {
            Bound::Least(floor) => Verdict::at_least(id, got, floor),
            Bound::Most(ceiling) => Verdict::at_most(id, got, ceiling),
            Bound::Exactly(wanted) => Verdict::equals(id, got, wanted),
        }
    }

    /// Wants `got` to be `floor` or more.
    pub fn at_least(id: &str, got: f64, floor: f64) -> Verdict {
        Verdict { id: id.into(), want: format!(">= {floor}"), got: got.into(), ok: got >= floor }
    }

    /// Wants `got` to be `ceiling` or less.
    pub fn at_most(id: &str, got: f64, ceiling: f64) -> Verdict {
        Verdict { id: id.into(), want: format!("<= {ceiling}"), got: got.into(), ok: got <= ceiling }
    }

    /// Wants `got` to be `wanted`.
    pub fn equals<T: Into<Value> + PartialEq>(id: &str, got: T, wanted: T) -> Verdict {
        let ok = got == wanted;
        let wanted: Value = wanted.into();
        Verdict { id: id.into(), want: format!("= {wanted}"), got: got.into(), ok }
    }

    /// Whether the figure is within another bound; what is no number is within none.
    pub(super) fn meets(&self, bound: &str) -> bool {
        self.got.as_f64().is_some_and(|got| Bound::parse(bound).is_ok_and(|bound| bound.holds(got)))
    }
}

/// A bound as it is written: `>= 0.5`, `<= 3` or `= 0`.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This or more.
    Least(f64),
    /// This or less.
    Most(f64),
    /// This.
    Exactly(f64),
}

impl Bound {
    pub(super) fn parse(text: &str) -> Result<Bound> {
        let parts = text.split_once(' ').and_then(|(sign, limit)| Some((sign, limit.parse::<f64>().ok()?)));
        match parts.filter(|(_, limit)| limit.is_finite()) {
            Some((">=", limit)) => Ok(Bound::Least(limit)),
            Some(("<=", limit)) => Ok(Bound::Most(limit)),
            Some(("=", limit)) => Ok(Bound::Exactly(limit)),
            _ => bail!("`{text}` is no bound"),
        }
    }

    fn holds(self, got: f64) -> bool {
        match self {
            Bound::Least(least) => got >= least,
            Bound::Most(most) => got <= most,
            Bound::Exactly(wanted) => (got - wanted).abs() < f64::EPSILON,
        }
    }

    /// Whether it refuses what just meets `wanted`.
    pub(super) fn refuses_what_just_meets(self, wanted: Bound) -> bool {
        let (Bound::Least(limit) | Bound::Most(limit) | Bound::Exactly(limit)) = wanted;
        !self.holds(limit)
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
    fn a_figure_may_meet_another_bound() {
        let three = Verdict::at_most("a", 3.0, 1.0);
        assert!(["<= 3", ">= 3", "= 3"].iter().all(|bound| three.meets(bound)));
        assert!(["<= 2.9", ">= 3.1", "= 0", "< 4", "<= inf"].iter().all(|bound| !three.meets(bound)));
        assert!(!Verdict::at_most("a", f64::NAN, 1.0).meets("<= 3"));
        assert!(!Verdict::equals("a", true, true).meets("= 1"));
    }

    #[test]
    fn the_form_is_id_want_got_ok() {
        let json = serde_json::to_value(Verdict::at_least("ratio", 1.95, 1.9)).unwrap();
        assert_eq!(json, serde_json::json!({"id": "ratio", "want": ">= 1.9", "got": 1.95, "ok": true}));
    }
}
