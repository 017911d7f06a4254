//! `tlb-history`: each sender on the link that offers it most, by past NIC load and the senders' volumes, in both directions.
//!
//! `tlb` takes for a sender's demand what its link let it send. So P0's finding 6 lasts: a sender that has a link to
//! itself looks three times as heavy as each of three that share one. Here a sender that filled its link together with
//! others is *greedy*: it would send more, and nobody knows how much. So is a newcomer. A sender that could send all it
//! wanted is *content*: its volume is known.
//!
//! A link has two rooms: what others and the content senders leave of what its NIC can send, and what its NIC can receive
//! besides what it did of late. Its offer to a sender is their mean, in which each room weighs as much as the sender sent and
//! received; to a newcomer, of which nobody knows which way it will go, the smaller room. Greedy senders share it. A newcomer
//! takes the best offer. Every 10 s, greedy senders whose share is clearly smaller than another link's offer move there, one
//! after the other. A content sender stays: after a move the receiver has to wait for the cells that the former link still
//! carries.
//!
//! The end that begins a flow chooses for both directions: who answers goes by the link over which the flow comes, for only the
//! other end knows what its NICs receive. So what a sender receives comes by its own link.
//!
//! Programs in the kernel have the links of the next newcomers ahead. They give who answers its link when the flow comes.
//!
//! Source: the question is P0's finding 6; the means are those in the title of P4's reference \[1\], Taniguchi et al.
//! 2018 (past NIC load, and volume sent and received per process). The rules are this project's.

use super::senders::{Sender, Senders};
use super::{Choice, Distribute, InKernel, Room, Waiting, rooms};
use crate::policy::classify::HashLayers;
use crate::wire::cell::LINKS;
use crate::wire::numbered::Numbered;
use core::cmp::Reverse;

/// A link was filled when it carried at least three quarters of its rate: TCP over short queues leaves gaps.
const FILLED: (u64, u64) = (3, 4);
/// A greedy sender sent at least half of an equal part: flows that share a link are never quite equal.
const GREEDY: (u64, u64) = (1, 2);
/// An offer is clearly better than a share when it is five quarters of it: rates are measured, not exact.
const BETTER: (u64, u64) = (5, 4);

#[derive(Default)]
pub(crate) struct TlbHistory {
    senders: Senders,
    links: Numbered<[Load; LINKS]>,
}

/// What a link's NIC has left, and the demand of its senders.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    room: Room,
    /// Bytes per second of its content senders.
    known: u64,
    greedy: u64,
}

impl Load {
    /// What each greedy sender gets when there are `greedy`, as it counts for this one.
    fn share(&self, greedy: u64, sender: &Sender) -> u64 {
        let rooms = [self.room.send.saturating_sub(self.known), self.room.receive].map(u128::from);
        let [sent, received] = [sender.sent, sender.received].map(u128::from);
        let mean = (rooms[0] * sent + rooms[1] * received).checked_div(sent + received);
        let room = mean.unwrap_or(rooms[0].min(rooms[1]));
        u64::try_from(room).unwrap_or(u64::MAX) / greedy.max(1)
    }

    fn offer(&self, sender: &Sender) -> u64 {
        self.share(self.greedy + 1, sender)
    }
}

impl Distribute for TlbHistory {
    fn layers(&self) -> Option<HashLayers> {
        Some(HashLayers::Layer34)
    }

    fn seat(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<usize> {
        self.renew(choices, waiting);
        let seat = self.senders.seat(waiting.flow, choices);
        seat.or_else(|| self.associate(choices, waiting.flow))
    }

    fn handle_sent(&mut self, flow: u32, _link: u8, bytes: u64) {
        self.senders.handle_sent(flow, bytes);
    }

    fn heeds_received(&self) -> bool {
        true
    }

    fn handle_received(&mut self, flow: u32, link: Option<u8>, bytes: u64) {
        self.senders.handle_received(flow, bytes);
        let sender = self.senders.of(flow);
        if sender.link.is_none() {
            sender.came_by = link;
        }
    }

    fn senders(&mut self) -> Option<&mut Senders> {
        Some(&mut self.senders)
    }

    fn handle_seat(&mut self, flow: u32, link: u8) {
        let (links, sender) = (&mut self.links, self.senders.of(flow));
        if let Some(left) = sender.link.replace(link) {
            leave(&mut links[left], sender);
        }
        join(&mut links[link], sender);
    }

    fn in_kernel(&mut self, choices: &[Choice], waiting: &Waiting) -> Option<InKernel> {
        self.renew(choices, waiting);
        let (mut links, newcomer) = (self.links, Sender::default());
        Some(InKernel::Senders(self.senders.deal(|_| {
            let link = best(choices, &links, &newcomer).map_or(0, |index| choices[index].link);
            join(&mut links[link], &newcomer);
            link
        })))
    }
}

impl TlbHistory {
    /// Takes over what NICs have left, and renews the associations when their time is over.
    fn renew(&mut self, choices: &[Choice], waiting: &Waiting) {
        let room = rooms(choices);
        for choice in choices {
            self.links[choice.link].room = room(choice);
        }
        if self.senders.renew(waiting.now) {
            self.judge();
            self.balance(choices);
        }
    }

