//! How large cells are: as large as every link of every peer takes.
//!
//! Beside the path. Another size takes a new ring ([`crate::send::ring`]), megabytes that are written anew, and forgets what was
//! kept for repair; and it is a peer that says what it takes. So there are [`CHANGES`] at once and one more in
//! [`CHANGE_EVERY`]. The last of them makes cells as small as any link's, so that they always fit; growth waits.
//!
//! Invariant: no cell that is made is larger than some link takes.

use crate::bundle::Bundle;
use crate::link::nic::CELL_LEAST;
use crate::time::Instant;
use core::cmp::Ordering;
use core::time::Duration;

/// Changes that there may be at once: nodes with other MTUs come and go.
const CHANGES: u32 = 8;
/// One more is earned in this time.
const CHANGE_EVERY: Duration = Duration::from_secs(10);

/// The changes that were made lately.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    /// When all changes are earned again.
    earned: Instant,
    /// When cells may grow that are smaller than they could be.
    pub(crate) grows_at: Option<Instant>,
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

    /// A change is made.
    fn spend(&mut self, now: Instant) {
        self.earned = self.earned.max(now) + CHANGE_EVERY;
    }
}

impl Bundle {
    /// Cells have to fit into every link of every peer, so that any cell can take any link. Links that are too small for
    /// any cell do not count. While cells of another size wait to leave, no frame is read.
    pub(crate) fn fit_cells(&mut self) {
        let ours = self.ports.iter().filter(|port| port.is_member()).map(|port| port.settings.cell_max);
        let theirs = self.peers.iter().flat_map(|peer| &peer.outbound).filter(|link| link.endpoint.is_some());
        let fits = usize::from(cell_that_fits(ours.chain(theirs.map(|link| link.cell_max))));
        let size = self.fit.affordable(self.polled, self.cell_max(), fits);
        if size != self.cell_max() && !self.has_unsent() {
            self.arena.set_cell_max(size - self.tag());
            self.fit.spend(self.polled);
        }
        self.cells_change = size != self.cell_max();
    }

    /// Makes cells of another size when the last ones of the former have left, or when they may grow.
    pub(crate) fn refit_cells(&mut self) {
        if self.cells_change || self.fit.grows_at.is_some_and(|at| at <= self.polled) {
            self.fit_cells();
        }
    }
}

/// The largest cell that all links take which take `cells_max` each, without those that carry nothing.
pub(crate) fn cell_that_fits(cells_max: impl Iterator<Item = u16>) -> u16 {
    cells_max.filter(|cell_max| *cell_max >= CELL_LEAST).min().unwrap_or(CELL_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Settings;
    use crate::link::nic::PortSettings;
    use crate::receive::deliver::Origin;
    use crate::wire::hello::{Hello, NodeId};
    use alloc::vec;

    /// A peer says that it takes cells of another size; returns whether the ring was made anew.
    fn says(bundle: &mut Bundle, cell_max: u16) -> bool {
        let node = NodeId::new([2, 0, 0, 0, 0, 2], 7420);
        let hello = Hello { node, incarnation: 5, session: 7, cell_max, ..bundle.hello(0, None) };
        let origin = Origin { port: 0, from: "192.0.2.2:7420".parse().unwrap() };
        let before = bundle.cell_max();
        bundle.handle_hello(bundle.polled, origin, &hello);
        while bundle.poll_control(bundle.polled).is_some() {}
        assert!(bundle.cell_max() <= usize::from(cell_max.max(CELL_LEAST)) && bundle.wants_frames());
        bundle.cell_max() != before
    }

    fn bundle() -> Bundle {
        let node = NodeId::new([2, 0, 0, 0, 0, 1], 7420);
        let start = Instant::from_nanos(1_000_000_000_000);
        Bundle::new(start, Settings::new(node, 1, vec![PortSettings::new(1_452)]))
    }

    #[test]
    fn a_peer_that_says_another_size_each_time_makes_no_ring_each_time() {
        let (mut back_and_forth, mut downhill) = (bundle(), bundle());
        let sizes = (0..500).map(|turn| 1_000 + 400 * (turn % 2));
        let made = sizes.filter(|size| says(&mut back_and_forth, *size)).count();
        assert!(made <= CHANGES as usize, "{made}");
        let made = (600..1_400).rev().filter(|size| says(&mut downhill, *size)).count();
        assert_eq!(made, CHANGES as usize);
        assert_eq!(downhill.cell_max(), usize::from(CELL_LEAST));
    }

    #[test]
    fn cells_grow_again_when_a_change_is_earned() {
        let mut bundle = bundle();
        assert!((600..1_400).rev().any(|size| says(&mut bundle, size) && bundle.cell_max() == 548));
        assert!(!says(&mut bundle, 1_452), "not yet");
        let spent = bundle.polled;
        let seconds = (1u32..100).find(|second| {
            says(&mut bundle, 1_452);
            bundle.handle_timeout(spent + Duration::from_secs(1) * *second);
            bundle.cell_max() == 1_452
        });
        assert!(seconds.is_some_and(|seconds| (20..=22).contains(&seconds)), "{seconds:?}");
    }
}
