//! The rule of a key: what a value looks like, what is checked, and where in a [`Config`] it stands.

use std::path::{Path, PathBuf};

use toml::Value;

use super::Config;
use super::form::{Form, Says};
use super::limits::Limits;
use super::problem::{Problem, nearest, quoted};
use super::settings::{Given, Settings};
use crate::key::{Key, KeyError, Owner};

/// The rule of a key.
pub struct Rule {
    /// What its value looks like in a file.
    pub form: Form,
    pub says: Says,
    /// Checks what was given for a key of this name, and takes it into a configuration that has the default.
    pub(super) take: fn(&str, &mut Resolving<'_>, &mut Config),
    /// The value as a file has it; `None`: the key is left out.
    pub value: fn(&Config) -> Option<Value>,
}

/// Settings on their way to a [`Config`].
pub(crate) struct Resolving<'a> {
    pub(super) settings: &'a Settings,
    pub(super) problems: Vec<Problem>,
    pub(super) read_key: &'a dyn Fn(&Path, Owner) -> Result<Key, KeyError>,
}

impl Resolving<'_> {
    /// The key in a file, if it can be read.
    pub(super) fn read(&mut self, file: &Given<PathBuf>, owner: Owner) -> Option<Key> {
        let key = (self.read_key)(&file.value, owner);
        key.map_err(|error| self.problem(file, error.to_string(), owner.allowed())).ok()
    }

    pub(super) fn problem<T>(
        &mut self,
        given: &Given<T>,
        what: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.problems.push(Problem::new(&given.place, what, allowed));
    }
}

/// The rule of a field that is true or false.
macro_rules! switch {
    ($($field:ident).+) => {
        Rule {
            form: Form::Switch,
            says: Says::Switch,
            take: |key, from, config| {
                if let Some(given) = from.settings.values.get(key) {
                    config.$($field).+ = given.value;
                }
            },
            value: |config| Some(config.$($field).+.into()),
        }
    };
}

/// The rule of a field that is a whole number within limits.
macro_rules! number {
    ($($field:ident).+, $limits:expr) => {
        Rule {
            form: Form::Number,
            says: Says::Limits("number", $limits),
            take: |key, from, config| {
                let field = &mut config.$($field).+;
                *field = rule::take_number(&mut from.problems, from.settings.values.get(key), $limits, *field);
            },
            value: |config| Some(i64::from(config.$($field).+).into()),
        }
    };
}

/// The rule of a field that is one of several words, each with a name; `what` it is completes the sentence "a string, …".
macro_rules! word {
    ($($field:ident).+, $what:literal, $all:expr, $name:expr) => {
        Rule {
            form: Form::Text($what),
            says: Says::Words(|| $all.map($name).to_vec()),
            take: |key, from, config| {
                let field = &mut config.$($field).+;
                *field = rule::take_word(&mut from.problems, from.settings.values.get(key), &$all, $name, *field);
            },
            value: |config| Some($name(config.$($field).+).into()),
        }
    };
}

/// The rule of a field that is read from text: what it may be, for the reference and for errors, and how it is read and printed.
macro_rules! parsed {
    ($($field:ident).+, $form:expr, $says:literal, $allowed:expr, $parse:expr, |$value:ident| $print:expr) => {
        Rule {
            form: $form,
            says: Says::Text($says),
            take: |key, from, config| {
                let given = from.settings.values.get(key);
                if let Some(value) = rule::take_value(&mut from.problems, given, $allowed, $parse) {
                    config.$($field).+ = value;
                }
            },
            value: |config| {
                let $value = &config.$($field).+;
                $print
            },
        }
    };
}

pub(super) use {number, parsed, switch, word};

pub(super) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(|item| Value::String(item.to_string())).collect())
}

// One typed value: what breaks the rule is noted as a problem, and replaced by a default.

/// A number within `limits`.
pub(crate) fn take_number<T: TryFrom<i64>>(
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
pub(crate) fn take_word<T: Copy>(
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
pub(super) fn take_value<T>(
    problems: &mut Vec<Problem>,
    given: Option<&Given<String>>,
    allowed: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let given = given?;
    parse(&given.value).map_err(|what| problems.push(Problem::new(&given.place, what, allowed))).ok()
}
