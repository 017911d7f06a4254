//! A fleet: what etcd or DNS says of the nodes of a bundle.
//!
//! ```text
//!   PREFIX/nodes/NAME   {"endpoints": ["198.51.100.1:7420", null], "node_key": …, "groups": […]}   by lease, each node its own
//!   PREFIX/allow/NAME   node-public:…                                                              by who administers
//!   PREFIX/keys         a group key per line, the first is the one to send with                    by `--rotate`
//! ```
//!
//! Who writes there is not trusted to write sense: what cannot be read is left out, with a sentence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tabane_config::address::parse_host;
use tabane_config::key::{ALLOW_MAX, KEYS_MAX, Key, parse_public};
use tabane_config::problem::quoted;

/// Nodes of a fleet at most: peers that a link has at most, and this node.
pub const NODES_MAX: usize = 1024;
/// Links of a node at most.
const LINKS_MAX: usize = 16;
/// Longest value that is read, in bytes.
const VALUE_MAX: usize = 16 << 10;

/// The keys below the prefix.
pub const NODES: &str = "nodes/";
/// Public keys of those that are let in.
pub const ALLOW: &str = "allow/";
pub const KEYS: &str = "keys";

/// What is known of a fleet.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// The nodes that are there, by name.
    pub nodes: BTreeMap<String, Node>,
    /// Public keys of the nodes that are let in, by name; none: it is not said who is.
    pub allow: BTreeMap<String, String>,
    /// Group keys in hexadecimal digits, first the one to send with; none: it is not said which.
    pub keys: Vec<String>,
    /// Endpoints from DNS by the NIC that greets them; by `""` for all.
    pub named: BTreeMap<String, BTreeSet<SocketAddr>>,
}

/// A node as it announces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Where its links listen, in their order; `null` for one to which no address leads.
    pub endpoints: Vec<Option<SocketAddr>>,
    /// The public key of its own, if it has one.
    #[serde(default)]
    pub node_key: Option<String>,
    /// The numbers of its group keys, first the one that it sends with. They stand in each greeting, so they are no secret.
    #[serde(default)]
    pub groups: Vec<String>,
}

impl Fleet {
    /// Reads what stands below the prefix: keys without it, and their values. Sentences say what was left out.
    pub fn read<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> (Fleet, Vec<String>) {
        let (mut fleet, mut complaints) = (Fleet::default(), Vec::new());
        let mut allow = Ok(BTreeMap::new());
        for (key, value) in pairs {
            let said = match text(value) {
                Err(why) => Err(why),
                Ok(value) if key == KEYS => read_keys(value).map(|keys| fleet.keys = keys),
                Ok(value) => match (key.strip_prefix(NODES), key.strip_prefix(ALLOW)) {
                    (Some(name), _) if fleet.nodes.len() < NODES_MAX => {
                        Node::read(value).map(|node| drop(fleet.nodes.insert(name.to_owned(), node)))
                    }
                    (Some(_), _) => Err(format!("one node too many; allowed: {NODES_MAX}")),
                    (None, Some(name)) => read_public(value).map(|public| {
                        if let Ok(allow) = &mut allow {
                            allow.insert(name.to_owned(), public);
                        }
                    }),
                    (None, None) => {
                        Err("nothing of a fleet; allowed: nodes/NAME, allow/NAME, keys".to_owned())
                    }
                },
            };
            if let Err(why) = said {
                complaints.push(format!("{}: {why}", quoted(key)));
                // A list without one of its keys would shut that node out.
                if key.starts_with(ALLOW) {
                    allow = Err(());
                }
            }
        }
        fleet.allow = allow.unwrap_or_default();
        if fleet.allow.len() > ALLOW_MAX {
            complaints.push(format!("{} keys in allow/; allowed: {ALLOW_MAX}", fleet.allow.len()));
            fleet.allow.clear();
        }
        (fleet, complaints)
    }
}

