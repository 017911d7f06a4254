//! Which of a command's words names a bundle, and which is what follows it.

use std::path::{Path, PathBuf};

use tabane_api::AskError;
use tabane_config::problem::{BadInput, quoted};
use tabane_engine::receive::Method;
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};
use tabane_proto::PolicyKind;

use crate::init::DIRECTORY;

/// The configuration file that is meant, and the bundle's name where it was named instead.
pub(super) fn file(given: &str) -> Result<(PathBuf, Option<String>), BadInput> {
    if is_file(given) {
        return Ok((given.into(), None));
    }
    if !is_device_name(given) {
        let allowed = format!(
            "a configuration file such as ./FILE.toml, or the name of a bundle ({DEVICE_NAME_ALLOWED})"
        );
        return Err(BadInput::new(format!("{}: neither; allowed: {allowed}", quoted(given))));
    }
    let path = Path::new(DIRECTORY).join(format!("{given}.toml"));
    if !path.exists() {
        let why = format!("{} does not exist", path.display());
        let allowed = "the name of a bundle that has one, or a file in this directory as ./FILE";
        return Err(BadInput::new(format!("{given}: {why}; allowed: {allowed}")));
    }
    Ok((path, Some(given.to_owned())))
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

/// Whether a word is the path of a file and no name of a bundle.
pub(crate) fn is_file(word: &str) -> bool {
    word.contains('/') || word.ends_with(".toml")
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
    fn a_path_is_a_file_and_a_word_is_a_name() {
        for path in ["./tb0", "/etc/other/tb0", "tb0.toml"] {
            assert_eq!(file(path).expect("a file"), (PathBuf::from(path), None));
        }
        let absent = file("absent").expect_err("there is none").to_string();
        assert!(absent.contains("/etc/tabane/absent.toml does not exist"), "{absent}");
        assert!(file("a name that is long").is_err());
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
