//! A node whose process makes way for another one, as after an upgrade of the program.
//!
//! Beside the path. The node says that it pauses (a bit of its hellos). Its peers then leave what comes from their devices
//! there, and send what they have already taken; it sends what it has, and stands still when nothing is on its way any
//! more. The successor is a new incarnation and reads its own device only when the peers have joined it. So what is
//! under way during the change waits in the devices' queues, where nothing is lost.
//!
//! A pause has an end: a node that says nothing more holds up nobody for longer than [`PAUSE`].

use crate::bundle::Bundle;
use crate::heartbeat::Control;
use crate::time::Instant;
use crate::wire::hello::{Hello, NodeId};
use core::time::Duration;

/// How long a device is left unread at most.
pub const PAUSE: Duration = Duration::from_millis(150);
/// When no data has come for this time, none is on its way: what a peer's ports may hold (1.5 ms), unless it is slow.
const QUIET: Duration = Duration::from_millis(3);

/// Who makes way, and who is waited for.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// This node pauses.
    pub(crate) rests: bool,
    /// When data came last.
    pub(crate) heard: Instant,
    pause: Option<Pause>,
}

/// Why the device is not read.
#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    awaits: Awaits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    /// This peer, or its successor.
    Successor(NodeId),
    /// So many peers.
    Peers(usize),
}

impl Succession {
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.pause.map(|pause| pause.until)
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
        let awaits = Awaits::Peers(peers);
        self.succession.pause = (peers > 0).then_some(Pause { until: now + PAUSE, awaits });
    }

    /// Whether nothing is under way: all that was taken from the device was heard by the peers, all that was heard from
    /// them is delivered, and they send nothing more.
    #[must_use]
    pub fn is_settled(&self, now: Instant) -> bool {
        let is_quiet = now.since(self.succession.heard) >= QUIET && !self.has_unsent();
        let delivered = || self.peers.iter().all(|peer| peer.gapped == 0);
        let heard =
            || self.peers.iter().flat_map(|peer| &peer.outbound).all(|link| !link.up || link.is_heard());
        is_quiet && delivered() && heard()
    }

    /// Whether some peer can be reached, or is about to be.
    #[must_use]
    pub fn has_way(&self) -> bool {
        let has_way = |peer: &crate::peer::Peer| {
            peer.outbound.iter().any(|link| link.up) || peer.is_rising(self.polled)
        };
        self.is_paused() || self.peers.iter().any(has_way)
    }

    /// Whether the device is to be left alone.
    pub(crate) fn is_paused(&self) -> bool {
        self.succession.pause.is_some()
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

    /// A peer pauses.
    pub(crate) fn handle_pause(&mut self, now: Instant, hello: &Hello) {
        let known = self.peers.find(hello.node).and_then(|index| self.peers.get(index));
        let is_joined = known.is_some_and(|peer| peer.is_joined() && peer.incarnation == hello.incarnation);
        if is_joined && self.succession.pause.is_none() {
            let awaits = Awaits::Successor(hello.node);
            self.succession.pause = Some(Pause { until: now + PAUSE, awaits });
        }
    }

    /// A peer is there, or there again.
    pub(crate) fn resume_reading(&mut self, node: NodeId) {
        let Some(pause) = self.succession.pause else { return };
        let joined = || self.peers.iter().filter(|peer| peer.is_joined()).count();
        let is_over = match pause.awaits {
            Awaits::Successor(awaited) => awaited == node,
            Awaits::Peers(peers) => joined() >= peers,
        };
        if is_over {
            self.succession.pause = None;
        }
    }

    /// Ends a pause that lasts too long.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        self.succession.pause = self.succession.pause.filter(|pause| now < pause.until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Settings;

    use crate::port::PortSettings;
    use crate::rx::Origin;

    use alloc::vec;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn node(number: u8) -> NodeId {
        NodeId::new([2, 0, 0, 0, 0, number], 7420)
    }

    fn bundle() -> Bundle {
        let ports = vec![PortSettings::new(1_452)];
        Bundle::new(at(0), Settings { slots: 512, buffers: 16, ..Settings::new(node(1), 1, ports) })
    }

    /// Node 2 says that it is this incarnation, with a session number, and whether it pauses.
    fn say(bundle: &mut Bundle, millis: u64, incarnation: u64, pauses: bool) {
        let hello = Hello { node: node(2), incarnation, session: 7, pauses, ..bundle.hello(0, None) };
        let from = "192.0.2.2:7420".parse().unwrap();
        bundle.handle_hello(at(millis), Origin { port: 0, from }, &hello);
    }

    #[test]
    fn a_pause_lasts_until_the_successor_has_joined() {
        let mut bundle = bundle();
        say(&mut bundle, 0, 5, true);
        assert!(bundle.takes_frames(), "a stranger pauses nobody");
        say(&mut bundle, 0, 5, false);
        say(&mut bundle, 10, 5, true);
        assert!(!bundle.takes_frames());
        say(&mut bundle, 20, 6, false);
        assert!(bundle.takes_frames() && bundle.has_way());
    }

    #[test]
    fn a_pause_ends_when_it_is_taken_back_and_by_itself() {
        let mut bundle = bundle();
        say(&mut bundle, 0, 5, false);
        say(&mut bundle, 10, 5, true);
        say(&mut bundle, 20, 5, false);
        assert!(bundle.takes_frames());
        say(&mut bundle, 30, 5, true);
        assert!(bundle.poll_timeout(at(30)) <= at(30) + PAUSE);
        bundle.handle_timeout(at(179));
        assert!(!bundle.takes_frames());
        bundle.handle_timeout(at(180));
        assert!(bundle.takes_frames());
    }

    #[test]
    fn a_successor_waits_for_its_peers() {
        let mut bundle = bundle();
        bundle.succeed(at(0), 1);
        assert!(!bundle.takes_frames() && bundle.has_way());
        say(&mut bundle, 5, 5, false);
        assert!(bundle.takes_frames());
        bundle.succeed(at(10), 0);
        assert!(bundle.takes_frames(), "there was no peer");
    }
}
