//! How much a link loses, as its sender learns it from the peer's reports, and whether that makes it suspect.
//!
//! Beside [`crate::link::outbound`]. A report tells the highest number that was received and how many cells were; what lies
//! between two reports is measured in windows. A suspect link stays up and carries heartbeats, which go on measuring it,
//! but no data as long as another link is not suspect.
//!
//! Thresholds: with repair, a link is worth having until its losses would use up the repair budget (an eighth of what is
//! sent); without, TCP suffers from half a percent. A link is only suspect when another loses less than a quarter of
//! that: when all are bad, all are needed.
//!
//! What a full queue or a policer drops says nothing against a path ([`crate::link::congestion`]), and ends when less is sent. Heavy
//! loss that goes on although less is sent is the path's own, whatever explained it at first.

use crate::link::hold_down::HoldDown;
use crate::time::Instant;
use core::time::Duration;

/// Parts of a whole in which shares are given.
pub(crate) const WHOLE: u32 = 10_000;
/// The share of cells that makes a link suspect, with repair and without.
const SUSPECT: [u32; 2] = [1_000, 50];
/// A window ends after so many cells, or after [`WINDOW_TIME`] when it has [`WINDOW_LEAST`].
const WINDOW: u64 = 2_048;
const WINDOW_LEAST: u64 = 256;
const WINDOW_TIME: Duration = Duration::from_secs(1);
/// Heavy loss of which a full queue or a policer is the cause has ended after so long.
const EXPLAINED_FOR: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Loss {
    /// The number from which cells count.
    from: u64,
    /// What the report at the beginning of the window said, and when it came: highest number, cells received.
    began: Option<(Instant, u64, u32)>,
    /// When the last window began.
    since: Instant,
    /// The share that was lost in the last window, in parts of [`WHOLE`].
    share: u32,
    /// Since when each window has been heavy.
    heavy: Option<Instant>,
    suspect: bool,
    hold: HoldDown,
}

impl Loss {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, hold: HoldDown::new(now), ..Self::default() }
    }

    pub(crate) fn share(&self) -> u32 {
        self.share
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// The link was not used: measuring begins anew with the number `from`. What went out before may be lost, and be
    /// missed only now.
    pub(crate) fn restart(&mut self, from: u64) {
        self.from = from;
        self.began = None;
        self.heavy = None;
    }

    /// The peer has received `count` cells (modulo 2^32), of which `next` is the number after the highest. Returns whether
    /// a window has ended.
    pub(crate) fn handle_report(&mut self, now: Instant, next: u64, count: u32) -> bool {
        if next < self.from {
            return false;
        }
        let Some((since, first, counted)) = self.began.filter(|(_, first, _)| next >= *first) else {
            self.began = Some((now, next, count));
            return false;
        };
        let sent = next - first;
        if sent < WINDOW && (sent < WINDOW_LEAST || now.since(since) < WINDOW_TIME) {
            return false;
        }
        let received = u64::from(count.wrapping_sub(counted)).min(sent);
        self.share = u32::try_from((sent - received) * u64::from(WHOLE) / sent).unwrap_or(WHOLE);
        self.began = Some((now, next, count));
        self.since = since;
        self.heavy = (self.share >= SUSPECT[0]).then(|| self.heavy.unwrap_or(since));
        true
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Whether heavy loss goes on for so long that neither a full queue nor a policer explains it.
    pub(crate) fn persists(&self, now: Instant) -> bool {
        self.heavy.is_some_and(|since| now.since(since) >= EXPLAINED_FOR)
    }

    /// Whether the path lost so much in the last window that it may become suspect.
    pub(crate) fn is_heavy(&self, repair: bool) -> bool {
        !self.suspect && self.share >= SUSPECT[usize::from(!repair)]
    }

    /// Judges the link after a window; `best`: the least share that another link loses. Returns whether the judgement
    /// has changed.
    pub(crate) fn judge(&mut self, now: Instant, best: Option<u32>, repair: bool) -> bool {
        let limit = SUSPECT[usize::from(!repair)];
        let worse = best.is_some_and(|best| 4 * best < self.share);
        if !self.suspect && self.share >= limit && worse {
            self.suspect = true;
            self.hold.fail(now);
            return true;
        }
        if self.suspect && self.hold.is_over(now) && (self.share < limit / 4 || !worse) {
            self.suspect = false;
            self.hold.recover(now);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports a window in which `lost` of 2,048 cells did not come.
    fn window(loss: &mut Loss, seconds: u64, best: Option<u32>, lost: u32) -> bool {
        let now = Instant::from_nanos(seconds * 1_000_000_000);
        let (_, next, count) = loss.began.unwrap_or((now, 0, u32::MAX - 5_000));
        loss.began = Some((now, next, count));
        assert!(loss.handle_report(now, next + WINDOW, count.wrapping_add(2_048 - lost)));
        loss.judge(now, best, true)
    }

    #[test]
    fn a_link_that_loses_more_than_repair_can_pay_is_suspect_while_another_is_better() {
        let mut loss = Loss::new(Instant::default());
        assert!(!window(&mut loss, 1, Some(0), 200), "a tenth is the limit");
        assert!(!window(&mut loss, 2, None, 2_000), "the only link");
        assert!(!window(&mut loss, 3, Some(5_000), 2_000), "all are bad");
        assert!(window(&mut loss, 4, Some(0), 300));
        assert_eq!((loss.share(), loss.is_suspect()), (1_464, true));
        assert!(!window(&mut loss, 5, Some(0), 60), "not yet well");
        assert!(window(&mut loss, 6, Some(0), 10));
        assert!(!loss.is_suspect());
    }

    #[test]
    fn heavy_loss_persists_when_each_window_of_two_seconds_has_it() {
        let mut loss = Loss::new(Instant::default());
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        window(&mut loss, 1, None, 500);
        window(&mut loss, 2, None, 500);
        assert!(loss.persists(at(3)) && !loss.persists(at(2)), "since the first window began");
        window(&mut loss, 3, None, 100);
        assert!(!loss.persists(at(9)), "one was sound");
        window(&mut loss, 4, None, 500);
        loss.restart(0);
        assert!(!loss.persists(at(9)), "the path was not used");
    }

    #[test]
    fn a_window_needs_cells_or_time() {
        let mut loss = Loss::new(Instant::default());
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        assert!(!loss.handle_report(at(0), 0, 0));
        assert!(!loss.handle_report(at(500), WINDOW_LEAST, 0), "too early");
        assert!(loss.handle_report(at(1_000), WINDOW_LEAST, 192));
        assert_eq!(loss.share(), 2_500);
        assert!(!loss.handle_report(at(3_000), 2 * WINDOW_LEAST - 1, 0), "too few");
    }

    #[test]
    fn what_went_out_before_a_link_rose_does_not_count() {
        let mut loss = Loss::new(Instant::default());
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        loss.restart(1_000);
        assert!(!loss.handle_report(at(0), 900, 100), "a heartbeat that was held up");
        assert!(!loss.handle_report(at(1), 1_100, 200), "a hundred heartbeats were lost before");
        assert!(loss.handle_report(at(2), 1_100 + WINDOW, 200 + 2_048));
        assert_eq!(loss.share(), 0);
    }
}
