//! The key of a group: 32 random bytes, kept in a file as one line of 64 hexadecimal digits.
//!
//! A node that has it belongs to the group, and can read and make the group's packets from then on; earlier sessions
//! stay secret (`tabane_seal`).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tabane_proto::security::PublicKey;
use tabane_seal::sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::problem::quoted;

/// Group keys of a bundle at most: the one that it sends with, and those that it accepts.
pub const KEYS_MAX: usize = 8;
/// Public keys in a list of nodes that are let in, at most.
pub const ALLOW_MAX: usize = 512;
/// Length of the line in a key file, without its end.
const HEX_DIGITS: usize = 64;
/// Largest part of a key file that is read, in bytes.
const FILE_BYTES_MAX: usize = 4096;

/// Prefixes of a node's secret and public key, so that nobody mistakes one for the other or for a group's key.
const SECRET: &str = "node-secret:";
const PUBLIC: &str = "node-public:";

/// Whose key a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Group,
    Node,
}

impl Owner {
    /// What a key file must be, for error sentences.
    pub fn allowed(self) -> &'static str {
        match self {
            Owner::Group => KeyError::ALLOWED,
            Owner::Node => "a readable file that `tabane genkey --node FILE` has written",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Owner::Group => "",
            Owner::Node => SECRET,
        }
    }
}

/// The key of a group or a node, wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Why a key file could not be used or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read {path}: {error}")]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    #[error("{0} does not hold a key")]
    NotAKey(PathBuf),
    #[error("{0} is not read because another process says so")]
    Told(PathBuf),
    #[error("cannot write the key to {path}: {error}")]
    Unwritable { path: PathBuf, error: io::Error },
    #[error("{0} exists; a key is never overwritten")]
    Exists(PathBuf),
    #[error("the operating system has no random bytes")]
    NoRandomness,
}

pub const PUBLIC_ALLOWED: &str =
    "`node-public:` and 64 hexadecimal digits, as `tabane genkey --node FILE` prints";

impl KeyError {
    /// What a key file must be, for error sentences.
    pub const ALLOWED: &str =
        "a readable file with one line of 64 hexadecimal digits, as `tabane genkey FILE` writes it";
}

impl Key {
    /// A new key from the kernel's random source.
    pub fn generate() -> Result<Key, KeyError> {
        tabane_seal::random().map(|bytes| Key(*bytes)).ok_or(KeyError::NoRandomness)
    }

    /// Reads the key in `path` and warns when others may read it too.
    pub fn read(path: &Path, owner: Owner) -> Result<Key, KeyError> {
        let unreadable = |error| KeyError::Unreadable { path: path.to_owned(), error };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(KeyError::NotAFile(path.to_owned()));
        }
        // With room for the whole key the buffer never moves, which would leave copies in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(2 * FILE_BYTES_MAX));
        let limit = FILE_BYTES_MAX as u64;
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(unreadable)?;
        let digits = bytes.trim_ascii().strip_prefix(owner.prefix().as_bytes());
        let key = digits.and_then(parse).ok_or_else(|| KeyError::NotAKey(path.to_owned()))?;
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(
                "{} has mode {mode:04o}: others may read the key; `chmod 600` closes it",
                path.display()
            );
        }
        Ok(key)
    }

    /// Writes the key to a new file that only its owner may read.
    pub fn write_new(&self, path: &Path, owner: Owner) -> Result<(), KeyError> {
        let unwritable = |error| KeyError::Unwritable { path: path.to_owned(), error };
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
            _ => unwritable(error),
        })?;
        writeln!(file, "{}{}", owner.prefix(), self.hex().as_str()).and_then(|()| file.sync_all()).map_err(
            |error| {
                // No incomplete key file stays; the caller gets the first error even if removing fails.
                let _ = std::fs::remove_file(path);
                unwritable(error)
            },
        )
    }

    /// The key that `digits` write, as a key file holds it.
    pub fn from_hex(digits: &str) -> Option<Key> {
        parse(digits.as_bytes())
    }

    /// The key as a key file holds it, without the end of the line.
    pub fn hex(&self) -> Zeroizing<String> {
        let mut digits = Zeroizing::new([0; HEX_DIGITS]);
        let hex = base16ct::lower::encode_str(&self.0, &mut *digits).expect("two digits for each byte");
        Zeroizing::new(hex.to_owned())
    }

    pub fn public(&self) -> PublicKey {
        tabane_seal::public_key(&self.0)
    }

    /// The number of the group on the wire: the first 8 bytes, big-endian, of
    /// SHA-256("tabane group" || key).
    pub fn group(&self) -> u64 {
        let text = Zeroizing::new([&b"tabane group"[..], &self.0].concat());
        sha256(&text).iter().take(8).fold(0, |group, byte| group << 8 | u64::from(*byte))
    }
}

