//! One typed value and its rule: a number within limits, one of several words, or a text to parse.
//!
//! A value that breaks its rule is noted as a problem, and replaced by a default.

use super::limits::Limits;
use super::problem::{Problem, nearest, quoted};
use super::settings::Given;

/// A number within `limits`.
pub(crate) fn number<T: TryFrom<i64>>(
    problems: &mut Vec<Problem>,
    given: Option<&Given<i64>>,
    limits: Limits,
    default: T,
) -> T {
    let Some(given) = given else { return default };
    match T::try_from(given.value) {
        Ok(value) if limits.hold(given.value) => value,
        _ => {
            let what = format!("{} is out of range", given.value);
            problems.push(Problem::new(&given.place, what, limits.to_string()));
            default
        }
    }
}

/// One of the words in `all`.
pub(crate) fn word<T: Copy>(
    problems: &mut Vec<Problem>,
    given: Option<&Given<String>>,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    default: T,
) -> T {
    let Some(given) = given else { return default };
    if let Some(found) = all.iter().find(|one| name(**one) == given.value) {
        return *found;
    }
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    let near =
        nearest(&given.value, &names).map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
    let what = format!("{} is unknown{near}", quoted(&given.value));
    problems.push(Problem::new(&given.place, what, names.join(", ")));
    default
}

/// A text that `parse` reads; `allowed` completes the sentence if it fails.
pub(super) fn value<T>(
    problems: &mut Vec<Problem>,
    given: Option<&Given<String>>,
    allowed: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let given = given?;
    parse(&given.value).map_err(|what| problems.push(Problem::new(&given.place, what, allowed))).ok()
}
