//! Chooses the cipher of each direction of a session from what its two sides want.
//!
//! A side either states a cipher or takes its processor's fastest. Each says so in its message of the handshake,
//! which both hash or seal: a change on the way makes the handshake fail.
//!
//! - A side that states a cipher seals with it, whatever the other one wants.
//! - A side that states nothing seals with what the other one states. So one node with a standard cipher has it in both
//!   directions of all its sessions, without configuration of the others.
//! - If neither states one, both seal with the initiator's.

use crate::key::Cipher;

/// The bit of a cipher that is stated.
const STATED: u8 = 0x80;

/// The cipher that one side wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) cipher: Cipher,
    /// Whether the user demands it; otherwise it is the fastest there.
    pub(crate) stated: bool,
}

impl Choice {
    /// The byte in a handshake.
    pub(crate) fn byte(self) -> u8 {
        self.cipher as u8 | if self.stated { STATED } else { 0 }
    }

    /// The choice of a byte in a handshake.
    ///
    /// # Errors
    /// The number of a cipher that this node does not know.
    pub(crate) fn of(byte: u8) -> Result<Self, u8> {
        let number = byte & !STATED;
        let cipher = Cipher::of(number).ok_or(number)?;
        Ok(Self { cipher, stated: byte & STATED != 0 })
    }
}

/// What the initiator and the responder seal with.
pub(crate) fn agree(initiator: Choice, responder: Choice) -> [Cipher; 2] {
    let from_initiator = if initiator.stated || !responder.stated { initiator } else { responder };
    let from_responder = if responder.stated { responder } else { initiator };
    [from_initiator.cipher, from_responder.cipher]
}

#[cfg(test)]
mod tests {
    use super::*;
    use Cipher::{Aegis128L, Aes256Gcm, ChaCha20Poly1305};

    fn choice(cipher: Cipher, stated: bool) -> Choice {
        Choice { cipher, stated }
    }

    #[test]
    fn a_stated_cipher_is_taken_and_between_two_each_has_its_own() {
        let [aegis, aes] = [Aegis128L, Aes256Gcm].map(|cipher| choice(cipher, false));
        assert_eq!(agree(aegis, aes), [Aegis128L; 2], "the initiator's, as neither side states one");
        assert_eq!(agree(aes, aegis), [Aes256Gcm; 2]);
        let (stated, other) = (choice(ChaCha20Poly1305, true), choice(Aes256Gcm, true));
        assert_eq!(agree(stated, aegis), [ChaCha20Poly1305; 2], "the initiator states one");
        assert_eq!(agree(aegis, stated), [ChaCha20Poly1305; 2], "the responder does");
        assert_eq!(agree(stated, other), [ChaCha20Poly1305, Aes256Gcm]);
        assert_eq!(agree(other, stated), [Aes256Gcm, ChaCha20Poly1305]);
    }

    #[test]
    fn every_byte_is_a_choice_or_names_a_cipher_that_is_unknown() {
        for byte in 0..=u8::MAX {
            match Choice::of(byte) {
                Ok(choice) => assert_eq!(choice.byte(), byte),
                Err(number) => assert!(number == byte & 0x7f && !(1..=3).contains(&number)),
            }
        }
    }
}