    fn associate(&mut self, choices: &[Choice], flow: u32) -> Option<usize> {
        let sender = self.senders.of(flow);
        let came_by = sender.came_by.take();
        let way_back = choices.iter().position(|choice| Some(choice.link) == came_by);
        let index = way_back.or_else(|| best(choices, &self.links, sender))?;
        self.handle_seat(flow, choices[index].link);
        Some(index)
    }

    /// Finds the greedy senders, from what the links carried and the senders sent in the last period. Forgets senders that
    /// sent and received nothing.
    fn judge(&mut self) {
        let mut carried = Numbered([(0, 0); LINKS]);
        for sender in self.senders.iter_mut() {
            sender.came_by = None;
            if sender.sent + sender.received == 0 {
                sender.link = None;
            }
            if let Some(link) = sender.link {
                let (load, senders) = &mut carried[link];
                *load += sender.sent;
                *senders += 1;
            }
        }
        for link in &mut *self.links {
            *link = Load { room: link.room, ..Load::default() };
        }
        for sender in self.senders.iter_mut() {
            sender.is_content = false;
            let Some(link) = sender.link else { continue };
            let (load, senders) = carried[link];
            let link = &mut self.links[link];
            let filled = load >= link.room.send / FILLED.1 * FILLED.0;
            sender.is_content = !filled || sender.sent < load / senders / GREEDY.1 * GREEDY.0;
            join(link, sender);
        }
    }

