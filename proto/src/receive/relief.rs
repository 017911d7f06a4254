//! Relief: when receive buffers run out or lanes grow too long, the peer that takes most loses the cells that wait.
//!
//! Beside [`crate::receive::deliver`]. Cells that wait behind a gap, and pieces of records whose end has not arrived, hold buffers. A peer
//! can begin a record on each lane and never end it, in pieces that hold a buffer each, and nothing could be received from
//! anybody. So when few buffers are left, the receiver gives up the gaps and begun records of the peer that holds most of
//! them, then of the next one, until [`ENOUGH`] is free. Other peers keep theirs, and so does that one what it need not lose: repair may still
//! close its other gaps.
//!
//! A single cell can make a lane as long as its window. So when the lanes of all peers together are too long, the receiver
//! gives up the gaps of the peer whose lanes have most places, then of the next one, until half of [`SURPLUS_MAX`] is free.
//!
//! Invariant: there is a buffer to receive into, unless all hold frames that wait to be delivered. A lent buffer that is not
//! filled yet counts.

use crate::link::Links;
use crate::outputs::counters::Counters;
use crate::receive::Receiver;
use crate::receive::lanes::{Lane, Lanes};

/// Below so many usable buffers the receiver frees some.
pub(crate) const BUFFERS_LOW: usize = 8;
/// It stops when one in so many of all buffers is free, so that it need not begin again at once.
const ENOUGH: usize = 8;
/// Places of all lanes together beyond those that empty ones keep: 3.1 MB, twice what the lanes of one peer can have.
const SURPLUS_MAX: usize = 131_072;

impl Receiver {
    /// Frees buffers when few are left.
    pub(super) fn relieve_if_low(&mut self, links: &Links, counters: &mut Counters) {
        if self.pool.usable() < BUFFERS_LOW {
            self.relieve(links, counters);
        }
    }

    /// Frees buffers when there are none, and none is lent or delivered.
    pub(super) fn relieve_if_stuck(&mut self, links: &Links, counters: &mut Counters) {
        if self.pool.usable() == 0 && self.ready.frames() == 0 {
            self.relieve(links, counters);
        }
    }

    /// Frees buffers. The cost grows with the pieces that wait.
    fn relieve(&mut self, links: &Links, counters: &mut Counters) {
        let enough = (self.pool.size() / ENOUGH).max(BUFFERS_LOW);
        let mut holders = core::mem::take(&mut self.holders);
        for (index, lanes) in self.peers.iter() {
            let held = self.pool.count_distinct(lanes.lanes.iter().flat_map(Lane::buffers));
            holders.extend((held > 0).then_some((held, index)));
        }
        holders.sort_unstable_by(|one, other| other.cmp(one));
        for (_, index) in holders.drain(..) {
            if self.has_free(enough) {
                break;
            }
            self.spoil(index, enough, links, counters);
        }
        self.holders = holders;
    }

    /// Shortens lanes when all together are too long: by a cell's window at most.
    pub(super) fn relieve_if_long(&mut self, links: &Links, counters: &mut Counters) {
        if self.surplus > SURPLUS_MAX {
            self.shorten(links, counters);
        }
    }

    /// Shortens lanes. The cost grows with the number of lanes, once for the many cells that make half of [`SURPLUS_MAX`].
    fn shorten(&mut self, links: &Links, counters: &mut Counters) {
        let mut holders = core::mem::take(&mut self.holders);
        let long = self.peers.iter().map(|(index, lanes)| (lanes.surplus(), index));
        holders.extend(long.filter(|(places, _)| *places > 0));
        holders.sort_unstable_by(|one, other| other.cmp(one));
        for (_, index) in holders.drain(..) {
            if self.surplus <= SURPLUS_MAX / 2 {
                break;
            }
            self.give_up_while(index, |_| true, links, counters);
        }
        self.holders = holders;
    }

    /// Whether so many buffers are free, or will be as soon as complete frames are delivered.
    fn has_free(&mut self, enough: usize) -> bool {
        self.pool.usable() + self.pool.count_distinct(self.ready.buffers()) >= enough
    }

    /// Gives up gaps of a peer until enough is free, twice as many each time, and then all records that it has begun.
    fn spoil(&mut self, index: u16, enough: usize, links: &Links, counters: &mut Counters) {
        let mut gaps = 1_usize;
        while self.get(index).is_some_and(Lanes::has_gaps) {
            let mut given_up = 0;
            let is_one_more = |_| {
                given_up += 1;
                given_up <= gaps
            };
            self.give_up_while(index, is_one_more, links, counters);
            if self.has_free(enough) {
                return;
            }
            gaps *= 2;
        }
        let Self { pool, peers, .. } = self;
        let Some(lanes) = peers.get_mut(index) else { return };
        for lane in lanes.lanes.iter_mut().filter(|lane| lane.reassembler.is_begun()) {
            lane.reassembler.gap(pool, counters);
        }
    }
}
