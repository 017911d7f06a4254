//! Tests of the handshake: known answers of the pattern, and two sides that agree or do not.

use super::*;
use crate::hex::bytes;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Dh, Hash};
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
        write(&mut initiator, b"Ludwig von Mises", &mut message).unwrap();
        assert_eq!(message, bytes(first));
        read(&mut responder, &message, &mut payload).unwrap();
        assert_eq!(payload, b"Ludwig von Mises");
        message.clear();
        write(&mut responder, b"Murray Rothbard", &mut message).unwrap();
        assert_eq!(message, bytes(second));
        read(&mut initiator, &message, &mut payload).unwrap();
        assert_eq!(payload, b"Ludwig von MisesMurray Rothbard");

        let (key, _) = initiator.dangerously_get_raw_split();
        let mut sealed = vec![0; 11 + TAG];
        cipher.key(&key).seal(Number { link: 0, seq: 0 }, &[], b"F. A. Hayek", &mut sealed);
        assert_eq!(sealed, bytes(transport), "the first number of a link is the first nonce of Noise");
    }
}

fn fast(cipher: Cipher) -> Choice {
    Choice { cipher, stated: false }
}

/// Two sides with their shared keys, and what each has drawn.
fn pair(cipher: Cipher, theirs: &[u8; 32]) -> (Box<Noise>, Box<Noise>) {
    let initiator = Noise::initiator(&SHARED, fast(cipher), Random::seeded(1));
    (Box::new(initiator), Box::new(Noise::responder(theirs, fast(cipher), Random::seeded(2))))
}

/// Runs the handshake between sides that state nothing; the keys of both.
fn shake(cipher: Cipher) -> (SessionKeys, SessionKeys) {
    shake_between([fast(cipher), fast(cipher)])
}

fn shake_between([initiator, responder]: [Choice; 2]) -> (SessionKeys, SessionKeys) {
    let mut one = Box::new(Noise::initiator(&SHARED, initiator, Random::seeded(1)));
    let mut other = Box::new(Noise::responder(&SHARED, responder, Random::seeded(2)));
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
                "each direction has its own"
            );
            assert!(receiver.opening.open(number, b"header", &mut sealed));
            assert_eq!(&sealed[..5], b"hello");
        }
    }
}

#[test]
fn both_sides_find_the_same_cipher_for_each_direction_whatever_they_want() {
    let wants = [true, false].map(|stated| Cipher::ALL.map(|cipher| Choice { cipher, stated })).concat();
    for (initiator, responder) in wants.iter().flat_map(|one| wants.iter().map(move |other| (*one, *other))) {
        let (one, other) = shake_between([initiator, responder]);
        let agreed = agree(initiator, responder).map(Cipher::name);
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

    let mut state =
        builder(Cipher::Aes256Gcm, &SHARED, &prologue(fast(Cipher::Aes256Gcm)), Random::seeded(3))
            .build_responder()
            .unwrap();
    read(&mut state, &first[1..], &mut Vec::new()).unwrap();
    write(&mut state, &[4, 1, 2, 3], &mut second).unwrap();
    assert_eq!(one.read(&second, &mut payload), Err(Rejected::Cipher(4)));
    assert_eq!(one.read(&second, &mut payload), Err(Rejected::Forged), "it is over");
    assert!(payload.is_empty());
}

/// The choice is in the clear: without the prologue nobody would notice.
#[test]
fn nobody_on_the_way_changes_what_the_initiator_wants() {
    for (cipher, other_cipher) in
        [(Cipher::Aegis128L, Cipher::Aes256Gcm), (Cipher::Aes256Gcm, Cipher::Aegis128L)]
    {
        for stated in [true, false] {
            let mut one = Noise::initiator(&SHARED, Choice { cipher, stated }, Random::seeded(1));
            let mut first = Vec::new();
            one.write(b"ping", &mut first).unwrap();
            for choice in [Choice { cipher: other_cipher, stated }, Choice { cipher, stated: !stated }] {
                // Noise itself uses the same cipher for both: only the choice differs.
                first[0] = choice.byte();
                let mut other = Noise::responder(&SHARED, fast(cipher), Random::seeded(2));
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

/// No message with a flipped bit, and no part of it, is taken.
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
        let mut one = Box::new(Noise::initiator(&SHARED, fast(Cipher::Aes256Gcm), random));
        let mut other = Box::new(Noise::responder(&SHARED, fast(Cipher::Aes256Gcm), Random::system()));
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

/// What a hostile member of the group gives for a public key: 0, a point of low order. No secret comes of it.
struct LowOrder(Resolver);

impl CryptoResolver for LowOrder {
    fn resolve_rng(&self) -> Option<Box<dyn snow::types::Random>> {
        self.0.resolve_rng()
    }

    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(Zero))
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.0.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn snow::types::Cipher>> {
        self.0.resolve_cipher(choice)
    }
}

struct Zero;

impl Dh for Zero {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, _: &[u8]) {}

    fn generate(&mut self, _: &mut dyn snow::types::Random) -> Result<(), snow::Error> {
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &[0; 32]
    }

    fn privkey(&self) -> &[u8] {
        &[0; 32]
    }

    fn dh(&self, _: &[u8], shared: &mut [u8]) -> Result<(), snow::Error> {
        shared[..32].fill(0);
        Ok(())
    }
}

#[test]
fn a_public_key_of_low_order_is_refused_and_stops_nobody() {
    let choice = fast(Cipher::Aes256Gcm);
    let name = "Noise_NNpsk0_25519_AESGCM_SHA256".parse().unwrap();
    let resolver = Box::new(LowOrder(Resolver::new(Random::seeded(1))));
    let builder = Builder::with_resolver(name, resolver);
    let prologue = prologue(choice);
    let builder = builder.psk(0, &SHARED).and_then(|builder| builder.prologue(&prologue)).unwrap();
    let mut hostile = builder.build_initiator().unwrap();
    let mut first = vec![choice.byte()];
    write(&mut hostile, b"ping", &mut first).unwrap();
    let mut other = Noise::responder(&SHARED, choice, Random::seeded(2));
    other.read(&first, &mut Vec::new()).unwrap();
    let mut second = Vec::new();
    assert_eq!(other.write(b"pong", &mut second), Err(Rejected::Forged));
    assert!(second.is_empty());
}
