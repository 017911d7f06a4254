//! A session's key for one of aws-lc's ciphers.

use crate::key::Cipher;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use tabane_proto::security::{Key, Number, TAG};

/// A key of 32 bytes, prepared for its cipher.
pub(crate) struct CellKey(LessSafeKey);

impl CellKey {
    pub(crate) fn new(algorithm: &'static Algorithm, key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(algorithm, key).expect("both ciphers take 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Seals in one pass from one buffer to another, without a copy before.
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

    fn cipher(&self) -> &'static str {
        let is_aes = self.0.algorithm() == &AES_256_GCM;
        if is_aes { Cipher::Aes256Gcm.name() } else { Cipher::ChaCha20Poly1305.name() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes;
    use aws_lc_rs::aead::CHACHA20_POLY1305;

    /// The Galois/Counter Mode of Operation (McGrew, Viega), test case 14.
    #[test]
    fn aes_gives_the_known_answer() {
        let key = CellKey::new(&AES_256_GCM, &[0; 32]);
        let mut sealed = [0; 32];
        key.seal(Number { link: 0, seq: 0 }, &[], &[0; 16], &mut sealed);
        assert_eq!(sealed[..], bytes("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"));
    }

    /// RFC 8439, 2.8.2.
    #[test]
    fn chacha_gives_the_known_answer() {
        let key: Vec<u8> = (0x80..=0x9f).collect();
        let key = CellKey::new(&CHACHA20_POLY1305, &key.try_into().unwrap());
        let text =
            b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                     sunscreen would be it.";
        let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
        let mut sealed = vec![0; text.len() + TAG];
        key.seal_with(nonce, &bytes("50515253c0c1c2c3c4c5c6c7"), text, &mut sealed);
        assert_eq!(sealed[..16], bytes("d31a8d34648e60db7b86afbc53ef7ec2"));
        assert_eq!(sealed[text.len()..], bytes("1ae10b594f09e26a7e902ecbd0600691"));
    }
}
