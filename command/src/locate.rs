//! Which configuration file a word means: its path, or the name of a bundle.

use std::path::{Path, PathBuf};

use tabane_config::problem::{BadInput, quoted};
use tabane_io::tap::{DEVICE_NAME_ALLOWED, is_device_name};

use crate::init::DIRECTORY;

/// The configuration file that is meant, and the bundle's name where it was named instead.
pub(crate) fn file(given: &str) -> Result<(PathBuf, Option<String>), BadInput> {
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

/// Whether a word is the path of a file and no name of a bundle.
pub(crate) fn is_file(word: &str) -> bool {
    word.contains('/') || word.ends_with(".toml")
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
}
