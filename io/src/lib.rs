//! Linux input and output of Tabane: the TAP device, UDP and Ethernet links, links through memory, packet sockets,
//! captures, places of BPF programs and their arrays, readiness, signals, netlink.
//!
//! What only commands need, which watch bundles and NICs from outside, has the feature `watch`: the daemon builds without it.
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

pub mod bounce;
mod bpf;
#[cfg(feature = "watch")]
pub mod capture;
pub mod descriptors;
pub mod ether;
pub mod ethtool;
pub mod gate;
#[cfg(feature = "watch")]
pub mod knock;
pub mod link;
pub mod mem;
pub mod netlink;
#[cfg(feature = "lab")]
pub mod netns;
#[cfg(feature = "watch")]
pub mod overhear;
#[cfg(feature = "lab")]
pub mod packet;
pub mod poll;
mod run;
#[cfg(feature = "watch")]
pub mod segment;
mod sockets;
pub mod tap;
pub mod tcx;
pub mod udp;

use rustix::time::{ClockId, clock_gettime};

pub use bounce::{Bounce, PIECES};
#[cfg(feature = "watch")]
pub use capture::{Capture, CaptureError, CaptureSpec};
pub use descriptors::{peer_groups, receive_files, send_files};
pub use ether::{Engine, EtherError, EtherLink, EtherSpec};
pub use gate::Gates;
pub use link::{
    AnyLink, Failure, Link, Notice, Polled, RECEIVE_BUFFER, RUN_MAX, ReceiveBuffer, SEGMENTS_MAX, Sent,
};
pub use mem::{MemError, MemLink, MemSpec};
#[cfg(feature = "lab")]
pub use packet::PacketSocket;
pub use poll::{Interest, Poll, Ready, Signal, Signals, Waker};
pub use sockets::DeviceSocket;
pub use tap::{Offload, Tap, TapError, TapQueue, TapSpec};
pub use tcx::MappedArray;
pub use udp::{LinkError, UdpLink, UdpSpec};

/// Nanoseconds of `CLOCK_MONOTONIC`: since boot, without the time of suspension, never stepped.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
