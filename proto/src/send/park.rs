//! Cells that stand still because the links that they may take are full while other links are not.
//!
//! Beside [`crate::send::schedule`]. Policies that bind flows to links, and classes with policies of their own, may want to wait
//! for one link; and the links to one peer may be full while those to another are not. Such cells step aside, so that
//! lanes bound for other links go on; when a port takes cells again, they come first.
//!
//! Invariant: the cells of a lane that stands still are the next of that lane; the queue gives none of it meanwhile.

use crate::bundle::Bundle;
use crate::send::repair::Repair;
use crate::send::ring::Cell;
use crate::send::schedule::Source;
use alloc::collections::VecDeque;

/// What stands still.
#[derive(Debug, Default)]
pub(crate) struct Stalled {
    /// Slots that have numbers.
    pub(crate) cells: VecDeque<u64>,
    /// Slots to be sent again.
    pub(crate) repairs: VecDeque<Repair>,
}

impl Bundle {
    /// The policy waits for a link with the cells in `run`: lets others pass, if it may be only these that have to
    /// wait. Returns whether it is worth asking for other cells.
    pub(crate) fn step_aside(&mut self, source: Source) -> bool {
        let cell = *self.arena.cell(self.run[0]);
        let is_bound = cell.treatment.flow != 0 || cell.treatment.class != 0;
        let lane = if is_bound && self.choices.iter().any(|choice| !choice.full) {
            Some(cell.lane)
        } else if self.has_other_way() {
            None
        } else {
            return false;
        };
        let stands_still =
            |other: &Cell| other.peer == cell.peer && lane.is_none_or(|lane| other.lane == lane);
        let Self { arena, outgoing, resend, stalled, .. } = self;
        match source {
            Source::New => {
                move_to(outgoing, &mut stalled.cells, |slot| stands_still(arena.cell(*slot)));
                self.queue.pause(cell.peer, lane);
            }
            Source::Again => {
                move_to(resend, &mut stalled.repairs, |repair| stands_still(arena.cell(repair.slot)));
            }
            Source::Copies(_) => return false,
        }
        true
    }

    /// Whether other peers may be reached by a port that is not full.
    fn has_other_way(&self) -> bool {
        self.peers.only().is_none() && self.ports.iter().any(|port| port.carries() && !port.full)
    }

    /// A port takes cells again, or a link has changed: what stands still tries again, before anything else.
    pub(crate) fn step_back(&mut self) {
        let Self { outgoing, resend, stalled, queue, .. } = self;
        put_first(&mut stalled.repairs, resend);
        if !stalled.cells.is_empty() {
            put_first(&mut stalled.cells, outgoing);
            queue.resume();
        }
    }
}

/// Moves what `stands_still` to the end of `to`.
fn move_to<T: Copy>(from: &mut VecDeque<T>, to: &mut VecDeque<T>, stands_still: impl Fn(&T) -> bool) {
    from.retain(|item| {
        let stays = !stands_still(item);
        if !stays {
            to.push_back(*item);
        }
        stays
    });
}

/// Moves all of `from` before what `to` holds.
fn put_first<T>(from: &mut VecDeque<T>, to: &mut VecDeque<T>) {
    from.append(to);
    core::mem::swap(from, to);
}
