//! What the peer is known to have received of a path, and whether it lacks cells for so long that the path is a black hole.
//!
//! Beside [`crate::link::outbound`]. A peer would find that out by itself, but what has left is known here at once, and there only by a
//! heartbeat that waits behind data.

use crate::link::health::{HEARTBEAT_BUSY, HEARTBEAT_QUIET};
use crate::link::watch::Watch;
use crate::time::Instant;
use crate::wire::cell::wire_seq;
use core::time::Duration;

/// What the peer reports of one path.
#[derive(Debug)]
pub(crate) struct Receipts {
    /// The number after the highest that it has received.
    next: u64,
    /// Reports that came, and those of them that said that cells still waited in its socket.
    pub(crate) reports: u64,
    pub(crate) behind: u64,
    /// When reports last showed that something new was received.
    progressed: Instant,
    pub(crate) watch: Watch,
    /// The first heartbeat that it is not known to have received, and when the latest one was written.
    heartbeat: Option<Written>,
    wrote: Instant,
    /// Cells before `next` that it has not received, modulo 2^32.
    lacks: u32,
}

/// A heartbeat that is under way, or lost.
#[derive(Clone, Copy, Debug)]
struct Written {
    number: u64,
    at: Instant,
    /// How long after the one before. On a slow path they are rare, and it is given as long to arrive.
    after: Duration,
}

impl Receipts {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            next: 0,
            reports: 0,
            behind: 0,
            progressed: now,
            watch: Watch::new(now),
            heartbeat: None,
            wrote: now,
            lacks: 0,
        }
    }

    /// A session begins: numbers count from `first`.
    pub(super) fn begin(&mut self, first: u64) {
        (self.next, self.heartbeat) = (first, None);
    }

    /// The path is used from now on: what was missing before is no black hole.
    pub(super) fn rise(&mut self, now: Instant) {
        self.progressed = now;
        self.watch.restart();
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn lacks(&self) -> u32 {
        self.lacks
    }

    /// A heartbeat that is no probe was written.
    pub(super) fn handle_heartbeat(&mut self, now: Instant, number: u64) {
        let after = now.since(core::mem::replace(&mut self.wrote, now));
        self.heartbeat.get_or_insert(Written { number, at: now, after });
    }

    /// Nothing was sent from this number on.
    pub(super) fn give_back(&mut self, next: u64) {
        self.heartbeat = self.heartbeat.filter(|heartbeat| heartbeat.number < next);
    }

    /// A report: the number after the highest that was received, no later than the `last` that was sent, how many were received, and what has
    /// left the link here. Returns whether a cell has come that was waited for in vain.
    pub(super) fn handle_report(
        &mut self,
        now: Instant,
        received: u64,
        count: u32,
        (last, departed): (u64, u64),
    ) -> bool {
        let mut was_in_vain = false;
        if received > self.next && received <= last {
            let lacks = wire_seq(received).wrapping_sub(count);
            let more = lacks.wrapping_sub(self.lacks).cast_signed().max(0);
            self.watch.handle_skipped(u64::from(more.cast_unsigned()));
            // Nothing was lost, so what was waited for in vain has come.
            let has_all = core::mem::replace(&mut self.lacks, lacks) == lacks;
            was_in_vain = has_all && self.watch.handle_seq(now, self.next);
            self.watch.gaps.note_cells(now, received - self.next);
            self.next = received;
            self.heartbeat = self.heartbeat.filter(|heartbeat| heartbeat.number >= received);
            self.progressed = now;
        }
        self.watch.note(now, departed, self.next);
        was_in_vain
    }

    /// Whether the peer reports, but has received nothing of what has left; its report was written at `as_of` or later. Cells may be `late`
    /// by so much. Returns what is overdue, and for how long.
    pub(super) fn overdue(&self, as_of: Instant, late: Duration) -> Option<(u64, Duration)> {
        let takes = |after: Duration| after.clamp(HEARTBEAT_BUSY, HEARTBEAT_QUIET);
        let lacks_heartbeat =
            self.heartbeat.is_some_and(|heartbeat| as_of.since(heartbeat.at) >= takes(heartbeat.after));
        let overdue = self.watch.overdue(as_of, (self.next, self.progressed), late, 0);
        overdue.filter(|_| lacks_heartbeat)
    }
}