impl Node {
    fn read(text: &str) -> Result<Node, String> {
        let node: Node =
            serde_json::from_str(text).map_err(|error| format!("no record of a node: {error}"))?;
        if node.endpoints.len() > LINKS_MAX || node.groups.len() > KEYS_MAX {
            return Err(format!("more than {LINKS_MAX} endpoints or {KEYS_MAX} groups"));
        }
        for endpoint in node.endpoints.iter().flatten() {
            let ip = endpoint.ip();
            parse_host(&ip.to_string())?;
            if endpoint.port() == 0 {
                return Err(format!("{endpoint} has port 0"));
            }
        }
        Ok(node)
    }
}

fn text(value: &[u8]) -> Result<&str, String> {
    if value.len() > VALUE_MAX {
        return Err(format!("{} bytes; allowed: {VALUE_MAX}", value.len()));
    }
    std::str::from_utf8(value).map_err(|_| "no text".to_owned())
}

/// Group keys, a line each.
fn read_keys(text: &str) -> Result<Vec<String>, String> {
    let keys: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    let all = (1..=KEYS_MAX).contains(&keys.len()) && keys.iter().all(|key| Key::from_hex(key).is_some());
    all.then_some(keys)
        .ok_or_else(|| format!("no keys; allowed: 1 to {KEYS_MAX} lines of 64 hexadecimal digits"))
}

fn read_public(text: &str) -> Result<String, String> {
    let text = text.trim();
    parse_public(text).map(|_| text.to_owned())
}

/// The number of a key's group, as status and greetings show it.
pub fn group(hex: &str) -> Option<String> {
    Key::from_hex(hex).map(|key| format!("{:016x}", key.group()))
}

/// Keeps the keys out of logs.
impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<_> = self.keys.iter().filter_map(|key| group(key)).collect();
        write!(f, "Fleet({:?}, allow {:?}, groups {groups:?}, {:?})", self.nodes, self.allow, self.named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "node-public:0101010101010101010101010101010101010101010101010101010101010101";

    fn read(pairs: &[(&str, &str)]) -> (Fleet, Vec<String>) {
        Fleet::read(pairs.iter().map(|(key, value)| (*key, value.as_bytes())))
    }

    #[test]
    fn what_makes_sense_is_taken_and_the_rest_is_said() {
        let key = "02".repeat(32);
        let (fleet, complaints) = read(&[
            (
                "nodes/a",
                r#"{"endpoints": ["198.51.100.1:7420", null, "[2001:db8::1]:7421"], "groups": ["00"]}"#,
            ),
            ("nodes/b", r#"{"endpoints": ["224.0.0.1:7420"]}"#),
            ("nodes/c", r#"{"endpoints": ["198.51.100.1:0"]}"#),
            ("nodes/d", "rubbish"),
            ("allow/a", PUBLIC),
            ("keys", &format!("{key}\n")),
            ("other", ""),
        ]);
        assert_eq!(fleet.nodes.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(fleet.nodes["a"].endpoints.len(), 3);
        assert_eq!(fleet.allow["a"], PUBLIC);
        assert_eq!(fleet.keys, std::slice::from_ref(&key));
        assert_eq!(complaints.len(), 4, "{complaints:?}");
        assert!(
            complaints[0].starts_with("`nodes/b`: 224.0.0.1 is not the address of one host"),
            "{complaints:?}"
        );
        assert!(!format!("{fleet:?}").contains(&key), "a key in the log");
    }

    #[test]
    fn a_list_of_which_one_key_is_wrong_shuts_nobody_out() {
        let (fleet, complaints) = read(&[("allow/a", PUBLIC), ("allow/b", "node-secret:01")]);
        assert!(fleet.allow.is_empty());
        assert_eq!(complaints.len(), 1, "{complaints:?}");
    }

    #[test]
    fn what_is_no_key_changes_no_key() {
        for wrong in ["", "01", "not a key\n"] {
            let (fleet, complaints) = read(&[("keys", wrong)]);
            assert!(fleet.keys.is_empty() && complaints.len() == 1, "{wrong}");
        }
    }
}
