//! The cryptography of Tabane: it implements [`tabane_proto::security`] with maintained libraries.
//!
//! No primitive is written here. The handshake is Noise (`snow`) with the pattern `IXpsk0`: each session has fresh
//! keys, only nodes that know the group key take part, and a node may prove a key of its own. The primitives are
//! aws-lc's: X25519, SHA-256, HMAC, HKDF, AES-256-GCM and ChaCha20-Poly1305; AEGIS-128L is libaegis'. Which of the
//! three ciphers a session has follows from what both sides state, or from what the initiator's processor does fastest
//! ([`Cipher::fastest`]); every node supports all.
//!
//! The rule of the crate: randomness comes from a [`Random`] that the caller names, so that a simulated run is repeated
//! with the same keys. No `unsafe`.
//!
//! Sources: The Noise Protocol Framework, revision 34; RFC 5869 (HKDF), RFC 2104 (HMAC), RFC 5116 (AEAD),
//! draft-irtf-cfrg-aegis-aead.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod aead;
mod aegis128l;
mod choice;
mod group;
mod key;
mod noise;
mod random;
mod resolver;

pub use group::{GROUP_KEY, Group, NODE_KEY};
pub use key::Cipher;
pub use random::{Random, random, sha256};
pub use resolver::public_key;

/// The bytes that these hexadecimal digits are, as the sources of known answers write them.
#[cfg(test)]
fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
