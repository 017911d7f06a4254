//! Whom a bundle takes for its group, by the keys that it goes by.

use tabane_proto::Bundle;
use tabane_proto::security::Rekey;
use tabane_seal::{Cipher, Group, Random};
use zeroize::Zeroizing;

use crate::config::Security;
use crate::key::Key;

/// Lets a bundle go by these keys: speak the first, accept all.
pub(crate) fn go_by(bundle: &mut Bundle, security: Security, keys: &[Key]) {
    let mut groups = keys.iter().map(Key::group);
    bundle.set_groups(groups.next().unwrap_or(0), groups.collect());
    if security == Security::Sealed && !keys.is_empty() {
        let keys = Zeroizing::new(keys.iter().map(|key| key.0).collect::<Vec<_>>());
        bundle
            .set_security(Box::new(Group::new(&keys, Cipher::fastest(), Random::system())), Rekey::default());
    }
}
