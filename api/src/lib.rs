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
//! The rule of this crate: it speaks to bundles, and neither is one nor prints anything.

#![forbid(unsafe_code)]

mod answer;
pub mod client;
pub mod counters;
mod entry;
pub mod kinds;
pub mod origin;
mod present;
mod request;
pub mod socket;
mod start;
pub mod status;
mod told;
pub mod trust;

pub use answer::{Answer, InForce};
pub use client::{AskError, ask, ask_as_json, follow, in_force, open_request, refusal, status_of, stop};
pub use entry::Entry;
pub use kinds::KINDS;
pub use origin::Origin;
pub use present::{Present, meant, present};
pub use request::{REQUESTS, Request};
pub use start::Start;
pub use status::Status;
pub use told::Told;
