//! The rate of a path's bottleneck, as reports show it.
//!
//! Beside [`crate::link::congestion`]. While the bottleneck has a queue, cells arrive at its rate, however fast they were sent;
//! else it has at least the rate at which they arrive. Source: BBR (draft-ietf-ccwg-bbr), section 4.1.

use crate::link::nic::per_second;
use crate::time::Instant;
use core::time::Duration;

/// Rates are measured over so long, and over so many cells.
const SPAN: Duration = Duration::from_millis(10);
const CELLS: u64 = 16;
/// When it takes so long until they are reported, and no more than one part in so many has arrived, the path did not carry
/// anything meanwhile: that is no rate.
const OUTAGE: (Duration, u64) = (Duration::from_millis(50), 8);

/// What had arrived at a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) at: Instant,
    /// When the report was written, by the peer's clock, from its first report on.
    pub(super) written: Duration,
    /// Bytes of the cells before `next`.
    pub(super) bytes: u64,
    /// The number after the highest that has arrived.
    pub(super) next: u64,
    /// Cells that have arrived, modulo 2^32.
    pub(super) count: u32,
}

impl Progress {
    /// Numbers that were passed since `before`, and how many of them did not arrive.
    pub(super) fn lost_since(&self, before: &Self) -> (u64, u64) {
        let numbers = self.next - before.next;
        (numbers, numbers.saturating_sub(u64::from(self.count.wrapping_sub(before.count))))
    }

    /// How long it took since `before`: by the clock here, unless one of the two reports has waited on its way for long.
    fn span_since(&self, before: &Self) -> Duration {
        let (here, there) = (self.at.since(before.at), self.written - before.written);
        if here.abs_diff(there) < SPAN { here } else { there }
    }

    /// Bytes that arrived per second since `before`.
    fn rate_since(&self, before: &Self) -> u64 {
        let (numbers, lost) = self.lost_since(before);
        let bytes =
            u128::from(self.bytes - before.bytes) * u128::from(numbers - lost) / u128::from(numbers.max(1));
        per_second(u64::try_from(bytes).unwrap_or(u64::MAX), self.span_since(before)).max(1)
    }
}

/// Measures while cells arrive.
#[derive(Debug, Default)]
pub(super) struct RateMeter {
    rate: Option<u64>,
    /// What arrived last.
    latest: Option<u64>,
    /// The highest of this period and of the one before.
    best: [u64; 2],
    began: Option<Progress>,
    /// Since then the queue was empty, or nothing was held back, at times.
    idled: bool,
}

impl RateMeter {
    /// Bytes per second, once something was held back: no less than what has arrived since then while it was not idle.
    pub(super) fn get(&self) -> Option<u64> {
        self.rate
    }

    /// Bytes per second that arrived last, whatever held others back.
    pub(super) fn latest(&self) -> Option<u64> {
        self.latest
    }

    /// The highest of the last one to two periods.
    pub(super) fn best(&self) -> u64 {
        self.best[0].max(self.best[1])
    }

    /// A period ends.
    pub(super) fn roll(&mut self) {
        self.best = [self.rate.unwrap_or(0), self.best[0]];
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// So much has arrived. `idle`: nothing waits at the bottleneck; `limited`: the window or the pace holds cells
    /// back, so what arrives is no longer what happened to be sent.
    pub(super) fn handle_report(&mut self, progress: Progress, idle: bool, limited: bool) {
        let Some(began) = self.began else {
            (self.began, self.idled) = (Some(progress), idle);
            return;
        };
        self.idled |= idle;
        let span = progress.span_since(&began);
        if span < SPAN || progress.next - began.next < CELLS {
            return;
        }
        let (numbers, lost) = progress.lost_since(&began);
        if span >= OUTAGE.0 && (numbers - lost) * OUTAGE.1 <= numbers {
            (self.began, self.idled) = (Some(progress), idle);
            return;
        }
        let measured = progress.rate_since(&began);
        self.latest = Some(measured);
        if limited || self.rate.is_some() {
            let least = self.rate.filter(|_| self.idled).unwrap_or(0);
            let rate = measured.max(least);
            (self.rate, self.best[0]) = (Some(rate), self.best[0].max(rate));
        }
        (self.began, self.idled) = (Some(progress), idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bottleneck_with_a_queue_has_the_rate_of_what_arrives_and_one_without_at_least_that() {
        let mut meter = RateMeter::default();
        let (at, written) = (Instant::default(), Duration::ZERO);
        let mut progress = Progress { at, written, bytes: 0, next: 0, count: 0 };
        let mut arrive = |kilobytes: u64, idle, limited| {
            progress.at = progress.at + SPAN;
            progress.written += SPAN;
            progress.bytes += kilobytes * 1_000;
            progress.next += kilobytes;
            progress.count += u32::try_from(kilobytes).unwrap();
            meter.handle_report(progress, idle, limited);
            meter.get().map(|rate| rate / 100_000)
        };
        assert_eq!(arrive(0, false, false), None);
        assert_eq!(arrive(20, false, false), None, "nothing was held back");
        assert_eq!(arrive(20, false, true), Some(20), "the window was not full before");
        assert_eq!(arrive(16, true, false), Some(20), "no more was sent");
        assert_eq!(arrive(30, false, true), Some(30));
        assert_eq!(arrive(20, true, true), Some(30), "it may have idled");
        assert_eq!(arrive(20, false, true), Some(30), "it idled at the beginning");
        assert_eq!(arrive(20, false, true), Some(20));
    }

    #[test]
    fn an_outage_is_no_rate() {
        let mut meter = RateMeter::default();
        let mut report = |millis, kilobytes: u64, count| {
            let at = Instant::default() + Duration::from_millis(millis);
            let written = Duration::from_millis(millis);
            let progress = Progress { at, written, bytes: kilobytes * 1_000, next: kilobytes, count };
            meter.handle_report(progress, false, true);
            meter.get().map(|rate| rate / 100_000)
        };
        assert_eq!([report(0, 0, 0), report(10, 20, 20)], [None, Some(20)]);
        assert_eq!(report(90, 40, 22), Some(20), "two of twenty arrived");
        assert_eq!(report(100, 60, 32), Some(10), "a half did");
    }
}
