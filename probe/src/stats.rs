//! The statistics of a measurement: pure functions of numbers, without clock, socket or random source.
//!
//! ```text
//!     values ── summary, histogram ── what they are
//!            ── classes ───────────── which kinds of them there are
//!            ── changepoints ──────── where their kind changes with time
//!            ── period ────────────── whether they come in a rhythm
//!            ── inversion ─────────── whether the larger message is the faster one
//!            ── rank_sum ──────────── whether two lists of them differ by more than chance
//! ```
//!
//! `probe/tests/scipy.rs` compares them with SciPy, NumPy and ruptures over traces that are kept there.

mod changepoint;
mod classes;
mod inversion;
mod period;
mod rank_sum;
mod summary;

pub use changepoint::{changepoints, penalty};
pub use classes::{Class, Classes};
pub use inversion::{BLOCK, Inversion, Round, holm, inversion};
pub use period::{Period, Recurrence, autocorrelation, beginnings, period, recurrence};
pub use rank_sum::rank_sum;
pub use summary::{Histogram, Summary, quantile, sorted};

/// A number of bins or a place in a list; negative numbers and NaN become 0.
#[expect(clippy::cast_possible_truncation, reason = "floats beyond the range saturate")]
fn whole(number: f64) -> usize {
    number as usize
}
