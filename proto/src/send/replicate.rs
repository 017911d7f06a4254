//! Copies of cells for further links: what `duplicate` needs beyond a choice of the first link.
//!
//! Beside [`crate::send::schedule`]. When the first copy of a cell has left, the others wait here for their ports, and go before
//! anything new. So equal links carry the same cells, and the fastest link sets the pace: a port that is more than
//! [`BEHIND_MAX`] cells behind leaves the oldest of them out. A cell that every copy was lost of is sent again; one
//! that another link still carries is not ([`crate::send::repair`]).

use crate::counters::Counters;
use crate::send::schedule::Source;
use crate::send::{Around, Sender};
use crate::wire::cell::LINKS;
use alloc::collections::VecDeque;
use core::array;

/// Cells that may wait for a port: four batches, 5 ms of a link of 1 Gbit/s.
const BEHIND_MAX: usize = 256;

/// What waits, by port.
#[derive(Debug)]
pub(super) struct Replicas {
    ports: [VecDeque<u64>; LINKS],
}

impl Default for Replicas {
    fn default() -> Self {
        Self { ports: array::from_fn(|_| VecDeque::with_capacity(BEHIND_MAX)) }
    }
}

impl Replicas {
    /// The slots that wait for a port.
    pub(super) fn waiting(&self, port: u8) -> &VecDeque<u64> {
        &self.ports[usize::from(port)]
    }

    /// A slot is to be copied to a port; returns how many others are left out for it.
    fn push(&mut self, port: u8, slot: u64) -> u64 {
        let waiting = &mut self.ports[usize::from(port)];
        let behind = waiting.len() == BEHIND_MAX;
        if behind {
            waiting.pop_front();
        }
        waiting.push_back(slot);
        u64::from(behind)
    }

    /// The first slots that wait for a port no longer do.
    pub(super) fn drop_first(&mut self, port: u8, count: usize) {
        self.ports[usize::from(port)].drain(..count);
    }
}

impl Sender {
    /// The first cells of `run` have left through `port`: the other links that were to choose from get a copy.
    pub(super) fn replicate(&mut self, port: u8, cells: usize, counters: &mut Counters) {
        for choice in self.choices.iter().filter(|choice| choice.port != port) {
            for slot in &self.run[..cells] {
                counters.copies_skipped += self.replicas.push(choice.port, *slot);
            }
        }
    }

    /// Puts copies that a port takes now into `run`, and their link into `choices`. Returns their peer and where they
    /// wait.
    pub(super) fn gather_replicas(&mut self, around: &mut Around<'_>) -> Option<(u16, Source)> {
        for port in (0u8..).take(around.links.ports().len()) {
            if around.links.port(port).full {
                continue;
            }
            while let Some(slot) = self.replicas.waiting(port).front().copied() {
                let cell = *self.ring.cell(slot);
                self.list_choices(cell.peer, self.sealed_bytes(slot, around.sessions), around);
                self.choices.retain(|choice| choice.port == port);
                if self.ring.keeps(slot) && !self.choices.is_empty() {
                    self.list_run(slot, Source::Copies(port), around.sessions);
                    return Some((cell.peer, Source::Copies(port)));
                }
                around.counters.copies_skipped += 1;
                self.replicas.drop_first(port, 1);
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
