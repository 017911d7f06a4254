//! The receiving side of the lanes of one peer: order, pieces of records, gaps and the requests for them.
//!
//! State of [`crate::receive::Receiver`], one for each peer.

use crate::receive::pool::Pool;
use crate::receive::reassemble::Reassembler;
use crate::receive::reorder::Reorder;
use crate::receive::reorder_timeout::ReorderTimeout;
use crate::time::Instant;
use crate::wire::cell::LANES;
use crate::wire::numbered::Numbered;
use crate::wire::repair::Request;
use core::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) reorder: Reorder,
    pub(super) reassembler: Reassembler,
    /// Its part of the surplus of all.
    surplus: usize,
}

impl Lane {
    /// The buffers in which its cells and pieces lie.
    pub(super) fn buffers(&self) -> impl Iterator<Item = u16> {
        self.reorder.buffers().chain(self.reassembler.buffers())
    }

    /// Counts its surplus anew; returns what it was and what it is.
    pub(super) fn count_surplus(&mut self) -> (usize, usize) {
        let surplus = self.reorder.surplus();
        (core::mem::replace(&mut self.surplus, surplus), surplus)
    }
}

pub(crate) struct Lanes {
    pub(super) lanes: Numbered<[Lane; LANES]>,
    /// Lanes with a gap, a bit each.
    gapped: u16,
    pub(super) timeout: ReorderTimeout,
    /// The next repair request, and until when it is worth sending.
    pub(super) missing: Request,
    pub(super) missing_until: Instant,
    /// The request that was sent last.
    pub(super) requested: Request,
}

impl Lanes {
    /// Lanes whose numbers begin at `first`.
    pub(super) fn new(now: Instant, first: u64) -> Self {
        Self {
            lanes: Numbered(core::array::from_fn(|_| Lane {
                reorder: Reorder::new(first),
                ..Lane::default()
            })),
            gapped: 0,
            timeout: ReorderTimeout::new(now),
            missing: Request::default(),
            missing_until: now,
            requested: Request::default(),
        }
    }

    pub(crate) fn has_gaps(&self) -> bool {
        self.gapped != 0
    }

    pub(super) fn gapped(&self) -> impl Iterator<Item = u8> + use<> {
        let gapped = self.gapped;
        (0..).take(LANES).filter(move |lane| gapped & 1 << lane != 0)
    }

    /// Cells that wait behind a gap.
    pub(crate) fn waiting(&self) -> usize {
        self.gapped().map(|lane| self.lanes[lane].reorder.waiting()).sum()
    }

    pub(super) fn note_gap(&mut self, lane: u8) {
        let has_gap = self.lanes[lane].reorder.gap_since.is_some();
        let bit = 1 << lane;
        self.gapped = if has_gap { self.gapped | bit } else { self.gapped & !bit };
    }

    /// The reorder timeout now. `round_trip`: with repair, to the peer and back.
    pub(super) fn gap_wait(&mut self, now: Instant, round_trip: Option<Duration>) -> Duration {
        self.timeout.wait(now, round_trip)
    }

    pub(super) fn gap_deadline(&mut self, now: Instant, round_trip: Option<Duration>) -> Option<Instant> {
        let wait = self.gap_wait(now, round_trip);
        self.gapped()
            .filter_map(|lane| self.lanes[lane].reorder.waits_since())
            .min()
            .map(|since| since + wait)
    }

    /// Places beyond those that empty lanes keep.
    pub(crate) fn surplus(&self) -> usize {
        self.lanes.iter().map(|lane| lane.surplus).sum()
    }

    /// Gaps that the next request names.
    #[cfg(test)]
    pub(crate) fn missing(&self) -> usize {
        self.missing.gaps().len()
    }

    /// Gives all cells that wait back to the pool.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        for lane in &mut *self.lanes {
            lane.reorder.drain().for_each(|cell| pool.release(cell.payload.buffer));
            lane.reassembler.discard(pool);
        }
    }

    /// Bytes of memory that they take.
    pub(super) fn bytes(&self) -> usize {
        let heap = |lane: &Lane| lane.reorder.bytes() + lane.reassembler.bytes();
        size_of_val(self) + self.lanes.iter().map(heap).sum::<usize>()
    }
}
