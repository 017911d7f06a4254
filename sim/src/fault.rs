//! The kinds of faults of a run.
//!
//! A fault begins and ends; while several last, each has its effect. [`crate::world`] carries them out.

use crate::topology::{LinkNumber, NodeNumber};
use core::time::Duration;

/// Which cables of a link a fault concerns: one node's, or all.
pub type Where = Option<NodeNumber>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing passes in either direction, and the carrier stays: a dead switch behind a live nic.
    BlackHole(LinkNumber, Where),
    /// Nothing passes from the node to the switch.
    Mute(LinkNumber, Where),
    /// Nothing passes from the switch to the node.
    Deaf(LinkNumber, Where),
    /// Nothing passes, the carrier is gone, and the kernel signals that to the node.
    NoCarrier(LinkNumber, Where),
    /// A node takes the link out of its bundle, and takes it in again when this ends.
    Removed(LinkNumber, NodeNumber),
    /// A node drains the link, until this ends.
    Drained(LinkNumber, NodeNumber),
    /// So many datagrams in a million are lost on the way to the nodes; when it ends, none.
    Loss(LinkNumber, u32),
    /// Nothing longer than so many bytes passes, and nobody says so; when it ends, everything does.
    Narrow(LinkNumber, u16),
    /// The link's routers carry so many kbit/s; when it ends, what they did.
    Rate(LinkNumber, u32),
    /// The node's kernel has no memory for one in eight of the batches that the node sends on the link.
    NoMemory(LinkNumber, NodeNumber),
    /// A node's process is not scheduled.
    Pause(NodeNumber),
    /// A node's machine sleeps: its process is not scheduled, and its clock stands still.
    Suspend(NodeNumber),
    /// A node's worker takes so long for each datagram; when it ends, none.
    Slow(NodeNumber, Duration),
    /// A node's worker begins each turn so long after its cause; when it ends, at once.
    Late(NodeNumber, Duration),
    /// A node's process is started anew; this has no end.
    Restart(NodeNumber),
}

impl Fault {
    pub fn link(self) -> Option<LinkNumber> {
        match self {
            Self::BlackHole(link, _)
            | Self::Mute(link, _)
            | Self::Deaf(link, _)
            | Self::NoCarrier(link, _)
            | Self::Removed(link, _)
            | Self::Drained(link, _)
            | Self::Loss(link, _)
            | Self::Narrow(link, _)
            | Self::Rate(link, _)
            | Self::NoMemory(link, _) => Some(link),
            Self::Pause(_) | Self::Suspend(_) | Self::Slow(..) | Self::Late(..) | Self::Restart(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct FaultPeriod {
    pub fault: Fault,
    /// When it begins, since the beginning of the world.
    pub begins: Duration,
    pub ends: Option<Duration>,
}
