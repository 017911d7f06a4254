//! `tlb`: each sender on the link that has most headroom.
//!
//! The headroom is the NIC's: its speed, less what others send over it ([`crate::link::nic_load`]), and no more than what was measured
//! behind it. A sender that has no link gets the one with most headroom, ties going to the lowest number. The policy subtracts
//! the sender's expected rate, N = (bytes that it sent in the last 10 s) / 10 s, or 1 byte when it sent nothing, from that
//! link's headroom. Every 10 s it dissolves all associations and makes them anew, in the order in which the senders send.
//!
//! Programs in the kernel know no rates. So they have the links of the next newcomers ahead, in the order in which the rule gives them; and
//! whoever sent by programs gets its link at the renewal, by its number, and not with its next frame.
//!
//! Source: P0, 2.2.2, Linux's balance-tlb. Its flaw (P0, finding 6) is kept: senders that start just before the renewal
//! look light, and share a link. `tlb-history` corrects it.

use super::senders::{SENDERS, Senders};
use super::{Choice, Distribute, InKernel, Waiting, rooms};
use crate::policy::classify::HashLayers;
use crate::wire::cell::LINKS;
use crate::wire::numbered::Numbered;
use core::cmp::Reverse;

/// Bytes per second that a sender without history is expected to send.
const EXPECTED_OF_NEW: u64 = 1;

#[derive(Default)]
pub(crate) struct Tlb {
    senders: Senders,
    /// Bytes per second that the senders of each link are expected to send.
    expected: Numbered<[u64; LINKS]>,
}

impl Distribute for Tlb {
    fn layers(&self) -> Option<HashLayers> {
        Some(HashLayers::Layer34)
    }

    fn seat(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<usize> {
        self.renew(waiting);
        let seat = self.senders.seat(waiting.flow, choices);
        seat.or_else(|| self.associate(choices, waiting.flow))
    }

    fn handle_sent(&mut self, flow: u32, _link: u8, bytes: u64) {
        self.senders.handle_sent(flow, bytes);
    }

    fn senders(&mut self) -> Option<&mut Senders> {
        Some(&mut self.senders)
    }

    fn handle_seat(&mut self, flow: u32, link: u8) {
        let sender = self.senders.of(flow);
        let expected = sender.sent.max(EXPECTED_OF_NEW);
        if let Some(left) = sender.link.replace(link) {
            self.expected[left] = self.expected[left].saturating_sub(expected);
        }
        self.expected[link] += expected;
    }

    fn in_kernel(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<InKernel> {
        self.renew(waiting);
        for flow in 0..SENDERS {
            let sender = self.senders.of(flow);
            if sender.peer() == Some(waiting.peer) && sender.link.is_none() && sender.sent > 0 {
                self.associate(choices, flow);
            }
        }
        let mut expected = self.expected;
        Some(InKernel::Senders(self.senders.deal(|_| {
            let link = best(choices, &expected).map_or(0, |index| choices[index].link);
            expected[link] += EXPECTED_OF_NEW;
            link
        })))
    }
}

impl Tlb {
    /// Dissolves all associations when their time is over.
    fn renew(&mut self, waiting: &Waiting) {
        if self.senders.renew(waiting.now) {
            self.expected = Numbered::default();
            self.senders.iter_mut().for_each(|sender| sender.link = None);
        }
    }

    /// Associates a sender with a link, which it leaves only when the link does.
    fn associate(&mut self, choices: &[Choice], flow: u32) -> Option<usize> {
        let index = best(choices, &self.expected)?;
        self.handle_seat(flow, choices[index].link);
        Some(index)
    }
}

/// The index of the choice that has most headroom.
fn best(choices: &[Choice], expected: &Numbered<[u64; LINKS]>) -> Option<usize> {
    let room = rooms(choices);
    let headroom = |choice: &Choice| i128::from(room(choice).send) - i128::from(expected[choice.link]);
    (0..choices.len()).min_by_key(|index| Reverse(headroom(&choices[*index])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Share;
    use crate::policy::example::{RATE, choice, links, newcomers, waiting};
    use crate::policy::senders::PERIOD;
    use crate::policy::{Policy, PolicyKind, PolicyOptions, Seen, skew};
    use crate::time::Instant;
    use core::time::Duration;
    use std::vec;
    use std::vec::Vec;

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
        assert_eq!(policy.expected.0[..2], [5_000_000, 2_000_000]);
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
        assert_eq!(policy.expected.0[..2], [0, 1]);
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
        for seats in [skew::play(&mut Tlb::default(), 8), skew::play_by_programs(PolicyKind::Tlb, 8)] {
            assert_eq!(seats[0], vec![1, 0], "A alone");
            assert!(seats[1..].iter().all(|seats| *seats == [1, 3]), "{seats:?}");
        }
    }

    /// Programs give out what the rule would give to one after the other, and what they gave counts.
    #[test]
    fn newcomers_by_programs_get_what_the_rule_gives() {
        let mut policy = Policy::new(PolicyKind::Tlb, &PolicyOptions::default());
        let [even, uneven] = [[RATE, RATE], [RATE, RATE + 3]]
            .map(|rates| [0, 1].map(|link| choice(link, Some(rates[usize::from(link)]))));
        let mut next = |links: &[Choice]| newcomers(&mut policy, links, &waiting(0, 1))[..6].to_vec();
        assert_eq!(next(&even), [0, 1, 0, 1, 0, 1]);
        assert_eq!(next(&uneven), [1, 1, 1, 0, 1, 0]);
        assert_eq!(next(&even[1..]), [1; 6]);
        policy.handle_senders(1, |flow| (flow == 7).then_some(Seen { peer: 0, link: 0, carried: [0; 2] }));
        let next = newcomers(&mut policy, &even, &waiting(0, 1));
        assert_eq!(next[1..5], [1, 0, 1, 0], "the first place has been taken");
        policy.handle_senders(2, |flow| (flow == 7).then_some(Seen { peer: 0, link: 1, carried: [0; 2] }));
        let next = newcomers(&mut policy, &even, &waiting(0, 1));
        assert_eq!(next[2..6], [0, 0, 1, 0], "its link went down, and it has the other one");
        assert_eq!(policy.moves().count(), 0);
    }

    /// At the renewal heavy senders are divided, idle ones forgotten, and a sender of a peer whose frames are in cells waits for its next.
    #[test]
    fn at_the_renewal_programs_are_told_who_moves() {
        let mut policy = Policy::new(PolicyKind::Tlb, &PolicyOptions::default());
        let seen = |bytes: u64| {
            move |flow: u32| {
                let peer = u16::from(flow == 3);
                let carried = [if flow == 2 { 0 } else { bytes }, 0];
                (flow < 4).then_some(Seen { peer, link: 1, carried })
            }
        };
        policy.handle_senders(4, seen(0));
        newcomers(&mut policy, &links(), &waiting(0, 1));
        policy.handle_senders(4, seen(RATE));
        let now = Instant::default() + PERIOD;
        let next = newcomers(&mut policy, &links(), &Waiting { now, ..waiting(0, 1) });
        assert_eq!(next[4..7], [0, 1, 0]);
        assert_eq!(policy.moves().collect::<Vec<_>>(), [(0, Some((0, 0))), (2, None), (3, None)]);
    }
}
