//! What was known last, in a file: a node that starts while etcd or DNS is away has its peers and keys from there.
//!
//! Invariant: the file is whole or absent, since a new one takes its place at once; only its owner may read it.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fleet::Fleet;
use crate::plan::Named;

/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 32 << 20;

/// The file.
#[derive(Clone, Debug)]
pub struct Cache {
    path: PathBuf,
}

/// What it holds.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Where the fleet stands: that of another place is not this one.
    pub source: String,
    /// The fleet, once it was read.
    pub fleet: Option<Fleet>,
    /// Peers of the bundle that this program has named.
    pub named: BTreeSet<Named>,
}

impl Cache {
    /// The file at `path`, whose directory exists.
    pub fn new(path: PathBuf) -> Cache {
        Cache { path }
    }

    /// What it holds; nothing while there is no file.
    pub fn read(&self) -> Result<Content, String> {
        let path = self.path.display();
        let mut text = String::new();
        match File::open(&self.path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::default()),
            Err(error) => Err(format!("the cache {path} cannot be read, so nothing is known yet: {error}")),
            Ok(_) => serde_json::from_str(&text).map_err(|error| {
                format!("the cache {path} makes no sense, so nothing is known yet: {error}")
            }),
        }
    }

    /// Writes it anew.
    pub fn write(&self, content: &Content) -> Result<(), String> {
        self.replace(content).map_err(|error| {
            let path = self.path.display();
            format!(
                "the cache {path} cannot be written, so a restart without etcd or DNS finds less: {error}"
            )
        })
    }

    fn replace(&self, content: &Content) -> io::Result<()> {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| ".".as_ref());
        // Its mode is 0600 from the beginning.
        let file =
            tempfile::Builder::new().permissions(Permissions::from_mode(0o600)).tempfile_in(directory)?;
        serde_json::to_writer(&file, content)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        fs::File::open(directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::new(directory.path().join("tb0.json"));
        assert_eq!(cache.read(), Ok(Content::default()), "no file yet");
        let fleet = Fleet { keys: vec!["01".repeat(32)], ..Fleet::default() };
        let content = Content { source: "etcd".to_owned(), fleet: Some(fleet), ..Content::default() };
        cache.write(&content).expect("written");
        cache.write(&content).expect("written again");
        assert_eq!(cache.read(), Ok(content));
        let mode = fs::metadata(&cache.path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(directory.path()).expect("a directory").count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_torn_file_is_said_and_a_missing_directory_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("tb0.json");
        fs::write(&path, r#"{"source": "et"#).expect("written");
        let why = Cache::new(path).read().expect_err("torn");
        assert!(why.contains("makes no sense"), "{why}");
        let nowhere = Cache::new(directory.path().join("no/tb0.json"));
        assert!(nowhere.write(&Content::default()).expect_err("no directory").contains("cannot be written"));
    }
}
