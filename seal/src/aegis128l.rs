//! A session's key for AEGIS-128L.
//!
//! The cipher takes a key of 16 bytes, which is as strong as the handshake's X25519, and a nonce of 16 bytes: a
//! session's key is derived to the one, a cell's nonce is filled with zeros to the other. The cipher prepares nothing
//! per key; each cell begins with ten rounds.
//!
//! Source: draft-irtf-cfrg-aegis-aead, The AEGIS Family of Authenticated Encryption Algorithms.

use crate::key::Cipher;
use ::aegis::aegis128l::Aegis128L;
use aws_lc_rs::hkdf;
use tabane_proto::security::{Key, Number, TAG};
use zeroize::{Zeroize, Zeroizing};

/// What separates this derivation from any other use of the key.
const SALT: &[u8] = b"tabane session key 1";

/// A key of 16 bytes, wiped from memory when dropped.
pub(crate) struct AegisKey([u8; 16]);

impl Drop for AegisKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl AegisKey {
    /// Derived from a session's key by HKDF-SHA256.
    pub(crate) fn new(session_key: &[u8; 32]) -> Self {
        let mut whole = Zeroizing::new([0; 32]);
        let filled = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT)
            .extract(session_key)
            .expand(&[b"AEGIS-128L"], hkdf::HKDF_SHA256)
            .and_then(|key_of| key_of.fill(&mut *whole));
        filled.expect("HKDF gives as many bytes as its hash has");
        Self(*whole.first_chunk().expect("16 of 32"))
    }

    fn cell(&self, nonce: [u8; 16]) -> Aegis128L<TAG> {
        Aegis128L::new(&self.0, &nonce)
    }

    /// Copies, then seals in place. The library's call from one buffer to another takes longer: it erases its state
    /// byte by byte.
    fn seal_with(&self, nonce: [u8; 16], header: &[u8], payload: &[u8], sealed: &mut [u8]) {
        let (text, tag) = sealed.split_at_mut(payload.len());
        text.copy_from_slice(payload);
        tag.copy_from_slice(&self.cell(nonce).encrypt_in_place(text, header));
    }

    fn open_with(&self, nonce: [u8; 16], header: &[u8], sealed: &mut [u8]) -> bool {
        let Some((text, tag)) = sealed.split_last_chunk_mut() else { return false };
        self.cell(nonce).decrypt_in_place(text, tag, header).is_ok()
    }
}

impl Key for AegisKey {
    fn seal(&self, number: Number, header: &[u8], payload: &[u8], sealed: &mut [u8]) {
        debug_assert_eq!(sealed.len(), payload.len() + TAG);
        self.seal_with(nonce(number), header, payload, sealed);
    }

    fn open(&self, number: Number, header: &[u8], sealed: &mut [u8]) -> bool {
        self.open_with(nonce(number), header, sealed)
    }

    fn cipher(&self) -> &'static str {
        Cipher::Aegis128L.name()
    }
}

/// The 12 bytes of all ciphers, and four of 0.
fn nonce(number: Number) -> [u8; 16] {
    let mut nonce = [0; 16];
    nonce[..12].copy_from_slice(&number.nonce());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes;

    /// The key and the nonce of the draft's test vectors 1 to 5.
    const KEY: AegisKey = AegisKey([0x10, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    const NONCE: [u8; 16] = [0x10, 0, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Associated data, text, ciphertext, and the tag of 128 bits.
    const VECTORS: [(&str, &str, &str, &str); 5] = [
        (
            "",
            "00000000000000000000000000000000",
            "c1c0e58bd913006feba00f4b3cc3594e",
            "abe0ece80c24868a226a35d16bdae37a",
        ),
        ("", "", "", "c2b879a67def9d74e6c14f708bbcc9b4"),
        (
            "0001020304050607",
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "79d94593d8c2119d7e8fd9b8fc77845c5c077a05b2528b6ac54b563aed8efe84",
            "cc6f3372f6aa1bb82388d695c3962d9a",
        ),
        (
            "0001020304050607",
            "000102030405060708090a0b0c0d",
            "79d94593d8c2119d7e8fd9b8fc77",
            "5c04b3dba849b2701effbe32c7f0fab7",
        ),
        (
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223242526272829",
            "101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
            "b31052ad1cca4e291abcf2df3502e6bdb1bfd6db36798be3607b1f94d34478aa7ede7f7a990fec10",
            "7542a745733014f9474417b337399507",
        ),
    ];

    #[test]
    fn it_gives_the_known_answers() {
        for (header, text, sealed_text, tag) in VECTORS {
            let [header, text] = [header, text].map(bytes);
            let known = bytes(&[sealed_text, tag].concat());
            let mut sealed = vec![0; text.len() + TAG];
            KEY.seal_with(NONCE, &header, &text, &mut sealed);
            assert_eq!(sealed, known);
            assert!(KEY.open_with(NONCE, &header, &mut sealed));
            assert_eq!(sealed[..text.len()], text);
        }
    }

    /// The draft's test vectors 6 to 9.
    #[test]
    fn it_refuses_what_is_known_to_be_forged() {
        let swapped = (AegisKey(NONCE), KEY.0);
        let header = "0001020304050607";
        let sealed = "79d94593d8c2119d7e8fd9b8fc775c04b3dba849b2701effbe32c7f0fab7";
        for (key, nonce, header, sealed) in [
            (&swapped.0, swapped.1, header, sealed),
            (&KEY, NONCE, header, "79d94593d8c2119d7e8fd9b8fc785c04b3dba849b2701effbe32c7f0fab7"),
            (&KEY, NONCE, "0001020304050608", sealed),
            (&KEY, NONCE, header, "79d94593d8c2119d7e8fd9b8fc776c04b3dba849b2701effbe32c7f0fab8"),
        ] {
            assert!(!key.open_with(nonce, &bytes(header), &mut bytes(sealed)));
        }
    }

    /// HKDF-SHA256 over the bytes 00 to 1f, computed with another implementation.
    #[test]
    fn a_session_key_gives_the_known_key_and_a_number_its_nonce() {
        let key = AegisKey::new(&std::array::from_fn(|at| u8::try_from(at).unwrap()));
        assert_eq!(key.0[..], bytes("c5122001d617a15fbf4a398184f32427"));
        let number = Number { link: 3, seq: 0x1_0000_0007 };
        assert_eq!(nonce(number)[..], bytes("00000003000000010000000700000000"));
    }
}
