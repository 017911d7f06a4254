//! A node whose process makes way for another one, as after an upgrade of the program.
//!
//! Beside the path. The node says that it pauses (a bit of its hellos). Its peers then keep what comes from their devices
//! for it ([`crate::send::deferred`]), and send what they have already taken; it sends what it has, and stands still when
//! nothing is on its way any more. The successor is a new incarnation: it gets what the peers have kept, and reads its
//! own device only when they have joined it. So what is under way during the change waits at its senders, where nothing
//! is lost.
//!
//! Invariants: a pause concerns only what goes to the node that pauses; it lasts for [`PAUSE`] at most, and counts once
//! for an incarnation, [`PAUSES`] times at once for a node, and else once in [`PAUSE_EVERY`].

use crate::bundle::Bundle;
use crate::link::heartbeat::Control;
use crate::time::Instant;
use crate::wire::hello::{Hello, NodeId};
use alloc::vec::Vec;
use core::time::Duration;

/// How long frames wait for a successor at most, and a successor for its peers.
pub const PAUSE: Duration = Duration::from_millis(150);
/// A node gets another pause after this time.
const PAUSE_EVERY: Duration = Duration::from_secs(10);
/// Pauses that a node may have at once: who tries upgrades makes some.
const PAUSES: u32 = 8;
/// Nodes whose pauses are remembered. When there are more, further ones get none until one of these is forgotten.
const PAUSERS: usize = 64;
/// When no data has come for this time, none is on its way: what a peer's ports may hold (1.5 ms), unless it is slow.
const QUIET: Duration = Duration::from_millis(3);

/// Who makes way, and who is waited for.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// This node pauses.
    pub(crate) rests: bool,
    /// When data came last.
    pub(crate) heard: Instant,
    /// This node has replaced another one: until when it reads no frames, and until it has how many peers.
    wait: Option<(Instant, usize)>,
    /// Nodes that have paused lately, and when all their pauses are earned again.
    pausers: Vec<(NodeId, Instant)>,
}

impl Succession {
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        self.wait.map(|(until, _)| until)
    }

    /// Takes one of the pauses of a node; returns whether it had one.
    fn take_pause(&mut self, now: Instant, node: NodeId) -> bool {
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

impl Bundle {
    /// This node is about to be replaced: tells the peers. Frames are not to be given any more; [`Self::is_settled`] says
    /// when nothing is under way.
    pub fn rest(&mut self, now: Instant) {
        self.succession.rests = true;
        self.succession.heard = now;
        self.tell_peers(|_| true);
    }

    /// It is not replaced after all.
    pub fn resume(&mut self) {
        self.succession.rests = false;
        self.tell_peers(|_| true);
    }

    /// This node has replaced another one, which had so many peers: takes no frames until they have joined.
    pub fn succeed(&mut self, now: Instant, peers: usize) {
        self.succession.wait = (peers > 0).then_some((now + PAUSE, peers));
    }

    /// Whether nothing is under way: all that was taken from the device was heard by the peers, all that was heard from
    /// them is delivered, and they send nothing more.
    #[must_use]
    pub fn is_settled(&self, now: Instant) -> bool {
        let is_quiet = now.since(self.succession.heard) >= QUIET && !self.has_unsent();
        let delivered = || self.peers.iter().all(|peer| peer.gapped == 0);
        let heard =
            || self.peers.iter().flat_map(|peer| &peer.outbound).all(|link| !link.up || link.is_heard());
        is_quiet && self.deferred.is_empty() && delivered() && heard()
    }

    /// Whether some peer can be reached, and is heard, or is about to be.
    #[must_use]
    pub fn has_way(&self) -> bool {
        let has_way = |peer: &crate::group::peer::Peer| {
            let is_heard = peer.links_heard() != 0;
            is_heard && peer.outbound.iter().any(|link| link.up) || peer.is_rising(self.polled)
        };
        self.is_waiting() || !self.deferred.is_empty() || self.peers.iter().any(has_way)
    }

    /// Whether the device is to be left alone until the peers are there.
    pub(crate) fn is_waiting(&self) -> bool {
        self.succession.wait.is_some()
    }

    /// Says hello to the peers on these ports: something about this node is new.
    pub(crate) fn tell_peers(&mut self, ports: impl Fn(u8) -> bool) {
        for index in self.peers.indices() {
            let Some(peer) = self.peers.get(index).filter(|peer| peer.is_joined()) else { continue };
            for (link, port) in peer.outbound.iter().zip(0..).filter(|(_, port)| ports(*port)) {
                let answer = |to| Control::Answer { port, peer: index, to };
                self.control.extend(link.endpoint.map(answer));
            }
        }
    }

    /// A peer pauses. Returns whether memory was set aside for what waits for it: as often as it has pauses left.
    pub(crate) fn handle_pause(&mut self, now: Instant, hello: &Hello) -> bool {
        let index = self.peers.find(hello.node);
        let Some(peer) = index.and_then(|index| self.peers.get_mut(index)) else { return false };
        let is_new = peer.is_joined() && peer.incarnation == hello.incarnation && !peer.pauses;
        if !is_new {
            return false;
        }
        peer.pauses = true;
        let goes_on = self.deferred.has_room(hello.node);
        let may_wait = goes_on || self.succession.take_pause(now, hello.node);
        may_wait && self.deferred.open(hello.node, hello.incarnation, now + PAUSE)
    }

    /// A peer is there, or there again.
    pub(crate) fn end_pause(&mut self, index: u16) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.pauses = false;
        }
        let joined = || self.peers.iter().filter(|peer| peer.is_joined()).count();
        self.succession.wait = self.succession.wait.filter(|(_, peers)| joined() < *peers);
    }

    /// Ends a wait for peers that lasts too long.
    pub(crate) fn end_wait(&mut self, now: Instant) {
        self.succession.wait = self.succession.wait.filter(|(until, _)| now < *until);
    }
}

#[cfg(test)]
mod tests;
