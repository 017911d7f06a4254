//! The pure core of Tabane: one Ethernet device over several links, as a function of what happens and when.
//!
//! There is no clock, socket, thread or random source in here (the crate is `no_std`, so the compiler proves it): time is
//! an argument, and the same calls give the same results. `daemon` drives it with the kernel, `sim` with a made-up world.
//!
//! ```text
//!   device                                                                            links
//!     |  read_space, handle_frame                                poll_batch, handle_sent |
//!     v                                                                                  ^
//!   classify -> learn -> pack -> queue --> schedule (policy) --> number --> seal --------+   pack.rs, schedule.rs, tx.rs
//!
//!   deliver  <- unpack <- reorder (hold) <-- inbound (link account) <- open <- header <--+   rx.rs
//!     |                                                                                  |
//!     v  poll_frame                                      lend (pool), handle_datagrams   v
//!
//!   beside it: fdb (what all workers have learned), class (which policy), copies (for further links),
//!              stall (flows that wait for a link),
//!              membership (who is there), greeting, handshake and cookie (who is let in),
//!              heartbeat (what was sent and heard),
//!              health, debt, patience, loss, hold_down (which link is dead or sick),
//!              repair (what is sent again), gate (which flows the device takes), port (queue and rate),
//!              fit (how large cells are), hotplug (ports that join and leave),
//!              relief (who gives up what, when buffers run out or lanes grow long),
//!              keyring and replay (what seals, opens and is refused),
//!              succession and deferred (a process that makes way for another, and what waits for it),
//!              status and event (what is seen),
//!              engine (how buffers and fragments pass between a driver and its device; how a worker waits)
//! ```
//!
//! One turn of a worker, in this order: `handle_datagrams` for what came, `poll_frame` until `None`, and `handle_read`
//! when all ports were read; `handle_queue` for each port, `handle_frame` while `wants_frames`; `handle_timeout` when
//! `poll_timeout` has come, and `poll_frame` again; `poll_control` and `handle_control_sent` until `None`;
//! `expect_frames` when more can be read, then `poll_batch` and `handle_sent` until `None`; `poll_event` until `None`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bundle;
pub mod counters;
pub mod engine;
pub mod event;
pub mod fdb;
pub mod gate;
mod group;
mod link;
mod outbox;
pub mod policy;
mod receive;
pub mod security;
mod send;
mod session;
mod settings;
pub mod time;
pub mod wire;

pub use bundle::Bundle;
pub use bundle::status::{Held, LinkStatus, PeerStatus, SealStatus};
pub use counters::Counters;
pub use event::{Direction, Event, Lapse, Refusal, Signal};
pub use fdb::Fdb;
pub use group::handover::PAUSE;
pub use group::hotplug::GRACE;
pub use link::black_hole::OWED_FOR;
pub use link::nic::{CELL_LEAST, PortSettings};
pub use outbox::ControlMessage;
pub use policy::class::{Class, Match};
pub use policy::classify::HashLayers;
pub use policy::{PolicyKind, PolicyOptions, UnknownPolicy};
pub use receive::deliver::Frame;
pub use receive::pool::{BUFFER, Buffer};
pub use send::transmit::{BATCH_CELLS, Batch, Outcome};
pub use settings::Settings;
pub use time::Instant;
pub use wire::hello::{Name, NodeId};
