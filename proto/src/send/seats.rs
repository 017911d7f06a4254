//! Among which links programs in the kernel may choose, and how, where they send frames in place of cells.
//!
//! Beside the path. The policy decides, as for cells.

use crate::link::nic::Link;
use crate::policy::{Choosing, InKernel, Seen, Waiting};
use crate::send::{Around, Sender};
use crate::wire::cell::LINKS;
use crate::wire::numbered::Numbered;
use core::time::Duration;

/// The links to a peer that programs may use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seats {
    /// A bit each.
    pub(crate) links: u16,
    pub(crate) choosing: Choosing,
    /// Bytes per second of each link, and how much later than by the nearest a frame arrives, for whom flows are spread.
    pub(crate) speeds: Numbered<[u64; LINKS]>,
    pub(crate) delays: Numbered<[Duration; LINKS]>,
}

impl Sender {
    /// Whether some frames have a policy of their own.
    pub(crate) fn has_classes(&self) -> bool {
        self.policies.has_classes()
    }

    /// Hands in how many newcomers programs have given a link, and what they know of each sender.
    pub(crate) fn handle_senders(&mut self, newcomers: u64, seen: impl Fn(u32) -> Option<Seen>) {
        self.policies.bundles().handle_senders(newcomers, seen);
    }

    /// The senders that have another link than programs know of: number, peer and link.
    pub(crate) fn moves(&mut self) -> impl Iterator<Item = (u32, Option<(u16, u8)>)> {
        self.policies.bundles().moves()
    }

    /// The links to a peer; `None`: the policy needs cells. A bundle of one link has nothing to choose.
    pub(crate) fn seats(&mut self, index: u16, around: &Around<'_>) -> Option<Seats> {
        let choices = core::mem::take(&mut self.choices.links);
        self.list_choices(index, 0, around);
        let mut open = core::mem::replace(&mut self.choices.links, choices);
        let paths = around.links.paths(index);
        for choice in &mut open {
            // The kernel's queues are not the core's, and what it carries may show another rate.
            choice.full = false;
            let measured = paths.and_then(|paths| paths.outbound[choice.link].programs.rate());
            choice.rate = measured.or(choice.rate);
        }
        let waiting = Waiting {
            now: around.now,
            peer: index,
            cells: 1,
            backlog: 1,
            cell_bytes: 1,
            ..Waiting::default()
        };
        let all = open.iter().fold(0, |links, choice| links | 1 << choice.link);
        let is_alone = around.links.all().iter().filter(|link| Link::is_member(link)).count() == 1;
        if is_alone || open.is_empty() {
            return Some(Seats { links: all, ..Seats::default() });
        }
        let mut seats = Seats { links: all, ..Seats::default() };
        match self.policies.bundles().in_kernel(&open, &waiting)? {
            InKernel::Hash(links) => seats.links = links,
            InKernel::Senders(newcomers) => {
                seats.choosing = Choosing::Senders { newcomers, received: self.policies.heed_received() };
            }
            InKernel::Spread(choosing, speeds) => {
                seats.choosing = choosing;
                for (choice, speed) in open.iter().zip(speeds) {
                    (seats.speeds[choice.link], seats.delays[choice.link]) = (speed, choice.skew);
                }
            }
        }
        Some(seats)
    }
}
