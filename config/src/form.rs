//! What a value looks like in a file, before its rule is asked.

use std::path::Path;

use toml::de::DeValue;

use super::limits::Limits;
use super::settings::{Given, Type, Typed};
use super::table::Section;

/// What a value looks like in a file; the words complete the sentence of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A string, which is this.
    Text(&'static str),
    /// A string that is the path of a file; a relative one starts at the directory of the configuration file.
    Path(&'static str),
    TextOrNumber(&'static str),
    Number,
    Switch,
    /// A list of strings, each with its place.
    List(&'static str),
    /// The same of paths.
    Paths(&'static str),
    /// A list of strings that is one value.
    Words(&'static str),
    /// Tables, which `file.rs` takes apart.
    Tables(&'static str),
}

impl Form {
    /// Takes the value of `key` out of a table of the file.
    pub(super) fn read(self, section: &mut Section<'_, '_>, key: &'static str) -> Option<Typed> {
        let file = section.file();
        let beside = |path: &str| Path::new(&*file).parent().unwrap_or(Path::new("")).join(path);
        match self {
            Form::Text(what) => section.text(key, what).map(Typed::Text),
            Form::Path(what) => {
                let given = section.text(key, what)?;
                Some(Typed::Path(Given::new(beside(&given.value), given.place)))
            }
            Form::TextOrNumber(allowed) => section.take(key, allowed, text_or_number).map(Typed::Text),
            Form::Number => section.number(key).map(Typed::Number),
            Form::Switch => section.switch(key).map(Typed::Switch),
            Form::List(allowed) => list(section.texts(key, allowed)),
            Form::Paths(allowed) => {
                let mut paths = section.texts(key, allowed);
                paths.iter_mut().for_each(|path| path.value = beside(&path.value).display().to_string());
                list(paths)
            }
            Form::Words(allowed) => section.take(key, allowed, words).map(Typed::Words),
            Form::Tables(_) => None,
        }
    }
}

/// What a value may be, for the reference.
#[derive(Clone, Copy)]
pub enum Says {
    Text(&'static str),
    /// A number within limits, and what it is the number of.
    Limits(&'static str, Limits),
    Words(fn() -> Vec<&'static str>),
    Switch,
}

impl Says {
    pub(crate) fn cell(self) -> String {
        match self {
            Says::Text(text) => text.to_owned(),
            Says::Limits(_, limits) => limits.range(),
            Says::Switch => "true or false".to_owned(),
            Says::Words(words) => {
                let words: Vec<_> = words().iter().map(|word| format!("`{word}`")).collect();
                let (last, others) = words.split_last().expect("there are words");
                format!("{} or {last}", others.join(", "))
            }
        }
    }

    pub fn words(self) -> Vec<&'static str> {
        if let Says::Words(words) = self { words() } else { Vec::new() }
    }
}

/// Texts as a value, if there are any.
pub fn list(items: Vec<Given<String>>) -> Option<Typed> {
    let place = items.first()?.place.clone();
    Some(Type::typed(Given::new(items, place)))
}

fn text_or_number(value: &DeValue<'_>) -> Option<String> {
    let number = || value.as_integer().map(ToString::to_string);
    value.as_str().map(str::to_owned).or_else(number)
}

fn words(value: &DeValue<'_>) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| Some(item.get_ref().as_str()?.to_owned())).collect()
}
