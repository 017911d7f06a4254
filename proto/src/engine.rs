//! Engines: how a driver gets its buffers back from a device, and how a packet's fragments reach it.
//!
//! Beside the path of a frame: an engine decides, and whoever owns the device does. [`reclaim`] says when sent buffers
//! come back: by interrupt, at the next send, or as the room that is left demands. [`fragments`] says how many of a
//! packet's fragments are copied into one; [`costs`] is what this machine showed about that. [`receive`] says how a worker
//! waits for what comes.
//!
//! Pure like all of this crate: a device that was made up drives them as a real one does.
//! Source: Shimizu et al., "Enhancement of over-Gbps protocol processing using BSD UNIX" (adaptive device drivers),
//! sections 4.1 and 5.3.

pub mod costs;
pub mod fragments;
pub mod receive;
pub mod reclaim;
