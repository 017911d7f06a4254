//! `adaptive`: the link that will deliver these cells first, from measured rate, queue and delay.
//!
//! For each link the arrival of the next byte is its skew plus the time that its queue takes. The earliest wins. It gets
//! as many cells as pass in a fraction of that queue's time: on an idle slow link few, so that a superframe is spread
//! and arrives sooner; on a busy or fast one a whole batch, so that system calls stay few. Links that are equally early
//! are used in turn.

use super::{Choice, Distribute, Share, Waiting};
use crate::link::nic::bytes_in;
use crate::time::nanos;
use core::time::Duration;

/// The least time worth of cells in one share: a few times what a system call costs.
const SHARE_LEAST: Duration = Duration::from_micros(60);
/// On a long way it is a part of the round trip: one in so many is no delay that anyone notices.
const ROUND_TRIP_PARTS: u32 = 64;
/// A share takes at most this fraction of the queue's time, so that links stay level.
const SHARE_OF_QUEUE: u32 = 4;

#[derive(Debug, Default)]
pub(crate) struct Adaptive {
    /// The link that was used last: ties go to another.
    last: u8,
}

impl Distribute for Adaptive {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let arrival = |choice: &Choice| nanos(choice.skew + choice.wait);
        let turn = |choice: &Choice| choice.link.wrapping_sub(self.last).wrapping_sub(1);
        let (index, choice) = choices
            .iter()
            .enumerate()
            .filter(|(_, choice)| !choice.full)
            .min_by_key(|(_, choice)| (arrival(choice), turn(choice)))?;
        self.last = choice.link;
        let share = choice.rate.map_or(usize::MAX, |rate| {
            let least = SHARE_LEAST.max(waiting.round_trip / ROUND_TRIP_PARTS);
            let span = (choice.wait / SHARE_OF_QUEUE).max(least);
            usize::try_from(bytes_in(rate, span)).unwrap_or(usize::MAX) / waiting.cell_bytes
        });
        Some(Share { index, cells: waiting.cells.min(share.max(1)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::nic::time_of;
    use crate::policy::example::{self, CELL, waiting};

    const GIGABIT: Option<u64> = Some(example::GIGABIT);

    #[test]
    fn shares_follow_the_rates_of_unequal_links() {
        let mut policy = Adaptive::default();
        let mut choices = [example::choice(0, GIGABIT), example::choice(1, Some(12_500_000))];
        let mut given = [0u64; 2];
        for _ in 0..1_000 {
            let share = policy.share(&choices, &waiting(0, 40)).unwrap();
            given[share.index] += share.cells as u64;
            let choice = &mut choices[share.index];
            choice.wait += time_of((share.cells * CELL) as u64, choice.rate.unwrap());
        }
        let ratio = given[0] / given[1];
        assert!((9..=11).contains(&ratio), "{given:?}");
    }

    #[test]
    fn a_later_link_is_used_only_when_the_queue_of_the_earlier_outweighs_it() {
        let mut policy = Adaptive::default();
        let late = Choice { skew: Duration::from_millis(1), ..example::choice(1, GIGABIT) };
        let index = |policy: &mut Adaptive, micros| {
            let early = Choice { wait: Duration::from_micros(micros), ..example::choice(0, GIGABIT) };
            policy.share(&[early, late], &waiting(0, 40)).unwrap().index
        };
        assert_eq!(index(&mut policy, 999), 0);
        assert_eq!(index(&mut policy, 1_001), 1);
    }

    #[test]
    fn shares_are_larger_on_a_long_way() {
        let choices = [example::choice(0, GIGABIT), example::choice(1, GIGABIT)];
        let cells = |millis| {
            let round_trip = Duration::from_millis(millis);
            let waiting = Waiting { round_trip, ..waiting(0, 64) };
            Adaptive::default().share(&choices, &waiting).unwrap().cells
        };
        assert_eq!((cells(1), cells(20)), (60 * 125 / CELL, 20_000 / 64 * 125 / CELL));
    }

    #[test]
    fn links_that_never_wait_take_turns_and_full_ones_are_left_out() {
        let mut policy = Adaptive::default();
        let mut choices = [0, 1, 2].map(|link| example::choice(link, None));
        let first = policy.share(&choices, &waiting(0, 44)).unwrap();
        let second = policy.share(&choices, &waiting(0, 44)).unwrap();
        assert_eq!((first.cells, second.cells), (44, 44));
        assert_ne!(first.index, second.index);
        choices.iter_mut().for_each(|choice| choice.full = true);
        assert_eq!(policy.share(&choices, &waiting(0, 44)), None);
    }
}
