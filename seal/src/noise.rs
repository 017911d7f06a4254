//! The handshake: Noise with the pattern `IXpsk0`, two messages.
//!
//! ```text
//! -> choice of a cipher (1 byte), psk, e, s, payload
//! <- e, ee, se, s, es, choice of a cipher and payload
//! ```
//!
//! The pre-shared key lets in the nodes of the group, and hides from all others which node sends. The ephemeral keys
//! make the session's keys secret for good: a thief of the group key cannot read earlier sessions. The static keys are
//! the nodes' own: the responder has proven its key with its message, the initiator with the first cell that it seals.
//! A node without one uses a key that the whole group knows, so that there is one pattern and nothing to negotiate.
//!
//! The initiator's choice is not secret, but part of what both sides hash; the responder's is sealed. So a message
//! whose choice was changed is refused, and no node between the two can impose another cipher.
//!
//! Source: The Noise Protocol Framework, revision 34, 7.5 (IX) and 9 (pre-shared keys).

use crate::choice::{Choice, agree};
use crate::key::Cipher;
use crate::random::Random;
use crate::resolver::Resolver;
use snow::{Builder, HandshakeState};
use tabane_proto::security::{Handshake, PublicKey, Rejected, SessionKeys};
use zeroize::Zeroizing;

/// The most that is added to a payload: an ephemeral key, a sealed key, a choice and a tag.
const OVERHEAD: usize = 97;

pub(crate) struct Terms {
    /// The pre-shared key.
    pub(crate) shared: Zeroizing<[u8; 32]>,
    pub(crate) choice: Choice,
    /// The secret part of this node's key, or of the group's common one.
    pub(crate) own: Zeroizing<[u8; 32]>,
    /// The public part of the group's common key, for nodes without one.
    pub(crate) common: PublicKey,
    pub(crate) random: Random,
}

pub(crate) struct Noise {
    common: PublicKey,
    side: Side,
}

enum Side {
    Initiator {
        choice: Choice,
        /// What the responder wants.
        theirs: Option<Choice>,
        state: Box<HandshakeState>,
    },
    /// The first message holds what the initiator wants.
    Invited(Terms),
    Responder {
        choice: Choice,
        theirs: Choice,
        state: Box<HandshakeState>,
    },
}

impl Noise {
    pub(crate) fn initiator(mut terms: Terms) -> Self {
        let (choice, random) = (terms.choice, terms.random.fork());
        let state = builder(choice.cipher, &terms, &prologue(choice), random).build_initiator();
        let state = Box::new(state.expect(COMPLETE));
        Self { common: terms.common, side: Side::Initiator { choice, theirs: None, state } }
    }

    pub(crate) fn responder(terms: Terms) -> Self {
        Self { common: terms.common, side: Side::Invited(terms) }
    }

    /// Reads the initiator's message.
    fn accept(terms: &mut Terms, message: &[u8], payload: &mut Vec<u8>) -> Result<Side, Rejected> {
        let (byte, message) = message.split_first().ok_or(Rejected::Forged)?;
        let theirs = Choice::of(*byte).map_err(Rejected::Cipher)?;
        let random = terms.random.fork();
        let state = builder(theirs.cipher, terms, &prologue(theirs), random).build_responder();
        let mut state = Box::new(state.expect(COMPLETE));
        read(&mut state, message, payload)?;
        Ok(Side::Responder { choice: terms.choice, theirs, state })
    }

    /// Reads the responder's message.
    fn conclude(
        state: &mut HandshakeState,
        message: &[u8],
        payload: &mut Vec<u8>,
    ) -> Result<Choice, Rejected> {
        if state.is_my_turn() || state.is_handshake_finished() {
            return Err(Rejected::Forged);
        }
        let mut chosen = Vec::new();
        read(state, message, &mut chosen)?;
        let (byte, rest) = chosen.split_first().ok_or(Rejected::Forged)?;
        let theirs = Choice::of(*byte).map_err(Rejected::Cipher)?;
        payload.extend_from_slice(rest);
        Ok(theirs)
    }
}

const PATTERN: &str = "IXpsk0";
const COMPLETE: &str = "the resolver has all that the pattern needs";

