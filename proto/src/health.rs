//! Does a link bring what was put on it? One direction of one link, judged by its receiver.
//!
//! Intuition first. Under load, the other links tell within a millisecond that this link has been given cells; a link
//! that still has shown nothing two milliseconds after its skew is dead, whatever its carrier says (P2's burst skew).
//! In quiet, every link carries a heartbeat each 10 ms; a link that missed four while another one was heard is dead.
//! When *all* links fall silent at once, it is far more likely that the peer or we did not get the processor, so that
//! takes 200 ms. One or two late cells are no burst and get 10 ms. A dead link is used again after three heartbeats in a
//! row.
//!
//! The judgement travels back in heartbeats ([`crate::heartbeat`]); the sender obeys it. Each direction is judged by
//! itself, so that a link that is dead one way still serves the other.
//!
//! Source: P2, section 2.2. Thresholds: [`OWED_FOR`] must exceed the time in which a receiver is not scheduled (1 ms
//! ticks), [`SILENT_FOR`] the jitter of three heartbeats; DESIGN targets are 5 ms under load and 50 ms in quiet.

use crate::time::Instant;
use core::time::Duration;

/// Heartbeats of a quiet link are this far apart.
pub const HEARTBEAT_QUIET: Duration = Duration::from_millis(10);
/// Heartbeats of a link under load are this far apart.
pub const HEARTBEAT_BUSY: Duration = Duration::from_millis(1);
/// A link that owes [`BURST`] cells or more for longer than this, beyond its skew, is dead.
pub const OWED_FOR: Duration = Duration::from_millis(2);
/// Fewer cells than this are no burst: the few may wait in a queue of the receiver, which gets [`FEW_OWED_FOR`] to run.
pub const BURST: u64 = 8;
/// A link that owes fewer cells than [`BURST`] for longer than this, beyond its skew, is dead.
pub const FEW_OWED_FOR: Duration = Duration::from_millis(10);
/// A link that is silent for longer than this, while another is not, is dead.
pub const SILENT_FOR: Duration = Duration::from_millis(42);
/// Links that are all silent for longer than this are dead.
pub const ALL_SILENT_FOR: Duration = Duration::from_millis(200);
/// Heartbeats in a row that bring a link back.
const HEARTBEATS_TO_RISE: u8 = 3;

/// What showed that a link is dead, and the figures behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cells had left the sender, and none of them came although the other links brought theirs.
    BurstSkew {
        /// How many cells the link owed.
        owed: u64,
        /// For how long.
        waited: Duration,
    },
    /// No heartbeat came.
    Silence {
        /// For how long.
        waited: Duration,
    },
    /// The NIC lost its carrier or is gone.
    Carrier,
    /// The kernel refuses to send on it.
    SendError,
    /// The receiver says so.
    Report,
    /// This node takes the link out of the bundle.
    Removed,
    /// The peer takes the link out of the bundle.
    Farewell,
}

/// A change of the judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The link is used again.
    Up,
    /// The link is not to be used.
    Down(Signal),
}

/// The judgement of one link in one direction.
#[derive(Clone, Debug)]
pub struct Health {
    up: bool,
    /// When a cell was heard last.
    heard: Instant,
    /// Heartbeats in a row while the link is down.
    risen: u8,
    debt: Option<Debt>,
}

/// Cells that have left the sender and were not heard.
#[derive(Clone, Copy, Debug)]
struct Debt {
    /// The number after the last that was owed when the debt began; once it is heard, the debt is a younger one.
    first: u64,
    /// The number after the last that is owed now.
    all: u64,
    since: Instant,
}

impl Debt {
    /// How long a link may owe so much, when cells up to `next` were heard.
    fn patience(&self, next: u64, skew: Duration) -> Duration {
        2 * skew + if self.all - next >= BURST { OWED_FOR } else { FEW_OWED_FOR }
    }
}

