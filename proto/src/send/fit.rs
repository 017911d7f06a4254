//! How large cells are: as large as every link of every peer takes, and as every path carries that is worth having.
//!
//! Beside the path. Another size takes a new ring ([`crate::send::ring`]), megabytes that are written anew, and forgets what was
//! kept for repair; and it is a peer that says what it takes. So there are [`CHANGES`] at once and one more in
//! [`CHANGE_EVERY`]. The last of them makes cells as small as any link's, so that they always fit; growth waits.
//!
//! Invariant: no cell that is made is larger than some link takes.

use crate::link::Links;
use crate::link::nic::CELL_LEAST;
use crate::link::paths::Paths;
use crate::send::Sender;
use crate::session::Sessions;
use crate::time::Instant;
use core::cmp::Ordering;
use core::time::Duration;

/// Changes that there may be at once: nodes with other MTUs come and go.
pub(crate) const CHANGES: u32 = 8;
/// One more is earned in this time.
const CHANGE_EVERY: Duration = Duration::from_secs(10);

/// Cells that are too long for the next size, and wait for a link that still takes them, are dropped after this time: the queue of all
/// links together is to last no longer than a few milliseconds, and such a link alone may be far slower.
const DRAIN_FOR: Duration = Duration::from_millis(50);

/// The changes that were made lately.
#[derive(Debug, Default)]
pub(super) struct Fit {
    /// When all changes are earned again.
    earned: Instant,
    /// When cells may grow that are smaller than they could be.
    pub(super) grows_at: Option<Instant>,
    /// Cells of another size than what links take now still have to leave.
    pub(super) is_changing: bool,
    /// The size that cells are to have, and from when on none is sent that is longer.
    shrinks_to: Option<(usize, Instant)>,
}

impl Fit {
    /// From when on there are two changes: one that is made, and one that makes cells as small as there are.
    fn two_at(&self) -> Instant {
        self.earned - CHANGE_EVERY * (CHANGES - 2)
    }

    /// The size that cells of `current` bytes get, when `fits` would fit.
    fn affordable(&mut self, now: Instant, current: usize, fits: usize) -> usize {
        let has_two = now >= self.two_at();
        self.grows_at = (fits > current && !has_two).then(|| self.two_at());
        match fits.cmp(&current) {
            Ordering::Less if !has_two => usize::from(CELL_LEAST),
            Ordering::Greater if !has_two => current,
            _ => fits,
        }
    }

    /// Whether a cell of so many bytes is not worth waiting for any more.
    pub(super) fn gives_up(&self, now: Instant, bytes: usize) -> bool {
        self.shrinks_to.is_some_and(|(size, at)| bytes > size && now >= at)
    }

    fn spend(&mut self, now: Instant) {
        self.earned = self.earned.max(now) + CHANGE_EVERY;
    }
}

impl Sender {
    /// Cells have to fit into every link of every peer, so that any cell can take any link. Links that are too small for
    /// any cell do not count. While cells of another size wait to leave, no frame is read; those
    /// that are too long do so for [`DRAIN_FOR`] at most.
    pub(crate) fn fit_cells(&mut self, now: Instant, links: &Links, sessions: &Sessions) {
        let ours = links.all().iter().filter(|link| link.is_member()).map(|link| link.settings.cell_max);
        let fits = usize::from(cell_that_fits(ours.chain(links.all_paths().flat_map(Paths::cells_max))));
        let size = self.fit.affordable(now, self.cell_max(sessions), fits);
        if size != self.cell_max(sessions) && !self.has_unsent() {
            self.ring.set_cell_max(size - sessions.tag());
            self.fit.spend(now);
        }
        let current = self.cell_max(sessions);
        self.fit.is_changing = size != current;
        let since = self.fit.shrinks_to.map_or(now + DRAIN_FOR, |(_, at)| at);
        self.fit.shrinks_to = (size < current).then_some((size, since));
    }

    /// Makes cells of another size when the last ones of the former have left, or when they may grow.
    pub(super) fn refit_cells(&mut self, now: Instant, links: &Links, sessions: &Sessions) {
        if self.fit.is_changing || self.fit.grows_at.is_some_and(|at| at <= now) {
            self.fit_cells(now, links, sessions);
        }
    }
}

/// The largest cell that all links take which take `cells_max` each, without those that carry nothing.
pub(crate) fn cell_that_fits(cells_max: impl Iterator<Item = u16>) -> u16 {
    cells_max.filter(|cell_max| *cell_max >= CELL_LEAST).min().unwrap_or(CELL_LEAST)
}
