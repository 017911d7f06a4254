//! `tabane follow`: keeps the peers and keys of a running bundle as etcd or DNS has them.
//!
//! ```text
//!   etcd ── watch ──┐                                          ┌── plan ── control socket ──> tabane up
//!                   ├── News ──> follower: what is known last ─┤
//!   DNS ── SRV ─────┘                                          └── cache: a file
//!   etcd <── announce: this node's record, by lease            rotate: the rounds of another group key
//! ```
//!
//! A process of its own that opens no device: the daemon gives up its rights before bytes come, so it can neither read
//! certificates nor resolve names. The program `tabane` links no HTTP, no TLS and no resolver; this one knows of a bundle
//! what any command is told.
//!
//! Invariant: what cannot be read, reached or understood changes nothing of a bundle.

pub mod announce;
pub mod cache;
mod cli;
pub mod dns;
pub mod error;
pub mod etcd;
pub mod fleet;
pub mod follower;
pub mod plan;
pub mod rotate;
pub mod running;

pub use cli::{command, main};
use fleet::Fleet;

/// What the follower is told.
#[derive(Debug)]
pub enum News {
    /// The fleet is so, and sentences say what of it makes no sense.
    Fleet {
        /// The fleet.
        fleet: Fleet,
        /// The sentences.
        complaints: Vec<String>,
    },
    /// It is not known how it is, and why.
    Away(String),
    /// Somebody ends the program.
    Stop,
}
