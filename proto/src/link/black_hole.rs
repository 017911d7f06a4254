//! Cells that have left one end of a link and have not shown at the other: P2's burst skew, as either end can see it.
//!
//! Beside [`crate::link::health`] (the receiver's view) and [`crate::link::outbound`] (the sender's). Cells are always under way, so
//! a debt is dated: it begins with the cells that had left when it was noticed, and once these have come, what is still
//! owed is a younger debt.
//!
//! Invariant: a link whose cells arrive, however late, never owes the same cells for longer than they travel.

use crate::time::Instant;
use core::time::Duration;

/// A link that owes [`BURST`] cells or more for longer than this, beyond its skew, is dead. One whose delay varies by more
/// is given up now and then, until [`crate::link::adaptive_timeout`] has learnt of it.
pub const OWED_FOR: Duration = Duration::from_millis(2);
/// Fewer cells than this are no burst: the few may wait in a queue of the receiver, which gets [`FEW_OWED_FOR`] to run.
pub(crate) const BURST: u64 = 8;
/// A link that owes fewer cells than [`BURST`] for longer than this, beyond its skew, is dead.
pub(crate) const FEW_OWED_FOR: Duration = Duration::from_millis(10);

/// What a link owes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account(Option<Debt>);

#[derive(Clone, Copy, Debug)]
struct Debt {
    /// The number after the last that was owed when the debt began; once it is heard, the debt is a younger one.
    first: u64,
    /// The number after the last that is owed now.
    all: u64,
    since: Instant,
}

impl Account {
    /// Cells up to `departed` have left the sender, those up to `next` were heard.
    pub(crate) fn note(&mut self, now: Instant, departed: u64, next: u64) {
        self.0 = match self.0.filter(|debt| next < debt.first) {
            Some(debt) => Some(Debt { all: debt.all.max(departed), ..debt }),
            None => (departed > next).then_some(Debt { first: departed, all: departed, since: now }),
        };
    }

    /// How many cells are owed and for how long, if that is longer than a link may that is `late` by nature; cells up
    /// to `next` were heard.
    pub(crate) fn overdue(&self, now: Instant, next: u64, late: Duration) -> Option<(u64, Duration)> {
        let debt = self.0.filter(|_| self.due(next, late).is_some_and(|due| now >= due))?;
        Some((debt.all - next, now.since(debt.since)))
    }

    /// When a debt becomes overdue; arguments as for [`Self::overdue`].
    pub(crate) fn due(&self, next: u64, late: Duration) -> Option<Instant> {
        let debt = self.0.filter(|debt| next < debt.first)?;
        Some(debt.since + late + if debt.all - next >= BURST { OWED_FOR } else { FEW_OWED_FOR })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_debt_is_overdue_exactly_after_its_time_and_what_is_late_by_nature() {
        let mut account = Account::default();
        account.note(at(0), BURST, 0);
        let late = Duration::from_millis(6);
        assert_eq!(account.due(0, late), Some(at(8_000)));
        assert_eq!(account.overdue(at(7_999), 0, late), None);
        assert_eq!(account.overdue(at(8_000), 0, late), Some((BURST, Duration::from_millis(8))));
        assert_eq!(account.overdue(at(8_000), BURST, late), None, "paid");
    }

    #[test]
    fn cells_that_are_paid_late_leave_a_younger_debt() {
        let mut account = Account::default();
        for round in 1..100 {
            account.note(at(round * 1_000), round * 10, (round - 1) * 10);
            assert_eq!(account.overdue(at(round * 1_000), (round - 1) * 10, Duration::ZERO), None, "{round}");
        }
    }

    #[test]
    fn a_few_cells_are_waited_for_longer_until_they_are_a_burst() {
        let mut account = Account::default();
        account.note(at(0), BURST - 1, 0);
        assert_eq!(account.due(0, Duration::ZERO), Some(at(10_000)));
        account.note(at(5_000), BURST, 0);
        assert_eq!(account.overdue(at(5_000), 0, Duration::ZERO), Some((BURST, Duration::from_millis(5))));
    }
}
