//! What commands and programs ask a running bundle, and what it answers: the types of both, and the asking end of the control socket.
//! And what the daemon's program is started for (`start.rs`).
//!
//! ```text
//!   tabane status, tabane-web, …   client.rs ── {"do":"status"}\n ──> the daemon's control socket     (request.rs)
//!                                  client.rs <── one JSON line ────── an Answer                      (answer.rs, status.rs)
//!   tabane events --follow         client.rs <── a line per event ─── an Entry each                  (entry.rs)
//! ```
//!
//! A status brings its judgement along: `status/health.rs` says what is well, for all who show it.
//!
//! What only those need who ask has the feature `ask`: the daemon builds without it.
//!
//! The rule of this crate: it speaks to bundles, and neither is one nor prints anything.

#![forbid(unsafe_code)]

mod answer;
#[cfg(feature = "ask")]
pub mod client;
mod connection;
pub mod counters;
mod entry;
pub mod kinds;
pub mod origin;
#[cfg(feature = "ask")]
mod present;
mod request;
pub mod socket;
mod start;
pub mod status;
mod told;

pub use answer::{Answer, InForce};
#[cfg(feature = "ask")]
pub use client::{ask, ask_as_json, follow, in_force, status_of, stop};
pub use connection::{AskError, open_request, refusal};
pub use entry::Entry;
pub use kinds::KINDS;
pub use origin::Origin;
#[cfg(feature = "ask")]
pub use present::{Present, meant, present};
pub use request::{REQUESTS, Request};
pub use start::Start;
pub use status::Status;
pub use told::Told;
