//! A requirement and whether it is met.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Table;

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
        Verdict { id: id.into(), want: format!("= {}", wanted.into()), got: got.into(), ok }
    }

    /// Wants that there is a figure at all.
    #[must_use]
    pub fn present(id: &str, got: Option<f64>) -> Verdict {
        Verdict { id: id.into(), want: "measured".into(), got: got.into(), ok: got.is_some() }
    }
}

/// The verdicts for people.
pub(super) fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(&["verdict", "want", "got", ""]);
    for verdict in verdicts {
        let got = match verdict.got.as_f64() {
            Some(number) => format!("{}", (number * 1000.0).round() / 1000.0),
            None => verdict.got.to_string(),
        };
        let mark = if verdict.ok { "ok" } else { "NOT OK" };
        table.row(vec![verdict.id.clone(), verdict.want.clone(), got, mark.into()]);
    }
    table
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
        assert!(!Verdict::present("a", None).ok);
    }

    #[test]
    fn the_form_is_id_want_got_ok() {
        let json = serde_json::to_value(Verdict::at_least("ratio", 1.95, 1.9)).unwrap();
        assert_eq!(json, serde_json::json!({"id": "ratio", "want": ">= 1.9", "got": 1.95, "ok": true}));
    }
}
