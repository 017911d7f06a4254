//! The settings of a bundle.
//!
//! The daemon makes them from its configuration, the simulator from its plan; the rooms take what they need at the start.

use crate::fdb::Fdb;
use crate::link::nic::LinkSettings;
use crate::policy::class::Class;
use crate::policy::{PolicyKind, PolicyOptions};
use crate::wire::hello::{Name, NodeId};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The settings of a bundle.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This node.
    pub node: NodeId,
    /// Differs after each start.
    pub incarnation: u64,
    /// Only nodes with the same group are peers.
    pub group: u64,
    /// This node's name.
    pub name: Name,
    /// How many workers the node runs.
    pub workers: u8,
    /// Whether the device takes UDP superframes.
    pub takes_uso: bool,
    /// The policy that distributes cells over links.
    pub policy: PolicyKind,
    /// The options of policies.
    pub policy_options: PolicyOptions,
    /// Frames that have another policy, at most [`CLASSES_MAX`](crate::policy::class::CLASSES_MAX): the first match decides.
    pub classes: Vec<Class>,
    /// Whether lost cells are repaired.
    pub repair: bool,
    /// The links, at most [`LINKS`](crate::wire::cell::LINKS).
    pub links: Vec<LinkSettings>,
    /// Cell slots of the sender's ring, a power of two and at least 256: cells that wait to leave, and cells that are kept
    /// for repair. Fewer do not hold two of the longest frames when a peer takes the smallest cells only.
    pub slots: usize,
    /// Receive buffers of 64 KB.
    pub buffers: u16,
    /// The forwarding database, one for all workers of the node.
    pub fdb: Arc<Fdb>,
}

/// Cells that the sender keeps. Half of them may wait: a superframe of each of 90 flows. The others have left, and can be sent
/// again: 10 Gbit/s for 5 ms.
const SLOTS: usize = 8_192;
/// So many of the smallest cells, sealed, have room for two of the longest frames.
pub(crate) const SLOTS_LEAST: usize = 256;
/// Receive buffers of 64 KB: as many bytes as arrive in the same time.
const BUFFERS: u16 = 128;

impl Settings {
    /// A node with one worker, no name and no group, with the default policy, repair, and room for 10 Gbit/s. Its
    /// forwarding database is small and its own.
    pub fn new(node: NodeId, incarnation: u64, links: Vec<LinkSettings>) -> Self {
        Self {
            node,
            incarnation,
            group: 0,
            name: Name::default(),
            workers: 1,
            takes_uso: true,
            policy: PolicyKind::Adaptive,
            policy_options: PolicyOptions::default(),
            classes: Vec::new(),
            repair: true,
            links,
            slots: SLOTS,
            buffers: BUFFERS,
            fdb: Arc::new(Fdb::new(0, incarnation)),
        }
    }
}
