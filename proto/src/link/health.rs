//! Does a path bring what was put on it? Judged by its receiver.
//!
//! Under load, the other links tell within a millisecond that this link has been given cells; a link
//! that still has brought nothing two milliseconds after its skew is dead, whatever its carrier says ([`crate::link::black_hole`]).
//! In quiet, every link carries a heartbeat each 7 to 10 ms; a link that missed four while another one brought them is dead,
//! unless its sender says that it is still busy with a queue: on a slow link a heartbeat waits behind data. Where other
//! peers come in by the same link, cells may be waiting in the switch, and more time is given ([`crate::link::incast`]); more, too,
//! after errors ([`crate::link::adaptive_timeout`]), and where a path was silent for longer lately ([`crate::link::gaps`]). When *all*
//! links fall silent at once, it is far more likely that the peer or we did not get the processor, so that takes 200 ms.
//!
//! A dead link is used again after three heartbeats in a row. One that keeps falling is held down
//! ([`crate::link::hold_down`]), so that a loose plug does not take cells with it every second; but not if no other is up.
//!
//! The judgement travels back in heartbeats ([`crate::link::heartbeat`]); the sender obeys it. Each direction is judged by
//! itself, so that a link that is dead one way still serves the other.
//!
//! Source: P2, section 2.2. Thresholds: [`crate::OVERDUE_AFTER`] must exceed the time in which a receiver is not scheduled (1 ms
//! ticks), [`SILENT_FOR`] the jitter of three heartbeats; the targets are 5 ms under load and 50 ms in quiet.

use crate::link::black_hole::BURST;
use crate::link::carried::Told;
use crate::link::hold_down::HoldDown;
use crate::link::incast::INCAST_EXTRA;
use crate::link::watch::Watch;
use crate::outputs::event::Signal;
use crate::time::Instant;
use core::ops::Range;
use core::time::Duration;

/// Heartbeats of a quiet link are this far apart.
pub(crate) const HEARTBEAT_QUIET: Duration = Duration::from_millis(10);
/// Heartbeats of a link under load are this far apart.
pub(crate) const HEARTBEAT_BUSY: Duration = Duration::from_millis(1);
/// A link that is silent for longer than this, while another is not, is dead.
pub(crate) const SILENT_FOR: Duration = Duration::from_millis(42);
/// A path that has brought a cell within this has done so lately.
pub(crate) const LATELY: Duration = Duration::from_millis(20);
/// Links that are all silent for longer than this are dead.
pub(crate) const ALL_SILENT_FOR: Duration = Duration::from_millis(200);
/// Heartbeats in a row that bring a link back.
const HEARTBEATS_TO_RISE: u8 = 3;

/// Cells that are held are asked for so many at a time: another path carries them before the next request.
const HELD_TOGETHER: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The link is used again.
    Up,
    /// The link is not to be used.
    Down(Signal),
}

/// The judgement of one link in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    up: bool,
    last_received: Instant,
    /// When the sender last explained silence: by a queue that moves, or by silence on all of its links.
    excused: Instant,
    /// Cells that had left the sender when it spoke last.
    departed: u64,
    /// Heartbeats in a row while the link is down.
    risen: u8,
    hold: HoldDown,
    pub(crate) watch: Watch,
    /// Cells below this number that the link held were asked for.
    asked: u64,
    /// What the peer's programs sent on the path.
    pub(crate) told: Told,
    /// The other direction was given up because cells were not received.
    other_given_up: bool,
}

impl Health {
    /// A path is down until heartbeats have come over it.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            up: false,
            last_received: now,
            excused: now,
            departed: 0,
            risen: 0,
            hold: HoldDown::new(now),
            watch: Watch::new(now),
            asked: 0,
            told: Told::default(),
            other_given_up: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    pub(crate) fn last_received(&self) -> Instant {
        self.last_received
    }

    /// A cell came. `heartbeat`: it was one; `alone`: no other link of the peer is up.
    pub(crate) fn handle_cell(&mut self, now: Instant, heartbeat: bool, alone: bool) -> Option<Change> {
        let paused = self.last_received + 3 * HEARTBEAT_QUIET < now;
        self.last_received = now;
        self.watch.gaps.note(now);
        if self.up || !heartbeat {
            return None;
        }
        if paused {
            self.risen = 0;
        }
        self.risen = self.risen.saturating_add(1);
        if self.risen < HEARTBEATS_TO_RISE || !(alone || self.hold.is_over(now)) {
            return None;
        }
        self.hold.recover(now);
        (self.up, self.risen, self.excused) = (true, 0, now);
        self.watch.restart();
        Some(Change::Up)
    }

    /// A frame came last at `arrived` that programs took: the path works.
    pub(crate) fn handle_carried(&mut self, arrived: Instant) {
        if self.up {
            self.last_received = self.last_received.max(arrived);
            self.watch.gaps.shorten(arrived);
        }
    }

