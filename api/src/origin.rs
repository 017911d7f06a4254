//! How a bundle was started: from which file, and with which flags over it. `tabane reload` reads the same file under the same flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where the files of services are, by the name of the bundle.
pub const DIRECTORY: &str = "/etc/tabane";

/// How a bundle was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The configuration file, as an absolute path; `None`: flags alone.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// The arguments of `tabane up`, of which those that are flags lie over the file.
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Origin {
    /// Of a bundle that is started now, in this process's directory. What of a path is no text is replaced, for JSON carries it.
    pub fn now(file: Option<&Path>, arguments: &[OsString]) -> Origin {
        let file = file.map(|file| std::env::current_dir().unwrap_or_default().join(file));
        let file = file.map(|file| file.to_string_lossy().into_owned().into());
        let arguments = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        Origin { file, arguments }
    }

    /// Of a bundle that has taken to this file alone.
    pub fn of_file(file: PathBuf) -> Origin {
        Origin { file: Some(file), ..Origin::default() }
    }

    /// The same, when the bundle takes to `file`: flags lie over the file with which they were given, and over no other.
    #[must_use]
    pub fn with_file(self, file: PathBuf) -> Origin {
        if self.file.as_ref() == Some(&file) { self } else { Origin::of_file(file) }
    }
}

/// The configuration file of the service that runs the bundle `name`.
pub fn file_of_service(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.toml"))
}

pub fn key_of_service(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_lie_over_the_file_that_they_came_with() {
        let arguments = ["conf/tb.toml", "--policy", "rr"].map(OsString::from);
        let origin = Origin::now(Some(Path::new("conf/tb.toml")), &arguments);
        let file = origin.file.clone().expect("a file");
        assert!(file.is_absolute() && file.ends_with("conf/tb.toml"));
        assert_eq!(origin.clone().with_file(file), origin);
        let other = origin.with_file(PathBuf::from("/etc/other.toml"));
        assert_eq!(other, Origin::of_file(PathBuf::from("/etc/other.toml")));
    }
}