/// The prologue, which both sides hash first: the version of the protocol over the handshake, and what the initiator
/// wants.
fn prologue(choice: Choice) -> [u8; 9] {
    let mut prologue = *b"tabane 1\0";
    prologue[8] = choice.byte();
    prologue
}

/// The first step of either side. Noise has no name for AEGIS; the handshake's own messages are AES-GCM's then.
fn builder<'a>(cipher: Cipher, terms: &'a Terms, prologue: &'a [u8], random: Random) -> Builder<'a> {
    let cipher = match cipher {
        Cipher::Aes256Gcm | Cipher::Aegis128L => "AESGCM",
        Cipher::ChaCha20Poly1305 => "ChaChaPoly",
    };
    let name = format!("Noise_{PATTERN}_25519_{cipher}_SHA256");
    let resolver = Box::new(Resolver::new(random));
    let builder = Builder::with_resolver(name.parse().expect("a Noise protocol's name"), resolver);
    let builder = builder.psk(0, &terms.shared).and_then(|builder| builder.prologue(prologue));
    builder.and_then(|builder| builder.local_private_key(&*terms.own)).expect("each is set once")
}

fn read(state: &mut HandshakeState, message: &[u8], payload: &mut Vec<u8>) -> Result<(), Rejected> {
    let start = payload.len();
    payload.resize(start + message.len(), 0);
    let length = state.read_message(message, &mut payload[start..]);
    payload.truncate(start + length.as_ref().copied().unwrap_or_default());
    length.map(drop).map_err(|_| Rejected::Forged)
}

/// Fails when the other side's public key is of low order, for X25519 refuses it.
fn write(state: &mut HandshakeState, payload: &[u8], message: &mut Vec<u8>) -> Result<(), Rejected> {
    let start = message.len();
    message.resize(start + payload.len() + OVERHEAD, 0);
    let length = state.write_message(payload, &mut message[start..]);
    message.truncate(start + length.as_ref().copied().unwrap_or_default());
    length.map(drop).map_err(|_| Rejected::Forged)
}

impl Handshake for Noise {
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) -> Result<(), Rejected> {
        match &mut self.side {
            Side::Initiator { choice, state, .. } => {
                message.push(choice.byte());
                write(state, payload, message)
            }
            Side::Responder { choice, state, .. } => {
                write(state, &[&[choice.byte()], payload].concat(), message)
            }
            Side::Invited(_) => unreachable!("who is invited reads first"),
        }
    }

    fn read(&mut self, message: &[u8], payload: &mut Vec<u8>) -> Result<(), Rejected> {
        match &mut self.side {
            Side::Initiator { theirs, state, .. } => {
                *theirs = Some(Self::conclude(state, message, payload)?);
            }
            Side::Invited(terms) => self.side = Self::accept(terms, message, payload)?,
            Side::Responder { .. } => return Err(Rejected::Forged),
        }
        Ok(())
    }

    fn peer(&self) -> Option<PublicKey> {
        let (Side::Initiator { state, .. } | Side::Responder { state, .. }) = &self.side else { return None };
        let key = state.get_remote_static().and_then(|key| key.try_into().ok());
        key.filter(|key| *key != self.common)
    }

    fn finish(self: Box<Self>) -> SessionKeys {
        let ([first, second], mut state, initiates) = match self.side {
            Side::Initiator { choice, theirs: Some(theirs), state } => (agree(choice, theirs), state, true),
            Side::Responder { choice, theirs, state } => (agree(theirs, choice), state, false),
            Side::Initiator { theirs: None, .. } | Side::Invited(_) => {
                unreachable!("both messages have passed")
            }
        };
        assert!(state.is_handshake_finished(), "both messages have passed");
        let (from_initiator, from_responder) = state.dangerously_get_raw_split();
        let from_initiator = first.key(&Zeroizing::new(from_initiator));
        let from_responder = second.key(&Zeroizing::new(from_responder));
        let (sealing, opening) =
            if initiates { (from_initiator, from_responder) } else { (from_responder, from_initiator) };
        SessionKeys { sealing, opening }
    }
}

#[cfg(test)]
mod tests;
