//! `tlb-history`: each sender on the link that offers it most, by past link load and the senders' volumes.
//!
//! `tlb` takes for a sender's demand what its link let it send. So P0's finding 6 lasts: a sender that has a link to
//! itself looks three times as heavy as each of three that share one. Here a sender that filled its link together with
//! others is *greedy*: it would send more, and nobody knows how much. So is a newcomer. A sender that could send all it
//! wanted has a known volume. A link's offer is what the known volumes leave of its rate, divided among its greedy senders and
//! one more; a newcomer takes the best offer. Every 10 s, greedy senders whose share is clearly smaller than another
//! link's offer move there, one after the other. A sender with a known volume stays: after a move the receiver has to wait
//! for the cells that the former link still carries.
//!
//! Source: the question is P0's finding 6; the means are those in the title of P4's reference \[1\], Taniguchi et al.
//! 2018 (past NIC load and volume per process). The rules are this project's.

use super::senders::{Sender, Senders};
use super::{Choice, Distribute, Share, Waiting, rates};
use crate::policy::classify::HashLayers;
use crate::wire::cell::LINKS;
use core::cmp::Reverse;

/// A link was filled when it carried at least three quarters of its rate: TCP over short queues leaves gaps.
const FILLED: (u64, u64) = (3, 4);
/// A greedy sender sent at least half of an equal part: flows that share a link are never quite equal.
const GREEDY: (u64, u64) = (1, 2);
/// An offer is clearly better than a share when it is five quarters of it: rates are measured, not exact.
const BETTER: (u64, u64) = (5, 4);

#[derive(Debug, Default)]
pub(crate) struct TlbHistory {
    senders: Senders,
    links: [Load; LINKS],
}

/// A link's rate, and the demand of its senders.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Bytes per second that it carries.
    rate: u64,
    /// Bytes per second of the senders whose volume is known.
    known: u64,
    /// Greedy senders.
    greedy: u64,
}

impl Load {
    /// What each greedy sender gets when there are `greedy`.
    fn share(&self, greedy: u64) -> u64 {
        self.rate.saturating_sub(self.known) / greedy.max(1)
    }

    fn offer(&self) -> u64 {
        self.share(self.greedy + 1)
    }
}

impl Distribute for TlbHistory {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let index = self.seat(choices, waiting)?;
        Share::all(choices, index, waiting)
    }

    fn layers(&self) -> Option<HashLayers> {
        Some(HashLayers::Layer34)
    }

    fn seat(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<usize> {
        let rate = rates(choices);
        for choice in choices {
            self.links[usize::from(choice.link)].rate = rate(choice);
        }
        if self.senders.renew(waiting.now) {
            self.judge();
            self.balance(choices);
        }
        let seat = self.senders.seat(waiting.flow, choices);
        seat.or_else(|| self.associate(choices, waiting.flow))
    }

    fn handle_sent(&mut self, flow: u32, _link: u8, bytes: u64) {
        self.senders.handle_sent(flow, bytes);
    }
}

impl TlbHistory {
    fn associate(&mut self, choices: &[Choice], flow: u32) -> Option<usize> {
        let links = &mut self.links;
        let (index, choice) = best(choices, links)?;
        let sender = self.senders.of(flow);
        if let Some(left) = sender.link.replace(choice.link) {
            leave(&mut links[usize::from(left)], sender);
        }
        join(&mut links[usize::from(choice.link)], sender);
        Some(index)
    }

    /// Finds the greedy senders, from what the links carried and the senders sent in the last period. Forgets senders that
    /// sent nothing.
    fn judge(&mut self) {
        let mut carried = [(0, 0); LINKS];
        for sender in self.senders.iter_mut() {
            match (sender.link, sender.volume) {
                (Some(link), Some(volume)) => {
                    let (load, senders) = &mut carried[usize::from(link)];
                    *load += volume;
                    *senders += 1;
                }
                _ => sender.link = None,
            }
        }
        for link in &mut self.links {
            *link = Load { rate: link.rate, ..Load::default() };
        }
        for sender in self.senders.iter_mut() {
            let (Some(link), Some(volume)) = (sender.link, sender.volume) else { continue };
            let (load, senders) = carried[usize::from(link)];
            let link = &mut self.links[usize::from(link)];
            let filled = load >= link.rate / FILLED.1 * FILLED.0;
            let greedy = filled && volume >= load / senders / GREEDY.1 * GREEDY.0;
            sender.volume = (!greedy).then_some(volume);
            join(link, sender);
        }
    }

