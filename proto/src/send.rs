//! The way of a frame from the device to the links: segment, queue, schedule, transmit.
//!
//! ```text
//!   lane       which lane a flow takes               queue      a short, fair queue of each flow: chain, codel, ecn_mark
//!   segment    a frame becomes cells                 schedule   which cells leave next, and over which link
//!   ring       where cells lie                       transmit   batches for the links, and what became of them
//!   fit        how large cells are                   park       what waits for a link of its own
//!   far        which flows go by far links           deferred   what waits for a peer's successor
//!   replicate  copies for further links;    repair   what is sent again
//! ```

mod chain;
mod codel;
mod deferred;
mod ecn_mark;
pub(crate) mod far;
pub(crate) mod fit;
mod lane;
mod park;
mod queue;
mod repair;
mod replicate;
pub(crate) mod ring;
mod schedule;
pub(crate) mod seats;
mod segment;
pub(crate) mod transmit;

use crate::fdb::view::View;
use crate::link::Links;
use crate::outputs::counters::Counters;
use crate::policy::class::{Class, Policies};
use crate::policy::classify::Mac;
use crate::policy::gate;
use crate::policy::{PolicyKind, PolicyOptions};
use crate::send::deferred::Deferred;
use crate::send::far::FarLinks;
use crate::send::fit::{Fit, cell_that_fits};
use crate::send::lane::FlowLanes;
use crate::send::queue::FairQueue;
use crate::send::repair::Budget;
use crate::send::ring::Ring;
use crate::send::schedule::{Choices, Departing};
use crate::send::segment::Reading;
use crate::send::transmit::Flight;
use crate::session::Sessions;
use crate::session::peers::ByPeer;
use crate::settings::Settings;
use crate::time::Instant;
use crate::wire::cell::LANES;
use crate::wire::hello::NodeId;
use crate::wire::numbered::Numbered;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What the sender needs of the rest: who can be sent to, and over which links.
pub(crate) struct Around<'a> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) links: &'a mut Links,
    pub(crate) counters: &'a mut Counters,
    /// The present, or when timers ran last.
    pub(crate) now: Instant,
}

#[derive(Debug, Default)]
struct Peer {
    /// The number of the next cell of each lane to it.
    lanes: Numbered<[u64; LANES]>,
    /// What may still be sent to it again.
    repairs: Budget,
    far_links: FarLinks,
}

/// All that was read from the device and may still have to leave.
pub(crate) struct Sender {
    /// Which peer an address lives behind.
    fdb: View,
    policies: Policies,
    flow_lanes: FlowLanes,
    ring: Ring,
    queue: FairQueue,
    peers: ByPeer<Peer>,
    /// Frames for peers that make way for their successors.
    deferred: Deferred,
    /// What has left the queue, or is to leave again.
    departing: Departing,
    flight: Option<Flight>,
    fit: Fit,
    reading: Reading,
    /// Reused between calls: a record being copied, and the slots of a batch.
    scratch: Vec<u8>,
    run: Vec<u64>,
    choices: Choices,
}

impl Sender {
    pub(crate) fn new(settings: &Settings) -> Self {
        let cell_max = cell_that_fits(settings.links.iter().map(|link| link.cell_max));
        Self {
            fdb: View::new(Arc::clone(&settings.fdb)),
            policies: Policies::new(settings.policy, settings.policy_options, &settings.classes),
            flow_lanes: FlowLanes::default(),
            ring: Ring::new(cell_max, settings.slots),
            queue: FairQueue::default(),
            peers: ByPeer::default(),
            deferred: Deferred::default(),
            departing: Departing::default(),
            flight: None,
            fit: Fit::default(),
            reading: Reading::default(),
            scratch: Vec::new(),
            run: Vec::new(),
            choices: Choices::default(),
        }
    }

    pub(crate) fn touch_memory(&mut self) {
        self.ring.touch();
    }

    /// A peer is there, or begins anew.
    pub(crate) fn admit(&mut self, now: Instant, index: u16, node: NodeId) {
        self.begin(index);
        self.fdb.meet_peer(now, index, node);
    }

    /// What is kept of a peer begins anew.
    pub(crate) fn begin(&mut self, index: u16) {
        self.peers.insert(index, Peer::default());
    }

    /// A peer has given us a session number: the numbers of its lanes begin at `first`.
    pub(crate) fn join(&mut self, index: u16, first: u64) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.lanes = Numbered([first; LANES]);
        }
    }

    /// A peer is gone: what still waits for it is not sent.
    pub(crate) fn remove(&mut self, index: u16, counters: &mut Counters) {
        self.fdb.forget_peer(index);
        self.forget_lanes(index, counters);
    }

    /// A peer's lanes end: what still waits for it will not be sent.
    pub(crate) fn forget_lanes(&mut self, index: u16, counters: &mut Counters) {
        counters.drop_no_link += self.queue.forget_peer(index, &mut self.ring);
        self.ring.disown(index);
    }

    /// A frame from this address came from a peer.
    pub(crate) fn learn(&mut self, now: Instant, mac: Mac, peer: u16) {
        self.fdb.learn(now, mac, peer);
    }

    /// An address that was learned, and the peer behind which it lives.
    pub(crate) fn poll_learned(&mut self) -> Option<(Mac, u16)> {
        self.fdb.poll_learned()
    }

    /// Whether a policy wants to know what is received.
    pub(crate) fn heeds_received(&self) -> bool {
        self.policies.heed_received()
    }

    /// A frame of so many bytes was delivered that came over this link of ours; `head`: its first bytes.
    pub(crate) fn handle_received(&mut self, head: &[u8], bytes: usize, link: Option<u8>) {
        self.policies.handle_received(head, bytes, link);
    }

    /// Does what is to be done from time to time.
    pub(crate) fn handle_timeout(&mut self, now: Instant, around: &mut Around<'_>) {
        self.fdb.age(now);
        self.unpark();
        self.refit_cells(around.now, around.links, around.sessions);
    }

    pub(crate) fn set_policy(&mut self, kind: PolicyKind) {
        self.policies.set(kind);
    }

    /// Policies have these options, and frames these classes, from the next frame on.
    pub(crate) fn set_classes(&mut self, options: PolicyOptions, classes: &[Class]) {
        self.policies.set_rules(options, classes);
        self.unpark();
    }

    pub(crate) fn policy(&self) -> PolicyKind {
        self.policies.kind()
    }

    pub(crate) fn poll_gate(&mut self) -> Option<gate::Change> {
        self.queue.gates.pop()
    }

    /// Bytes of the largest cell that is made now.
    pub(crate) fn cell_max(&self, sessions: &Sessions) -> usize {
        self.ring.cell_max() + sessions.tag()
    }

    /// Bytes of memory that is kept of each peer.
    pub(crate) fn bytes_of_peer() -> usize {
        size_of::<Peer>()
    }

    /// Whether cells of another size still have to leave.
    pub(crate) fn is_changing(&self) -> bool {
        self.fit.is_changing
    }

    /// Whether cells wait to leave.
    pub(crate) fn has_unsent(&self) -> bool {
        self.ring.has_waiting() || self.repairs() > 0
    }

    /// Whether nothing waits, not even for a peer's successor.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_unsent() && self.deferred.is_empty()
    }

    /// Cells that wait to be sent again.
    pub(crate) fn repairs(&self) -> usize {
        self.departing.again.len() + self.departing.parked.again.len()
    }

    pub(crate) fn deferred(&self) -> &Deferred {
        &self.deferred
    }

    pub(crate) fn deferred_mut(&mut self) -> &mut Deferred {
        &mut self.deferred
    }
}
