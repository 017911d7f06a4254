//! Known answers: vectors of the Cacophony test suite.
//!
//! It has none of `IXpsk0`. Those of `NNpsk0` have its pre-shared key, those of `IXpsk2` its static keys, and all are
//! computed by the same primitives.

use super::{read, write};
use crate::bytes;
use crate::key::Cipher;
use crate::random::Random;
use crate::resolver::Resolver;
use snow::Builder;
use tabane_proto::security::{Number, TAG};

struct Vector {
    pattern: &'static str,
    /// Where the pattern has the pre-shared key.
    place: u8,
    cipher: Cipher,
    /// The two messages, and the first cell.
    messages: [&'static str; 3],
}

const VECTORS: [Vector; 4] = [
    Vector {
        pattern: "NNpsk0_25519_AESGCM",
        place: 0,
        cipher: Cipher::Aes256Gcm,
        messages: [
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
             7c37a89fc17813788d30df2d59501d6066f5f8aecc3406bbd9829f2d24a531b1",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
             2f29d79368ef9de4e1ae7a362fb05bf0ad668e026bf5714554497b3a720461",
            "7c01e898a6201f36aecee532e29cd0b7f8ffa29d3366ad0dce39a6",
        ],
    },
    Vector {
        pattern: "NNpsk0_25519_ChaChaPoly",
        place: 0,
        cipher: Cipher::ChaCha20Poly1305,
        messages: [
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
             79b962b8aff8485742ac32f905ba45369e2465fb59e138a93d67a0d1266b6a54",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
             d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a2cd030fb584221e3",
            "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f",
        ],
    },
    Vector {
        pattern: "IXpsk2_25519_AESGCM",
        place: 2,
        cipher: Cipher::Aes256Gcm,
        messages: [
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
             2387cee0a3690d4c61c1a4b4b2bb6baccfa74d7a4b584fbcbd817aef4e531b81\
             910d4ed1cfea1043f7c656c83c2f8d170f18760994e3ab79468d43afcd7b875e\
             13e009098ba9ebec3c5e9cb4c71923ae",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
             ff6058fa17ffbc87ea4f15ba2a7f548e38971e34132a95e18d4b0bbd72afb3ef\
             f04691c7d022588086e2201b080faf5cfa7bb3d8685f87b91f88479775e168c3\
             e3e0b7ee709f33f014eafae8337157",
            "faa25ad4f84dcc3ed56a274fa29b83502831ec34a291b80916b9d3",
        ],
    },
    Vector {
        pattern: "IXpsk2_25519_ChaChaPoly",
        place: 2,
        cipher: Cipher::ChaCha20Poly1305,
        messages: [
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
             1f5e7765c87ace8e3e408eb3cf0eb2fd8fe8fef320d74709ac2144d4928e3997\
             caaafd89c8d1bf97f5c8853081d41af00563b2e3a88df0cee64f7d56d8a24f0c\
             60f6c9f420dd1750922414f96d73ebe4",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
             ec9687d83c88833a95e2957ff59e2e1df84c371586107413966a41f4f8329d64\
             3bc5c6512ba657a0208e43069a6eb4ef41523c7d6f1825c9f7f739e709472451\
             3dc602bd17a6d7b0923c19253baa77",
            "4a8805b86409bd0ee270e2af1f51a00a511715db63029f0ad83c8a",
        ],
    },
];

/// The static keys of both sides, and what they draw.
const STATICS: [&str; 2] = [
    "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1",
    "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
];
const EPHEMERALS: [&str; 2] = [
    "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
    "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
];

#[test]
fn the_primitives_give_the_known_answers() {
    let (statics, ephemerals) = (STATICS.map(bytes), EPHEMERALS.map(bytes));
    for Vector { pattern, place, cipher, messages: [first, second, transport] } in VECTORS {
        let side = |at: usize| {
            let resolver = Box::new(Resolver::new(Random::seeded(1)));
            let name = format!("Noise_{pattern}_SHA256").parse().unwrap();
            let builder = Builder::with_resolver(name, resolver).prologue(b"John Galt").unwrap();
            let builder = builder.psk(place, b"This is my Austrian perspective!").unwrap();
            let builder = builder.local_private_key(&statics[at]).unwrap();
            builder.fixed_ephemeral_key_for_testing_only(&ephemerals[at])
        };
        let mut initiator = side(0).build_initiator().unwrap();
        let mut responder = side(1).build_responder().unwrap();
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
