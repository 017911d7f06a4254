//! A group: the nodes that know a group key.
//!
//! Three keys are derived from each group key (HKDF-SHA256), so that none is used for two purposes: one makes tags, one
//! is the pre-shared key of handshakes, one replaces the key of a node that has none of its own. A handshake proves a
//! node's key besides the group's; a group may let in only nodes on a list of such keys.

use crate::choice::Choice;
use crate::key::Cipher;
use crate::noise::{Noise, Terms};
use crate::random::Random;
use crate::resolver::public_key;
use aws_lc_rs::{constant_time, hkdf, hmac};
use tabane_proto::security::{Handshake, PublicKey, Security, TAG};
use zeroize::Zeroizing;

/// Bytes of a group key.
pub const GROUP_KEY: usize = 32;
/// Bytes of the secret part of a node's key.
pub const NODE_KEY: usize = 32;
/// What separates these derivations from any other use of the key.
const SALT: &[u8] = b"tabane group key 1";

/// The group that a node belongs to.
pub struct Group {
    /// The keys that are accepted; the first is used to send.
    keys: Vec<Derived>,
    /// The cipher that this node wants.
    choice: Choice,
    /// The secret part of this node's own key.
    node_key: Option<Zeroizing<[u8; NODE_KEY]>>,
    /// Public keys of the nodes that may be peers; `None`: every node.
    allow: Option<Vec<PublicKey>>,
    random: Random,
}

struct Derived {
    tags: hmac::Key,
    shared: Zeroizing<[u8; 32]>,
    common: CommonKey,
}

/// The key of a node that has none of its own: the whole group knows it.
struct CommonKey {
    secret: Zeroizing<[u8; NODE_KEY]>,
    public: PublicKey,
}

impl Derived {
    fn new(group_key: &[u8; GROUP_KEY]) -> Self {
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(group_key);
        let derive = |purpose: &[u8]| {
            let mut key = Zeroizing::new([0; 32]);
            let filled =
                extracted.expand(&[purpose], hkdf::HKDF_SHA256).and_then(|key_of| key_of.fill(&mut *key));
            filled.expect("HKDF gives as many bytes as its hash has");
            key
        };
        let secret = derive(b"no node key");
        let common = CommonKey { public: public_key(&secret), secret };
        let tags = hmac::Key::new(hmac::HMAC_SHA256, &*derive(b"marks"));
        Self { tags, shared: derive(b"handshakes"), common }
    }

    /// The terms of a handshake under this group key.
    fn terms(&self, choice: Choice, node_key: Option<&Zeroizing<[u8; NODE_KEY]>>, random: Random) -> Terms {
        let own = node_key.unwrap_or(&self.common.secret).clone();
        Terms { shared: self.shared.clone(), choice, own, common: self.common.public, random }
    }

    fn tag(&self, bytes: &[u8]) -> [u8; TAG] {
        let whole = hmac::sign(&self.tags, bytes);
        let mut tag = [0; TAG];
        tag.copy_from_slice(&whole.as_ref()[..TAG]);
        tag
    }
}

impl Group {
    /// A node that sends with the first of `group_keys` and accepts all of them. It wants `cipher` unless a peer states
    /// another.
    ///
    /// # Panics
    /// Without a key.
    pub fn new(group_keys: &[[u8; GROUP_KEY]], cipher: Cipher, random: Random) -> Self {
        assert!(!group_keys.is_empty(), "a group has a key");
        Self {
            keys: group_keys.iter().map(Derived::new).collect(),
            choice: Choice { cipher, stated: false },
            node_key: None,
            allow: None,
            random,
        }
    }

    /// The same, but it seals with `cipher` whatever peers want, and so do peers that state none.
    #[must_use]
    pub fn stating(mut self, cipher: Cipher) -> Self {
        self.choice = Choice { cipher, stated: true };
        self
    }

    /// The same, but this node proves a key of its own, whose secret part this is.
    #[must_use]
    pub fn with_node_key(mut self, secret: &[u8; NODE_KEY]) -> Self {
        self.node_key = Some(Zeroizing::new(*secret));
        self
    }

    /// The same, but only nodes with these keys may be peers.
    #[must_use]
    pub fn allowing(mut self, keys: Vec<PublicKey>) -> Self {
        self.allow = Some(keys);
        self
    }

    fn terms(&mut self, key: usize) -> Terms {
        let random = self.random.fork();
        self.keys[key].terms(self.choice, self.node_key.as_ref(), random)
    }
}

impl Security for Group {
    fn tag(&self, key: usize, bytes: &[u8]) -> [u8; TAG] {
        self.keys[key].tag(bytes)
    }

    fn tagged_by(&self, bytes: &[u8], tag: &[u8; TAG]) -> Option<usize> {
        self.keys.iter().position(|key| constant_time::verify_slices_are_equal(&key.tag(bytes), tag).is_ok())
    }

    fn initiate(&mut self) -> Box<dyn Handshake> {
        Box::new(Noise::initiator(self.terms(0)))
    }

    fn respond(&mut self, key: usize) -> Box<dyn Handshake> {
        Box::new(Noise::responder(self.terms(key)))
    }

    fn accepts(&self, peer: Option<&PublicKey>) -> bool {
        self.allow.as_ref().is_none_or(|allow| peer.is_some_and(|key| allow.contains(key)))
    }

    fn random(&mut self) -> [u8; TAG] {
        let mut bytes = [0; TAG];
        bytes.copy_from_slice(&self.random.draw()[..TAG]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(keys: &[[u8; GROUP_KEY]]) -> Group {
        Group::new(keys, Cipher::fastest(), Random::seeded(1))
    }

    #[test]
    fn a_tag_shows_which_key_made_it() {
        let old = group(&[[1; 32]]);
        let changing = group(&[[2; 32], [1; 32]]);
        let new = group(&[[2; 32]]);
        let tag = old.tag(0, b"hello");
        assert_eq!(old.tagged_by(b"hello", &tag), Some(0));
        assert_eq!(changing.tagged_by(b"hello", &tag), Some(1));
        assert_eq!(new.tagged_by(b"hello", &tag), None);
        assert_eq!(new.tagged_by(b"hello", &changing.tag(0, b"hello")), Some(0));
        assert_eq!(old.tagged_by(b"hello", &changing.tag(1, b"hello")), Some(0));
        assert_eq!(old.tagged_by(b"hellp", &tag), None);
    }

    #[test]
    fn each_bit_of_a_tag_counts() {
        let group = group(&[[1; 32]]);
        let tag = group.tag(0, b"hello");
        for bit in 0..8 * TAG {
            let mut touched = tag;
            touched[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(group.tagged_by(b"hello", &touched), None);
        }
    }

    #[test]
    fn a_seeded_group_repeats_itself() {
        let run = || {
            let mut group = group(&[[1; 32]]);
            let mut message = Vec::new();
            group.initiate().write(b"payload", &mut message).unwrap();
            (group.random(), message)
        };
        assert_eq!(run(), run());
    }
}
