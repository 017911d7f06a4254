//! Whom a bundle takes for its group, and how it protects what it says to it.

use tabane_proto::Bundle;
use tabane_proto::security::{PublicKey, Rekey};
use tabane_seal::{Cipher, Group, Random};
use zeroize::Zeroizing;

use crate::config::{Config, Security};
use crate::key::Key;

/// What a bundle goes by besides its keys.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    security: Security,
    /// What it states; `None`: it takes what is fast, or what the peer states.
    cipher: Option<Cipher>,
    /// The key of this node alone.
    node_key: Option<Key>,
}

/// Whom a bundle lets in. It may change while traffic runs.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    /// The group keys: it speaks the first, and accepts all.
    pub(crate) keys: Vec<Key>,
    /// Whose nodes; `None`: all of the group.
    pub(crate) allow: Option<Vec<PublicKey>>,
}

impl Trust {
    /// What a configuration says.
    pub(crate) fn of(config: &Config) -> Self {
        Self { keys: config.keys(), allow: config.nodes.allow.clone() }
    }
}

impl Protection {
    /// What a configuration says.
    pub(crate) fn of(config: &Config) -> Self {
        Self { security: config.security, cipher: config.cipher, node_key: config.nodes.key.clone() }
    }

    /// Lets a bundle go by this, and let in whom it is to trust.
    pub(crate) fn apply(&self, bundle: &mut Bundle, trust: &Trust) {
        let keys = &trust.keys;
        let mut groups = keys.iter().map(Key::group);
        bundle.set_groups(groups.next().unwrap_or(0), groups.collect());
        if self.security == Security::Sealed && !keys.is_empty() {
            let keys = Zeroizing::new(keys.iter().map(|key| key.0).collect::<Vec<_>>());
            let group = Group::new(&keys, Cipher::fastest(), Random::system());
            let group = match self.cipher {
                Some(cipher) => group.stating(cipher),
                None => group,
            };
            let group = match &self.node_key {
                Some(key) => group.with_node_key(&key.0),
                None => group,
            };
            let group = match &trust.allow {
                Some(allow) => group.allowing(allow.clone()),
                None => group,
            };
            bundle.set_security(Box::new(group), Rekey::default());
        }
    }
}
