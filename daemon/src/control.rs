//! The daemon's end of the control socket: who may ask, and how many at once.
//!
//! ```text
//!   tabane down | status | …   tabane_api::ask ─── {"do":"stop"}\n ──> server.rs ── Request ──> handler of the run loop
//!                              tabane_api::ask <── one JSON line ───── server.rs <── Answer ──┘
//!   tabane events --follow     tabane_api::follow <── a line per event ─ follower.rs <── event log
//! ```
//!
//! The socket has no file permissions: `gate.rs` asks the kernel who connected.

mod follower;
mod gate;
mod outgoing;
pub(crate) mod requests;
mod server;
#[cfg(test)]
mod tests;

pub use gate::Right;
pub use server::{BindError, Listener, Server};
pub use tabane_process::sandbox::account::Group;
