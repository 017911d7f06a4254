//! The handshake: Noise with the pattern `NNpsk0`, two messages.
//!
//! ```text
//! -> cipher (1 byte), psk, e, payload
//! <- e, ee, payload
//! ```
//!
//! The pre-shared key lets in who belongs to the group, the ephemeral keys make the session's keys secret for good: who
//! learns the group key later cannot read what was said before. The cipher's number is not secret; it is part of what
//! both sides hash, so a message whose number was changed is refused.

use crate::key::Cipher;
use crate::random::Random;
use crate::resolver::Resolver;
use snow::{Builder, HandshakeState};
use tabane_proto::security::{Handshake, SessionKeys};
use zeroize::Zeroizing;

/// The most that Noise adds to a payload: an ephemeral key and a tag.
const OVERHEAD: usize = 48;

/// One side of a handshake.
pub(crate) struct Noise {
    side: Side,
}

enum Side {
    Initiator {
        cipher: Cipher,
        state: Box<HandshakeState>,
    },
    /// Which cipher it is stands in the first message.
    Invited {
        shared: Zeroizing<[u8; 32]>,
        random: Random,
    },
    Responder {
        cipher: Cipher,
        state: Box<HandshakeState>,
    },
}

impl Noise {
    /// The side that speaks first.
    pub(crate) fn initiator(shared: &[u8; 32], cipher: Cipher, random: Random) -> Self {
        let state = builder(cipher, shared, &prologue(cipher), random).build_initiator();
        let state = Box::new(state.expect(COMPLETE));
        Self { side: Side::Initiator { cipher, state } }
    }

    /// The side that answers.
    pub(crate) fn responder(shared: &[u8; 32], random: Random) -> Self {
        Self { side: Side::Invited { shared: Zeroizing::new(*shared), random } }
    }

    /// Reads the initiator's message.
    fn accept(shared: &[u8; 32], random: Random, message: &[u8], payload: &mut Vec<u8>) -> Option<Side> {
        let (number, message) = message.split_first()?;
        let cipher = Cipher::of(*number)?;
        let state = builder(cipher, shared, &prologue(cipher), random).build_responder();
        let mut state = Box::new(state.expect(COMPLETE));
        read(&mut state, message, payload).then_some(Side::Responder { cipher, state })
    }
}

const COMPLETE: &str = "the resolver has all that the pattern needs";

/// What both sides hash first: the version of what is built on the handshake, and the cipher.
fn prologue(cipher: Cipher) -> [u8; 9] {
    let mut prologue = *b"tabane 1\0";
    prologue[8] = cipher as u8;
    prologue
}

/// The first step of either side. Noise has no name for AEGIS; the handshake's own messages are AES-GCM's then.
fn builder<'a>(cipher: Cipher, shared: &'a [u8; 32], prologue: &'a [u8], random: Random) -> Builder<'a> {
    let name = match cipher {
        Cipher::Aes256Gcm | Cipher::Aegis128L => "Noise_NNpsk0_25519_AESGCM_SHA256",
        Cipher::ChaCha20Poly1305 => "Noise_NNpsk0_25519_ChaChaPoly_SHA256",
    };
    let resolver = Box::new(Resolver::new(random));
    let builder = Builder::with_resolver(name.parse().expect("a Noise protocol's name"), resolver);
    builder.psk(0, shared).and_then(|builder| builder.prologue(prologue)).expect("each is set once")
}

fn read(state: &mut HandshakeState, message: &[u8], payload: &mut Vec<u8>) -> bool {
    let start = payload.len();
    payload.resize(start + message.len(), 0);
    let length = state.read_message(message, &mut payload[start..]);
    payload.truncate(start + length.as_ref().copied().unwrap_or_default());
    length.is_ok()
}

fn write(state: &mut HandshakeState, payload: &[u8], message: &mut Vec<u8>) {
    let start = message.len();
    message.resize(start + payload.len() + OVERHEAD, 0);
    let length = state.write_message(payload, &mut message[start..]);
    message.truncate(start + length.expect("it is this side's turn, and a message is far below 64 KB"));
}

impl Handshake for Noise {
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) {
        match &mut self.side {
            Side::Initiator { cipher, state } => {
                message.push(*cipher as u8);
                write(state, payload, message);
            }
            Side::Responder { state, .. } => write(state, payload, message),
            Side::Invited { .. } => unreachable!("who is invited reads first"),
        }
    }

    fn read(&mut self, message: &[u8], payload: &mut Vec<u8>) -> bool {
        match &mut self.side {
            Side::Initiator { state, .. } => !state.is_my_turn() && read(state, message, payload),
            Side::Invited { shared, random } => {
                let Some(responder) = Self::accept(shared, random.fork(), message, payload) else {
                    return false;
                };
                self.side = responder;
                true
            }
            Side::Responder { .. } => false,
        }
    }

    fn finish(self: Box<Self>) -> SessionKeys {
        let (cipher, mut state, initiates) = match self.side {
            Side::Initiator { cipher, state } => (cipher, state, true),
            Side::Responder { cipher, state } => (cipher, state, false),
            Side::Invited { .. } => unreachable!("both messages have passed"),
        };
        assert!(state.is_handshake_finished(), "both messages have passed");
        let (from_initiator, from_responder) = state.dangerously_get_raw_split();
        let (from_initiator, from_responder) =
            (Zeroizing::new(from_initiator), Zeroizing::new(from_responder));
        let (sealing, opening) =
            if initiates { (from_initiator, from_responder) } else { (from_responder, from_initiator) };
        SessionKeys { sealing: cipher.key(&sealing), opening: cipher.key(&opening) }
    }
}

#[cfg(test)]
mod tests;
