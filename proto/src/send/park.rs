//! Cells that stand still because the links that they may take are full while other links are not.
//!
//! Beside [`crate::send::schedule`]. Policies that bind flows to links, and classes with policies of their own, may want to wait
//! for one link; and the links to one peer may be full while those to another are not. Such cells step aside, so that
//! lanes bound for other links go on; when a link takes cells again, they come first.
//!
//! Invariant: the cells of a lane that stands still are the next of that lane; the queue gives none of it meanwhile.

use crate::link::nic::Link;
use crate::link::paths::Reach;
use crate::policy::class::Treatment;
use crate::send::repair::Repair;
use crate::send::ring::Cell;
use crate::send::schedule::{Departing, Source};
use crate::send::{Around, Sender};
use crate::time::Instant;
use alloc::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Parked {
    /// Slots that have numbers.
    pub(super) new: VecDeque<u64>,
    /// Slots to be sent again.
    pub(super) again: VecDeque<Repair>,
    /// When a path that cells wait for takes some again.
    opens_at: Option<Instant>,
}

impl Parked {
    pub(super) fn wait_until(&mut self, at: Instant) {
        self.opens_at = Some(self.opens_at.map_or(at, |opens| opens.min(at)));
    }
}

impl Sender {
    /// The policy waits for a link with the cells in `run`: lets others pass, if it may be only these that have to
    /// wait. Returns whether it is worth asking for other cells.
    pub(super) fn step_aside(&mut self, source: Source, around: &Around<'_>) -> bool {
        let cell = *self.ring.cell(self.run[0]);
        let Treatment { class, flow, reach } = cell.treatment;
        let is_bound = flow != 0 || class != 0 || reach != Reach::Near;
        let lane = if is_bound && self.choices.links.iter().any(|choice| !choice.full) {
            Some(cell.lane)
        } else if has_other_way(around) {
            None
        } else {
            return false;
        };
        let stands_still =
            |other: &Cell| other.peer == cell.peer && lane.is_none_or(|lane| other.lane == lane);
        let Self { ring, departing: Departing { new, again, parked, .. }, .. } = self;
        match source {
            Source::New => {
                move_to(new, &mut parked.new, |slot| stands_still(ring.cell(*slot)));
                self.queue.pause(cell.peer, lane);
            }
            Source::Again => {
                move_to(again, &mut parked.again, |repair| stands_still(ring.cell(repair.slot)));
            }
            Source::Copies(_) => return false,
        }
        true
    }

    /// Cells wait for a path to a peer: one that only its pace or a ceiling closes opens by itself.
    pub(super) fn wait_for_pace(&mut self, peer: u16, around: &Around<'_>) {
        let Some(paths) = around.links.paths(peer) else { return };
        let opens = self.choices.links.iter().filter_map(|choice| {
            let path = paths.outbound[choice.link].opens_at(around.now);
            let opens = path.max(around.links[choice.link].ceiling.opens_at());
            (choice.full && opens > around.now).then_some(opens)
        });
        let parked = &mut self.departing.parked;
        parked.opens_at = opens.chain(parked.opens_at).min();
    }

    pub(crate) fn opens_at(&self) -> Option<Instant> {
        self.departing.parked.opens_at
    }

    /// A link takes cells again, or a path has changed: what stands still tries again, before anything else.
    pub(crate) fn unpark(&mut self) {
        let Departing { new, again, parked, .. } = &mut self.departing;
        parked.opens_at = None;
        put_first(&mut parked.again, again);
        if !parked.new.is_empty() {
            put_first(&mut parked.new, new);
            self.queue.resume();
        }
    }
}

/// Whether other peers may be reached by a link that is not full.
fn has_other_way(around: &Around<'_>) -> bool {
    let is_open = |link: &Link| link.carries() && !link.full;
    around.sessions.table().only().is_none() && around.links.all().iter().any(is_open)
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
