//! The words that a ring is steered by: how many units were written or taken, and in which life of the sender.

/// How far a ring is, in one word, so that both halves are of the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// The incarnation of the sender in which the units are counted; 0: no sender.
    pub epoch: u32,
    /// Units since that life began, modulo 2^32.
    pub units: u32,
}

impl Count {
    /// The count that a word says. Every word says one.
    pub const fn from_word(word: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        Self { epoch: u32::from_le_bytes([e, f, g, h]), units: u32::from_le_bytes([a, b, c, d]) }
    }

    /// As a word: the epoch in its upper half.
    pub const fn word(self) -> u64 {
        ((self.epoch as u64) << 32) | self.units as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn a_word_has_the_epoch_above_the_units() {
        let count = Count { epoch: 0x0102_0304, units: 0x0506_0708 };
        assert_eq!(count.word(), 0x0102_0304_0506_0708);
        assert_eq!(Count::from_word(count.word()), count);
    }
}
