//! The settings as typed: every value of the file or of a flag with its place, not yet checked.
//!
//! The tables of `keys.rs`, `links/keys.rs` and `classes.rs` say which keys there are. [`Settings::overlaid`] lays flags over a file: a flag
//! replaces the file's value, links and addresses are appended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::problem::Place;

/// A value and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The value as typed.
    pub value: T,
    pub place: Place,
}

impl<T> Given<T> {
    /// `value`, given at `place`.
    pub fn new(value: T, place: Place) -> Given<T> {
        Given { value, place }
    }

    /// A value given by a flag, for example `--mtu`.
    pub fn by_flag(value: T, flag: &str) -> Given<T> {
        Given { value, place: Place::flag(flag) }
    }
}

/// The types that values have in files and flags.
macro_rules! types {
    ($($(#[doc = $doc:literal])+ $name:ident($type:ty),)+) => {
        /// A value as typed.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Typed {
            $($(#[doc = $doc])+ $name(Given<$type>),)+
        }

        impl Typed {
            /// Where it was given.
            fn place(&self) -> &Place {
                match self {
                    $(Self::$name(given) => &given.place,)+
                }
            }
        }

        $(impl Type for $type {
            fn of(typed: &Typed) -> Option<&Given<Self>> {
                if let Typed::$name(given) = typed { Some(given) } else { None }
            }

            fn typed(given: Given<Self>) -> Typed {
                Typed::$name(given)
            }
        })+
    };
}

types! {
    /// A text, with or without a rule for its words.
    Text(String),
    /// The path of a file, relative to the working directory.
    Path(PathBuf),
    /// A whole number.
    Number(i64),
    /// True or false.
    Switch(bool),
    /// Texts, each with its place: those of flags are added to those of a file.
    List(Vec<Given<String>>),
    /// Texts that are one value: those of flags take the place of those of a file.
    Words(Vec<String>),
}

/// A type that values have.
pub trait Type: Sized {
    /// The value, if it is of this type.
    fn of(typed: &Typed) -> Option<&Given<Self>>;
    fn typed(given: Given<Self>) -> Typed;
}

/// What was given of a table: values by the names of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<&'static str, Typed>);

impl Values {
    /// The value of a key, if it was given.
    pub fn get<T: Type>(&self, key: &str) -> Option<&Given<T>> {
        self.0.get(key).and_then(T::of)
    }

    /// The texts of a key; empty where none was given.
    pub(super) fn list(&self, key: &str) -> &[Given<String>] {
        self.get::<Vec<Given<String>>>(key).map_or(&[], |given| &given.value)
    }

    /// Where the value of a key was given.
    pub(super) fn place(&self, key: &str) -> Option<&Place> {
        self.0.get(key).map(Typed::place)
    }

    /// Where the first of these keys was given that has a value.
    pub fn first(&self, keys: &[&str]) -> Option<&Place> {
        keys.iter().find_map(|key| self.place(key))
    }

    pub fn set<T: Type>(&mut self, key: &'static str, given: Given<T>) {
        self.insert(key, T::typed(given));
    }

    /// The same of a value of any type.
    pub fn insert(&mut self, key: &'static str, typed: Typed) {
        self.0.insert(key, typed);
    }

    /// Adds a value where there is none yet, or the items of a list; returns a value whose place another one has.
    pub(super) fn add(&mut self, key: &'static str, typed: Typed) -> Option<Typed> {
        match (self.0.get_mut(key), typed) {
            (None, typed) => self.insert(key, typed),
            (Some(Typed::List(list)), Typed::List(more)) => list.value.extend(more.value),
            (Some(_), typed) => return Some(typed),
        }
        None
    }

    fn overlay(&mut self, flags: Values) {
        for (key, typed) in flags.0 {
            if let Some(typed) = self.add(key, typed) {
                self.insert(key, typed);
            }
        }
    }
}

/// Everything a user may set, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The file that was read, as named by the user.
    pub file: Option<Arc<str>>,
    pub values: Values,
    /// Frames with a policy of their own, in the order given.
    pub classes: Vec<TableSettings>,
    /// Links in the order given.
    pub links: Vec<TableSettings>,
}

/// One of the tables `[[link]]` or `[[class]]`, or a flag of the same meaning, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// Its line, or the flag.
    pub place: Place,
    pub values: Values,
}

impl TableSettings {
    /// One that says nothing yet.
    pub(super) fn at(place: Place) -> TableSettings {
        TableSettings { place, values: Values::default() }
    }
}

impl Settings {
    /// These settings with `flags` laid over them.
    #[must_use]
    pub fn overlaid(mut self, mut flags: Settings) -> Settings {
        self.values.overlay(flags.values);
        self.links.append(&mut flags.links);
        Settings { file: self.file.or(flags.file), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::keys::parse_link_flag;

    #[test]
    fn flags_replace_values_and_extend_lists() {
        let settings = |by: &str, mtu: &str, address: &str, link: &str| {
            let mut values = Values::default();
            values.set("mtu", Given::by_flag(mtu.to_owned(), by));
            let address = Given::by_flag(address.to_owned(), by);
            values.set("address", Given::by_flag(vec![address], by));
            let links = vec![parse_link_flag(link).expect("a link")];
            Settings { values, links, ..Settings::default() }
        };
        let mut file = settings("file", "1500", "10.9.0.1/24", "eth1");
        file.values.set("port", Given::by_flag(7420, "file"));
        let both = file.overlaid(settings("--mtu", "9000", "fd00::1/64", "eth2"));
        assert_eq!(both.values.get::<String>("mtu").map(|mtu| mtu.value.as_str()), Some("9000"));
        assert_eq!(both.values.get::<i64>("port").map(|port| port.value), Some(7420));
        assert_eq!((both.values.list("address").len(), both.links.len()), (2, 2));
    }
}
