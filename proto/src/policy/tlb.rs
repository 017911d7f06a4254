//! `tlb`: each sender on the link that has most headroom.
//!
//! The headroom is the NIC's: its speed, less what others send over it ([`crate::link::nic_load`]), and no more than what was measured
//! behind it. A sender that has no link gets the one with most headroom, ties going to the lowest number. The policy subtracts
//! the sender's expected rate, N = (bytes that it sent in the last 10 s) / 10 s, or 1 byte when it sent nothing, from that
//! link's headroom. Every 10 s it dissolves all associations and makes them anew, in the order in which the senders send.
//!
//! Source: P0, 2.2.2, Linux's balance-tlb. Its flaw (P0, finding 6) is kept: senders that start just before the renewal
//! look light, and share a link. `tlb-history` corrects it.

use super::senders::Senders;
use super::{Choice, Distribute, Share, Waiting, rooms};
use crate::policy::classify::HashLayers;
use crate::wire::cell::LINKS;
use core::cmp::Reverse;

/// Bytes per second that a sender without history is expected to send.
const NEWCOMER: u64 = 1;

#[derive(Debug, Default)]
pub(crate) struct Tlb {
    senders: Senders,
    /// Bytes per second that the senders of each link are expected to send.
    expected: [u64; LINKS],
}

impl Distribute for Tlb {
    fn share(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<Share> {
        let index = self.seat(choices, waiting)?;
        Share::all(choices, index, waiting)
    }

    fn layers(&self) -> Option<HashLayers> {
        Some(HashLayers::Layer34)
    }

    fn seat(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<usize> {
        if self.senders.renew(waiting.now) {
            self.expected = [0; LINKS];
            self.senders.iter_mut().for_each(|sender| sender.link = None);
        }
        let seat = self.senders.seat(waiting.flow, choices);
        seat.or_else(|| self.associate(choices, waiting.flow))
    }

    fn handle_sent(&mut self, flow: u32, _link: u8, bytes: u64) {
        self.senders.handle_sent(flow, bytes);
    }
}

impl Tlb {
    /// Associates a sender with a link, which it leaves only when the link does.
    fn associate(&mut self, choices: &[Choice], flow: u32) -> Option<usize> {
        let room = rooms(choices);
        let headroom = |choice: &Choice| {
            let expected = self.expected[usize::from(choice.link)];
            i128::from(room(choice).send) - i128::from(expected)
        };
        let (index, choice) =
            choices.iter().enumerate().min_by_key(|(_, choice)| Reverse(headroom(choice)))?;
        let sender = self.senders.of(flow);
        let expected = sender.sent.max(NEWCOMER);
        if let Some(left) = sender.link.replace(choice.link) {
            self.expected[usize::from(left)] = self.expected[usize::from(left)].saturating_sub(expected);
        }
        self.expected[usize::from(choice.link)] += expected;
        Some(index)
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

    const RATE: u64 = 12_500_000;

    fn links() -> [Choice; 2] {
        [choice(0, Some(RATE)), choice(1, Some(RATE))]
    }

    fn link(policy: &mut Tlb, flow: u32, now: Instant) -> u8 {
        let share = policy.share(&links(), &Waiting { now, ..waiting(flow, 1) }).unwrap();
        links()[share.index].link
    }

    /// P0, figure 2: A goes to NIC 0, B to NIC 1, and C, which comes later, to NIC 1 since A sends more than B.
    #[test]
    fn the_example_of_the_paper() {
        let [a, b, c, d] = [0, 1, 2, 3];
        let mut policy = Tlb::default();
        let start = Instant::default();
        assert_eq!((link(&mut policy, a, start), link(&mut policy, b, start)), (0, 1), "1 byte each");
        policy.handle_sent(a, 0, 50_000_000);
        policy.handle_sent(b, 1, 20_000_000);
        let renewed = start + PERIOD;
        assert_eq!((link(&mut policy, a, renewed), link(&mut policy, b, renewed)), (0, 1));
        assert_eq!(policy.expected[..2], [5_000_000, 2_000_000]);
        assert_eq!(link(&mut policy, c, renewed), 1);
        assert_eq!(policy.expected[1], 2_000_001, "a newcomer is expected to send 1 byte");
        assert_eq!(link(&mut policy, d, renewed), 1);
    }

    #[test]
    fn associations_last_for_exactly_ten_seconds() {
        let mut policy = Tlb::default();
        let start = Instant::default();
        assert_eq!((link(&mut policy, 0, start), link(&mut policy, 1, start)), (0, 1));
        let end = start + PERIOD;
        assert_eq!(link(&mut policy, 1, end - Duration::from_nanos(1)), 1);
        assert_eq!(link(&mut policy, 1, end), 0, "the first to send gets the lowest number");
    }

    #[test]
    fn a_link_that_is_gone_is_left_and_a_full_one_waited_for() {
        let mut policy = Tlb::default();
        let mut links = links();
        assert_eq!(policy.share(&links, &waiting(0, 4)), Some(Share { index: 0, cells: 4 }));
        links[0].full = true;
        assert_eq!(policy.share(&links, &waiting(0, 4)), None);
        assert_eq!(policy.share(&links[1..], &waiting(0, 4)), Some(Share { index: 0, cells: 4 }));
        assert_eq!(policy.expected[..2], [0, 1]);
    }

    /// P0's rule is of the NIC, and not of the bundle's part of it.
    #[test]
    fn what_others_send_over_a_nic_and_its_speed_decide() {
        let nic = |link, megabits: u64, others: u64| {
            let [speed, others] = [megabits, others].map(|megabits| megabits * 125_000);
            Choice { speed: Some(speed), others, ..choice(link, None) }
        };
        let first =
            |choices: &[Choice]| choices[Tlb::default().share(choices, &waiting(0, 1)).unwrap().index].link;
        assert_eq!(first(&[nic(0, 1_000, 0), nic(1, 1_000, 0)]), 0, "a tie");
        assert_eq!(first(&[nic(0, 1_000, 600), nic(1, 1_000, 0)]), 1);
        assert_eq!(first(&[nic(0, 1_000, 600), nic(1, 1_000, 700)]), 0);
        assert_eq!(first(&[nic(0, 1_000, 600), nic(1, 100, 0)]), 0, "400 Mbit/s are left of the one");
        assert_eq!(first(&[nic(0, 100, 0), nic(1, 1_000, 0)]), 1);
        assert_eq!(first(&[nic(0, 1_000, 20), nic(1, 1_000, 0)]), 0, "a few packets are no load");
        let measured = |nic: Choice, megabits: u64| Choice { rate: Some(megabits * 125_000), ..nic };
        let behind = [measured(nic(0, 1_000, 0), 50), measured(nic(1, 1_000, 900), 100)];
        assert_eq!(first(&behind), 1, "the way behind a NIC may be narrower");
        let slow_by_word = [measured(nic(0, 10, 0), 500), measured(nic(1, 1_000, 0), 400)];
        assert_eq!(first(&slow_by_word), 0, "it carries more than it says");
        let silent = [Choice { others: 50_000_000, ..choice(0, Some(RATE)) }, choice(1, Some(RATE - 1))];
        assert_eq!(first(&silent), 0, "what was measured is what others leave");
    }

    /// P0, finding 6 and figure 10: A starts 10 s before B, C and D, which share one link from then on.
    #[test]
    fn three_latecomers_share_one_link_for_the_whole_run() {
        let seats = skew::play(&mut Tlb::default(), 8);
        assert_eq!(seats[0], vec![1, 0], "A alone");
        assert!(seats[1..].iter().all(|seats| *seats == [1, 3]), "{seats:?}");
    }
}
