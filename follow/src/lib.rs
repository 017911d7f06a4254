//! `tabane follow`: keeps the peers and keys of a running bundle as etcd or DNS has them.
//!
//! ```text
//!   etcd ── watch ──┐                                          ┌── plan ── control socket ──> tabane up
//!                   ├── News ──> follower: what is known last ─┤
//!   DNS ── SRV ─────┘                                          └── cache: a file
//!   etcd <── announce: this node's record, by lease            rotate: the rounds of another group key
//! ```
//!
//! A process of its own that opens no device: the daemon gives up its rights before bytes come, so it can neither read
//! certificates nor resolve names. The program `tabane` links no HTTP, no TLS and no resolver; this one knows of a bundle
//! what any command is told.
//!
//! Invariant: what cannot be read, reached or understood changes nothing of a bundle.

pub mod announce;
pub mod cache;
mod cli;
pub mod dns;
pub mod etcd;
pub mod fleet;
pub mod follower;
pub mod plan;
pub mod rotate;

use std::collections::BTreeMap;

use tabane_config::problem::one_line;

pub use cli::{command, main};
use fleet::Fleet;

/// What the follower is told.
#[derive(Debug)]
pub enum News {
    /// The fleet is so, and sentences say what of it makes no sense.
    Fleet { fleet: Fleet, complaints: Vec<String> },
    /// It is not known how it is, and why.
    Away(String),
    /// Somebody ends the program.
    Stop,
}

/// Subjects that are remembered: who writes to etcd can make new ones without end.
const SUBJECTS_MAX: usize = 4096;

/// What was said last of each subject, so that a state that lasts is one line of the log.
#[derive(Debug, Default)]
pub(crate) struct Said(BTreeMap<String, String>);

impl Said {
    /// Whether `sentence` is new of its subject.
    pub(crate) fn is_new(&mut self, subject: &str, sentence: &str) -> bool {
        if self.0.len() >= SUBJECTS_MAX {
            self.0.clear();
        }
        self.0.insert(subject.to_owned(), sentence.to_owned()).as_deref() != Some(sentence)
    }

    /// Warns of it, once. What is said may be etcd's, or a bundle's that was taken over: it stays one line.
    pub(crate) fn warn(&mut self, subject: &str, sentence: &str) {
        let sentence = one_line(sentence);
        if self.is_new(subject, &sentence) {
            tracing::warn!("{sentence}");
        }
    }

    /// The subject is well again; whether anything was said of it.
    pub(crate) fn over(&mut self, subject: &str) -> bool {
        self.0.remove(subject).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_stays_one_line() {
        let mut said = Said::default();
        said.warn("etcd", "refused\n INFO all is well\u{1b}[2J");
        assert!(!said.is_new("etcd", "refused\\n INFO all is well\\u{1b}[2J"));
    }
}
