//! Tests of the handshake: two sides that agree or do not.

mod node_keys;
mod vectors;

use super::*;
use crate::resolver::public_key;
use tabane_proto::security::{Number, TAG};

const SHARED: [u8; 32] = *b"a group key of thirty-two bytes.";
const COMMON: [u8; 32] = *b"the key of nodes that have none.";

/// The terms of a node without a key of its own whose group has the key `shared`; it draws from `random`.
fn terms(shared: &[u8; 32], choice: Choice, random: Random) -> Terms {
    let own = Zeroizing::new(COMMON);
    Terms { shared: Zeroizing::new(*shared), choice, own, common: public_key(&COMMON), random }
}

fn initiator(choice: Choice, random: Random) -> Noise {
    Noise::initiator(terms(&SHARED, choice, random))
}

fn responder(choice: Choice, random: Random) -> Noise {
    Noise::responder(terms(&SHARED, choice, random))
}

fn fast(cipher: Cipher) -> Choice {
    Choice { cipher, stated: false }
}

/// Two sides with their shared keys, and what each has drawn.
fn pair(cipher: Cipher, theirs: &[u8; 32]) -> (Box<Noise>, Box<Noise>) {
    let theirs = Noise::responder(terms(theirs, fast(cipher), Random::seeded(2)));
    (Box::new(initiator(fast(cipher), Random::seeded(1))), Box::new(theirs))
}

/// Runs the handshake between sides that state nothing; the keys of both.
fn shake(cipher: Cipher) -> (SessionKeys, SessionKeys) {
    shake_between([fast(cipher), fast(cipher)])
}

fn shake_between([ours, theirs]: [Choice; 2]) -> (SessionKeys, SessionKeys) {
    let mut one = Box::new(initiator(ours, Random::seeded(1)));
    let mut other = Box::new(responder(theirs, Random::seeded(2)));
    let (mut message, mut payload) = (Vec::new(), Vec::new());
    one.write(b"ping", &mut message).unwrap();
    other.read(&message, &mut payload).unwrap();
    message.clear();
    other.write(b"pong", &mut message).unwrap();
    one.read(&message, &mut payload).unwrap();
    assert_eq!(payload, b"pingpong");
    (one.finish(), other.finish())
}

#[test]
fn both_sides_have_the_same_keys_for_each_direction() {
    for cipher in Cipher::ALL {
        let (one, other) = shake(cipher);
        for (sender, receiver, stranger) in [(&one, &other, &one), (&other, &one, &other)] {
            let number = Number { link: 3, seq: 7 };
            let mut sealed = [0; 5 + TAG];
            sender.sealing.seal(number, b"header", b"hello", &mut sealed);
            assert!(
                !stranger.opening.open(number, b"header", &mut sealed.clone()),
                "a direction has its own"
            );
            assert!(receiver.opening.open(number, b"header", &mut sealed));
            assert_eq!(&sealed[..5], b"hello");
        }
    }
}

#[test]
fn both_sides_find_the_same_cipher_for_each_direction_whatever_they_want() {
    let wants = [true, false].map(|stated| Cipher::ALL.map(|cipher| Choice { cipher, stated })).concat();
    for (ours, theirs) in wants.iter().flat_map(|one| wants.iter().map(move |other| (*one, *other))) {
        let (one, other) = shake_between([ours, theirs]);
        let agreed = agree(ours, theirs).map(Cipher::name);
        assert_eq!([one.sealing.cipher(), one.opening.cipher()], agreed);
        assert_eq!([other.opening.cipher(), other.sealing.cipher()], agreed);
        for (sealing, opening) in [(&one.sealing, &other.opening), (&other.sealing, &one.opening)] {
            let (number, mut sealed) = (Number { link: 0, seq: 1 }, [0; 5 + TAG]);
            sealing.seal(number, b"header", b"hello", &mut sealed);
            assert!(opening.open(number, b"header", &mut sealed));
        }
    }
}

