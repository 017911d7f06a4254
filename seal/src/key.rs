//! The key that seals, or opens, the cells of one direction of a session.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use tabane_proto::security::{Key, Number, TAG};

/// What cells are sealed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM: fast where the processor has instructions for it.
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305: fast anywhere.
    ChaCha20Poly1305 = 2,
}

impl Cipher {
    /// Both, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The one that this processor does faster.
    #[must_use]
    pub fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        let has_aes =
            std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let has_aes = std::arch::is_aarch64_feature_detected!("aes")
            && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has_aes = false;
        if has_aes { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    /// A key for one direction, made of its 32 bytes.
    #[must_use]
    pub fn key(self, bytes: &[u8; 32]) -> Box<dyn Key> {
        Box::new(CellKey::new(self, bytes))
    }

    /// The cipher of a number in a handshake.
    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| *cipher as u8 == number)
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// A key of 32 bytes, prepared for its cipher.
pub(crate) struct CellKey(LessSafeKey);

impl CellKey {
    pub(crate) fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(cipher.algorithm(), key).expect("both ciphers take 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Seals in one pass from one place to another: no copy is made before.
    pub(crate) fn seal_with(&self, nonce: [u8; 12], header: &[u8], payload: &[u8], sealed: &mut [u8]) {
        let (text, tag) = sealed.split_at_mut(payload.len());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let done = self.0.seal_out_of_place_scatter(nonce, Aad::from(header), payload, text, &[], tag);
        done.expect("the place is just a tag longer, and a cell far below the cipher's limit");
    }

    pub(crate) fn open_with(&self, nonce: [u8; 12], header: &[u8], sealed: &mut [u8]) -> bool {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(header), sealed).is_ok()
    }
}

impl Key for CellKey {
    fn seal(&self, number: Number, header: &[u8], payload: &[u8], sealed: &mut [u8]) {
        debug_assert_eq!(sealed.len(), payload.len() + TAG);
        self.seal_with(number.nonce(), header, payload, sealed);
    }

    fn open(&self, number: Number, header: &[u8], sealed: &mut [u8]) -> bool {
        self.open_with(number.nonce(), header, sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// The Galois/Counter Mode of Operation (McGrew, Viega), test case 14.
    #[test]
    fn aes_gives_the_known_answer() {
        let key = CellKey::new(Cipher::Aes256Gcm, &[0; 32]);
        let mut sealed = [0; 32];
        key.seal(Number { link: 0, seq: 0 }, &[], &[0; 16], &mut sealed);
        assert_eq!(sealed[..], bytes("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"));
    }

    /// RFC 8439, 2.8.2.
    #[test]
    fn chacha_gives_the_known_answer() {
        let key: Vec<u8> = (0x80..=0x9f).collect();
        let key = CellKey::new(Cipher::ChaCha20Poly1305, &key.try_into().unwrap());
        let text =
            b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                     sunscreen would be it.";
        let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
        let mut sealed = vec![0; text.len() + TAG];
        key.seal_with(nonce, &bytes("50515253c0c1c2c3c4c5c6c7"), text, &mut sealed);
        assert_eq!(sealed[..16], bytes("d31a8d34648e60db7b86afbc53ef7ec2"));
        assert_eq!(sealed[text.len()..], bytes("1ae10b594f09e26a7e902ecbd0600691"));
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_and_what_was_touched_does_not(
            aes in any::<bool>(),
            (link, seq) in (0u8..16, any::<u64>()),
            header in any::<[u8; 16]>(),
            payload in proptest::collection::vec(any::<u8>(), 0..2_000),
            flip in any::<proptest::sample::Index>(),
            bit in 0u8..8,
        ) {
            let cipher = if aes { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
            let key = CellKey::new(cipher, &Random::seeded(seq).draw());
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
