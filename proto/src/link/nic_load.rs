//! What the NIC of a link can carry, and what it carries besides this core's cells and the frames of the kernel path.
//!
//! Beside [`crate::link::nic`]. The I/O reads the NIC's speed and counters from the kernel, about once a second. What the NIC has sent
//! and the bundle has not is of others: other processes, the node's other workers, another link over the same NIC. The policies
//! that balance headroom ask for it.
//!
//! Source: P0, 2.2.2, whose headroom is the NIC's.

use crate::link::nic::per_second;
use crate::time::Instant;
use alloc::collections::VecDeque;
use core::time::Duration;

/// Loads are means of so long a time, as long as associations of senders last (P0).
const SPAN: Duration = Duration::from_secs(10);
/// Reports that follow one another faster than this tell the speed alone, so that few are kept.
const APART: Duration = Duration::from_millis(900);

/// What the kernel knows of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicReport {
    /// Its speed in bits per second; `None`: it says none.
    pub speed: Option<u64>,
    /// Bytes that it has sent since it was made.
    pub sent: u64,
    /// Bytes that it has received since it was made.
    pub received: u64,
}

#[derive(Debug, Default)]
pub(crate) struct NicLoad {
    /// Bits per second, as it says.
    speed: Option<u64>,
    /// Bytes of the packets that this core, and programs in the kernel, have sent over it.
    own: u64,
    /// Reports of the last [`SPAN`], and `own` at that time; the first one may be older.
    reports: VecDeque<(Instant, NicReport, u64)>,
    /// Bytes per second that others sent, and that it received, in that time.
    others: u64,
    received: u64,
}

impl NicLoad {
    pub(crate) fn speed(&self) -> Option<u64> {
        self.speed
    }

    /// Bytes per second that others sent over it of late.
    pub(crate) fn others(&self) -> u64 {
        self.others
    }

    /// Bytes per second that it received of late, for whomever.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// This core, or programs, have sent packets of so many bytes over it.
    pub(crate) fn handle_sent(&mut self, bytes: u64) {
        self.own += bytes;
    }

    pub(crate) fn handle_report(&mut self, now: Instant, report: NicReport) {
        self.speed = report.speed;
        if self.reports.back().is_some_and(|(at, ..)| now.since(*at) < APART) {
            return;
        }
        while self.reports.get(1).is_some_and(|(at, ..)| now.since(*at) >= SPAN) {
            self.reports.pop_front();
        }
        self.reports.push_back((now, report, self.own));
        let (began, first, own) = self.reports[0];
        let span = now.since(began);
        // A driver may begin to count anew.
        let sent = report.sent.saturating_sub(first.sent);
        self.others = per_second(sent.saturating_sub(self.own - own), span);
        self.received = per_second(report.received.saturating_sub(first.received), span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn carried(sent: u64, received: u64) -> NicReport {
        NicReport { speed: Some(1_000_000_000), sent, received }
    }

    #[test]
    fn what_the_nic_sent_and_this_core_did_not_is_of_others() {
        let mut load = NicLoad::default();
        load.handle_report(at(0), carried(7_000, 9_000));
        assert_eq!((load.others(), load.received()), (0, 0), "nobody knows since when");
        load.handle_sent(2_000);
        load.handle_report(at(1_000), carried(7_000 + 2_000 + 3_000, 9_000 + 500));
        assert_eq!((load.others(), load.received()), (3_000, 500));
        load.handle_sent(1_000);
        load.handle_report(at(2_000), carried(13_000, 9_500));
        assert_eq!((load.others(), load.received()), (1_500, 250), "the mean");
    }

    #[test]
    fn what_is_older_than_ten_seconds_is_forgotten() {
        let mut load = NicLoad::default();
        (0..=5).for_each(|second| load.handle_report(at(second * 1_000), carried(second * 1_000, 0)));
        assert_eq!(load.others(), 1_000);
        (6..=15).for_each(|second| load.handle_report(at(second * 1_000), carried(5_000, 0)));
        assert_eq!(load.others(), 0);
    }

    #[test]
    fn a_change_of_speed_is_known_at_once_and_a_counter_that_begins_anew_is_no_load() {
        let mut load = NicLoad::default();
        load.handle_report(at(0), carried(5_000, 5_000));
        load.handle_report(at(10), NicReport { speed: Some(100_000_000), ..carried(6_000, 6_000) });
        assert_eq!((load.speed(), load.others()), (Some(100_000_000), 0));
        load.handle_report(at(1_000), NicReport { speed: None, ..carried(10, 10) });
        assert_eq!((load.speed(), load.others(), load.received()), (None, 0, 0));
    }

    proptest! {
        /// However often and whatever a driver says, few reports are kept and no load exceeds what was counted.
        #[test]
        fn reports_are_bounded(steps in proptest::collection::vec((1..3_000u64, any::<u64>(), any::<u32>()), 1..60)) {
            let (mut load, mut now) = (NicLoad::default(), 0);
            for (pause, counted, own) in steps {
                now += pause;
                load.handle_sent(own.into());
                load.handle_report(at(now), carried(counted, counted));
                prop_assert!(load.reports.len() <= 13);
                prop_assert!(load.others() <= load.received());
            }
        }
    }
}
