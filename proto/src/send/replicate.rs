//! Copies of cells for further links: what `duplicate` needs beyond a choice of the first link.
//!
//! Beside [`crate::send::schedule`]. When the first copy of a cell has left, the others wait here for their links, and go before
//! anything new. So equal links carry the same cells, and the fastest link sets the pace: a link that is more than
//! [`BEHIND_MAX`] cells behind leaves the oldest of them out. A cell that every copy was lost of is sent again; one
//! that another link still carries is not ([`crate::send::repair`]).

use crate::outputs::counters::Counters;
use crate::send::schedule::Source;
use crate::send::{Around, Sender};
use crate::wire::cell::LINKS;
use crate::wire::numbered::Numbered;
use alloc::collections::VecDeque;
use core::array;

/// Cells that may wait for a link: four batches, 5 ms of a link of 1 Gbit/s.
const BEHIND_MAX: usize = 256;

/// What waits, by link.
pub(super) struct Replicas {
    links: Numbered<[VecDeque<u64>; LINKS]>,
}

impl Default for Replicas {
    fn default() -> Self {
        Self { links: Numbered(array::from_fn(|_| VecDeque::with_capacity(BEHIND_MAX))) }
    }
}

impl Replicas {
    pub(super) fn waiting(&self, link: u8) -> &VecDeque<u64> {
        &self.links[link]
    }

    /// A slot is to be copied to a link; returns how many others are left out for it.
    fn push(&mut self, link: u8, slot: u64) -> u64 {
        let waiting = &mut self.links[link];
        let behind = waiting.len() == BEHIND_MAX;
        if behind {
            waiting.pop_front();
        }
        waiting.push_back(slot);
        u64::from(behind)
    }

    /// The first slots that wait for a link no longer do.
    pub(super) fn drop_first(&mut self, link: u8, count: usize) {
        self.links[link].drain(..count);
    }
}

impl Sender {
    /// The first cells of `run` have left through `link`: the other links that were to choose from get a copy.
    pub(super) fn replicate(&mut self, link: u8, cells: usize, counters: &mut Counters) {
        for choice in self.choices.links.iter().filter(|choice| choice.link != link) {
            for slot in &self.run[..cells] {
                counters.replicas_skipped += self.departing.copies.push(choice.link, *slot);
            }
        }
    }

    /// Puts copies that a link takes now into `run`, and their link into `choices`. Returns their peer and where they
    /// wait.
    pub(super) fn gather_replicas(&mut self, around: &mut Around<'_>) -> Option<(u16, Source)> {
        for link in (0u8..).take(around.links.all().len()) {
            if around.links[link].full {
                continue;
            }
            while let Some(slot) = self.departing.copies.waiting(link).front().copied() {
                let cell = *self.ring.cell(slot);
                self.list_choices(cell.peer, self.sealed_bytes(slot, around.sessions), around);
                self.choices.links.retain(|choice| choice.link == link);
                if self.choices.links.iter().any(|choice| choice.full) {
                    break;
                }
                if self.ring.keeps(slot) && !self.choices.links.is_empty() {
                    self.list_run(slot, Source::Copies(link), around.sessions);
                    return Some((cell.peer, Source::Copies(link)));
                }
                around.counters.replicas_skipped += 1;
                self.departing.copies.drop_first(link, 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_far_behind_leaves_out_the_oldest() {
        let mut replicas = Replicas::default();
        let most = BEHIND_MAX as u64;
        assert_eq!((0..most + 3).map(|slot| replicas.push(1, slot)).sum::<u64>(), 3);
        assert_eq!(replicas.waiting(1).front(), Some(&3));
        replicas.drop_first(1, 2);
        assert_eq!(replicas.waiting(1).len(), BEHIND_MAX - 2);
        assert!(replicas.waiting(0).is_empty());
    }
}