    /// Whether the other direction of the link was given up because cells were not received. Most of what dies does so both ways, and
    /// the way on which little is sent may be that of the answers.
    pub(crate) fn handle_other_direction(&mut self, given_up: bool) {
        self.other_given_up = given_up;
    }

    /// The peer sends again after silence on all links: it did not run, and slower links show that later.
    pub(crate) fn handle_pause(&mut self, now: Instant) {
        self.excused = now;
    }

    /// A cell came while the link was down. If the link was given up for this one, that was an error.
    pub(crate) fn handle_late(&mut self, now: Instant, seq: u64) {
        if !self.up && self.watch.handle_seq(now, seq) {
            self.hold.forgive(now);
        }
    }

    /// A heartbeat on some link told that cells up to `departed` have left the sender, which has `queued` bytes waiting
    /// for this one; up to `next` were received here.
    pub(crate) fn handle_departed(&mut self, now: Instant, departed: u64, queued: u32, next: u64) {
        self.watch.note(now, departed, next);
        if queued > 0 && departed > self.departed {
            self.excused = now;
        }
        self.departed = departed;
    }

    /// Judges the link. `next`: the number after the highest that was received; `skew`: how much later than the fastest
    /// link it is, and by how much its delay varies; `incast`: whether others send to the link; `any_received`: when any path from the peer was received last.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        next: u64,
        skew: Duration,
        incast: bool,
        any_received: Instant,
    ) -> Option<Change> {
        if !self.up {
            return None;
        }
        let received = (next, self.last_received);
        let overdue = self.watch.overdue(now, received, late(skew, incast), self.beside());
        if let Some((overdue, waited)) = overdue {
            self.watch.doubt(next..next + overdue);
            return Some(self.down(now, Signal::BurstSkew { overdue, waited }));
        }
        let waited = now.since(self.last_received.max(self.excused));
        let is_alone = now.since(any_received) < LATELY && !incast;
        let limit = if is_alone { SILENT_FOR + skew } else { ALL_SILENT_FOR };
        (waited >= limit).then(|| self.down(now, Signal::Silence { waited }))
    }

    /// The numbers of cells that the link holds although it brings others: they have been missing for longer than `late`. Each number is
    /// returned once, and [`HELD_TOGETHER`] at a time.
    pub(crate) fn take_held(&mut self, now: Instant, next: u64, late: Duration) -> Option<Range<u64>> {
        let end = self.watch.missing_for(now, next, late).filter(|_| self.up)?;
        let first = next.max(self.asked);
        self.asked = end.min(first + HELD_TOGETHER).max(first);
        (first < self.asked).then_some(first..self.asked)
    }

    /// When to judge next, at the latest; arguments as for [`Self::poll`].
    pub(crate) fn deadline(&self, now: Instant, next: u64, skew: Duration, incast: bool) -> Option<Instant> {
        let silent = self.last_received.max(self.excused) + SILENT_FOR + skew;
        let overdue = self.watch.due(now, (next, self.last_received), late(skew, incast), self.beside());
        self.up.then(|| overdue.map_or(silent, |overdue| silent.min(overdue)))
    }

    /// The link brings nothing more, for whatever reason; returns whether it was up.
    pub(crate) fn withdraw(&mut self) -> bool {
        let was_up = self.up;
        *self = Self::new(self.last_received);
        was_up
    }

    /// What makes a burst of the cells that are missing, counted in cells.
    fn beside(&self) -> u64 {
        if self.other_given_up { BURST } else { self.told.since() }
    }

    fn down(&mut self, now: Instant, signal: Signal) -> Change {
        self.hold.fail(now);
        self.up = false;
        self.risen = 0;
        self.watch.restart();
        Change::Down(signal)
    }
}

