//! The cryptography of Tabane: what [`tabane_proto::security`] asks for, made of well-kept libraries.
//!
//! Nothing is invented here. The handshake is Noise (`snow`) with the pattern `NNpsk0`: fresh keys for each session, and
//! nobody takes part who does not know the group key. All primitives are aws-lc's: X25519, SHA-256, HMAC, HKDF,
//! AES-256-GCM and ChaCha20-Poly1305. Which of the two ciphers a session has is the initiator's choice, by what its
//! processor does fast ([`Cipher::fastest`]); everyone understands both.
//!
//! The rule of the crate: randomness comes from a [`Random`] that the caller names, so that a simulated run is repeated
//! with the same keys. No `unsafe`.
//!
//! Sources: The Noise Protocol Framework, revision 34; RFC 5869 (HKDF), RFC 2104 (HMAC), RFC 5116 (AEAD).

#![forbid(unsafe_code)]

mod group;
mod key;
mod noise;
mod random;
mod resolver;

pub use group::{GROUP_KEY, Group};
pub use key::Cipher;
pub use random::Random;
