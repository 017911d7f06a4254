//! The topology: nodes, the links between them, and the settings of each direction of each cable.
//!
//! ```text
//!   node 0 ── nic 0 ── cable ──┐            ┌── cable ── nic 0 ── node 1
//!     │                         ├─ switch 0 ─┤                        │
//!     │       (up) ->           └────────────┘      <- (up)           │
//!     └───── nic 1 ── cable ──── switch 1 ──── cable ── nic 1 ──────┘
//! ```
//!
//! A link is a switch with a cable to each node. `up` is the way from the node to the switch: its queue is the NIC's,
//! which pushes back. `down` is the way from the switch to the node: its queue is the switch's, which drops its tail.

use crate::router::RouterSettings;
use core::time::Duration;
use tabane_proto::security::Rekey;
use tabane_proto::{Class, PolicyKind, PolicyOptions};

/// A link's number, and that of its switch.
pub type LinkNumber = u8;
pub type NodeNumber = u8;

/// One direction of a cable. Datagrams never overtake each other on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// Bits per second, counting the bytes of cells alone.
    pub rate: u64,
    /// What every datagram takes besides its serialisation.
    pub delay: Duration,
    pub jitter: Duration,
    /// It changes from one value to the next in this time; zero: each datagram has its own.
    pub changes: Duration,
    /// Datagrams lost in a million.
    pub loss: u32,
    /// Bytes that may wait for it.
    pub queue: u64,
}

/// Receive-interrupt coalescing: a NIC interrupts after so many frames or so long after the first, whichever comes
/// first. P2 found that it reorders frames between links.
#[derive(Clone, Copy, Debug)]
pub struct Coalesce {
    /// Frames, at least 1.
    pub frames: u16,
    /// After the first frame.
    pub delay: Duration,
}

impl Coalesce {
    pub const NONE: Self = Self { frames: 1, delay: Duration::ZERO };
}

/// A link whose cables are all alike.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Bits per second of every cable, both ways.
    pub rate: u64,
    /// From node to node, without serialisation.
    pub delay: Duration,
    /// The most that a datagram takes beyond that.
    pub jitter: Duration,
    /// The time in which that changes from one value to the next; zero: each datagram has its own.
    pub changes: Duration,
    /// Datagrams lost in a million.
    pub loss: u32,
    /// Bytes that may wait in the switch for one cable.
    pub switch_queue: u64,
    pub coalesce: Coalesce,
    /// The largest cell in bytes.
    pub cell_max: u16,
    /// A router's queue towards each node, if there is one: the NICs then see no queue of its.
    pub router: Option<RouterSettings>,
}

impl Link {
    /// Cells for Ethernet's 1,500 bytes without the headers of IPv6 and UDP.
    const CELL: u16 = 1_500 - 40 - 8;

    /// A good link of 1 Gbit/s.
    pub const GIGABIT: Self = Self {
        rate: 1_000_000_000,
        delay: Duration::from_micros(20),
        jitter: Duration::ZERO,
        changes: Duration::ZERO,
        loss: 0,
        switch_queue: 1024 * 1024,
        coalesce: Coalesce::NONE,
        cell_max: Self::CELL,
        router: None,
    };

    /// The same at 100 Mbit/s.
    pub const FAST_ETHERNET: Self = Self { rate: 100_000_000, ..Self::GIGABIT };

    pub fn cable(&self, number: LinkNumber) -> CableSettings {
        let half = Way { rate: self.rate, delay: self.delay / 2, queue: NIC_QUEUE, ..Way::default() };
        CableSettings {
            link: number,
            up: half,
            down: Way {
                jitter: self.jitter,
                changes: self.changes,
                loss: self.loss,
                queue: self.switch_queue,
                ..half
            },
            coalesce: self.coalesce,
            cell_max: self.cell_max,
            weight: None,
            sends: None,
            receives: None,
            router: self.router,
        }
    }
}

/// Bytes that a NIC takes at most, whatever the bundle asks for: an order above the largest that it asks for.
const NIC_QUEUE: u64 = 4 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct CableSettings {
    pub link: LinkNumber,
    /// From the node to the switch.
    pub up: Way,
    /// From the switch to the node.
    pub down: Way,
    /// How the node's NIC interrupts.
    pub coalesce: Coalesce,
    /// The largest cell that the NIC takes, in bytes.
    pub cell_max: u16,
    /// The nic's part of the traffic under `weighted`.
    pub weight: Option<u32>,
    /// The most that the node is to send there, in bits per second, if its configuration states that.
    pub sends: Option<u64>,
    /// The most that it wants to receive from each peer there.
    pub receives: Option<u64>,
    /// The router between the switch and the node, if any.
    pub router: Option<RouterSettings>,
}

#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// Its cables, by nic.
    pub cables: Vec<CableSettings>,
    /// What its clock shows when the world begins: nodes' clocks are unrelated.
    pub clock: Duration,
    pub policy: PolicyKind,
    pub policy_options: PolicyOptions,
    /// Frames that have another policy.
    pub classes: Vec<Class>,
    pub repair: bool,
    /// Cell slots of the sender's ring.
    pub slots: usize,
    /// Receive buffers of 64 KB.
    pub buffers: u16,
    /// Whether the kernel merges the datagrams of a train into one buffer.
    pub gro: bool,
    /// Whether the node finds peers by multicast, or greets named endpoints.
    pub multicast: bool,
    /// When the keys that seal its cells are renewed; `None`: they are not sealed.
    pub sealed: Option<Rekey>,
    /// Its keys are at hand for [`crate::hostile`].
    pub may_be_hostile: bool,
}

#[derive(Clone, Debug)]
pub struct Topology {
    pub nodes: Vec<NodeSettings>,
}

impl Topology {
    /// So many equal nodes on these links, with what `tabane up` takes by default, without repair.
    pub fn new(nodes: NodeNumber, links: &[Link]) -> Self {
        let node = |number: NodeNumber| NodeSettings {
            cables: links.iter().zip(0..).map(|(link, number)| link.cable(number)).collect(),
            clock: Duration::from_secs(1 + u64::from(number) * 1_000),
            slots: 8_192,
            buffers: 128,
            gro: true,
            multicast: true,
            ..NodeSettings::default()
        };
        Self { nodes: (0..nodes).map(node).collect() }
    }

    #[must_use]
    pub fn with(mut self, change: impl Fn(&mut NodeSettings)) -> Self {
        self.nodes.iter_mut().for_each(change);
        self
    }

    #[must_use]
    pub fn sealed(self, rekey: Rekey) -> Self {
        self.with(|node| node.sealed = Some(rekey))
    }

    #[must_use]
    pub fn with_repair(self) -> Self {
        self.with(|node| node.repair = true)
    }
}
