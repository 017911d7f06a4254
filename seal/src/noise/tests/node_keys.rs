//! Nodes prove their keys, and thieves of the group key cannot.

use super::*;
use crate::resolver::public_key;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Dh, Hash};

const SECRETS: [[u8; 32]; 2] = [[1; 32], [2; 32]];

/// Both sides after a handshake between nodes with these keys.
fn shake_with(keys: [Option<[u8; 32]>; 2]) -> [Box<Noise>; 2] {
    let [ours, theirs] = [0, 1].map(|place| {
        let terms = terms(&SHARED, fast(Cipher::Aes256Gcm), Random::seeded(place));
        let own = keys[usize::try_from(place).unwrap()].map_or(terms.own.clone(), Zeroizing::new);
        Terms { own, ..terms }
    });
    let (mut one, mut other) = (Box::new(Noise::initiator(ours)), Box::new(Noise::responder(theirs)));
    assert_eq!([one.peer(), other.peer()], [None, None], "nothing is known before");
    let (mut first, mut second) = (Vec::new(), Vec::new());
    one.write(b"ping", &mut first).unwrap();
    other.read(&first, &mut Vec::new()).unwrap();
    other.write(b"pong", &mut second).unwrap();
    one.read(&second, &mut Vec::new()).unwrap();
    for key in keys.iter().flatten().map(public_key) {
        let is_seen = |message: &[u8]| message.windows(32).any(|window| window == key);
        assert!(!is_seen(&first) && !is_seen(&second), "who speaks is hidden from strangers");
    }
    [one, other]
}

#[test]
fn each_side_gets_the_key_of_the_other_or_that_it_has_none() {
    let [a, b] = SECRETS.map(Some);
    for keys in [[a, b], [a, None], [None, b], [None, None]] {
        let [one, other] = shake_with(keys);
        let public = keys.map(|key| key.map(|key| public_key(&key)));
        assert_eq!([other.peer(), one.peer()], public);
        let (mut sealed, number) = ([0; 5 + TAG], Number { link: 0, seq: 0 });
        one.finish().sealing.seal(number, &[], b"hello", &mut sealed);
        assert!(other.finish().opening.open(number, &[], &mut sealed), "{keys:?}");
    }
}

/// The real primitives, but static keys whose public part is another's; or all keys, when it is of low order.
struct Hostile {
    resolver: Resolver,
    claims: PublicKey,
}

impl CryptoResolver for Hostile {
    fn resolve_rng(&self) -> Option<Box<dyn snow::types::Random>> {
        self.resolver.resolve_rng()
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(Claim { key: self.resolver.resolve_dh(choice)?, claims: self.claims }))
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.resolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn snow::types::Cipher>> {
        self.resolver.resolve_cipher(choice)
    }
}

struct Claim {
    key: Box<dyn Dh>,
    claims: PublicKey,
}

impl Dh for Claim {
    fn name(&self) -> &'static str {
        self.key.name()
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        self.key.set(private);
    }

    fn generate(&mut self, random: &mut dyn snow::types::Random) -> Result<(), snow::Error> {
        self.key.generate(random)
    }

    fn pubkey(&self) -> &[u8] {
        let is_static = self.key.privkey() == COMMON;
        if is_static || self.claims == [0; 32] { &self.claims } else { self.key.pubkey() }
    }

    fn privkey(&self) -> &[u8] {
        self.key.privkey()
    }

    fn dh(&self, public: &[u8], shared: &mut [u8]) -> Result<(), snow::Error> {
        self.key.dh(public, shared)
    }
}

/// A node that knows the group key, and claims a node key.
fn thief<'a>(claims: PublicKey, prologue: &'a [u8]) -> Builder<'a> {
    let resolver = Box::new(Hostile { resolver: Resolver::new(Random::seeded(1)), claims });
    let name = format!("Noise_{PATTERN}_25519_AESGCM_SHA256").parse().unwrap();
    let builder = Builder::with_resolver(name, resolver).prologue(prologue).unwrap();
    builder.psk(0, &SHARED).and_then(|builder| builder.local_private_key(&COMMON)).unwrap()
}

/// As initiator and as responder.
#[test]
fn who_claims_the_key_of_another_node_comes_by_no_session() {
    let choice = fast(Cipher::Aes256Gcm);
    let (victim, prologue) = (public_key(&SECRETS[0]), prologue(choice));
    let mut initiates = thief(victim, &prologue).build_initiator().unwrap();
    let (mut first, mut second) = (vec![choice.byte()], Vec::new());
    write(&mut initiates, b"ping", &mut first).unwrap();
    let mut other = responder(choice, Random::seeded(2));
    other.read(&first, &mut Vec::new()).unwrap();
    assert_eq!(other.peer(), Some(victim), "it is claimed, not proven");
    other.write(b"pong", &mut second).unwrap();
    assert_eq!(read(&mut initiates, &second, &mut Vec::new()), Err(Rejected::Forged), "not for the thief");

    let mut responds = thief(victim, &prologue).build_responder().unwrap();
    let mut one = initiator(choice, Random::seeded(3));
    let (mut first, mut second) = (Vec::new(), Vec::new());
    one.write(b"ping", &mut first).unwrap();
    read(&mut responds, &first[1..], &mut Vec::new()).unwrap();
    write(&mut responds, &[choice.byte()], &mut second).unwrap();
    assert_eq!(one.read(&second, &mut Vec::new()), Err(Rejected::Forged));
}

/// Public keys of 0, from which X25519 makes no secret.
#[test]
fn a_public_key_of_low_order_is_refused_and_stops_nobody() {
    let choice = fast(Cipher::Aes256Gcm);
    let prologue = prologue(choice);
    let mut hostile = thief([0; 32], &prologue).build_initiator().unwrap();
    let (mut first, mut second) = (vec![choice.byte()], Vec::new());
    write(&mut hostile, b"ping", &mut first).unwrap();
    let mut other = responder(choice, Random::seeded(2));
    other.read(&first, &mut Vec::new()).unwrap();
    assert_eq!(other.write(b"pong", &mut second), Err(Rejected::Forged));
    assert!(second.is_empty());
}
