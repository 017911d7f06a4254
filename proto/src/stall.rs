//! Lanes that stand still because the link of their cells is full while other links are not.
//!
//! Beside [`crate::schedule`]. Policies that bind flows to links, and classes with policies of their own, may want to wait for
//! one link. Their cells step aside, so that lanes bound for other links go on; when a port takes cells again, they
//! come first.
//!
//! Invariant: the cells of a lane that stands still are the next of that lane; the queue gives none of it meanwhile.

use crate::bundle::Bundle;
use crate::schedule::Source;

impl Bundle {
    /// The policy waits for a link with the cells in `run`: lets others pass, if it may be only these that have to
    /// wait. Returns whether it is worth asking for other cells.
    pub(crate) fn step_aside(&mut self, source: Source) -> bool {
        let cell = *self.arena.cell(self.run[0]);
        let bound = cell.treatment.flow != 0 || cell.treatment.class != 0;
        let others = self.choices.iter().any(|choice| !choice.full);
        if source != Source::New || !bound || !others {
            return false;
        }
        let Self { arena, outgoing, stalled, .. } = self;
        outgoing.retain(|slot| {
            let other = arena.cell(*slot);
            let goes_on = (other.peer, other.lane) != (cell.peer, cell.lane);
            if !goes_on {
                stalled.push_back(*slot);
            }
            goes_on
        });
        self.queue.pause(cell.peer, cell.lane);
        true
    }

    /// A port takes cells again, or a link has changed: what stands still tries again, before anything else.
    pub(crate) fn step_back(&mut self) {
        if self.stalled.is_empty() {
            return;
        }
        self.stalled.extend(self.outgoing.drain(..));
        core::mem::swap(&mut self.stalled, &mut self.outgoing);
        self.queue.resume();
    }
}