    /// Moves greedy senders to better offers. One pass: each move makes its link's offer worse and the left one's better.
    fn balance(&mut self, choices: &[Choice]) {
        for sender in self.senders.iter_mut().filter(|sender| sender.volume.is_none()) {
            let (Some(link), Some((_, choice))) = (sender.link, best(choices, &self.links)) else { continue };
            let [from, to] = [link, choice.link].map(usize::from);
            let share = self.links[from].share(self.links[from].greedy);
            if self.links[to].offer() / BETTER.0 * BETTER.1 > share {
                leave(&mut self.links[from], sender);
                join(&mut self.links[to], sender);
                sender.link = Some(choice.link);
            }
        }
    }
}

/// The link with the best offer, the first of several.
fn best<'a>(choices: &'a [Choice], links: &[Load; LINKS]) -> Option<(usize, &'a Choice)> {
    choices.iter().enumerate().min_by_key(|(_, choice)| Reverse(links[usize::from(choice.link)].offer()))
}

fn join(link: &mut Load, sender: &Sender) {
    match sender.volume {
        Some(volume) => link.known += volume,
        None => link.greedy += 1,
    }
}

fn leave(link: &mut Load, sender: &Sender) {
    match sender.volume {
        Some(volume) => link.known = link.known.saturating_sub(volume),
        None => link.greedy = link.greedy.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{choice, waiting};
    use crate::policy::senders::PERIOD;
    use crate::policy::skew;
    use crate::time::Instant;
    use core::time::Duration;
    use std::vec;
    use std::vec::Vec;

    const RATE: u64 = 12_500_000;

    fn links() -> [Choice; 2] {
        [choice(0, Some(RATE)), choice(1, Some(RATE))]
    }

    /// The world of P0's finding 6, where `tlb` leaves B, C and D on one link.
    #[test]
    fn latecomers_are_spread_at_once_and_stay_so() {
        let seats = skew::play(&mut TlbHistory::default(), 8);
        assert_eq!(seats[0], vec![1, 0]);
        assert!(seats[1..].iter().all(|seats| *seats == [2, 2]), "{seats:?}");
    }

    #[test]
    fn who_shares_a_link_with_too_many_moves_when_another_comes() {
        let mut policy = TlbHistory::default();
        let links = links();
        for flow in 0..4 {
            let now = Instant::default();
            policy.share(&links[..1], &Waiting { now, ..waiting(flow, 1) }).unwrap();
            policy.handle_sent(flow, 0, RATE / 4 * PERIOD.as_secs());
        }
        let now = Instant::default() + PERIOD;
        let links: Vec<_> = (0..4)
            .map(|flow| policy.share(&links, &Waiting { now, ..waiting(flow, 1) }).unwrap().index)
            .collect();
        assert_eq!(links.iter().filter(|link| **link == 0).count(), 2, "{links:?}");
    }

    #[test]
    fn who_lacks_nothing_stays_and_leaves_room_to_others() {
        let mut policy = TlbHistory::default();
        let links = links();
        let mut at = |flow, secs| {
            let now = Instant::default() + Duration::from_secs(secs);
            let index = policy.share(&links, &Waiting { now, ..waiting(flow, 1) }).unwrap().index;
            let bytes = if flow == 1 { 10_000 } else { RATE * 9 };
            policy.handle_sent(flow, links[index].link, bytes);
            index
        };
        assert_eq!((at(0, 0), at(1, 0)), (0, 1));
        assert_eq!((at(0, 10), at(1, 10)), (0, 1));
        assert_eq!(at(2, 11), 1, "beside the one that sends little");
        assert_eq!((at(0, 20), at(1, 20), at(2, 20)), (0, 1, 1));
    }
}
