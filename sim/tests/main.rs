//! What has to hold in simulated worlds. `-- --nocapture` shows the figures.
//!
//! `TABANE_SEEDS` names the seeds for what holds whatever the seed, as `0..5000`, or one of them: 1,000, unless it says otherwise.
//! Where a test takes fewer, it takes as many times more or less.

mod ceiling;
mod hostile;
mod loss;
mod mesh;
mod path_mtu;
mod router;
mod scenarios;
mod sleep;
mod stage;
mod swarm;
mod trials;
mod uplinks;

use std::ops::Range;

/// How many seeds the swarm has, unless `TABANE_SEEDS` says otherwise.
const SWARM: u64 = 1_000;

/// The seeds of a test that takes so many where the swarm takes [`SWARM`].
fn seeds(ordinary: u64) -> Range<u64> {
    let named = std::env::var("TABANE_SEEDS").unwrap_or_else(|_| format!("0..{SWARM}"));
    let Range { start, end } = tabane_sim::many::seeds(&named).expect("seeds");
    start..start + (ordinary * (end - start)).div_ceil(SWARM)
}
