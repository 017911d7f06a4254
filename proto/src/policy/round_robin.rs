//! `rr`: one link after the other, a few cells each, whatever they can carry.
//!
//! Source: P0 and P2 (balance-rr). A link that is full is waited for, so the slowest link sets the pace; that is what
//! round robin means.

use super::{Choice, Distribute, Share};

/// Cells in turn: enough for a batch, few enough that a superframe uses all links.
const TURN: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    /// The port whose turn it is, or the next above it.
    turn: u8,
}

impl Distribute for RoundRobin {
    fn share(&mut self, choices: &[Choice], cells: usize, _cell_bytes: usize) -> Option<Share> {
        let index = choices.iter().position(|choice| choice.port >= self.turn).unwrap_or(0);
        if choices[index].full {
            return None;
        }
        self.turn = choices[index].port + 1;
        Some(Share { index, cells: cells.min(TURN) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn choice(port: u8) -> Choice {
        Choice { port, queued: 0, rate: None, skew: Duration::ZERO, full: false }
    }

    #[test]
    fn every_link_has_its_turn_and_a_full_one_is_waited_for() {
        let mut policy = RoundRobin::default();
        let mut choices = [choice(0), choice(2), choice(3)];
        let turns: [_; 4] = core::array::from_fn(|_| policy.share(&choices, 100, 1452).unwrap().index);
        assert_eq!(turns, [0, 1, 2, 0]);
        choices[1].full = true;
        assert_eq!(policy.share(&choices, 100, 1452), None);
        choices[1].full = false;
        assert_eq!(policy.share(&choices, 3, 1452), Some(Share { index: 1, cells: 3 }));
    }
}
