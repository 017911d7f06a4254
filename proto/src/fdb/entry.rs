//! One word of the forwarding database: its fields and their widths.
//!
//! ```text
//!   63      62..56   55..47     46..36   35..0
//!   proven  used     learned    number   tag
//! ```
//!
//! The times are seconds modulo 128 and 512. The last [`AHEAD`] values before they wrap mean the future, for workers
//! that share a table read the clock at different moments.

const TAG_BITS: u32 = 36;
const NUMBER_BITS: u32 = 11;
const LEARNED_BITS: u32 = 9;
const USED_BITS: u32 = 7;
const NUMBER_AT: u32 = TAG_BITS;
const LEARNED_AT: u32 = NUMBER_AT + NUMBER_BITS;
const USED_AT: u32 = LEARNED_AT + LEARNED_BITS;
const PROVEN_AT: u32 = USED_AT + USED_BITS;
/// How many seconds one worker's clock may be behind another's.
const AHEAD: u32 = 8;

/// The bits of a hash that are kept.
pub(super) const TAG: u64 = (1 << TAG_BITS) - 1;
/// Numbers of nodes; 0 is none.
pub(crate) const NUMBERS: usize = 1 << NUMBER_BITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The bits of its hash that the set does not show.
    pub(super) tag: u64,
    /// The node behind which it lives; 0: the place is vacant.
    pub(super) number: u16,
    /// When a frame came from it last.
    pub(super) learned: u32,
    /// When a frame came from it, or was for it.
    pub(super) used: u32,
    /// It sent frames in more than one second, or a frame was for it.
    pub(super) is_proven: bool,
}

impl Entry {
    pub(super) const VACANT: Self = Self { tag: 0, number: 0, learned: 0, used: 0, is_proven: false };

    /// An address that is seen for the first time.
    pub(super) fn new(tag: u64, number: u16, second: u32) -> Self {
        Self {
            tag,
            number,
            learned: wrap(second, LEARNED_BITS),
            used: wrap(second, USED_BITS),
            is_proven: false,
        }
    }

    pub(super) fn from_word(word: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "fields have at most eleven bits")]
        let field = |at: u32, bits: u32| wrap((word >> at) as u32, bits);
        #[expect(clippy::cast_possible_truncation, reason = "eleven bits")]
        let number = field(NUMBER_AT, NUMBER_BITS) as u16;
        Self {
            tag: word & TAG,
            number,
            learned: field(LEARNED_AT, LEARNED_BITS),
            used: field(USED_AT, USED_BITS),
            is_proven: word >> PROVEN_AT != 0,
        }
    }

    pub(super) fn to_word(self) -> u64 {
        self.tag
            | u64::from(self.number) << NUMBER_AT
            | u64::from(self.learned) << LEARNED_AT
            | u64::from(self.used) << USED_AT
            | u64::from(self.is_proven) << PROVEN_AT
    }

    pub(super) fn is_vacant(self) -> bool {
        self.number == 0
    }

    pub(super) fn is_of(self, tag: u64) -> bool {
        self.tag == tag && !self.is_vacant()
    }

    pub(super) fn is_learned_in(self, second: u32) -> bool {
        self.learned == wrap(second, LEARNED_BITS)
    }

    pub(super) fn is_used_in(self, second: u32) -> bool {
        self.used == wrap(second, USED_BITS)
    }

    /// The same address, when a frame is for it.
    pub(super) fn used(self, second: u32) -> Self {
        Self { used: wrap(second, USED_BITS), is_proven: true, ..self }
    }

    /// Seconds since a frame came from it.
    pub(super) fn age(self, second: u32) -> u32 {
        since(second, self.learned, LEARNED_BITS)
    }

    /// Seconds since it was used.
    pub(super) fn idle(self, second: u32) -> u32 {
        since(second, self.used, USED_BITS)
    }
}

fn wrap(second: u32, bits: u32) -> u32 {
    second & ((1 << bits) - 1)
}

fn since(second: u32, then: u32, bits: u32) -> u32 {
    let passed = wrap(second.wrapping_sub(then), bits);
    if passed >= (1 << bits) - AHEAD { 0 } else { passed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_an_entry_and_the_other_way_round() {
        let entry = Entry::new(TAG, 2_047, 511).used(127);
        assert_eq!(entry.to_word(), u64::MAX);
        assert_eq!(Entry::from_word(u64::MAX), entry);
        assert_eq!(Entry::VACANT.to_word(), 0);
        for bit in 0..64 {
            assert_eq!(Entry::from_word(1 << bit).to_word(), 1 << bit);
        }
    }

    #[test]
    fn times_come_round_and_a_clock_may_be_behind() {
        let entry = Entry::new(1, 1, 1_000);
        assert_eq!((entry.age(1_000), entry.age(1_300), entry.age(1_503)), (0, 300, 503));
        assert_eq!((entry.age(992), entry.idle(992)), (0, 0));
        assert_eq!((entry.idle(1_001), entry.idle(1_119)), (1, 119));
    }
}
