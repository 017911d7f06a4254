//! How fast a path delivers, as reports show it, whatever held cells or reports up on their way.
//!
//! Beside [`crate::link::congestion::varying`]. What was delivered between two reports is divided by the longer one of two times: in
//! which it arrived, by the peer's clock, and in which it was sent. So a lump that arrives at once shows no rate that the path does not
//! have. Source: draft-ietf-ccwg-bbr, section 4.1.2.

use crate::link::congestion::rate::Progress;
use crate::link::nic::per_second;
use crate::time::Instant;
use alloc::collections::VecDeque;
use core::time::Duration;

/// When cells were sent is noted so often.
const NOTE_EVERY: Duration = Duration::from_millis(1);
/// Notes and reports that are kept at most: those of a second, and of the longest time in which a rate is measured. A peer may report
/// nothing, or always at the same time.
const NOTES: usize = 1_024;
const REPORTS: usize = 256;
/// Two of three that follow each other are further apart than one part of so many of the time in which a rate is measured.
const COVERED: u32 = 100;
/// Loss is given in these parts. More than usual is twice what is usual, a part of so many, and what chance brings about.
const WHOLE: u64 = 1_000_000;
const UNUSUAL: u64 = 50;
const CHANCE: u64 = 3;
/// A report counts one part of so many of what is usual, and no more loss than so much.
const USUAL: u64 = 64;
const USUAL_MOST: u64 = WHOLE / 20;

/// What a path delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Bytes per second.
    pub(super) rate: u64,
    /// More was lost than usual.
    pub(super) loses: bool,
}

/// What had been delivered at a report.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    /// By the peer's clock, and when the latest of it was sent.
    written: Duration,
    sent: Instant,
    bytes: u64,
    /// Numbers that were passed, and those of them that did not arrive.
    numbers: u64,
    lost: u64,
}

/// What the reports of a path say one after the other.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    reports: VecDeque<Delivered>,
    latest: Option<Progress>,
    /// Numbers, and when they were sent.
    sent: VecDeque<(u64, Instant)>,
    /// When the latest of what arrived was, if since the first one that was noted.
    latest_sent: Option<Instant>,
    usual_loss: u64,
}

