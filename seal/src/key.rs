//! The ciphers that seal cells, and the keys of both directions of a session.

use crate::aead::CellKey;
use crate::aegis128l::AegisKey;
use aws_lc_rs::aead::{AES_256_GCM, CHACHA20_POLY1305};
use tabane_proto::security::Key;

/// A cipher of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM: fast where the processor has instructions for it, on x86-64 wide ones.
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305: fast anywhere.
    ChaCha20Poly1305 = 2,
    /// AEGIS-128L: fast where the processor has instructions for rounds of AES.
    Aegis128L = 3,
}

impl Cipher {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::Aegis128L];

    /// The fastest one on this processor.
    pub fn fastest() -> Self {
        Self::fastest_here().unwrap_or(Self::ChaCha20Poly1305)
    }

    /// AEGIS does half the work of AES-GCM with the same instructions, narrow or wide.
    #[cfg(target_arch = "x86_64")]
    fn fastest_here() -> Option<Self> {
        use std::arch::is_x86_feature_detected as has;
        if has!("aes") && has!("avx") {
            return Some(Self::Aegis128L);
        }
        (has!("aes") && has!("pclmulqdq")).then_some(Self::Aes256Gcm)
    }

    #[cfg(target_arch = "aarch64")]
    fn fastest_here() -> Option<Self> {
        use std::arch::is_aarch64_feature_detected as has;
        (has!("aes") && has!("pmull")).then_some(Self::Aes256Gcm)
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn fastest_here() -> Option<Self> {
        None
    }

    /// A key for one direction, from its 32 bytes.
    pub fn key(self, bytes: &[u8; 32]) -> Box<dyn Key> {
        match self {
            Self::Aes256Gcm => Box::new(CellKey::new(&AES_256_GCM, bytes)),
            Self::ChaCha20Poly1305 => Box::new(CellKey::new(&CHACHA20_POLY1305, bytes)),
            Self::Aegis128L => Box::new(AegisKey::new(bytes)),
        }
    }

    /// The name in files, flags and the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::Aegis128L => "aegis-128l",
        }
    }

    /// The cipher of a number in a handshake.
    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| *cipher as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;
    use tabane_proto::security::{Number, TAG};

    proptest! {
        #[test]
        fn what_is_sealed_opens_and_what_was_touched_does_not(
            cipher in proptest::sample::select(&Cipher::ALL[..]),
            (link, seq) in (0u8..16, any::<u64>()),
            header in any::<[u8; 16]>(),
            payload in proptest::collection::vec(any::<u8>(), 0..2_000),
            flip in any::<proptest::sample::Index>(),
            bit in 0u8..8,
        ) {
            let key = cipher.key(&Random::seeded(seq).draw());
            let number = Number { link, seq };
            let mut sealed = vec![0; payload.len() + TAG];
            key.seal(number, &header, &payload, &mut sealed);

            let mut touched = [&header[..], &sealed[..]].concat();
            touched[flip.index(16 + sealed.len())] ^= 1 << bit;
            let (head, rest) = touched.split_at_mut(16);
            prop_assert!(!key.open(number, head, rest), "a bit was flipped");
            let other = Number { link: link ^ 1, seq };
            prop_assert!(!key.open(other, &header, &mut sealed.clone()), "of another link");
            let other = Number { link, seq: seq.wrapping_add(1 << 32) };
            prop_assert!(!key.open(other, &header, &mut sealed.clone()), "of another number");
            let shorter = sealed.len() - 1;
            prop_assert!(!key.open(number, &header, &mut sealed.clone()[..shorter]), "truncated");
            prop_assert!(!key.open(number, &header, &mut [0; TAG - 1]), "shorter than a tag");

            prop_assert!(key.open(number, &header, &mut sealed));
            prop_assert_eq!(&sealed[..payload.len()], &payload[..]);
        }
    }
}
