//! The way of a cell from the links to the device: reorder, reassemble, deliver.
//!
//! The I/O fills buffers from [`Receiver::lend`], hands them over, and writes what [`Receiver::poll_frame`] gives to the
//! device, until there is nothing more.
//! Invariant: a frame is delivered at most once, whole, and in the order of its lane.
//!
//! ```text
//!   pool       the buffers                      reorder, reorder_timeout   a lane's order, and how long it waits for a gap
//!   reassemble records from the lane's stream   request                    requests for missing cells
//!   relief     which peer loses cells when buffers run out or lanes grow long
//! ```

pub(crate) mod deliver;
pub(crate) mod lanes;
pub(crate) mod pool;
pub(crate) mod reassemble;
pub(crate) mod relief;
pub(crate) mod reorder;
pub(crate) mod reorder_timeout;
mod request;

use crate::link::Links;
use crate::link::paths::Reach;
use crate::outputs::counters::Counters;
use crate::receive::lanes::Lanes;
use crate::receive::pool::{Buffer, Piece, Pool};
use crate::receive::reassemble::Ready;
use crate::session::peers::ByPeer;
use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

/// All cells that have arrived and are not delivered.
#[derive(Default)]
pub(crate) struct Receiver {
    pool: Pool,
    ready: Ready,
    /// The pieces of the frame that the I/O is delivering.
    delivering: Vec<Piece>,
    peers: ByPeer<Lanes>,
    /// Peers that have gaps, and some that have none.
    gapped: Vec<u16>,
    /// Places of all lanes together beyond those that empty lanes keep.
    surplus: usize,
    /// Reused: how many buffers each peer holds.
    holders: Vec<(usize, u16)>,
    /// Whether the receiver asks for lost cells.
    repair: bool,
}

impl Receiver {
    pub(crate) fn new(buffers: u16, repair: bool) -> Self {
        Self { pool: Pool::new(buffers), repair, ..Self::default() }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    pub(crate) fn lend(&mut self, links: &Links, counters: &mut Counters) -> Option<Buffer> {
        self.relieve_if_stuck(links, counters);
        self.pool.lend()
    }

    pub(crate) fn frames(&self) -> usize {
        self.ready.frames()
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Lanes> {
        self.peers.get(index)
    }

    /// A peer is there, or begins anew; its numbers begin at `first`.
    pub(crate) fn admit(&mut self, now: Instant, index: u16, first: u64) {
        self.forget(index);
        self.peers.insert(index, Lanes::new(now, first));
    }

    /// A peer is gone. Its complete frames are delivered.
    pub(crate) fn remove(&mut self, index: u16) {
        self.forget(index);
        self.ready.disown(index);
    }

    /// Gives all cells of a peer that wait back to the pool.
    fn forget(&mut self, index: u16) {
        let Some(mut lanes) = self.peers.remove(index) else { return };
        lanes.release(&mut self.pool);
        self.surplus -= lanes.surplus();
    }

    /// Whether no peer has a gap.
    pub(crate) fn is_whole(&self) -> bool {
        self.peers.values().all(|lanes| !lanes.has_gaps())
    }

    /// When the oldest gap of all peers is to be given up.
    pub(crate) fn due(&mut self, now: Instant, links: &Links) -> Option<Instant> {
        let Self { peers, gapped, repair, .. } = self;
        let mut due = None;
        gapped.retain(|index| {
            let Some(lanes) = peers.get_mut(*index).filter(|lanes| lanes.has_gaps()) else { return false };
            let at = lanes.gap_deadline(now, round_trip(links, *index, *repair));
            due = due.into_iter().chain(at).min();
            true
        });
        due
    }

    /// Adds the peers with a gap that is older than the reorder timeout to `overdue`.
    pub(crate) fn list_overdue(&mut self, now: Instant, links: &Links, overdue: &mut Vec<u16>) {
        self.due(now, links);
        for index in self.gapped.iter().copied() {
            let round_trip = round_trip(links, index, self.repair);
            let at = self.peers.get_mut(index).and_then(|lanes| lanes.gap_deadline(now, round_trip));
            if at.is_some_and(|at| at <= now) && !overdue.contains(&index) {
                overdue.push(index);
            }
        }
        overdue.sort_unstable();
    }

    #[cfg(test)]
    pub(crate) fn surplus(&self) -> usize {
        self.surplus
    }

    pub(crate) fn saw_skew(&mut self, now: Instant, index: u16, skew: Duration) {
        if let Some(lanes) = self.peers.get_mut(index) {
            lanes.timeout.saw_skew(now, skew);
        }
    }

    pub(crate) fn reorder_timeout(&self, index: u16, links: &Links) -> Option<Duration> {
        Some(self.get(index)?.timeout.latest(round_trip(links, index, self.repair)))
    }

    /// Cells of a peer that wait for those before them.
    pub(crate) fn waiting(&self, index: u16) -> usize {
        self.get(index).map_or(0, Lanes::waiting)
    }

    /// Bytes of memory that a peer's lanes take.
    pub(crate) fn bytes(&self, index: u16) -> usize {
        self.get(index).map_or(0, Lanes::bytes)
    }
}

/// With repair, the time to a peer and back.
fn round_trip(links: &Links, index: u16, repair: bool) -> Option<Duration> {
    repair.then(|| links.paths(index).map(|paths| paths.round_trip(Reach::Near)).unwrap_or_default())
}
