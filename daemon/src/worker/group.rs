//! Which nodes a bundle accepts as its group, and how it protects its packets to them.

use tabane_proto::Bundle;
use tabane_proto::security::{PublicKey, Rekey};
use tabane_seal::{Cipher, Group, Random};
use zeroize::Zeroizing;

use tabane_config::key::Key;
use tabane_config::{FixedConfig, LiveConfig, Security};

/// What protects a bundle besides its group keys.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    security: Security,
    /// The cipher that the user demands; `None`: the fastest here, or what the peer demands.
    cipher: Option<Cipher>,
    node_key: Option<Key>,
}

/// Which nodes a bundle lets in. This may change while traffic runs.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    /// The group keys: the bundle uses the first to send, and accepts all.
    pub(crate) keys: Vec<Key>,
    /// Public keys of the nodes that are let in; `None`: every node of the group.
    pub(crate) allow: Option<Vec<PublicKey>>,
}

impl Trust {
    pub(crate) fn of(live: &LiveConfig) -> Self {
        Self { keys: live.keys(), allow: live.allow.clone() }
    }
}

impl Protection {
    pub(crate) fn of(config: &FixedConfig) -> Self {
        Self { security: config.security, cipher: config.cipher, node_key: config.node_key.clone() }
    }

    pub(crate) fn apply(&self, bundle: &mut Bundle, trust: &Trust) {
        let keys = &trust.keys;
        let mut groups = keys.iter().map(Key::group);
        bundle.set_groups(groups.next().unwrap_or(0), groups.collect());
        if self.security == Security::Sealed && !keys.is_empty() {
            let keys = Zeroizing::new(keys.iter().map(|key| key.0).collect::<Vec<_>>());
            let group = Group::new(&keys, Cipher::fastest(), Random::system());
            let group = self.cipher.into_iter().fold(group, Group::stating);
            let group = self.node_key.iter().fold(group, |group, key| group.with_node_key(&key.0));
            let group = trust.allow.iter().cloned().fold(group, Group::allowing);
            bundle.set_security(Box::new(group), Rekey::default());
        }
    }
}
