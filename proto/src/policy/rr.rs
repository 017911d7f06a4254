//! `rr`: one link after the other, whatever they can carry.
//!
//! A turn is counted in cells: a cell travels as one packet, and packets are what round robin turns by in the papers. With
//! [`Turn::Adaptive`], the links share what waits when a round of them begins: sparse cells take turns one by one, and a superframe
//! is one system call for each link. The policy waits for a full link, so the slowest link sets the pace.
//!
//! Source: P0, 2.2.1 and P2 (balance-rr).

use super::{Choice, Choosing, Distribute, InKernel, PolicyOptions, Share, Waiting};
use crate::wire::cell::LINKS;
use core::fmt;
use core::str::FromStr;

/// Bytes per second for which programs take each link: equal shares are all that counts.
const EQUAL: u64 = 125_000_000;

/// How many cells a link gets in its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// An equal part of those that wait when a round begins.
    #[default]
    Adaptive,
    /// So many, at least 1.
    Cells(u8),
    /// Those of a superframe: as many as one system call takes.
    Superframe,
}

impl Turn {
    /// The most cells that can be stated.
    pub const CELLS_MAX: u8 = 64;
    /// What a text may be, for error sentences.
    pub const ALLOWED: &str = "adaptive, or how many cells, from 0 (those of a superframe) to 64";
}

/// As in files and flags.
impl fmt::Display for Turn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => out.write_str("adaptive"),
            Self::Cells(cells) => write!(out, "{cells}"),
            Self::Superframe => out.write_str("0"),
        }
    }
}

/// A text that is no turn; [`Turn::ALLOWED`] says what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTurn;

impl FromStr for Turn {
    type Err = UnknownTurn;

    fn from_str(text: &str) -> Result<Self, UnknownTurn> {
        match text.parse() {
            _ if text == "adaptive" => Ok(Self::Adaptive),
            Ok(0) => Ok(Self::Superframe),
            Ok(cells @ 1..=Self::CELLS_MAX) => Ok(Self::Cells(cells)),
            _ => Err(UnknownTurn),
        }
    }
}

pub(crate) struct RoundRobin {
    turn: Turn,
    /// The link whose turn it is, or the next above it.
    next: u8,
    /// Turns that are left in this round, and the cells of each, where the turn is adaptive.
    round: (usize, usize),
}

impl RoundRobin {
    pub(crate) fn new(options: &PolicyOptions) -> Self {
        Self { turn: options.turn, next: 0, round: (0, 0) }
    }

    /// The cells of the turn that begins, of so many that wait.
    fn cells(&mut self, links: usize, waiting: usize) -> usize {
        match self.turn {
            Turn::Cells(cells) => cells.into(),
            Turn::Superframe => waiting,
            Turn::Adaptive => {
                if self.round.0 == 0 {
                    self.round = (links, waiting.div_ceil(links));
                }
                self.round.0 -= 1;
                self.round.1
            }
        }
    }
}

impl Distribute for RoundRobin {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let index = choices.iter().position(|choice| choice.link >= self.next).unwrap_or(0);
        if choices[index].full {
            return None;
        }
        self.next = choices[index].link + 1;
        let cells = self.cells(choices.len(), waiting.cells);
        Some(Share { index, cells: waiting.cells.min(cells) })
    }

    /// Programs count no cells, so a turn of a stated number is not theirs.
    fn in_kernel(&mut self, _: &[Choice], _: &Waiting) -> Option<InKernel> {
        let is_stated = matches!(self.turn, Turn::Cells(_));
        (!is_stated).then_some(InKernel::Spread(Choosing::Shares, [EQUAL; LINKS]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{choice, waiting};
    use std::string::ToString;
    use std::vec::Vec;

    fn turns_of(turn: Turn) -> RoundRobin {
        RoundRobin::new(&PolicyOptions { turn, ..PolicyOptions::default() })
    }

    /// The link and the cells of each turn, until so many cells that wait have left.
    fn turns(policy: &mut RoundRobin, links: u8, mut cells: usize) -> Vec<(u8, usize)> {
        let choices: Vec<_> = (0..links).map(|link| choice(link, None)).collect();
        let mut turns = Vec::new();
        while cells > 0 {
            let share = policy.share(&choices, &waiting(0, cells)).unwrap();
            turns.push((choices[share.index].link, share.cells));
            cells -= share.cells;
        }
        turns
    }

    #[test]
    fn every_link_has_its_turn_and_a_full_one_is_waited_for() {
        let mut policy = turns_of(Turn::Cells(8));
        let mut choices = [0, 2, 3].map(|link| choice(link, None));
        let turns: [_; 4] = core::array::from_fn(|_| policy.share(&choices, &waiting(0, 100)).unwrap().index);
        assert_eq!(turns, [0, 1, 2, 0]);
        choices[1].full = true;
        assert_eq!(policy.share(&choices, &waiting(0, 100)), None);
        choices[1].full = false;
        assert_eq!(policy.share(&choices, &waiting(0, 3)), Some(Share { index: 1, cells: 3 }));
    }

    #[test]
    fn programs_give_each_link_as_much_where_no_number_is_stated() {
        let choices = [choice(0, Some(EQUAL)), choice(1, Some(EQUAL / 10))];
        let equal = Some(InKernel::Spread(Choosing::Shares, [EQUAL; LINKS]));
        for (turn, how) in [(Turn::Adaptive, equal), (Turn::Superframe, equal), (Turn::Cells(8), None)] {
            assert_eq!(turns_of(turn).in_kernel(&choices, &waiting(0, 1)), how);
        }
    }

    #[test]
    fn a_turn_is_as_long_as_it_is_stated() {
        assert_eq!(turns(&mut turns_of(Turn::Cells(1)), 2, 4), [(0, 1), (1, 1), (0, 1), (1, 1)]);
        assert_eq!(turns(&mut turns_of(Turn::Cells(8)), 2, 20), [(0, 8), (1, 8), (0, 4)]);
        let mut policy = turns_of(Turn::Superframe);
        assert_eq!(turns(&mut policy, 2, 45), [(0, 45)]);
        assert_eq!(turns(&mut policy, 2, 45), [(1, 45)]);
    }

    #[test]
    fn an_adaptive_turn_is_long_for_much_and_one_cell_for_little() {
        let mut policy = turns_of(Turn::Adaptive);
        assert_eq!(turns(&mut policy, 3, 45), [(0, 15), (1, 15), (2, 15)]);
        assert_eq!(turns(&mut policy, 3, 2), [(0, 1), (1, 1)]);
        assert_eq!(turns(&mut policy, 3, 1), [(2, 1)]);
        assert_eq!(turns(&mut policy, 3, 4), [(0, 2), (1, 2)]);
    }

    #[test]
    fn turns_are_read_as_they_are_printed() {
        for turn in [Turn::Adaptive, Turn::Superframe, Turn::Cells(1), Turn::Cells(Turn::CELLS_MAX)] {
            assert_eq!(turn.to_string().parse(), Ok(turn));
        }
        for text in ["65", "-1", "", "eight"] {
            assert_eq!(text.parse::<Turn>(), Err(UnknownTurn), "{text}");
        }
    }
}
