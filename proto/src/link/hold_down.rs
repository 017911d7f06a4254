//! Hold-down: what keeps failing is not trusted again at once.
//!
//! Beside [`crate::link::health`] and [`crate::link::loss`]. The first relapse is free, the second costs [`FIRST`], each further one
//! twice as much; what stays well for [`STEADY_AFTER`] begins anew.
//!
//! Source: route flap damping (RFC 2439), with doubling in place of its decay constants.

use crate::time::Instant;
use core::time::Duration;

/// What fails within this time after it recovered has relapsed.
const STEADY_AFTER: Duration = Duration::from_secs(10);
const FIRST: Duration = Duration::from_millis(500);
/// Doublings of it: at most 32 s.
const DOUBLINGS: u32 = 6;

/// How often something has relapsed, and until when it is held down.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HoldDown {
    recovered: Instant,
    relapses: u32,
    until: Instant,
}

impl HoldDown {
    pub(crate) fn new(now: Instant) -> Self {
        Self { recovered: now, relapses: 0, until: now }
    }

    pub(crate) fn fail(&mut self, now: Instant) {
        self.relapses = if now.since(self.recovered) < STEADY_AFTER { self.relapses + 1 } else { 0 };
        let doublings = self.relapses.checked_sub(2).map(|doublings| doublings.min(DOUBLINGS));
        self.until = doublings.map_or(now, |doublings| now + FIRST * (1 << doublings));
    }

    /// It had not failed after all.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.relapses = self.relapses.saturating_sub(1);
        self.until = now;
    }

    pub(crate) fn recover(&mut self, now: Instant) {
        self.recovered = now;
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails each second and recovers as soon as it may; for how many milliseconds it was held down each time.
    fn flap(hold: &mut HoldDown, now: &mut Instant) -> u128 {
        *now = *now + Duration::from_secs(1);
        hold.fail(*now);
        let failed = *now;
        while !hold.is_over(*now) {
            *now = *now + Duration::from_millis(100);
        }
        hold.recover(*now);
        now.since(failed).as_millis()
    }

    #[test]
    fn relapses_cost_ever_more_and_steadiness_forgives() {
        let mut now = Instant::default();
        let mut hold = HoldDown::new(now);
        let held: [_; 10] = core::array::from_fn(|_| flap(&mut hold, &mut now));
        assert_eq!(held, [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 32_000]);
        now = now + STEADY_AFTER;
        assert_eq!(flap(&mut hold, &mut now), 0);
    }
}
