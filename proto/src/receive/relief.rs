//! Who gives up what it waits for when receive buffers run out, or lanes are too long: the peer that holds most.
//!
//! Beside [`crate::receive::deliver`]. Cells that wait behind a gap, and pieces of records whose end has not come, hold buffers. A peer
//! can begin a record on each lane and never end it, in pieces that hold a buffer each; without a remedy nothing could be
//! received from anybody. So when few buffers are left, the peer that holds most of them loses its gaps and its begun
//! records, then the next one, until [`ENOUGH`] is free. Others keep what they wait for.
//!
//! A single cell makes a lane as long as its window, whatever little it holds. So when the lanes of all peers together are
//! too long, the peer whose lanes have most places loses its gaps, then the next one, until half of [`SURPLUS_MAX`] is free.
//!
//! Invariant: there is a buffer to receive into, unless all hold frames that are to be delivered. One that is lent and not
//! filled yet is such a buffer.

use crate::counters::Counters;
use crate::link::Links;
use crate::receive::Receiver;
use crate::receive::lanes::{Lane, Lanes};

/// Below so many free buffers there is a relief.
pub(crate) const BUFFERS_LOW: usize = 8;
/// A relief ends when this share of all buffers is free, so that the next one is not due at once.
const ENOUGH: usize = 4;
/// Places of all lanes together beyond those that empty ones keep: 3.1 MB, twice what the lanes of one peer can have.
const SURPLUS_MAX: usize = 131_072;

impl Receiver {
    /// Frees buffers when few are left.
    pub(super) fn relieve_if_low(&mut self, links: &Links, counters: &mut Counters) {
        if self.pool.usable() < BUFFERS_LOW {
            self.relieve(links, counters);
        }
    }

    /// Frees buffers when there are none, and none comes back by itself.
    pub(super) fn relieve_if_stuck(&mut self, links: &Links, counters: &mut Counters) {
        if self.pool.usable() == 0 && self.ready.frames() == 0 {
            self.relieve(links, counters);
        }
    }

    /// Frees buffers. Costs a look at each piece that waits.
    fn relieve(&mut self, links: &Links, counters: &mut Counters) {
        let enough = (self.pool.size() / ENOUGH).max(BUFFERS_LOW);
        let mut holders = core::mem::take(&mut self.holders);
        for index in self.indices() {
            let Self { pool, peers, .. } = &mut *self;
            let Some(Some(lanes)) = peers.get(usize::from(index)) else { continue };
            let held = pool.count_distinct(lanes.lanes.iter().flat_map(Lane::buffers));
            holders.extend((held > 0).then_some((held, index)));
        }
        holders.sort_unstable_by(|one, other| other.cmp(one));
        for (_, index) in holders.drain(..) {
            // What is complete is free as soon as it is delivered.
            if self.pool.usable() + self.pool.count_distinct(self.ready.buffers()) >= enough {
                break;
            }
            self.spoil(index, links, counters);
        }
        self.holders = holders;
    }

    /// Shortens lanes when all together are too long: by a cell's window at most.
    pub(super) fn relieve_if_long(&mut self, links: &Links, counters: &mut Counters) {
        if self.surplus > SURPLUS_MAX {
            self.shorten(links, counters);
        }
    }

    /// Shortens lanes. Costs a look at each lane, once for the many cells that make half of [`SURPLUS_MAX`].
    fn shorten(&mut self, links: &Links, counters: &mut Counters) {
        let mut holders = core::mem::take(&mut self.holders);
        let places = |lanes: &Lanes| Some(lanes.surplus()).filter(|places| *places > 0);
        let long = |index| Some((self.get(index).and_then(places)?, index));
        holders.extend(self.indices().filter_map(long));
        holders.sort_unstable_by(|one, other| other.cmp(one));
        for (_, index) in holders.drain(..) {
            if self.surplus <= SURPLUS_MAX / 2 {
                break;
            }
            self.give_up_older(index, None, links, counters);
        }
        self.holders = holders;
    }

    /// Goes on without anything that a peer is waited for.
    fn spoil(&mut self, index: u16, links: &Links, counters: &mut Counters) {
        self.give_up_older(index, None, links, counters);
        let Self { pool, peers, .. } = self;
        let Some(Some(lanes)) = peers.get_mut(usize::from(index)) else { return };
        for lane in lanes.lanes.iter_mut().filter(|lane| lane.reassembler.is_begun()) {
            lane.reassembler.gap(pool, counters);
        }
    }
}
