//! `weighted`: each link carries its part, by the weights that are configured, else by stated or measured rate.
//!
//! Stride scheduling: each byte advances a link's position by the sum of all weights over the link's own, and the link with
//! the lowest position is next. So all positions follow the bytes that the bundle has sent. The policy passes over a full
//! link, which may catch up by [`LAG_MAX`] at most.
//!
//! Source: stride scheduling, Waldspurger and Weihl, MIT/LCS/TM-528, 1995.

use super::{Choice, Choosing, Distribute, InKernel, Share, Waiting, rates};
use crate::wire::cell::LINKS;
use crate::wire::numbered::Numbered;
use core::array;

/// Cells in turn of the link with the least weight; others get as many more as they weigh.
const TURN: u64 = 8;
/// Bytes of the bundle by which a link's position may lag.
const LAG_MAX: u64 = 256 * 1024;

pub(crate) struct Weighted {
    /// The position of each link, in bytes of the bundle.
    served: Numbered<[u64; LINKS]>,
    /// How far a byte advances each link's position: the sum of all weights, and its own.
    cost: Numbered<[(u64, u64); LINKS]>,
}

impl Default for Weighted {
    fn default() -> Self {
        Self { served: Numbered([0; LINKS]), cost: Numbered([(1, 1); LINKS]) }
    }
}

impl Distribute for Weighted {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let weights = weights(choices);
        let sum = weights.iter().sum();
        let furthest = choices.iter().map(|choice| self.served[choice.link]).max()?;
        for (choice, weight) in choices.iter().zip(weights) {
            let link = choice.link;
            self.served[link] = self.served[link].max(furthest.saturating_sub(LAG_MAX));
            self.cost[link] = (sum, weight);
        }
        let open = choices.iter().enumerate().filter(|(_, choice)| !choice.full);
        let (index, _) = open.min_by_key(|(_, choice)| self.served[choice.link])?;
        let least = weights[..choices.len()].iter().min()?;
        let turn = usize::try_from(TURN * weights[index] / least).unwrap_or(usize::MAX);
        Some(Share { index, cells: waiting.cells.min(turn) })
    }

    fn in_kernel(&mut self, choices: &[Choice], _: &Waiting) -> Option<InKernel> {
        Some(InKernel::Spread(Choosing::Shares, weights(choices)))
    }

    fn handle_sent(&mut self, _flow: u32, link: u8, bytes: u64) {
        let (sum, weight) = self.cost[link];
        let served = u128::from(bytes) * u128::from(sum) / u128::from(weight);
        let served = u64::try_from(served).unwrap_or(u64::MAX);
        self.served[link] = self.served[link].saturating_add(served);
    }
}

/// The weight of each choice, by its index, at least 1; 0 beyond the last.
fn weights(choices: &[Choice]) -> [u64; LINKS] {
    let stated = choices.iter().all(|choice| choice.weight.is_some());
    let rate = rates(choices);
    array::from_fn(|index| {
        choices.get(index).map_or(0, |choice| {
            let weight = choice.weight.filter(|_| stated).map(u64::from);
            weight.unwrap_or_else(|| rate(choice)).max(1)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{CELL, GIGABIT, choice, waiting};

    /// Sends so many times; says how many cells each of two links got.
    fn send(policy: &mut Weighted, choices: &[Choice], times: usize) -> [usize; 2] {
        let mut given = [0; 2];
        for _ in 0..times {
            let share = policy.share(choices, &waiting(0, 40)).unwrap();
            policy.handle_sent(0, choices[share.index].link, (share.cells * CELL) as u64);
            given[share.index] += share.cells;
        }
        given
    }

    #[test]
    fn stated_weights_go_before_rates() {
        let heavy = Choice { weight: Some(3), ..choice(0, Some(GIGABIT)) };
        let light = Choice { weight: Some(1), ..choice(1, Some(GIGABIT)) };
        let [first, second] = send(&mut Weighted::default(), &[heavy, light], 1_000);
        assert!(first.abs_diff(3 * second) < 64, "{first} {second}");
    }

    #[test]
    fn without_weights_links_get_as_much_as_they_can_carry() {
        let choices = [choice(0, Some(GIGABIT)), choice(1, Some(GIGABIT / 10))];
        let [first, second] = send(&mut Weighted::default(), &choices, 1_000);
        assert!(first.abs_diff(10 * second) < 128, "{first} {second}");
        let unknown = [choice(0, Some(GIGABIT)), choice(1, None)];
        let [first, second] = send(&mut Weighted::default(), &unknown, 1_000);
        assert!(first.abs_diff(second) <= 8, "{first} {second}");
    }

    #[test]
    fn a_full_link_is_not_waited_for_and_catches_up_a_little() {
        let mut policy = Weighted::default();
        let mut choices = [choice(0, Some(GIGABIT)), choice(1, Some(GIGABIT))];
        choices[1].full = true;
        assert_eq!(send(&mut policy, &choices, 1_000), [8_000, 0]);
        choices[1].full = false;
        let [first, second] = send(&mut policy, &choices, 1_000);
        let most = usize::try_from(LAG_MAX).unwrap() / CELL;
        assert!((1..=most).contains(&(second - first)), "{first} {second}");
        choices.iter_mut().for_each(|choice| choice.full = true);
        assert_eq!(policy.share(&choices, &waiting(0, 1)), None);
    }
}
