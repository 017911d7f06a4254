//! The primitives of Noise, made of aws-lc: what `snow` computes with.

use crate::aead::CellKey;
use crate::random::Random;
use aws_lc_rs::aead::{AES_256_GCM, Algorithm, CHACHA20_POLY1305};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::digest::{Context, SHA256};
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{self, Cipher, Dh, Hash};
use std::sync::Mutex;
use tabane_proto::security::{PublicKey, TAG};
use zeroize::Zeroizing;

/// Gives `snow` the primitives of one handshake.
pub(crate) struct Resolver {
    random: Mutex<Random>,
}

impl Resolver {
    pub(crate) fn new(random: Random) -> Self {
        Self { random: Mutex::new(random) }
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn types::Random>> {
        Some(Box::new(self.random.lock().ok()?.fork()))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(Curve25519::default()) as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::new(Sha256(Context::new(&SHA256))) as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        let cipher = match choice {
            CipherChoice::AESGCM => MessageCipher::new("AESGCM", &AES_256_GCM, u64::to_be_bytes),
            CipherChoice::ChaChaPoly => {
                MessageCipher::new("ChaChaPoly", &CHACHA20_POLY1305, u64::to_le_bytes)
            }
            #[expect(unreachable_patterns, reason = "snow has further ciphers with further features")]
            _ => return None,
        };
        Some(Box::new(cipher))
    }
}

impl types::Random for Random {
    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Error> {
        for part in target.chunks_mut(32) {
            part.copy_from_slice(&self.draw()[..part.len()]);
        }
        Ok(())
    }
}

/// The public part of a key of X25519; any 32 bytes are a secret part.
pub fn public_key(secret: &[u8; 32]) -> PublicKey {
    let mut pair = Curve25519::default();
    pair.set(secret);
    pair.public
}

/// X25519 (RFC 7748).
#[derive(Default)]
struct Curve25519 {
    private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl Dh for Curve25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        let public = PrivateKey::from_private_key(&X25519, private).map_err(|_| Error::Dh);
        let public = public.and_then(|key| key.compute_public_key().map_err(|_| Error::Dh));
        self.public.copy_from_slice(public.expect("any 32 bytes are a private key").as_ref());
    }

    fn generate(&mut self, random: &mut dyn types::Random) -> Result<(), Error> {
        let mut private = Zeroizing::new([0; 32]);
        random.try_fill_bytes(&mut *private)?;
        self.set(&*private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    fn dh(&self, public: &[u8], shared: &mut [u8]) -> Result<(), Error> {
        let own = PrivateKey::from_private_key(&X25519, &*self.private).map_err(|_| Error::Dh)?;
        let public = UnparsedPublicKey::new(&X25519, public.get(..32).ok_or(Error::Dh)?);
        agreement::agree(&own, public, Error::Dh, |secret| {
            shared[..32].copy_from_slice(secret);
            Ok(())
        })
    }
}

/// SHA-256 (FIPS 180-4).
struct Sha256(Context);

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Context::new(&SHA256);
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let hash = std::mem::replace(&mut self.0, Context::new(&SHA256)).finish();
        out[..32].copy_from_slice(hash.as_ref());
    }
}

/// A cipher of handshake messages, whose nonces Noise numbers (revision 34, 12.3 and 12.4).
struct MessageCipher {
    name: &'static str,
    algorithm: &'static Algorithm,
    /// The last 8 bytes of a nonce, made of its number.
    numbered: fn(u64) -> [u8; 8],
    key: Option<CellKey>,
}

impl MessageCipher {
    fn new(name: &'static str, algorithm: &'static Algorithm, numbered: fn(u64) -> [u8; 8]) -> Self {
        Self { name, algorithm, numbered, key: None }
    }

    fn nonce(&self, number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&(self.numbered)(number));
        nonce
    }

    fn key(&self) -> &CellKey {
        self.key.as_ref().expect("Noise sets the key before it encrypts")
    }
}

impl Cipher for MessageCipher {
    fn name(&self) -> &'static str {
        self.name
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.key = Some(CellKey::new(self.algorithm, key));
    }

    fn encrypt(&self, number: u64, header: &[u8], text: &[u8], out: &mut [u8]) -> usize {
        let sealed = text.len() + TAG;
        self.key().seal_with(self.nonce(number), header, text, &mut out[..sealed]);
        sealed
    }

    fn decrypt(&self, number: u64, header: &[u8], sealed: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let length =
            sealed.len().checked_sub(TAG).filter(|length| *length <= out.len()).ok_or(Error::Decrypt)?;
        let mut text = sealed.to_vec();
        if !self.key().open_with(self.nonce(number), header, &mut text) {
            return Err(Error::Decrypt);
        }
        out[..length].copy_from_slice(&text[..length]);
        Ok(length)
    }
}