    /// Moves greedy senders to better offers. One pass: each move makes its link's offer worse and the left one's better.
    fn balance(&mut self, choices: &[Choice]) {
        for sender in self.senders.iter_mut().filter(|sender| !sender.is_content) {
            let (Some(link), Some(index)) = (sender.link, best(choices, &self.links, sender)) else {
                continue;
            };
            let better = choices[index].link;
            let share = self.links[link].share(self.links[link].greedy, sender);
            if self.links[better].offer(sender) / BETTER.0 * BETTER.1 > share {
                leave(&mut self.links[link], sender);
                join(&mut self.links[better], sender);
                sender.link = Some(better);
            }
        }
    }
}

/// The index of the choice that offers a sender most, the first of several.
fn best(choices: &[Choice], links: &Numbered<[Load; LINKS]>, sender: &Sender) -> Option<usize> {
    let offer = |index: &usize| links[choices[*index].link].offer(sender);
    (0..choices.len()).min_by_key(|index| Reverse(offer(index)))
}

fn join(link: &mut Load, sender: &Sender) {
    if sender.is_content {
        link.known += sender.sent;
    } else {
        link.greedy += 1;
    }
}

fn leave(link: &mut Load, sender: &Sender) {
    if sender.is_content {
        link.known = link.known.saturating_sub(sender.sent);
    } else {
        link.greedy = link.greedy.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{RATE, choice, links, waiting};
    use crate::policy::senders::PERIOD;
    use crate::policy::{PolicyKind, skew};
    use crate::time::Instant;
    use core::time::Duration;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// The world of P0's finding 6, where `tlb` leaves B, C and D on one link.
    #[test]
    fn latecomers_are_spread_at_once_and_stay_so() {
        let by_programs = skew::play_by_programs(PolicyKind::TlbHistory, 8);
        for seats in [skew::play(&mut TlbHistory::default(), 8), by_programs] {
            assert_eq!(seats[0], vec![1, 0]);
            assert!(seats[1..].iter().all(|seats| *seats == [2, 2]), "{seats:?}");
        }
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

    fn nic(link: u8, received: u64) -> Choice {
        Choice { speed: Some(RATE), receives: Some(RATE), received, ..choice(link, None) }
    }

    fn seat(policy: &mut TlbHistory, choices: &[Choice], flow: u32, secs: u64) -> u8 {
        let now = Instant::default() + Duration::from_secs(secs);
        choices[policy.seat(choices, &Waiting { now, ..waiting(flow, 1) }).unwrap()].link
    }

    /// A NIC's load is what it carries in both directions.
    #[test]
    fn a_newcomer_avoids_a_nic_that_receives_much() {
        let busy = [nic(0, RATE / 10 * 9), nic(1, 0)];
        assert_eq!(seat(&mut TlbHistory::default(), &busy, 0, 0), 1);
        let idle = [nic(0, 0), nic(1, 0)];
        assert_eq!(seat(&mut TlbHistory::default(), &idle, 0, 0), 0, "what is sent does not differ");
        let sending = [Choice { others: RATE / 10 * 9, ..nic(0, 0) }, nic(1, RATE / 2)];
        assert_eq!(seat(&mut TlbHistory::default(), &sending, 0, 0), 1);
    }

    /// The link that two senders share goes. Of the others one sends much and one receives much.
    #[test]
    fn who_receives_goes_where_there_is_room_to_receive_and_who_sends_where_there_is_room_to_send() {
        let [upload, download, other] = [0, 1, 2];
        let mut policy = TlbHistory::default();
        let all = [nic(0, 0), nic(1, 0), nic(2, RATE / 2)];
        for flow in [upload, download] {
            assert_eq!(seat(&mut policy, &all[..1], flow, 0), 0);
        }
        assert_eq!(seat(&mut policy, &all[1..2], other, 0), 1);
        policy.handle_sent(other, 1, RATE / 2 * PERIOD.as_secs());
        let (much, little) = (RATE / 4 * PERIOD.as_secs(), 10_000);
        policy.handle_sent(upload, 0, much);
        policy.handle_received(upload, Some(0), little);
        policy.handle_sent(download, 0, little);
        policy.handle_received(download, Some(0), much);
        assert_eq!(seat(&mut policy, &all, other, 10), 1);
        assert_eq!([upload, download].map(|flow| seat(&mut policy, &all[1..], flow, 11)), [2, 1]);
    }

    #[test]
    fn an_answer_goes_back_over_the_link_by_which_the_flow_came() {
        let mut policy = TlbHistory::default();
        let choices = [nic(0, 0), nic(1, 0), nic(2, 0)];
        policy.handle_received(7, Some(2), 60);
        assert_eq!(seat(&mut policy, &choices, 7, 0), 2);
        policy.handle_received(7, Some(1), 60);
        assert_eq!(seat(&mut policy, &choices, 7, 1), 2, "it has its link");
        policy.handle_received(8, Some(9), 60);
        assert_eq!(seat(&mut policy, &choices, 8, 1), 0, "no such link is up");
        policy.handle_received(9, Some(2), 60);
        assert_eq!(seat(&mut policy, &choices, 10, 10), 0);
        assert_eq!(seat(&mut policy, &choices, 9, 11), 1, "it came in the period before");
    }

    proptest! {
        /// Whatever is sent and received and whichever links go: what is kept of a link is the sum over its senders.
        #[test]
        fn a_link_has_the_demand_of_its_senders(
            steps in proptest::collection::vec((0..12u32, 0..4_000u64, 1..8usize, any::<[u32; 4]>()), 1..80),
        ) {
            let (mut policy, mut millis) = (TlbHistory::default(), 0);
            for (flow, pause, up, [sent, received, others, load]) in steps {
                millis += pause;
                let links = (0..3).filter(|link| up & 1 << link != 0);
                let choices: Vec<_> = links
                    .map(|link| Choice { others: others.into(), ..nic(link, load.into()) })
                    .collect();
                let now = Instant::from_nanos(millis * 1_000_000);
                let index = policy.seat(&choices, &Waiting { now, ..waiting(flow, 1) }).unwrap();
                policy.handle_sent(flow, choices[index].link, sent.into());
                policy.handle_received(flow, Some(choices[index].link), received.into());
                for link in 0..3 {
                    let of_link = |sender: &&mut Sender| sender.link == Some(link);
                    let content = policy.senders.iter_mut().filter(of_link).filter(|sender| sender.is_content);
                    let known: u64 = content.map(|sender| sender.sent).sum();
                    let greedy = policy.senders.iter_mut().filter(of_link).filter(|sender| !sender.is_content).count();
                    let kept = policy.links[link];
                    prop_assert_eq!((kept.known, kept.greedy), (known, greedy as u64));
                }
            }
        }
    }
}
