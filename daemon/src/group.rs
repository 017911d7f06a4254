//! Whom a bundle takes for its group, and how it protects what it says to it.

use tabane_proto::Bundle;
use tabane_proto::security::Rekey;
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
}

impl Protection {
    /// What a configuration says.
    pub(crate) fn of(config: &Config) -> Self {
        Self { security: config.security, cipher: config.cipher }
    }

    /// Lets a bundle go by this and these keys: speak the first, accept all.
    pub(crate) fn apply(&self, bundle: &mut Bundle, keys: &[Key]) {
        let mut groups = keys.iter().map(Key::group);
        bundle.set_groups(groups.next().unwrap_or(0), groups.collect());
        if self.security == Security::Sealed && !keys.is_empty() {
            let keys = Zeroizing::new(keys.iter().map(|key| key.0).collect::<Vec<_>>());
            let group = Group::new(&keys, Cipher::fastest(), Random::system());
            let group = match self.cipher {
                Some(cipher) => group.stating(cipher),
                None => group,
            };
            bundle.set_security(Box::new(group), Rekey::default());
        }
    }
}