impl Health {
    /// A link is down until it has been heard.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { up: false, heard: now, risen: 0, debt: None }
    }

    /// Whether the link is to be used.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// When a cell was heard last.
    #[must_use]
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// A cell came. `heartbeat`: it was one.
    pub fn handle_cell(&mut self, now: Instant, heartbeat: bool) -> Option<Change> {
        let paused = self.heard + 3 * HEARTBEAT_QUIET < now;
        self.heard = now;
        if self.up || !heartbeat {
            return None;
        }
        if paused {
            self.risen = 0;
        }
        self.risen += 1;
        if self.risen < HEARTBEATS_TO_RISE {
            return None;
        }
        *self = Self { up: true, heard: now, risen: 0, debt: None };
        Some(Change::Up)
    }

    /// A heartbeat on some link told that cells up to `departed` have left the sender; up to `next` were heard here.
    pub fn handle_departed(&mut self, now: Instant, departed: u64, next: u64) {
        self.debt = match self.debt.filter(|debt| next < debt.first) {
            Some(debt) => Some(Debt { all: debt.all.max(departed), ..debt }),
            None => (departed > next).then_some(Debt { first: departed, all: departed, since: now }),
        };
    }

    /// Judges the link. `next`: the number after the highest that was heard; `skew`: how much later than the fastest
    /// link it is; `any_heard`: when any link of the peer was heard last.
    pub fn poll(&mut self, now: Instant, next: u64, skew: Duration, any_heard: Instant) -> Option<Change> {
        if !self.up {
            return None;
        }
        self.debt = self.debt.filter(|debt| next < debt.first);
        if let Some(debt) = self.debt {
            let waited = now.since(debt.since);
            if waited >= debt.patience(next, skew) && now.since(self.heard) >= OWED_FOR {
                return Some(self.down(Signal::BurstSkew { owed: debt.all - next, waited }));
            }
        }
        let waited = now.since(self.heard);
        let limit = if now.since(any_heard) < 2 * HEARTBEAT_QUIET { SILENT_FOR } else { ALL_SILENT_FOR };
        (waited >= limit).then(|| self.down(Signal::Silence { waited }))
    }

    /// When to judge next, at the latest; arguments as for [`Self::poll`].
    #[must_use]
    pub fn deadline(&self, next: u64, skew: Duration) -> Option<Instant> {
        let silent = self.heard + SILENT_FOR;
        let owed = self
            .debt
            .filter(|debt| next < debt.first)
            .map_or(silent, |debt| (debt.since + debt.patience(next, skew)).max(self.heard + OWED_FOR));
        self.up.then(|| silent.min(owed))
    }

    /// The link brings nothing more, for whatever reason; returns whether it was up.
    pub(crate) fn withdraw(&mut self) -> bool {
        let was_up = self.up;
        *self = Self::new(self.heard);
        was_up
    }

    fn down(&mut self, signal: Signal) -> Change {
        self.up = false;
        self.risen = 0;
        self.debt = None;
        Change::Down(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn risen() -> Health {
        let mut health = Health::new(at(0));
        assert_eq!(health.handle_cell(at(0), true), None);
        assert_eq!(health.handle_cell(at(0), true), None);
        assert_eq!(health.handle_cell(at(0), true), Some(Change::Up));
        health
    }

    #[test]
    fn three_heartbeats_in_a_row_bring_a_link_up() {
        let mut health = Health::new(at(0));
        health.handle_cell(at(0), true);
        health.handle_cell(at(10_000), true);
        assert_eq!(health.handle_cell(at(11_000), false), None, "data alone does not");
        assert_eq!(health.handle_cell(at(60_000), true), None, "a pause begins anew");
        assert_eq!(health.handle_cell(at(70_000), true), None);
        assert_eq!(health.handle_cell(at(80_000), true), Some(Change::Up));
    }

    #[test]
    fn a_debt_is_dead_exactly_after_its_time() {
        let mut health = risen();
        health.handle_departed(at(1_000), 57, 0);
        let due = at(1_000) + OWED_FOR;
        assert_eq!(health.deadline(0, Duration::ZERO), Some(due));
        let just_before = due - Duration::from_nanos(1);
        assert_eq!(health.poll(just_before, 0, Duration::ZERO, just_before), None);
        let signal = Signal::BurstSkew { owed: 57, waited: OWED_FOR };
        assert_eq!(health.poll(due, 0, Duration::ZERO, due), Some(Change::Down(signal)));
        assert!(!health.is_up());
    }

    #[test]
    fn a_link_that_pays_late_but_pays_is_alive() {
        let mut health = risen();
        for round in 1..100 {
            let now = at(round * 1_000);
            health.handle_departed(now, round * 10, (round - 1) * 10);
            health.handle_cell(now, false);
            assert_eq!(health.poll(now, (round - 1) * 10, Duration::ZERO, now), None, "round {round}");
        }
    }

    #[test]
    fn skew_extends_the_debt() {
        let mut health = risen();
        health.handle_departed(at(0), BURST, 0);
        let skew = Duration::from_millis(3);
        assert_eq!(health.poll(at(7_999), 0, skew, at(7_999)), None);
        assert!(health.poll(at(8_000), 0, skew, at(8_000)).is_some());
    }

    #[test]
    fn a_few_cells_are_waited_for_longer_until_they_are_a_burst() {
        let mut health = risen();
        health.handle_departed(at(0), BURST - 1, 0);
        assert_eq!(health.poll(at(9_999), 0, Duration::ZERO, at(9_999)), None);
        let mut grown = health.clone();
        assert!(health.poll(at(10_000), 0, Duration::ZERO, at(10_000)).is_some());
        grown.handle_departed(at(5_000), BURST, 0);
        let signal = Signal::BurstSkew { owed: BURST, waited: Duration::from_millis(5) };
        assert_eq!(grown.poll(at(5_000), 0, Duration::ZERO, at(5_000)), Some(Change::Down(signal)));
    }

    #[test]
    fn silence_of_one_link_is_noticed_before_silence_of_all() {
        let mut one = risen();
        assert_eq!(one.poll(at(41_999), 0, Duration::ZERO, at(41_999)), None);
        let waited = SILENT_FOR;
        assert_eq!(
            one.poll(at(42_000), 0, Duration::ZERO, at(42_000)),
            Some(Change::Down(Signal::Silence { waited }))
        );
        let mut all = risen();
        assert_eq!(all.poll(at(199_999), 0, Duration::ZERO, at(0)), None);
        assert!(all.poll(at(200_000), 0, Duration::ZERO, at(0)).is_some());
    }
}
