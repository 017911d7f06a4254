//! The traits behind which cryptography stands.
//!
//! The core decides with whom it agrees on keys, when, and which key opens a cell. Crate `seal` implements the traits with
//! maintained libraries. Whoever makes a [`Security`] gives it its source of randomness, so that a simulated run can be
//! repeated.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

/// Bytes of a tag, at the end of what it protects.
pub const TAG: usize = 16;
/// A session replaces a key that is as old as this.
const REKEY_AFTER: Duration = Duration::from_secs(120);
/// A session replaces a key that has sealed so many cells: a terabyte and a half, far below the limit of each cipher.
const REKEY_CELLS: u64 = 1 << 30;

/// The public part of a node's own key.
pub type PublicKey = [u8; 32];

/// The group keys that a node has, and its own key.
pub trait Security: Send {
    /// The tag of a greeting or handshake, made with the accepted group key at place `key`; 0: the key that this node
    /// speaks with.
    fn tag(&self, key: usize, bytes: &[u8]) -> [u8; TAG];

    /// The place of the accepted group key that made the tag, or `None`.
    fn tagged_by(&self, bytes: &[u8], tag: &[u8; TAG]) -> Option<usize>;

    /// Begins a handshake under the group key that this node speaks with.
    fn initiate(&mut self) -> Box<dyn Handshake>;

    /// Takes part in a handshake that another node has begun, under the accepted group key at place `key`.
    fn respond(&mut self, key: usize) -> Box<dyn Handshake>;

    /// Whether a node that has proven this key may be a peer; `None`: it has none of its own.
    fn accepts(&self, peer: Option<&PublicKey>) -> bool;

    /// Bytes that nobody can guess.
    fn random(&mut self) -> [u8; TAG];
}

/// One side of a handshake of two messages, the initiator's and the responder's.
pub trait Handshake: Send {
    /// Appends this side's message, which carries a payload in secret.
    ///
    /// # Errors
    /// [`Rejected::Forged`]: the other side's public key gives no secret. This handshake is over.
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) -> Result<(), Rejected>;

    /// Reads the other side's message and appends its payload.
    ///
    /// # Errors
    /// [`Rejected`]; after [`Rejected::Forged`] nothing has changed, after the others this handshake is over.
    fn read(&mut self, message: &[u8], payload: &mut Vec<u8>) -> Result<(), Rejected>;

    /// The key of the other side, once its message was read; `None`: it has none of its own. An initiator proves that the
    /// key is its own only when it seals a cell.
    fn peer(&self) -> Option<PublicKey>;

    /// The keys, when both messages have passed.
    fn finish(self: Box<Self>) -> SessionKeys;
}

/// Why a message of a handshake was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// It is forged or damaged.
    Forged,
    /// Its sender seals with a cipher of this number, which is unknown here.
    Cipher(u8),
}

/// When a session gets new keys: at whichever limit comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rekey {
    /// The age of a key.
    pub after: Duration,
    /// Cells that were sealed with it.
    pub cells: u64,
}

impl Rekey {
    /// The limits of the larger node: a quarter more, so that only one side begins.
    pub(crate) fn later(self) -> Self {
        Self { after: self.after + self.after / 4, cells: self.cells.saturating_add(self.cells / 4) }
    }
}

impl Default for Rekey {
    /// The limits of daemons: far below those of any cipher.
    fn default() -> Self {
        Self { after: REKEY_AFTER, cells: REKEY_CELLS }
    }
}

/// The keys of a session.
pub struct SessionKeys {
    /// For what this node sends.
    pub sealing: Box<dyn Key>,
    /// For what it receives.
    pub opening: Box<dyn Key>,
}

/// A key that seals, or opens, the cells of one direction.
pub trait Key: Send {
    /// Encrypts a payload to `sealed`, which is [`TAG`] bytes longer and ends in the tag; the tag covers the header, too.
    /// A number must never be used twice.
    fn seal(&self, number: Number, header: &[u8], payload: &[u8], sealed: &mut [u8]);

    /// Decrypts in place a payload that ends in its tag; `false`: it is forged or damaged, and the bytes are undefined.
    fn open(&self, number: Number, header: &[u8], sealed: &mut [u8]) -> bool;

    /// The name of its cipher, for people.
    fn cipher(&self) -> &'static str;
}

/// The number that differs for each cell under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The sender's number of the link.
    pub link: u8,
    /// The cell's full number on that link.
    pub seq: u64,
}

impl Number {
    /// The nonce: the link in the first four bytes, the link's number in the other eight, big-endian.
    pub fn nonce(self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[3] = self.link;
        nonce[4..].copy_from_slice(&self.seq.to_be_bytes());
        nonce
    }
}
