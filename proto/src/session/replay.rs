//! The replay window of a path: which of the latest numbers have been received.
//!
//! Part of [`crate::session::keyring`]. A ring of bits; whole words are cleared as the window moves on (RFC 6479). A link keeps
//! order, so the window only has to cover what a network may reorder.
//!
//! Invariant: a number is new at most once, and no number is new that lies [`WINDOW`] or more before the highest received.

/// Numbers that the window covers.
pub(crate) const WINDOW: u64 = 2_048;
const BITS: u64 = u64::BITS as u64;
/// One word more than the window has: the one that is being filled.
const WORDS: usize = (WINDOW / BITS) as usize + 1;

/// The numbers received on one path in one session.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// The number after the highest that was received.
    next: u64,
    words: [u64; WORDS],
}

impl Default for Replay {
    fn default() -> Self {
        Self { next: 0, words: [0; WORDS] }
    }
}

impl Replay {
    /// Whether a number has neither been received nor lies before the window.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        let (word, bit) = place(number);
        self.next - number <= WINDOW && self.words[word] & bit == 0
    }

    /// A number was received, and its cell is authentic.
    pub(crate) fn note(&mut self, number: u64) {
        if number >= self.next {
            let (last, first) = (number / BITS, self.next.div_ceil(BITS));
            for word in first..=last.min(first + WORDS as u64 - 1) {
                self.words[index(word)] = 0;
            }
            self.next = number + 1;
        }
        let (word, bit) = place(number);
        self.words[word] |= bit;
    }
}

fn place(number: u64) -> (usize, u64) {
    (index(number / BITS), 1 << (number % BITS))
}

fn index(word: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below WORDS")]
    let index = (word % WORDS as u64) as usize;
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    /// The same with a set of all numbers received.
    #[derive(Default)]
    struct Naive(BTreeSet<u64>);

    impl Naive {
        fn is_new(&self, number: u64) -> bool {
            let next = self.0.last().map_or(0, |highest| highest + 1);
            number >= next || (next - number <= WINDOW && !self.0.contains(&number))
        }
    }

    #[test]
    fn the_window_has_its_exact_size() {
        let mut replay = Replay::default();
        replay.note(5_000);
        assert!(!replay.is_new(5_000));
        assert!(replay.is_new(5_001 - WINDOW));
        assert!(!replay.is_new(5_000 - WINDOW));
    }

    proptest! {
        /// Steps of all sizes: neighbours, late ones, leaps within the window and beyond it.
        #[test]
        fn it_is_a_set_of_what_was_received(
            start in prop_oneof![Just(0), 0u64..1 << 40],
            steps in proptest::collection::vec(prop_oneof![-70i64..70, -2_200i64..2_200, -5_000i64..9_000], 1..400),
        ) {
            let (mut replay, mut naive) = (Replay::default(), Naive::default());
            let mut number = start;
            for step in steps {
                number = number.saturating_add_signed(step);
                prop_assert_eq!(replay.is_new(number), naive.is_new(number), "{}", number);
                if naive.is_new(number) {
                    replay.note(number);
                    naive.0.insert(number);
                }
            }
        }
    }
}
