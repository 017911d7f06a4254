//! What has to hold in simulated worlds. `-- --nocapture` shows the figures.
//!
//! `TABANE_SIM_SEEDS` sets how many seeds there are for what holds whatever the seed: 1,000, unless it says otherwise. Where a
//! test takes fewer, it takes as many times more or less.

mod bridge;
mod ceiling;
mod hostile;
mod loss;
mod mesh;
mod overload;
mod path_mtu;
mod router;
mod scenarios;
mod sleep;
mod swarm;
mod trials;

use std::ops::Range;

/// How many seeds the swarm has, unless `TABANE_SIM_SEEDS` says otherwise.
const SWARM: u64 = 1_000;

/// The seeds of a test that takes so many where the swarm takes [`SWARM`].
fn seeds(ordinary: u64) -> Range<u64> {
    let swarm =
        std::env::var("TABANE_SIM_SEEDS").map_or(SWARM, |text| text.parse().expect("a number of seeds"));
    0..(ordinary * swarm).div_ceil(SWARM)
}
