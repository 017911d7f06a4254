//! `rr`: one link after the other, a few cells each, whatever they can carry.
//!
//! Source: P0 and P2 (balance-rr). The policy waits for a full link, so the slowest link sets the pace.

use super::{Choice, Distribute, Share, Waiting};

/// Cells in turn: enough for a batch, few enough that a superframe uses all links.
const TURN: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    /// The link whose turn it is, or the next above it.
    turn: u8,
}

impl Distribute for RoundRobin {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let index = choices.iter().position(|choice| choice.link >= self.turn).unwrap_or(0);
        if choices[index].full {
            return None;
        }
        self.turn = choices[index].link + 1;
        Some(Share { index, cells: waiting.cells.min(TURN) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{choice, waiting};

    #[test]
    fn every_link_has_its_turn_and_a_full_one_is_waited_for() {
        let mut policy = RoundRobin::default();
        let mut choices = [0, 2, 3].map(|link| choice(link, None));
        let turns: [_; 4] = core::array::from_fn(|_| policy.share(&choices, &waiting(0, 100)).unwrap().index);
        assert_eq!(turns, [0, 1, 2, 0]);
        choices[1].full = true;
        assert_eq!(policy.share(&choices, &waiting(0, 100)), None);
        choices[1].full = false;
        assert_eq!(policy.share(&choices, &waiting(0, 3)), Some(Share { index: 1, cells: 3 }));
    }
}
