//! Linux input and output of Tabane: the TAP device, UDP and Ethernet links, links through memory, packet sockets,
//! captures, places of BPF programs and their arrays, readiness, signals, netlink.
//!
//! The only crate of the workspace with `unsafe`. It knows no cell, lane or peer: it moves bytes
//! between buffers of its caller and file descriptors, and never keeps a frame.
//!
//! ```text
//!     TAP queue  --read-->   worker  --Link::send-->    UDP socket (GSO)
//!     TAP queue  <--write--  worker  <--Link::receive-- UDP socket (GRO)
//!                               |
//!                 Poll, Waker, Signals, netlink::Watch
//! ```
//!
//! - No call of the data path blocks or allocates.
//! - Every kernel feature is probed when a device or socket is opened. A missing one is replaced
//!   by something slower that works; a [`Notice`] says so, which the caller logs.
//! - Each kernel behaviour relied upon has a test in `tests/kernel_*.rs`.

#![expect(unsafe_code, reason = "system calls that no library wraps; each block has its invariant")]

pub mod any;
pub mod array;
pub mod bounce;
mod bpf;
pub mod capture;
pub mod clock;
pub mod descriptors;
pub mod device;
pub mod ether;
pub mod ethtool;
pub mod gate;
pub mod knock;
pub mod link;
pub mod mem;
pub mod netlink;
#[cfg(feature = "lab")]
pub mod netns;
pub mod notice;
pub mod overhear;
#[cfg(feature = "lab")]
pub mod packet;
pub mod peer;
pub mod poll;
mod run;
pub mod segment;
mod sockets;
pub mod tap;
pub mod tcx;
#[cfg(feature = "lab")]
pub mod trial;
pub mod udp;

pub use any::{AnyLink, Polled};
pub use array::MappedArray;
pub use bounce::{Bounce, PIECES};
pub use capture::{Capture, CaptureError, CaptureSpec};
pub use clock::now_ns;
pub use descriptors::{receive_files, send_files};
pub use device::DeviceSocket;
pub use ether::{Engine, EtherError, EtherLink, EtherSpec};
pub use gate::Gates;
pub use link::{Link, RUN_MAX, ReceiveBuffer, SEGMENTS_MAX, Sent};
pub use mem::{MemError, MemLink, MemSpec};
pub use notice::Notice;
#[cfg(feature = "lab")]
pub use packet::{PacketError, PacketSocket};
pub use peer::peer_groups;
pub use poll::{Interest, Poll, Ready, Signal, Signals, Waker};
pub use tap::{Offload, Tap, TapError, TapQueue, TapSpec};
pub use udp::{LinkError, UdpLink, UdpSpec};
