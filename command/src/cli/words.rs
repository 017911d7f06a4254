//! Which of a command's words names a bundle, and which is what follows it.

use std::path::{Path, PathBuf};

use clap::Args;
use tabane_api::AskError;
use tabane_engine::receive::Method;
use tabane_io::tap::is_device_name;
use tabane_proto::PolicyKind;

use crate::source::is_file;

/// A bundle and a file, each of which may be left out.
#[derive(Args, Debug)]
pub(super) struct BundleAndFile {
    /// Name of the bundle [default: the only one that is up]
    #[arg(value_name = "NAME")]
    first: Option<String>,
    /// Configuration file: a path with `/` or `.toml` [default: /etc/tabane/NAME.toml]
    #[arg(value_name = "FILE")]
    second: Option<PathBuf>,
}

impl BundleAndFile {
    /// The bundle that is meant, and the file.
    pub(super) fn meant(self) -> Result<(String, Option<PathBuf>), AskError> {
        let (name, file) = self.split();
        Ok((tabane_api::meant(name)?, file))
    }

    fn split(self) -> (Option<String>, Option<PathBuf>) {
        match (self.first, self.second) {
            (Some(file), None) if is_file(&file) => (None, Some(PathBuf::from(file))),
            both => both,
        }
    }
}

/// The bundle, and the value that may follow its name: alone, a word that `is_value` is one, unless a bundle has that name.
pub(super) fn with_value(
    first: Option<String>,
    second: Option<String>,
    is_value: fn(&str) -> bool,
) -> Result<(String, Option<String>), AskError> {
    match (first, second) {
        (Some(word), None) if is_value(&word) && !tabane_api::present()?.contains(&word) => {
            Ok((tabane_api::meant(None)?, Some(word)))
        }
        (name, value) => Ok((tabane_api::meant(name)?, value)),
    }
}

pub(super) fn is_policy(word: &str) -> bool {
    word.parse::<PolicyKind>().is_ok()
}

pub(super) fn is_engine(word: &str) -> bool {
    Method::ALL.iter().any(|method| method.name() == word)
}

/// The bundle, and the files that follow its name: the first of several words is a name, unless it is a file.
pub(super) fn with_files(words: Vec<String>) -> Result<(String, Vec<PathBuf>), AskError> {
    let is_name = |word: &str, more: bool| more && is_device_name(word) && !Path::new(word).exists();
    let (name, files) = split(words, is_name);
    Ok((tabane_api::meant(name)?, files.into_iter().map(PathBuf::from).collect()))
}

/// The bundle, and the public keys that follow its name, which are longer than any name.
pub(super) fn with_keys(words: Vec<String>) -> Result<(String, Vec<String>), AskError> {
    let (name, keys) = split(words, |word, _| is_device_name(word));
    Ok((tabane_api::meant(name)?, keys))
}

/// The bundle, and the two words that follow its name, of two or three.
pub(super) fn with_two(mut words: Vec<String>) -> Result<(String, [String; 2]), AskError> {
    let name = (words.len() > 2).then(|| words.remove(0));
    let mut words = words.into_iter();
    let two = [words.next(), words.next()].map(Option::unwrap_or_default);
    Ok((tabane_api::meant(name)?, two))
}

/// The first word, if it is a name, and the others; `is_name` is told whether more words follow.
fn split(mut words: Vec<String>, is_name: impl Fn(&str, bool) -> bool) -> (Option<String>, Vec<String>) {
    let named = words.first().is_some_and(|word| is_name(word, words.len() > 1));
    (named.then(|| words.remove(0)), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_bundle_or_a_file() {
        let split = |first: Option<&str>, second: Option<&str>| {
            let first = first.map(str::to_owned);
            BundleAndFile { first, second: second.map(PathBuf::from) }.split()
        };
        let file = |name: &str| Some(PathBuf::from(name));
        let name = || Some("wire".to_owned());
        assert_eq!(split(None, None), (None, None));
        assert_eq!(split(Some("wire"), None), (name(), None));
        assert_eq!(split(Some("wire.toml"), None), (None, file("wire.toml")));
        assert_eq!(split(Some("./wire"), None), (None, file("./wire")));
        assert_eq!(split(Some("wire"), Some("x")), (name(), file("x")));
    }

    #[test]
    fn the_first_word_may_be_a_name() {
        let split = |words: &[&str]| {
            super::split(words.iter().map(|word| (*word).to_owned()).collect(), |word, more| {
                more && word.len() < 4
            })
        };
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            split(&["tb0", "new.key", "old.key"]),
            (Some("tb0".to_owned()), texts(&["new.key", "old.key"]))
        );
        assert_eq!(split(&["new.key", "old.key"]), (None, texts(&["new.key", "old.key"])));
        assert_eq!(split(&["key"]), (None, texts(&["key"])));
        assert_eq!(split(&[]), (None, Vec::new()));
    }
}
