//! Tests of the handshake: known answers of the pattern, and two sides that agree or do not.

use super::*;
use crate::hex::bytes;
use tabane_proto::security::{Number, TAG};

const SHARED: [u8; 32] = *b"a group key of thirty-two bytes.";

/// The vectors of `NNpsk0` in the Cacophony test suite.
#[test]
fn the_pattern_gives_the_known_answers() {
    let vectors = [
        (
            Cipher::Aes256Gcm,
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
             7c37a89fc17813788d30df2d59501d6066f5f8aecc3406bbd9829f2d24a531b1",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
             2f29d79368ef9de4e1ae7a362fb05bf0ad668e026bf5714554497b3a720461",
            "7c01e898a6201f36aecee532e29cd0b7f8ffa29d3366ad0dce39a6",
        ),
        (
            Cipher::ChaCha20Poly1305,
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
             79b962b8aff8485742ac32f905ba45369e2465fb59e138a93d67a0d1266b6a54",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
             d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a2cd030fb584221e3",
            "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f",
        ),
    ];
    let shared: [u8; 32] = *b"This is my Austrian perspective!";
    let ours = bytes("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a");
    let theirs = bytes("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b");
    for (cipher, first, second, transport) in vectors {
        let side = |key| {
            builder(cipher, &shared, b"John Galt", Random::seeded(1))
                .fixed_ephemeral_key_for_testing_only(key)
        };
        let mut initiator = side(&ours).build_initiator().unwrap();
        let mut responder = side(&theirs).build_responder().unwrap();
        let (mut message, mut payload) = (Vec::new(), Vec::new());
        write(&mut initiator, b"Ludwig von Mises", &mut message);
        assert_eq!(message, bytes(first));
        assert!(read(&mut responder, &message, &mut payload));
        assert_eq!(payload, b"Ludwig von Mises");
        message.clear();
        write(&mut responder, b"Murray Rothbard", &mut message);
        assert_eq!(message, bytes(second));
        assert!(read(&mut initiator, &message, &mut payload));
        assert_eq!(payload, b"Ludwig von MisesMurray Rothbard");

        let (key, _) = initiator.dangerously_get_raw_split();
        let mut sealed = vec![0; 11 + TAG];
        cipher.key(&key).seal(Number { link: 0, seq: 0 }, &[], b"F. A. Hayek", &mut sealed);
        assert_eq!(sealed, bytes(transport), "the first number of a link is the first nonce of Noise");
    }
}

/// Two sides with their shared keys, and what each has drawn.
fn pair(cipher: Cipher, theirs: &[u8; 32]) -> (Box<Noise>, Box<Noise>) {
    let initiator = Noise::initiator(&SHARED, cipher, Random::seeded(1));
    (Box::new(initiator), Box::new(Noise::responder(theirs, Random::seeded(2))))
}

/// Runs the handshake; the keys of both sides.
fn shake(cipher: Cipher) -> (SessionKeys, SessionKeys) {
    let (mut one, mut other) = pair(cipher, &SHARED);
    let (mut message, mut payload) = (Vec::new(), Vec::new());
    one.write(b"ping", &mut message);
    assert!(other.read(&message, &mut payload));
    message.clear();
    other.write(b"pong", &mut message);
    assert!(one.read(&message, &mut payload));
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
                "each direction has its own"
            );
            assert!(receiver.opening.open(number, b"header", &mut sealed));
            assert_eq!(&sealed[..5], b"hello");
        }
    }
}

#[test]
fn who_has_another_group_key_is_refused() {
    for cipher in Cipher::ALL {
        let (mut one, mut other) = pair(cipher, &[9; 32]);
        let (mut message, mut payload) = (Vec::new(), Vec::new());
        one.write(b"ping", &mut message);
        assert!(!other.read(&message, &mut payload));
        assert!(payload.is_empty());
    }
}

#[test]
fn what_was_touched_is_refused_and_changes_nothing() {
    for cipher in Cipher::ALL {
        let (mut one, mut other) = pair(cipher, &SHARED);
        let (mut first, mut second, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        one.write(b"ping", &mut first);
        refuses_touched(&mut other, &first);
        assert!(other.read(&first, &mut payload));
        other.write(b"pong", &mut second);
        refuses_touched(&mut one, &second);
        assert!(one.read(&second, &mut payload));
        assert_eq!(payload, b"pingpong");
        assert!(!one.read(&second, &mut payload) && !other.read(&first, &mut payload), "once");
    }
}

/// No message with a flipped bit, and no part of it, is taken.
fn refuses_touched(side: &mut Noise, message: &[u8]) {
    let mut payload = Vec::new();
    for at in 0..message.len() {
        // Bit 7 of a public key's last byte means nothing in X25519, but everything in the hash.
        for bit in [0, 1, 7] {
            let mut touched = message.to_vec();
            touched[at] ^= 1 << bit;
            assert!(!side.read(&touched, &mut payload), "byte {at}");
        }
        assert!(!side.read(&message[..at], &mut payload), "only {at} bytes");
    }
    assert!(payload.is_empty());
}

#[test]
fn no_two_sessions_have_the_same_keys() {
    let number = Number { link: 0, seq: 0 };
    let run = |random: Random| {
        let mut one = Box::new(Noise::initiator(&SHARED, Cipher::Aes256Gcm, random));
        let mut other = Box::new(Noise::responder(&SHARED, Random::system()));
        let (mut first, mut second, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        one.write(b"", &mut first);
        assert!(other.read(&first, &mut payload));
        other.write(b"", &mut second);
        assert!(one.read(&second, &mut payload));
        let mut sealed = [0; 5 + TAG];
        one.finish().sealing.seal(number, &[], b"hello", &mut sealed);
        (first, sealed)
    };
    let (first, again) = (run(Random::seeded(1)), run(Random::seeded(1)));
    assert_eq!(first.0, again.0, "the same seed");
    assert_ne!(first.1, again.1, "and yet other keys: the responder's part differs");
    assert_ne!(run(Random::system()).0, run(Random::system()).0);
}
