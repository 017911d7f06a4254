//! `adaptive`: the link that will deliver these cells first, from measured rate, queue and delay.
//!
//! For each link the arrival of the next byte is its skew plus the time that its queue takes. The earliest wins. It gets
//! as many cells as pass in a fraction of that queue's time: on an idle slow link few, so that a superframe is spread
//! and arrives sooner; on a busy or fast one a whole batch, so that system calls stay few. Links that are equally early
//! are used in turn. A link that is full at the moment is waited for if it carries all of the flow that waits before a cell on
//! another would arrive: so a thin flow does not take the further one, and a bulky one only as far as that pays. One that is far
//! carries no part of a flow, for TCP would wait for it each time, but whole flows: [`crate::send::far`] says which.

use super::{Choice, Choosing, Distribute, InKernel, Share, Waiting, rates};
use crate::link::nic::{bytes_in, time_of};
use crate::link::paths::{NEAR, Reach};
use crate::wire::cell::LINKS;
use core::time::Duration;

/// The least time worth of cells in one share: at 100 Mbit/s three cells, so that a system call carries some at any rate.
const SHARE_LEAST: Duration = Duration::from_micros(400);
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
        let arrival = |choice: &Choice| choice.skew + choice.wait;
        let turn = |choice: &Choice| choice.link.wrapping_sub(self.last).wrapping_sub(1);
        let (index, choice) = within(choices, waiting.reach)
            .filter(|(_, choice)| !choice.full)
            .min_by_key(|(_, choice)| (arrival(choice), turn(choice)))?;
        let backlog = (waiting.backlog * waiting.cell_bytes) as u64;
        let last_of_all = |full: &Choice| {
            let (rate, opens) = full.rate.zip(full.opens)?;
            Some(full.skew + full.wait.max(opens) + time_of(backlog, rate))
        };
        // A link of which nobody knows what it carries is not full for longer than until the next report.
        let reported = |full: &Choice| choice.skew.saturating_sub(full.skew) > NEAR.max(full.round_trip);
        let is_sooner =
            |full: &Choice| last_of_all(full).map_or_else(|| reported(full), |last| last < arrival(choice));
        if within(choices, waiting.reach).any(|(_, choice)| choice.full && is_sooner(choice)) {
            return None;
        }
        self.last = choice.link;
        let share = choice.rate.map_or(usize::MAX, |rate| {
            let least = SHARE_LEAST.max(waiting.round_trip / ROUND_TRIP_PARTS);
            let span = (choice.wait / SHARE_OF_QUEUE).max(least);
            usize::try_from(bytes_in(rate, span)).unwrap_or(usize::MAX) / waiting.cell_bytes
        });
        Some(Share { index, cells: waiting.cells.min(share.max(1)) })
    }

    fn in_kernel(&mut self, choices: &[Choice], _: &Waiting) -> Option<InKernel> {
        let rate = rates(choices);
        let mut speeds = [0; LINKS];
        within(choices, Reach::Near).for_each(|(index, choice)| speeds[index] = rate(choice));
        Some(InKernel::Spread(Choosing::Earliest, speeds))
    }
}

/// The choices that a flow may use, with their indexes.
fn within(choices: &[Choice], reach: Reach) -> impl Iterator<Item = (usize, &Choice)> {
    let place = |choice: &Choice| (choice.is_far, choice.skew);
    let is_reached = reach.of(choices.iter().map(place));
    choices.iter().enumerate().filter(move |(_, choice)| is_reached(place(choice)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::paths::FAR;
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
        assert_eq!((cells(1), cells(40)), (400 * 125 / CELL, 40_000 / 64 * 125 / CELL));
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

    #[test]
    fn a_full_link_is_waited_for_if_it_carries_all_before_another_does() {
        let full = Choice { full: true, ..example::choice(0, GIGABIT) };
        let late = Choice { wait: Duration::from_millis(1), ..example::choice(1, GIGABIT) };
        let share = |backlog| {
            let waiting = Waiting { backlog, ..waiting(0, 4) };
            Adaptive::default().share(&[full, late], &waiting)
        };
        // A millisecond is 86 cells.
        assert_eq!(share(80), None);
        assert_eq!(share(90).map(|share| share.index), Some(1));
    }

    #[test]
    fn a_further_link_is_used_when_more_waits_than_passes_until_its_cells_come() {
        let millis = Duration::from_millis;
        let near = Choice { full: true, round_trip: millis(30), ..example::choice(0, GIGABIT) };
        let share = |skew, backlog: Duration| {
            let far = Choice { skew, ..example::choice(1, GIGABIT) };
            let cells = usize::try_from(bytes_in(example::GIGABIT, backlog)).unwrap() / CELL;
            let waiting = Waiting { backlog: cells, ..waiting(0, 4) };
            Adaptive::default().share(&[near, far], &waiting).map(|share| share.index)
        };
        assert_eq!(share(millis(100), millis(99)), None);
        assert_eq!(share(millis(100), millis(101)), Some(1));
        assert_eq!(share(FAR, FAR + millis(1)), Some(1));
        assert_eq!(share(FAR + millis(1), millis(1_000)), None, "too far");
        let far = Choice { skew: millis(31), ..example::choice(1, GIGABIT) };
        let unknown = Choice { rate: None, ..near };
        assert_eq!(Adaptive::default().share(&[unknown, far], &waiting(0, 4)), None, "a report comes sooner");
    }

    #[test]
    fn a_far_link_has_whole_flows_and_the_nearest_is_never_too_far() {
        let far = Choice { skew: 3 * FAR, is_far: true, ..example::choice(1, GIGABIT) };
        let near = example::choice(0, GIGABIT);
        let index = |choices: &[Choice], reach| {
            let waiting = Waiting { reach, ..waiting(0, 4) };
            Adaptive::default().share(choices, &waiting).map(|share| share.index)
        };
        for reach in [Reach::Near, Reach::Returns] {
            assert_eq!(index(&[near, far], reach), Some(0));
            assert_eq!(index(&[Choice { full: true, ..near }, far], reach), None, "it waits for that");
            assert_eq!(index(&[far], reach), Some(0), "no other is up");
        }
        assert_eq!(index(&[near, far], Reach::Far), Some(1));
        assert_eq!(index(&[near, Choice { full: true, ..far }], Reach::Far), None);
        assert_eq!(index(&[near], Reach::Far), Some(0));
    }
}
