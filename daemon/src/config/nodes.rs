//! The key of this node, and which nodes are let in.

use std::fmt;
use std::path::{Path, PathBuf};

use tabane_proto::security::PublicKey;

use super::problem::Problem;
use super::settings::{Given, NodeSettings};
use super::{Config, Security};
use crate::key::{ALLOW_MAX, Key, KeyError, Owner, PUBLIC_ALLOWED, parse_public, public};

/// Keys of nodes, beside that of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// This node's own key.
    pub key: Option<Key>,
    /// The file it was read from.
    pub key_file: Option<PathBuf>,
    /// Public keys of the nodes that are let in, 1 to 512; `None`: all that have the group's key.
    pub allow: Option<Vec<PublicKey>>,
}

/// Checks what was typed; `read_key` reads a key file.
pub(super) fn resolve_nodes(
    problems: &mut Vec<Problem>,
    given: &NodeSettings,
    read_key: impl Fn(&Path, Owner) -> Result<Key, KeyError>,
) -> NodeConfig {
    let mut read = |given: &Given<PathBuf>| {
        read_key(&given.value, Owner::Node)
            .inspect_err(|error| {
                problems.push(Problem::new(&given.place, error.to_string(), Owner::Node.allowed()));
            })
            .ok()
    };
    NodeConfig {
        key: given.key.as_ref().and_then(&mut read),
        key_file: given.key.as_ref().map(|key| key.value.clone()),
        allow: given.allow.as_ref().map(|given| allow(problems, given)),
    }
}

fn allow(problems: &mut Vec<Problem>, given: &Given<Vec<String>>) -> Vec<PublicKey> {
    parse_allow(&given.value).unwrap_or_else(|(what, allowed)| {
        problems.push(Problem::new(&given.place, what, allowed));
        Vec::new()
    })
}

/// The public keys that texts are.
pub fn parse_allow(texts: &[String]) -> Result<Vec<PublicKey>, (String, String)> {
    if !(1..=ALLOW_MAX).contains(&texts.len()) {
        let what = format!("{} keys are allowed", texts.len());
        return Err((what, format!("1 to {ALLOW_MAX}; without a list every node of the group is let in")));
    }
    let keys = texts.iter().map(|text| parse_public(text)).collect::<Result<_, _>>();
    keys.map_err(|what| (what, PUBLIC_ALLOWED.to_owned()))
}

/// Refuses keys of nodes where cells are not sealed: no node proves its key there, so the list would let everybody in.
pub(super) fn check_sealed(problems: &mut Vec<Problem>, given: &NodeSettings, config: &Config) {
    let place = given.allow.as_ref().map(|given| &given.place);
    let place = place.or(given.key.as_ref().map(|given| &given.place));
    if let Some(place) = place.filter(|_| config.security == Security::None) {
        let what = "no node proves its key where cells are not sealed";
        problems.push(Problem::new(place, what, "this with `security = \"sealed\"`"));
    }
}

impl fmt::Display for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: String| toml::Value::String(text);
        match (&self.key_file, &self.key) {
            (Some(file), Some(key)) => {
                let file = text(file.to_string_lossy().into_owned());
                writeln!(f, "node_key = {file}  # {}", public(&key.public()))
            }
            _ => writeln!(f, "# node_key: none"),
        }?;
        match &self.allow {
            Some(keys) => {
                let keys = keys.iter().map(|key| text(public(key))).collect();
                writeln!(f, "allow = {}", toml::Value::Array(keys))
            }
            None => writeln!(f, "# allow: every node that has the key of the group"),
        }
    }
}