#[test]
fn who_seals_with_a_cipher_that_is_unknown_is_refused_by_its_number() {
    let (mut one, mut other) = pair(Cipher::Aes256Gcm, &SHARED);
    let (mut first, mut second, mut payload) = (Vec::new(), Vec::new(), Vec::new());
    one.write(b"ping", &mut first).unwrap();
    let unknown = [&[0x80 | 9], &first[1..]].concat();
    assert_eq!(other.read(&unknown, &mut payload), Err(Rejected::Cipher(9)));

    let choice = fast(Cipher::Aes256Gcm);
    let (theirs, prologue) = (terms(&SHARED, choice, Random::seeded(3)), prologue(choice));
    let theirs = builder(choice.cipher, &theirs, &prologue, Random::seeded(3));
    let mut state = theirs.build_responder().unwrap();
    read(&mut state, &first[1..], &mut Vec::new()).unwrap();
    write(&mut state, &[4, 1, 2, 3], &mut second).unwrap();
    assert_eq!(one.read(&second, &mut payload), Err(Rejected::Cipher(4)));
    assert_eq!(one.read(&second, &mut payload), Err(Rejected::Forged), "it is over");
    assert!(payload.is_empty());
}

/// The choice is sent in the clear; the prologue makes a change of it fail.
#[test]
fn no_node_on_the_path_changes_what_the_initiator_wants() {
    for (cipher, other_cipher) in
        [(Cipher::Aegis128L, Cipher::Aes256Gcm), (Cipher::Aes256Gcm, Cipher::Aegis128L)]
    {
        for stated in [true, false] {
            let mut one = initiator(Choice { cipher, stated }, Random::seeded(1));
            let mut first = Vec::new();
            one.write(b"ping", &mut first).unwrap();
            for choice in [Choice { cipher: other_cipher, stated }, Choice { cipher, stated: !stated }] {
                // Noise itself uses the same cipher for both: only the choice differs.
                first[0] = choice.byte();
                let mut other = responder(fast(cipher), Random::seeded(2));
                assert_eq!(other.read(&first, &mut Vec::new()), Err(Rejected::Forged), "{choice:?}");
            }
        }
    }
}

#[test]
fn who_has_another_group_key_is_refused() {
    for cipher in Cipher::ALL {
        let (mut one, mut other) = pair(cipher, &[9; 32]);
        let (mut message, mut payload) = (Vec::new(), Vec::new());
        one.write(b"ping", &mut message).unwrap();
        assert_eq!(other.read(&message, &mut payload), Err(Rejected::Forged));
        assert!(payload.is_empty());
    }
}

#[test]
fn what_was_touched_is_refused_and_changes_nothing() {
    for cipher in Cipher::ALL {
        let (mut one, mut other) = pair(cipher, &SHARED);
        let (mut first, mut second, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        one.write(b"ping", &mut first).unwrap();
        refuses_touched(&mut other, &first);
        other.read(&first, &mut payload).unwrap();
        other.write(b"pong", &mut second).unwrap();
        refuses_touched(&mut one, &second);
        one.read(&second, &mut payload).unwrap();
        assert_eq!(payload, b"pingpong");
        assert_eq!(one.read(&second, &mut payload), Err(Rejected::Forged), "once");
        assert_eq!(other.read(&first, &mut payload), Err(Rejected::Forged), "once");
    }
}

/// A message with a flipped bit, or a part of a message, is refused.
fn refuses_touched(side: &mut Noise, message: &[u8]) {
    let mut payload = Vec::new();
    for at in 0..message.len() {
        // Bit 7 of a public key's last byte means nothing in X25519, but everything in the hash.
        for bit in [0, 1, 7] {
            let mut touched = message.to_vec();
            touched[at] ^= 1 << bit;
            assert!(side.read(&touched, &mut payload).is_err(), "byte {at}");
        }
        assert_eq!(side.read(&message[..at], &mut payload), Err(Rejected::Forged), "only {at} bytes");
    }
    assert!(payload.is_empty());
}

#[test]
fn no_two_sessions_have_the_same_keys() {
    let number = Number { link: 0, seq: 0 };
    let run = |random: Random| {
        let mut one = Box::new(initiator(fast(Cipher::Aes256Gcm), random));
        let mut other = Box::new(responder(fast(Cipher::Aes256Gcm), Random::system()));
        let (mut first, mut second, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        one.write(b"", &mut first).unwrap();
        other.read(&first, &mut payload).unwrap();
        other.write(b"", &mut second).unwrap();
        one.read(&second, &mut payload).unwrap();
        let mut sealed = [0; 5 + TAG];
        one.finish().sealing.seal(number, &[], b"hello", &mut sealed);
        (first, sealed)
    };
    let (first, again) = (run(Random::seeded(1)), run(Random::seeded(1)));
    assert_eq!(first.0, again.0, "the same seed");
    assert_ne!(first.1, again.1, "and yet other keys: the responder's part differs");
    assert_ne!(run(Random::system()).0, run(Random::system()).0);
}
