//! The order in which messages of several sizes are played: block after block, each in a random order of its own.
//!
//! A block has [`BLOCK`] rounds of every size. Sizes that are played one after the other meet different conditions: a
//! network that warms up or drifts would look like an effect of the size.

use fastrand::Rng;

use crate::stats::BLOCK;

/// Places of the sizes, in the order in which they are played.
pub(super) struct Order {
    sizes: u8,
    /// Rounds of each size that are not in a block yet.
    left: usize,
    /// The rest of this block.
    block: Vec<u8>,
    random: Rng,
}

impl Order {
    /// For so many `sizes` and `rounds` of each; the same `seed` gives the same order.
    pub(super) fn new(sizes: u8, rounds: usize, seed: u32) -> Order {
        let block = Vec::with_capacity(usize::from(sizes) * BLOCK);
        Order { sizes, left: rounds, block, random: Rng::with_seed(seed.into()) }
    }
}

impl Iterator for Order {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.block.is_empty() {
            let rounds = self.left.min(BLOCK);
            self.left -= rounds;
            self.block.extend((0..self.sizes).flat_map(|place| std::iter::repeat_n(place, rounds)));
            self.random.shuffle(&mut self.block);
        }
        self.block.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_every_size_as_often_in_an_order_of_its_own() {
        let order: Vec<u8> = Order::new(3, 2 * BLOCK + 4, 7).collect();
        assert_eq!(order.len(), 3 * (2 * BLOCK + 4));
        let blocks: Vec<&[u8]> = order.chunks(3 * BLOCK).collect();
        for block in &blocks {
            for size in 0..3 {
                assert_eq!(block.iter().filter(|place| **place == size).count(), block.len() / 3);
            }
        }
        assert_ne!(blocks[0], blocks[1]);
    }

    #[test]
    fn a_seed_is_an_order() {
        let order = |seed| Order::new(2, 30, seed).collect::<Vec<u8>>();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
