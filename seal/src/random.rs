//! Where randomness comes from: the operating system, or a seed; and a hash.

use aws_lc_rs::digest::{SHA256, digest};
use zeroize::Zeroizing;

/// 32 random bytes from the operating system; `None`: it has none.
pub fn random() -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    aws_lc_rs::rand::fill(&mut *bytes).ok().map(|()| bytes)
}

/// The SHA-256 (FIPS 180-4) of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// A source of random bytes.
#[derive(Debug)]
pub struct Random(Source);

#[derive(Debug)]
enum Source {
    System,
    Seeded { seed: [u8; 32], drawn: u64 },
}

impl Random {
    /// The operating system's. The first draw of a process seeds the library's generator from the kernel's; it is made here, for later it
    /// would delay a handshake.
    pub fn system() -> Self {
        let mut random = Self(Source::System);
        random.draw();
        random
    }

    /// The same bytes for the same seed: for runs that are to be repeated, never for secrets.
    pub fn seeded(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        Self(Source::Seeded { seed: bytes, drawn: 0 })
    }

    /// The next 32 bytes, wiped from memory when dropped.
    ///
    /// # Panics
    /// When the operating system has none, which its sources promise not to happen; without it no secret can be made.
    pub(crate) fn draw(&mut self) -> Zeroizing<[u8; 32]> {
        match &mut self.0 {
            Source::System => random().expect("the operating system has random bytes"),
            Source::Seeded { seed, drawn } => {
                let mut input = [0; 40];
                input[..32].copy_from_slice(seed);
                input[32..].copy_from_slice(&drawn.to_be_bytes());
                *drawn += 1;
                Zeroizing::new(sha256(&input))
            }
        }
    }

    /// A source of the same kind for one handshake.
    pub(crate) fn fork(&mut self) -> Self {
        match self.0 {
            Source::System => Self(Source::System),
            Source::Seeded { .. } => Self(Source::Seeded { seed: *self.draw(), drawn: 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes_again_and_a_fork_others() {
        let mut one = Random::seeded(7);
        let mut same = Random::seeded(7);
        assert_eq!(one.draw(), same.draw());
        assert_ne!(one.draw(), Random::seeded(8).draw());
        same.draw();
        assert_eq!(one.fork().draw(), same.fork().draw());
    }

    #[test]
    fn the_system_repeats_nothing() {
        let mut system = Random::system();
        assert_ne!(system.draw(), system.draw());
    }
}
