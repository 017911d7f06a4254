//! Which set of the forwarding database an address has.
//!
//! A keyed permutation of the 48 bits: its upper bits choose the set, its lower bits tell the addresses of a set apart.
//! Together they are the whole address, so no address is taken for another. Without the key nobody can choose addresses
//! that share one set.
//! Source: a Feistel network of four rounds (Luby and Rackoff, 1988; Naor and Reingold, 1999: pairwise independent
//! functions are enough in the first and the last); each is multiply-shift (Dietzfelbinger et al., 1997).

use super::entry::TAG;
use crate::policy::classify::Mac;
use core::array;

const ROUNDS: usize = 4;
const HALF_BITS: u32 = 24;
const HALF: u64 = (1 << HALF_BITS) - 1;
/// With so many bits for the set, what is left fits into a tag.
pub(super) const SET_BITS_MIN: u32 = 2 * HALF_BITS - TAG.count_ones();

/// The key, and how many sets there are.
pub(super) struct Hash {
    keys: [[u64; 2]; ROUNDS],
    set_bits: u32,
}

impl Hash {
    pub(super) fn new(set_bits: u32, seed: u64) -> Self {
        debug_assert!((SET_BITS_MIN..2 * HALF_BITS).contains(&set_bits));
        let mut state = seed;
        let mut next = || draw(&mut state);
        Self { keys: array::from_fn(|_| [next() | 1, next()]), set_bits }
    }

    /// The set of an address, and its tag there.
    pub(super) fn place(&self, mac: Mac) -> (usize, u64) {
        let [a, b, c, d, e, f] = mac;
        let address = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let (mut left, mut right) = (address >> HALF_BITS, address & HALF);
        for [multiplier, addend] in self.keys {
            let mixed = right.wrapping_mul(multiplier).wrapping_add(addend) >> (u64::BITS - HALF_BITS);
            (left, right) = (right, left ^ mixed);
        }
        let mixed = left << HALF_BITS | right;
        #[expect(clippy::cast_possible_truncation, reason = "below the number of sets")]
        let set = (mixed >> (2 * HALF_BITS - self.set_bits)) as usize;
        (set, mixed & TAG)
    }
}

/// The next number of a sequence (splitmix64; Steele, Lea and Flood, OOPSLA 2014).
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec;

    fn mac(number: u32) -> Mac {
        let [a, b, c, d] = number.to_be_bytes();
        [2, 0, a, b, c, d]
    }

    #[test]
    fn no_two_addresses_have_one_place() {
        let hash = Hash::new(SET_BITS_MIN, 1);
        let places: BTreeSet<_> = (0..200_000).map(|number| hash.place(mac(number))).collect();
        assert_eq!(places.len(), 200_000);
    }

    #[test]
    fn whatever_is_regular_in_addresses_is_spread_over_all_sets() {
        for step in [1, 2, 256, 4_096, 65_536, 65_537] {
            let hash = Hash::new(SET_BITS_MIN, 7);
            let mut sets = vec![0u32; 1 << SET_BITS_MIN];
            let numbers = (0..65_536u32).map(|number| number.wrapping_mul(step).rotate_left(step % 13));
            numbers.for_each(|number| sets[hash.place(mac(number)).0] += 1);
            let repeats = 65_536u64.div_ceil((1u64 << 32) / u64::from(step));
            let most = sets.into_iter().max().unwrap();
            assert!(most <= 45 * u32::try_from(repeats).unwrap(), "{most} of 16 on average, step {step}");
        }
    }

    #[test]
    fn what_meets_under_one_key_does_not_under_another() {
        let [one, other] = [1, 2].map(|seed| Hash::new(SET_BITS_MIN, seed));
        let gathered = (0..400_000).map(mac).filter(|mac| one.place(*mac).0 == 0);
        let sets: BTreeSet<_> = gathered.map(|mac| other.place(mac).0).collect();
        assert!(sets.len() > 60, "{} sets", sets.len());
    }
}