/// Keeps the key out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(group {:016x})", self.group())
    }
}

/// A public key as people write it.
pub fn public(key: &PublicKey) -> String {
    format!("{PUBLIC}{}", Key(*key).hex().as_str())
}

pub fn parse_public(text: &str) -> Result<PublicKey, String> {
    let key = text.strip_prefix(PUBLIC).and_then(|digits| parse(digits.as_bytes()));
    key.map(|key| key.0).ok_or_else(|| format!("{} is no public key of a node", quoted(text)))
}

fn parse(bytes: &[u8]) -> Option<Key> {
    let mut key = Key([0; 32]);
    let length = base16ct::mixed::decode(bytes.trim_ascii(), &mut key.0).ok()?.len();
    (length == key.0.len()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_key_reads_back_and_is_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        let key = Key::generate().expect("random bytes");
        key.write_new(&path, Owner::Group).expect("a new file");
        assert_eq!(Key::read(&path, Owner::Group).expect("a key"), key);
        assert_eq!(std::fs::metadata(&path).expect("exists").mode() & 0o777, 0o600);
        assert!(matches!(key.write_new(&path, Owner::Group), Err(KeyError::Exists(_))));
    }

    #[test]
    fn a_key_is_not_taken_for_one_of_another_kind() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |owner| directory.path().join(format!("{owner:?}"));
        let key = Key([7; 32]);
        for (owner, other) in [(Owner::Group, Owner::Node), (Owner::Node, Owner::Group)] {
            key.write_new(&path(owner), owner).expect("a new file");
            assert_eq!(Key::read(&path(owner), owner).expect("a key"), key);
            assert!(matches!(Key::read(&path(owner), other), Err(KeyError::NotAKey(_))));
        }
        let text = public(&key.public());
        assert_eq!(parse_public(&text), Ok(key.public()));
        for bad in ["", "node-public:", &text[1..], &text[..text.len() - 1], &text[PUBLIC.len()..]] {
            assert!(parse_public(bad).is_err(), "{bad}");
        }
        let secret = std::fs::read_to_string(path(Owner::Node)).expect("text");
        assert!(parse_public(secret.trim()).is_err() && parse(text.as_bytes()).is_none());
    }

    #[test]
    fn what_is_no_key() {
        let good = "0f".repeat(32);
        assert!(parse(format!("{good}\n").as_bytes()).is_some());
        for bad in
            ["", "\n", &good[1..], &format!("{good}0"), &good.replace("0f", "0g"), &good.replace("0f", "+f")]
        {
            assert!(parse(bad.as_bytes()).is_none(), "{bad}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        assert!(matches!(Key::read(directory.path(), Owner::Group), Err(KeyError::NotAFile(_))));
        let none = directory.path().join("none");
        assert!(matches!(Key::read(&none, Owner::Group), Err(KeyError::Unreadable { .. })));
    }

    /// The expected number comes from `(printf 'tabane group'; head -c 32 /dev/zero) | sha256sum`.
    #[test]
    fn the_group_is_a_digest_of_the_key() {
        assert_eq!(Key([0; 32]).group(), 0xedf0_2bdd_9f9c_f4c6);
        assert_ne!(Key([0; 32]).group(), Key([1; 32]).group());
    }

    #[test]
    fn debug_output_hides_the_key() {
        assert!(!format!("{:?}", Key([0xab; 32])).contains("abab"));
    }
}