/// How late cells may be by nature.
fn late(skew: Duration, incast: bool) -> Duration {
    2 * skew + if incast { INCAST_EXTRA } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::black_hole::OVERDUE_AFTER;
    use crate::link::gaps::Gaps;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn risen() -> Health {
        let mut health = Health::new(at(0));
        health.watch.gaps = Gaps::steady(at(0));
        assert_eq!(health.handle_cell(at(0), true, false), None);
        assert_eq!(health.handle_cell(at(0), true, false), None);
        assert_eq!(health.handle_cell(at(0), true, false), Some(Change::Up));
        health
    }

    #[test]
    fn what_a_link_holds_is_told_once_and_some_at_a_time() {
        let late = Duration::from_millis(30);
        let mut health = risen();
        health.handle_departed(at(0), 100, 0, 0);
        assert_eq!(health.take_held(at(29_999), 0, late), None);
        assert_eq!(health.take_held(at(30_000), 3, late), Some(3..67));
        assert_eq!(health.take_held(at(30_000), 3, late), Some(67..100));
        assert_eq!(health.take_held(at(90_000), 5, late), None, "all were told");
        health.handle_departed(at(90_000), 120, 0, 100);
        assert_eq!(health.take_held(at(120_000), 100, late), Some(100..120));
    }

    #[test]
    fn three_heartbeats_in_a_row_bring_a_link_up() {
        let mut health = Health::new(at(0));
        health.handle_cell(at(0), true, false);
        health.handle_cell(at(10_000), true, false);
        assert_eq!(health.handle_cell(at(11_000), false, false), None, "data alone does not");
        assert_eq!(health.handle_cell(at(60_000), true, false), None, "a pause begins anew");
        assert_eq!(health.handle_cell(at(70_000), true, false), None);
        assert_eq!(health.handle_cell(at(80_000), true, false), Some(Change::Up));
    }

    #[test]
    fn a_black_hole_is_dead_exactly_after_its_time() {
        let mut health = risen();
        health.handle_departed(at(1_000), 57, 0, 0);
        let due = at(1_000) + OVERDUE_AFTER;
        assert_eq!(health.deadline(at(1_000), 0, Duration::ZERO, false), Some(due));
        let just_before = due - Duration::from_nanos(1);
        assert_eq!(health.poll(just_before, 0, Duration::ZERO, false, just_before), None);
        let signal = Signal::BurstSkew { overdue: 57, waited: OVERDUE_AFTER };
        assert_eq!(health.poll(due, 0, Duration::ZERO, false, due), Some(Change::Down(signal)));
        assert!(!health.is_up());
    }

    #[test]
    fn a_path_that_has_just_dropped_much_is_given_more_time() {
        let is_down = |skipped, millis: u64| {
            let mut health = risen();
            health.watch.handle_skipped(skipped);
            health.handle_departed(at(1_000), 57, 0, 0);
            health.poll(at(millis * 1_000), 0, Duration::ZERO, false, at(millis * 1_000)).is_some()
        };
        assert!(is_down(0, 3) && !is_down(16, 15) && is_down(16, 16));
    }

    #[test]
    fn incast_gives_more_time_to_pay() {
        let mut health = risen();
        health.handle_departed(at(1_000), 57, 0, 0);
        let due = at(1_000) + ALL_SILENT_FOR;
        assert_eq!(health.poll(at(199_999), 0, Duration::ZERO, true, at(199_999)), None);
        assert!(health.poll(due, 0, Duration::ZERO, true, due).is_some());
    }

    #[test]
    fn silence_of_one_link_is_noticed_before_silence_of_all() {
        let mut one = risen();
        assert_eq!(one.poll(at(41_999), 0, Duration::ZERO, false, at(41_999)), None);
        let waited = SILENT_FOR;
        assert_eq!(
            one.poll(at(42_000), 0, Duration::ZERO, false, at(42_000)),
            Some(Change::Down(Signal::Silence { waited }))
        );
        let mut all = risen();
        assert_eq!(all.poll(at(199_999), 0, Duration::ZERO, false, at(0)), None);
        assert!(all.poll(at(200_000), 0, Duration::ZERO, false, at(0)).is_some());
    }

    #[test]
    fn a_heartbeat_that_waits_behind_data_is_no_silence_while_the_queue_moves() {
        let mut health = risen();
        for millis in 1..200 {
            health.handle_departed(at(millis * 1_000), millis / 10, 30_000, millis / 10);
            assert_eq!(
                health.poll(at(millis * 1_000), millis / 10, Duration::ZERO, false, at(millis * 1_000)),
                None
            );
        }
        for millis in 200..300 {
            health.handle_departed(at(millis * 1_000), 19, 30_000, 19);
        }
        let change = health.poll(at(300_000), 19, Duration::ZERO, false, at(300_000));
        assert!(matches!(change, Some(Change::Down(Signal::Silence { .. }))), "it stands still: {change:?}");
    }

    #[test]
    fn a_peer_that_did_not_run_falls_silent_later_on_a_slow_link() {
        let skew = Duration::from_millis(50);
        let mut slow = risen();
        slow.handle_cell(at(40_000), false, false);
        slow.handle_pause(at(45_000));
        assert_eq!(
            slow.poll(at(95_000), 0, skew, false, at(95_000)),
            None,
            "its pause shows here from 40 to 95 ms"
        );
        slow.handle_cell(at(95_000), false, false);
        assert_eq!(slow.poll(at(186_999), 0, skew, false, at(186_999)), None);
        assert!(slow.poll(at(187_000), 0, skew, false, at(187_000)).is_some(), "nothing excuses more");
    }

    #[test]
    fn a_flapping_link_is_held_down_unless_it_is_alone() {
        let mut health = risen();
        let mut now = at(0);
        let fall_and_report = |health: &mut Health, now: &mut Instant, alone: bool| {
            *now = *now + SILENT_FOR;
            assert!(health.poll(*now, 0, Duration::ZERO, false, *now).is_some());
            (0..1_000).find(|_| {
                *now = *now + HEARTBEAT_QUIET;
                health.handle_cell(*now, true, alone).is_some()
            })
        };
        assert_eq!(fall_and_report(&mut health, &mut now, false), Some(2));
        assert_eq!(fall_and_report(&mut health, &mut now, false), Some(49), "500 ms");
        assert_eq!(fall_and_report(&mut health, &mut now, true), Some(2));
    }
}
