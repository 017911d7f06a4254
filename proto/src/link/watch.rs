//! The watch for a black hole that either end of a path keeps: which cells are missing, and how long they may be.
//!
//! Part of [`crate::link::health`] (the receiver's) and of [`crate::link::outbound`] (the sender's). The rule is that of
//! [`crate::link::black_hole`]. It is wrong where cells lie unread on a busy host ([`crate::link::adaptive_timeout`]), where the path was
//! silent for as long lately ([`crate::link::gaps`]), and where a full queue has just dropped much.

use crate::link::adaptive_timeout::AdaptiveTimeout;
use crate::link::black_hole::Detector;
use crate::link::gaps::Gaps;
use crate::time::Instant;
use core::ops::Range;
use core::time::Duration;

/// What one end knows of the cells that one direction of a path lacks.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    missing: Detector,
    timeout: AdaptiveTimeout,
    pub(crate) gaps: Gaps,
    /// Cells that were lost before the latest that came.
    skipped: u64,
}

impl Watch {
    pub(crate) fn new(now: Instant) -> Self {
        let (missing, timeout, gaps) = (Detector::default(), AdaptiveTimeout::new(now), Gaps::new(now));
        Self { missing, timeout, gaps, skipped: 0 }
    }

    /// The path is used from now on, or no longer: what was missing before is no black hole.
    pub(crate) fn restart(&mut self) {
        self.missing = Detector::default();
    }

    /// So many cells are missing before the one that came.
    pub(crate) fn handle_skipped(&mut self, missing: u64) {
        self.skipped = missing;
    }

    /// Cells up to `departed` have left the sender, those up to `next` were received.
    pub(crate) fn note(&mut self, now: Instant, departed: u64, next: u64) {
        self.missing.note(now, departed, next);
    }

    pub(crate) fn doubt(&mut self, overdue: Range<u64>) {
        self.timeout.doubt(overdue);
    }

    /// A cell with this number was received; returns whether it shows that the path was given up in error.
    pub(crate) fn handle_seq(&mut self, now: Instant, seq: u64) -> bool {
        self.timeout.handle_seq(now, seq)
    }

    /// How late cells may be on a path on which they are so late by nature.
    fn late(&self, now: Instant, by_nature: Duration) -> Duration {
        by_nature + self.timeout.extra(now) + Detector::extra_after_loss(self.skipped)
    }

    /// How many cells are overdue and for how long, if that tells of a black hole: see [`Detector::overdue`]. Something came last at
    /// `last`.
    pub(crate) fn overdue(
        &self,
        now: Instant,
        (next, last): (u64, Instant),
        by_nature: Duration,
        beside: u64,
    ) -> Option<(u64, Duration)> {
        let overdue = self.missing.overdue(now, next, self.late(now, by_nature), beside);
        overdue.filter(|_| now.since(last) >= self.gaps.limit())
    }

    /// When that is so at the earliest; arguments as for [`Self::overdue`].
    pub(crate) fn due(
        &self,
        now: Instant,
        (next, last): (u64, Instant),
        by_nature: Duration,
        beside: u64,
    ) -> Option<Instant> {
        let due = self.missing.due(next, self.late(now, by_nature), beside);
        due.map(|due| due.max(last + self.gaps.limit()))
    }

    /// The number after the last that has been missing for so long; cells up to `next` were received.
    pub(crate) fn missing_for(&self, now: Instant, next: u64, span: Duration) -> Option<u64> {
        self.missing.missing_for(now, next, span)
    }
}
