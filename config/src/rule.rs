//! The rule of a key: what a value looks like, what is checked, and where in a [`Config`] it stands.

use std::path::{Path, PathBuf};

use toml::Value;

use super::Config;
use super::form::{Form, Says};
use super::problem::Problem;
use super::settings::{Given, Settings};
use crate::key::{Key, KeyError, Owner};

/// The rule of a key.
pub struct Rule {
    /// What its value looks like in a file.
    pub form: Form,
    /// What its value may be, for the reference.
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
    /// Reads a key file.
    pub(super) read_key: &'a dyn Fn(&Path, Owner) -> Result<Key, KeyError>,
}

impl Resolving<'_> {
    /// The key in a file, if it can be read.
    pub(super) fn read(&mut self, file: &Given<PathBuf>, owner: Owner) -> Option<Key> {
        let key = (self.read_key)(&file.value, owner);
        key.map_err(|error| self.problem(file, error.to_string(), owner.allowed())).ok()
    }

    /// Notes what is wrong with a value.
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
                *field = typed::number(&mut from.problems, from.settings.values.get(key), $limits, *field);
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
                *field = typed::word(&mut from.problems, from.settings.values.get(key), &$all, $name, *field);
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
                if let Some(value) = typed::value(&mut from.problems, given, $allowed, $parse) {
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

/// A TOML list of strings.
pub(super) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(|item| Value::String(item.to_string())).collect())
}