impl Delivery {
    /// Bytes that it has on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.reports.capacity() * size_of::<Delivered>() + self.sent.capacity() * size_of::<(u64, Instant)>()
    }

    /// The next number is `next`.
    pub(super) fn handle_sent(&mut self, now: Instant, next: u64) {
        if self.sent.back().is_none_or(|(_, at)| now.since(*at) >= NOTE_EVERY) {
            if self.sent.len() == NOTES {
                self.sent.pop_front();
            }
            self.sent.push_back((next, now));
        }
    }

    /// What was sent so far says nothing of what the path carries.
    pub(super) fn forget(&mut self, now: Instant) {
        if let Some(last) = self.reports.pop_back() {
            self.reports.clear();
            self.reports.push_back(Delivered { sent: now, ..last });
            self.latest_sent = Some(now);
        }
    }

    /// What was delivered in the last `span`, if the reports cover most of it.
    pub(super) fn sample(&mut self, progress: Progress, span: Duration) -> Option<Sample> {
        while self.sent.get(1).is_some_and(|(next, _)| *next <= progress.next) {
            self.sent.pop_front();
        }
        if let Some((_, at)) = self.sent.front().filter(|(next, _)| *next <= progress.next) {
            self.latest_sent = Some(*at);
        }
        let before = self.latest.replace(progress).unwrap_or(progress);
        let sent = self.latest_sent?;
        let last = self.reports.back().copied().unwrap_or_default();
        let numbers = progress.next - before.next;
        let came = u64::from(progress.count.wrapping_sub(before.count)).min(numbers);
        let bytes = u128::from(progress.bytes - before.bytes) * u128::from(came) / u128::from(numbers.max(1));
        let now = Delivered {
            written: progress.written,
            sent,
            bytes: last.bytes + u64::try_from(bytes).unwrap_or(u64::MAX),
            numbers: last.numbers + numbers,
            lost: last.lost + numbers - came,
        };
        // Those of a long span stand further apart, so that all of it is covered.
        let is_near = |before: &Delivered| now.written.saturating_sub(before.written) < span / COVERED;
        if self.reports.iter().nth_back(1).is_some_and(is_near) {
            self.reports.pop_back();
        }
        self.reports.push_back(now);
        let is_old = |next: &Delivered| now.written.saturating_sub(next.written) >= span;
        while self.reports.len() > REPORTS || self.reports.get(1).is_some_and(is_old) {
            self.reports.pop_front();
        }
        let first = self.reports.front()?;
        let took = now.written.saturating_sub(first.written).max(now.sent.since(first.sent));
        if took < span * 6 / 10 {
            return None;
        }
        let numbers = now.numbers - first.numbers;
        let lost = now.lost - first.lost;
        let loses = lost > 2 * numbers * self.usual_loss / WHOLE + numbers / UNUSUAL + CHANCE;
        let part = (lost * WHOLE / numbers.max(1)).min(USUAL_MOST);
        self.usual_loss = ((USUAL - 1) * self.usual_loss + part) / USUAL;
        Some(Sample { rate: per_second(now.bytes - first.bytes, took), loses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SPAN: Duration = Duration::from_millis(20);

    /// Reports each millisecond of a path that delivers a cell of 1,000 bytes in that time; the report `number` is held up by so many
    /// milliseconds, and of each hundred cells so many are lost.
    fn rates(held_up: fn(u64) -> u64, lost: u64) -> impl Iterator<Item = Option<Sample>> {
        let mut delivery = Delivery::default();
        (1..500_u64).map(move |number| {
            let at = |millis: u64| Instant::from_nanos(1_000_000_000 + millis * 1_000_000);
            delivery.handle_sent(at(number), number);
            let count = u32::try_from(number * (100 - lost) / 100).expect("few cells");
            let at = at(number + 10 + held_up(number));
            let written = Duration::from_millis(number);
            delivery.sample(Progress { at, written, bytes: number * 1_000, next: number, count }, SPAN)
        })
    }

    #[test]
    fn a_rate_is_the_same_however_reports_are_held_up() {
        for held_up in [|_| 0, |number: u64| 10 - number % 10] {
            let rates: Vec<_> = rates(held_up, 0).flatten().skip(20).collect();
            assert!(rates.len() > 400 && rates.iter().all(|sample| sample.rate.abs_diff(1_000_000) < 60_000));
            assert!(rates.iter().all(|sample| !sample.loses));
        }
    }

    #[test]
    fn a_rate_over_a_long_time_is_measured_however_often_is_reported() {
        let mut delivery = Delivery::default();
        let report = |millis: u64| {
            let (at, written) = (Instant::from_nanos(millis * 1_000_000), Duration::from_millis(millis));
            let count = u32::try_from(millis).expect("few cells");
            delivery.handle_sent(at, millis);
            delivery.sample(Progress { at, written, bytes: millis * 1_000, next: millis, count }, 100 * SPAN)
        };
        let rates: Vec<_> = (1..4_000).filter_map(report).collect();
        assert!(rates.len() > 2_000 && rates.iter().all(|sample| sample.rate.abs_diff(1_000_000) < 60_000));
    }

    #[test]
    fn what_was_sent_before_anything_was_noted_is_no_rate() {
        let mut delivery = Delivery::default();
        let mut report = |millis: u64, next| {
            let at = Instant::from_nanos(1_000_000_000_000 + millis * 1_000_000);
            let written = Duration::from_millis(millis);
            let count = u32::try_from(next).expect("few cells");
            delivery.handle_sent(at, next + 10);
            delivery.sample(Progress { at, written, bytes: next * 1_000, next, count }, SPAN)
        };
        let rates: Vec<_> = (0..200).filter_map(|millis| report(millis, millis)).collect();
        assert!(rates.iter().all(|sample| sample.rate.abs_diff(1_000_000) < 60_000), "{rates:?}");
    }

    #[test]
    fn loss_is_unusual_until_it_is_usual() {
        let is_told = |lost| rates(|_| 0, lost).flatten().any(|sample| sample.loses);
        assert_eq!([0, 30].map(is_told), [false, true]);
    }

    #[test]
    fn a_peer_whose_clock_stands_still_costs_bounded_memory() {
        let mut delivery = Delivery::default();
        for number in 1..10_000 {
            let now = Instant::from_nanos(number * 1_000_000);
            delivery.handle_sent(now, number);
            let progress = Progress { at: now, written: Duration::ZERO, bytes: 0, next: 1, count: 1 };
            let sample = delivery.sample(progress, SPAN);
            assert!(sample.is_none_or(|sample| sample.rate == 0));
        }
        assert!(delivery.bytes() < 50_000, "{}", delivery.bytes());
    }
}
