//! Which link each value of a flow's hash has: links get slots by their weights, and keep theirs as far as they can.

use crate::layout::{LINKS, NO_LINK, SLOTS};

/// Changes `slots` so that each link has its share: `weights` by link, 0 for one that takes nothing. A slot changes its link only
/// when that link has too many, so that few flows move.
pub(crate) fn assign(slots: &mut [u8; SLOTS], weights: &[u32; LINKS]) {
    let mut left = shares(weights);
    for slot in slots.iter_mut() {
        match left.get_mut(usize::from(*slot)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => *slot = NO_LINK,
        }
    }
    let mut given = (0_u8..).zip(left).flat_map(|(link, left)| std::iter::repeat_n(link, left));
    for slot in slots.iter_mut().filter(|slot| **slot == NO_LINK) {
        *slot = given.next().unwrap_or(NO_LINK);
    }
}

/// Slots for each link, all [`SLOTS`] of them unless all weights are 0: each next one goes to the link that has the fewest for its
/// weight.
fn shares(weights: &[u32; LINKS]) -> [usize; LINKS] {
    let mut shares = [0_usize; LINKS];
    for _ in 0..SLOTS {
        let next = (0..LINKS)
            .filter(|link| weights[*link] > 0)
            .min_by_key(|link| ((shares[*link] as u64 + 1) << 32) / u64::from(weights[*link]));
        let Some(next) = next else { break };
        shares[next] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(some: &[u32]) -> [u32; LINKS] {
        std::array::from_fn(|link| some.get(link).copied().unwrap_or(0))
    }

    fn count(slots: &[u8; SLOTS], link: u8) -> usize {
        slots.iter().filter(|slot| **slot == link).count()
    }

    #[test]
    fn slots_follow_weights() {
        let mut slots = [NO_LINK; SLOTS];
        assign(&mut slots, &weights(&[1, 3]));
        assert_eq!((count(&slots, 0), count(&slots, 1)), (16, 48));
    }

    #[test]
    fn without_a_link_no_slot_names_one() {
        let mut slots = [3; SLOTS];
        assign(&mut slots, &weights(&[]));
        assert_eq!(slots, [NO_LINK; SLOTS]);
    }

    #[test]
    fn a_link_that_fails_moves_its_own_flows_only_and_gets_them_back() {
        let mut before = [NO_LINK; SLOTS];
        assign(&mut before, &weights(&[1, 1, 1, 1]));
        let mut slots = before;
        assign(&mut slots, &weights(&[1, 0, 1, 1]));
        assert_eq!(count(&slots, 1), 0);
        for (old, new) in before.iter().zip(&slots).filter(|(old, _)| **old != 1) {
            assert_eq!(old, new);
        }
        assign(&mut slots, &weights(&[1, 1, 1, 1]));
        assert_eq!(count(&slots, 1), 16);
    }
}
