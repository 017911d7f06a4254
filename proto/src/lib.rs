//! The pure core of Tabane: one Ethernet device over several links, as a function of what happens and when.
//!
//! There is no clock, socket, thread or random source in here (the crate is `no_std`, so the compiler proves it): time is
//! an argument, and the same calls give the same results. `daemon` drives it with the kernel, `sim` with a made-up world.
//!
//! ```text
//!   device                                                                             links
//!     |  read_space, handle_frame                                 poll_batch, handle_sent |
//!     v                                                                                   ^
//!   send      segment -> queue -> schedule (policy) -> transmit -> seal ------------------+
//!
//!   receive   deliver <- reassemble <- reorder <- note arrival (link) <- open <-----------+
//!     |                                                                                   |
//!     v  poll_frame                                             lend, handle_datagrams    v
//! ```
//!
//! The rooms, each owning its state; a room imports only those below it:
//!
//! ```text
//!   bundle    the parts, and the order of calls: incoming, control, status
//!   group     who is there, links that join and leave, a process that another replaces
//!   send      frames on their way out              receive   cells on their way in
//!   fdb       where addresses live                 policy    which link carries what
//!   link      links, and whether the paths over them work
//!   session   who has which number, keys, handshakes
//!   outputs   what comes out besides cells and frames: control messages, events, counters
//!   wire, security, time        formats and traits, without state
//! ```
//!
//! The way of one frame, of 60,000 bytes, to a peer with two links: [`Bundle::handle_frame`] finds its flow, its peer
//! (`fdb`) and its lane (`send/lane`), and leaves it where it was read, in 43 sealed cells (`send/segment`, `send/ring`), in
//! its flow's queue (`send/queue`). [`Bundle::poll_batch`] takes cells out of the queues in turns, gives them their lane's
//! numbers and a link (`send/schedule`, `policy`), writes their headers with the link's numbers (`send/transmit`), and seals
//! them (`session/seal`). At the other end [`Bundle::handle_datagrams`] opens each cell (`bundle/incoming`), sees by the link's
//! number what is missing (`link`) and asks for it (`receive/request`), and puts the cell into its lane
//! (`receive/deliver`). When the lane has no gap, the frame's pieces are together (`receive/reassemble`), and
//! [`Bundle::poll_frame`] hands them to the device without having copied them. `examples/two_nodes.rs` does all of it.
//!
//! One turn of a worker, in this order: `handle_datagrams` for what came, `poll_frame` until `None`, and `handle_read`
//! when all links were read; `handle_queue` for each link, `handle_frame` while `wants_frames`; `handle_timeout` when
//! `poll_timeout` has come, and `poll_frame` again; `poll_control` and `handle_control_sent` until `None`;
//! `expect_frames` when more can be read, then `poll_batch` and `handle_sent` until `None`; `poll_event` until `None`.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bundle;
mod choices;
pub mod fdb;
mod group;
mod link;
mod outputs;
pub mod policy;
mod receive;
pub mod security;
mod send;
mod session;
mod settings;
pub mod time;
pub mod wire;

pub use bundle::Bundle;
pub use bundle::kernel_path::{KernelOrder, KernelPath, KernelPeer, KernelSender, NeedsCells};
pub use bundle::status::{Held, LinkStatus, PathStatus, PeerStatus, SealStatus};
pub use fdb::Fdb;
pub use group::handover::PAUSE;
pub use group::hotplug::GRACE;
pub use link::black_hole::OVERDUE_AFTER;
pub use link::carried::Carried;
pub use link::nic::{CELL_LEAST, LinkSettings};
pub use link::nic_load::NicReport;
pub use link::paths::FAR;
pub use outputs::ControlMessage;
pub use outputs::counters::{self, Counters};
pub use outputs::event::{self, Direction, Event, Expiry, Mismatch, Refusal, Signal};
pub use policy::class::{Class, Match};
pub use policy::classify::HashLayers;
pub use policy::gate;
pub use policy::{
    Choosing, NEWCOMERS, Nature, PolicyKind, PolicyOptions, SENDERS, Turn, UnknownPolicy, UnknownTurn,
};
pub use receive::deliver::Frame;
pub use receive::pool::{BUFFER, Buffer};
pub use send::transmit::{BATCH_CELLS, Batch, Outcome};
pub use settings::Settings;
pub use time::Instant;
pub use wire::hello::{KernelEnd, Name, NodeId};
