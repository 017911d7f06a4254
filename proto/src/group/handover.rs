//! Handover: a new process takes a node over, as after an upgrade of the program.
//!
//! Beside the path. The old process drains, and its hellos say that it pauses. Its peers then keep the frames that their
//! devices give them for it (`send::deferred`), and send those that they have already taken. It sends what it has, and stops
//! when nothing is on its way any more. The new process is a new incarnation: the peers send it the frames that they kept,
//! and it reads its own device only when they have joined. So frames wait at their senders during the change, and none is
//! lost.
//!
//! Invariants: a pause concerns only what goes to the node that pauses; it lasts for [`PAUSE`] at most, and counts once
//! for an incarnation, [`PAUSES`] times at once for a node, and else once in [`PAUSE_EVERY`].

use crate::group::hotplug::queue_hellos;
use crate::group::{Group, Parts};
use crate::time::Instant;
use crate::wire::hello::{Hello, NodeId};
use alloc::vec::Vec;
use core::time::Duration;

/// How long frames wait for a new process at most, and a new process for its peers.
pub const PAUSE: Duration = Duration::from_millis(150);
/// A node gets another pause after this time.
const PAUSE_EVERY: Duration = Duration::from_secs(10);
/// Pauses that a node may have at once: an administrator may try several upgrades.
pub(crate) const PAUSES: u32 = 8;
/// Nodes whose pauses are remembered. When there are more, further ones get none until one of these is forgotten.
const PAUSERS: usize = 64;
/// When no data has arrived for this time, none is on its way: twice what a peer's links hold (1.5 ms), unless they are slow.
const QUIET: Duration = Duration::from_millis(3);

/// Whether this node drains, waits for its peers, or has peers that pause.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// This node is about to be replaced.
    drains: bool,
    /// When data arrived last.
    received: Instant,
    /// This node has replaced another one: until when it reads no frames, and until it has how many peers.
    wait: Option<(Instant, usize)>,
    /// Nodes that have paused lately, and when all their pauses are earned again.
    pausers: Vec<(NodeId, Instant)>,
}

impl Handover {
    pub(crate) fn handle_data(&mut self, now: Instant) {
        self.received = now;
    }

    /// Whether no data is on its way, as far as this node can tell.
    pub(crate) fn is_quiet(&self, now: Instant) -> bool {
        now.since(self.received) >= QUIET
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drains
    }

    /// This process has replaced another one, which had so many peers: takes no frames until they have joined.
    pub(crate) fn take_over(&mut self, now: Instant, peers: usize) {
        self.wait = (peers > 0).then_some((now + PAUSE, peers));
    }

    /// Whether this process waits for its peers, and reads no frames.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Ends a wait for peers that lasts too long.
    pub(crate) fn end_wait(&mut self, now: Instant) {
        self.wait = self.wait.filter(|(until, _)| now < *until);
    }

    pub(crate) fn waits_until(&self) -> Option<Instant> {
        self.wait.map(|(until, _)| until)
    }

    /// Takes one of the pauses of a node; returns whether it had one.
    pub(crate) fn take_pause(&mut self, now: Instant, node: NodeId) -> bool {
        self.pausers.retain(|(_, earned)| *earned > now);
        let place = self.pausers.iter().position(|(pauser, _)| *pauser == node).or_else(|| {
            let is_free = self.pausers.len() < PAUSERS;
            is_free.then(|| self.pausers.push((node, now)))?;
            Some(self.pausers.len() - 1)
        });
        let Some((_, earned)) = place.map(|place| &mut self.pausers[place]) else { return false };
        let next = *earned + PAUSE_EVERY;
        let has_one = next.since(now) <= PAUSE_EVERY * PAUSES;
        if has_one {
            *earned = next;
        }
        has_one
    }
}

impl Group {
    /// Another process is about to replace this one: queues hellos that say so. The caller gives no more frames;
    /// [`Bundle::is_settled`](crate::Bundle::is_settled) says when nothing is under way.
    pub(crate) fn drain(&mut self, now: Instant, parts: &mut Parts<'_>) {
        self.handover.drains = true;
        self.handover.received = now;
        queue_hellos(parts, None);
    }

    pub(crate) fn resume(&mut self, parts: &mut Parts<'_>) {
        self.handover.drains = false;
        queue_hellos(parts, None);
    }

    /// A peer pauses. Returns whether memory was set aside for its frames: as often as it has pauses left.
    pub(crate) fn handle_pause(&mut self, now: Instant, hello: &Hello, parts: &mut Parts<'_>) -> bool {
        let table = parts.sessions.table_mut();
        let index = table.find(hello.node);
        let Some(peer) = index.and_then(|index| table.get_mut(index)) else { return false };
        let is_new = peer.is_joined() && peer.incarnation == hello.incarnation && !peer.pauses;
        if !is_new {
            return false;
        }
        peer.pauses = true;
        let deferred = parts.sender.deferred_mut();
        let may_wait = deferred.has_room(hello.node) || self.handover.take_pause(now, hello.node);
        may_wait && deferred.open(hello.node, hello.incarnation, now + PAUSE)
    }

    /// A peer is there, or there again.
    pub(super) fn end_pause(&mut self, index: u16, parts: &mut Parts<'_>) {
        if let Some(peer) = parts.sessions.table_mut().get_mut(index) {
            peer.pauses = false;
        }
        let joined = || parts.sessions.table().iter().filter(|peer| peer.is_joined()).count();
        self.handover.wait = self.handover.wait.filter(|(_, peers)| joined() < *peers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_pausers_is_bounded() {
        let mut handover = Handover::default();
        let taken =
            (0..1_000).filter(|number| handover.take_pause(Instant::default(), NodeId(1 + number))).count();
        assert_eq!((taken, handover.pausers.len()), (PAUSERS, PAUSERS));
        assert!(
            handover.take_pause(Instant::from_nanos(10_001_000_000), NodeId(5_000)),
            "the others are forgotten"
        );
    }
}
