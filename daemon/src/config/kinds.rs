//! The kinds of keys: what a value looks like, which rule it has, and where in a [`Config`] it stands.

use std::path::{Path, PathBuf};

use toml::Value;

use super::Config;
use super::form::{Form, either};
use super::limits::Limits;
use super::problem::Problem;
use super::settings::{Given, Settings};
use super::typed::{number, value, word};
use crate::key::{Key, KeyError, Owner};

/// The rule of a key.
pub(crate) trait Kind: Sync {
    /// What its value looks like in a file.
    fn form(&self) -> Form;
    /// What its value may be, for the reference.
    fn values(&self) -> String;
    /// The words that it may be, where these are all.
    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Checks what was given for `key`, and takes it into `config`, which has the default.
    fn take(&self, key: &str, from: &mut Resolving<'_>, config: &mut Config);
    /// The value as a file has it; `None`: the key is left out.
    fn value(&self, config: &Config) -> Option<Value>;
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

/// Where a value stands in a configuration.
pub(crate) struct At<T> {
    pub(super) get: fn(&Config) -> &T,
    pub(super) get_mut: fn(&mut Config) -> &mut T,
}

/// The place of a field: `at!(receive.interval)`.
macro_rules! at {
    ($($field:ident).+) => {
        $crate::config::kinds::At {
            get: |config| &config.$($field).+,
            get_mut: |config| &mut config.$($field).+,
        }
    };
}
pub(super) use at;

impl<T> At<T> {
    /// What stands there takes another value, made of it.
    fn replace(&self, config: &mut Config, other: impl FnOnce(&T) -> T) {
        let field = (self.get_mut)(config);
        *field = other(field);
    }
}

/// True or false.
pub(super) struct Switch(pub(super) At<bool>);

impl Kind for Switch {
    fn form(&self) -> Form {
        Form::Switch
    }

    fn values(&self) -> String {
        "true or false".to_owned()
    }

    fn take(&self, key: &str, from: &mut Resolving<'_>, config: &mut Config) {
        if let Some(given) = from.settings.values.get::<bool>(key) {
            *(self.0.get_mut)(config) = given.value;
        }
    }

    fn value(&self, config: &Config) -> Option<Value> {
        Some((*(self.0.get)(config)).into())
    }
}

/// A whole number within limits.
pub(super) struct Number<T: 'static>(pub(super) Limits, pub(super) At<T>);

impl<T: Copy + TryFrom<i64> + Into<i64>> Kind for Number<T> {
    fn form(&self) -> Form {
        Form::Number
    }

    fn values(&self) -> String {
        self.0.range()
    }

    fn take(&self, key: &str, from: &mut Resolving<'_>, config: &mut Config) {
        let given = from.settings.values.get(key);
        self.1.replace(config, |default| number(&mut from.problems, given, self.0, *default));
    }

    fn value(&self, config: &Config) -> Option<Value> {
        let number: i64 = (*(self.1.get)(config)).into();
        Some(number.into())
    }
}

/// One of several words.
pub(super) struct Word<T: 'static> {
    /// What the word is, such as "the name of a policy".
    pub(super) what: &'static str,
    pub(super) all: &'static [T],
    pub(super) name: fn(T) -> &'static str,
    pub(super) at: At<T>,
}

impl<T: Copy + Sync> Kind for Word<T> {
    fn form(&self) -> Form {
        Form::Text(self.what)
    }

    fn values(&self) -> String {
        either(&self.words())
    }

    fn words(&self) -> Vec<&'static str> {
        self.all.iter().map(|one| (self.name)(*one)).collect()
    }

    fn take(&self, key: &str, from: &mut Resolving<'_>, config: &mut Config) {
        let given = from.settings.values.get(key);
        self.at.replace(config, |default| word(&mut from.problems, given, self.all, self.name, *default));
    }

    fn value(&self, config: &Config) -> Option<Value> {
        Some((self.name)(*(self.at.get)(config)).into())
    }
}

/// A text that is read and printed by functions.
pub(super) struct Parsed<T: 'static> {
    pub(super) form: Form,
    /// What it may be, for the reference.
    pub(super) values: &'static str,
    /// What it may be, for the sentence of an error.
    pub(super) allowed: &'static str,
    pub(super) parse: fn(&str) -> Result<T, String>,
    pub(super) print: fn(&T) -> Option<Value>,
    pub(super) at: At<T>,
}

impl<T: Sync> Kind for Parsed<T> {
    fn form(&self) -> Form {
        self.form
    }

    fn values(&self) -> String {
        self.values.to_owned()
    }

    fn take(&self, key: &str, from: &mut Resolving<'_>, config: &mut Config) {
        let given = from.settings.values.get(key);
        if let Some(value) = value(&mut from.problems, given, self.allowed, self.parse) {
            *(self.at.get_mut)(config) = value;
        }
    }

    fn value(&self, config: &Config) -> Option<Value> {
        (self.print)((self.at.get)(config))
    }
}

/// A kind of its own.
pub(super) struct Own {
    pub(super) form: Form,
    /// What it may be, for the reference.
    pub(super) values: &'static str,
    pub(super) take: fn(&mut Resolving<'_>, &mut Config),
    pub(super) value: fn(&Config) -> Option<Value>,
}

impl Kind for Own {
    fn form(&self) -> Form {
        self.form
    }

    fn values(&self) -> String {
        self.values.to_owned()
    }

    fn take(&self, _: &str, from: &mut Resolving<'_>, config: &mut Config) {
        (self.take)(from, config);
    }

    fn value(&self, config: &Config) -> Option<Value> {
        (self.value)(config)
    }
}

/// A TOML list of strings.
pub(super) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(|item| Value::String(item.to_string())).collect())
}
