//! Who is a peer: greetings, answers, departures.
//!
//! Beside the path. Every port greets everyone; whoever hears a stranger answers it with a session number, and is
//! answered in turn. A restarted node has another incarnation: its old state is void. A peer that no link has heard for
//! [`FORGET_AFTER`] is forgotten. Where cells are sealed, a greeting that bears the group's mark only makes this node act
//! by itself ([`crate::group::greeting`]): a handshake gives the session, and sealed hellos say where a peer listens.

use crate::bundle::Bundle;
use crate::event::{Event, Refusal};
use crate::group::peer::Peer;
use crate::link::health::Signal;
use crate::link::heartbeat::Control;
use crate::link::nic::CELL_LEAST;
use crate::receive::deliver::Origin;
use crate::time::Instant;
use crate::wire::hello::{Hello, NodeId};
use core::time::Duration;

/// A silent peer's state is dropped after this time.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(10);
/// Greetings of a port on which nobody has answered yet are this far apart, others ten times as far.
const GREET_EVERY: Duration = Duration::from_millis(100);
/// A node that is refused is told of again after this time, and so many are at most.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(10);
const REFUSED: usize = 16;
/// A hello is not answered while so many messages wait to be sent: one for each peer that there may be.
const ANSWERS_BEHIND: usize = 1_024;

impl Bundle {
    /// Greets everyone on the ports whose time has come, and answers again who has not heard our answer.
    pub(crate) fn greet(&mut self, now: Instant) {
        for number in 0..self.ports.len() {
            let port = &mut self.ports[number];
            if now < port.greet_at || !port.is_member() {
                continue;
            }
            let known = || self.peers.iter().filter(|peer| peer.outbound[number].endpoint.is_some());
            let settled = known().next().is_some() && known().all(Peer::is_reached);
            port.greet_at = now + GREET_EVERY * if settled { 10 } else { 1 };
            if port.carrier {
                self.greet_on(number);
            }
        }
    }

    /// Something about a peer is new: what it has to hear, and to say, is repeated soon.
    pub(crate) fn greet_soon(&mut self, now: Instant) {
        for port in self.ports.iter_mut().filter(|port| port.is_member()) {
            port.greet_at = port.greet_at.min(now + GREET_EVERY);
        }
    }

    fn greet_on(&mut self, number: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "at most LINKS ports")]
        let port = number as u8;
        let settings = &self.ports[number].settings;
        let everyone = settings.multicast.then_some(Control::Greet { port, to: None });
        let named = settings.greet.iter().map(|endpoint| Control::Greet { port, to: Some(*endpoint) });
        self.control.extend(everyone.into_iter().chain(named));
        for index in self.peers.indices() {
            let Some(peer) = self.peers.get(index) else { continue };
            let link = &peer.outbound[number];
            let asked = link.asked.filter(|_| link.endpoint.is_none()).map(|(to, _)| to);
            if let Some(to) = link.endpoint.filter(|_| !peer.is_joined()).or(asked) {
                self.control.push_back(Control::Answer { port, peer: index, to });
            }
        }
    }

    /// What this node says of itself on a port, to a peer or to everyone.
    pub(crate) fn hello(&self, port: u8, peer: Option<u16>) -> Hello {
        let peer = peer.and_then(|index| self.peers.get(index));
        let link = peer.map(|peer| &peer.outbound[usize::from(port)]);
        Hello {
            node: self.settings.node,
            incarnation: self.settings.incarnation,
            group: self.settings.group,
            session: peer.map_or(0, |peer| peer.session_in),
            your_session: peer.map_or(0, |peer| peer.session_out),
            cell_max: self.ports[usize::from(port)].settings.cell_max,
            link: port,
            workers: self.settings.workers,
            takes_uso: self.settings.takes_uso,
            leaves: !self.ports[usize::from(port)].is_member(),
            seals: self.security.is_some(),
            asks: link.is_some_and(|link| link.endpoint.is_none() || link.outdated),
            pauses: self.succession.rests,
            ends: self.ends,
            name: self.settings.name,
        }
    }

    /// A node says who it is, unsealed.
    pub(crate) fn handle_hello(&mut self, now: Instant, origin: Origin, hello: &Hello) {
        if hello.group != self.settings.group && !self.other_groups.contains(&hello.group) {
            self.counters.drop_group += 1;
            return;
        }
        if hello.node == self.settings.node || !self.ports[usize::from(origin.port)].is_member() {
            return;
        }
        if hello.seals {
            return self.refuse(now, hello.node, Refusal::Seals);
        }
        if hello.leaves {
            self.handle_farewell(now, origin, hello);
            return;
        }
        if hello.pauses {
            self.handle_pause(now, hello);
            return;
        }
        let Some(index) = self.acquaint(now, hello) else { return };
        self.pair(now, index, origin, hello);
        let Some(peer) = self.peers.get_mut(index) else { return };
        let was_joined = peer.is_joined();
        if hello.session != 0 && !was_joined {
            peer.join(self.settings.incarnation, hello.session);
        }
        let (node, name, joined) = (peer.node, peer.name, peer.is_joined());
        // An answer carries a session, so it is not answered in its turn unless its number for us is an old one.
        let answer = hello.session == 0 || hello.your_session != peer.session_in;
        if joined && !was_joined {
            peer.beat_at_once(now);
            peer.joined_at = now;
            self.was_left = false;
            self.log(Event::PeerJoined { peer: node, name, sealed: false });
        }
        if joined {
            self.end_pause(index);
        } else {
            // Should our answer be lost, the next greeting repeats it.
            self.greet_soon(now);
        }
        if answer {
            self.answer_hello(index, origin);
        }
        self.fit_cells();
    }

    /// A hello is answered, unless so much waits to be said: then it comes again.
    pub(crate) fn answer_hello(&mut self, peer: u16, origin: Origin) {
        if self.control.len() >= ANSWERS_BEHIND {
            self.counters.hellos_unanswered += 1;
            return;
        }
        self.control.push_back(Control::Answer { port: origin.port, peer, to: origin.from });
    }

    /// The peer that speaks, taken in if it is new.
    fn acquaint(&mut self, now: Instant, hello: &Hello) -> Option<u16> {
        let Some(index) = self.peers.find(hello.node) else {
            return self.admit(now, hello, None);
        };
        let known = self.peers.get(index)?;
        let former = known.incarnation;
        if former != hello.incarnation {
            // Of two incarnations that are heard in turn, the one that knows what was said last is alive.
            if known.former == Some(hello.incarnation) && hello.your_session != known.session_in {
                return None;
            }
            self.part(index);
            return self.admit(now, hello, Some(former));
        }
        if hello.session == 0 || !known.is_joined() || known.session_out == hello.session {
            return Some(index);
        }
        if hello.your_session != 0 && hello.your_session != known.session_in {
            // Said before it knew our number: what it said since has overtaken this.
            return None;
        }
        // It forgot us and gave us a new number: its lanes begin anew, and so do ours.
        self.forget_lanes(index);
        self.peers.renew(index, now, hello, &mut self.pool);
        Some(index)
    }

    /// Takes a new peer in, unless it cannot be one.
    fn admit(&mut self, now: Instant, hello: &Hello, former: Option<u64>) -> Option<u16> {
        if !self.may_join(now, hello) {
            return None;
        }
        let Some(index) = self.peers.admit(now, hello, self.ports.len()) else {
            self.refuse(now, hello.node, Refusal::Full);
            return None;
        };
        self.peers.get_mut(index)?.former = former;
        self.learned.meet_peer(now, index, hello.node);
        Some(index)
    }

    /// Whether a node could be a peer; if not, it is refused.
    pub(crate) fn may_join(&mut self, now: Instant, hello: &Hello) -> bool {
        let (ours, theirs) = (self.settings.workers, hello.workers);
        if ours != theirs {
            self.refuse(now, hello.node, Refusal::Workers { ours, theirs });
        }
        ours == theirs
    }

    /// A node cannot be a peer. It comes again and again; it is told of once in a while.
    pub(crate) fn refuse(&mut self, now: Instant, peer: NodeId, refusal: Refusal) {
        self.refused.retain(|(_, since)| now.since(*since) < TELL_AGAIN_AFTER);
        if self.refused.len() < REFUSED && self.refused.iter().all(|(node, _)| *node != peer) {
            self.refused.push((peer, now));
            self.log(Event::PeerRefused { peer, refusal });
        }
    }

    /// A peer is a peer no more. It is told of, however many others were, and not again when it comes back soon.
    pub(crate) fn shut_out(&mut self, now: Instant, peer: NodeId, refusal: Refusal) {
        self.refused.retain(|(node, _)| *node != peer);
        if self.refused.len() == REFUSED {
            self.refused.remove(0);
        }
        self.refused.push((peer, now));
        self.log(Event::PeerRefused { peer, refusal });
    }

    /// Notes where the peer listens on this port.
    ///
    /// Where switches join several ports, a port hears several links of a peer: the one with its own number is taken,
    /// else the first, so that both ends pair the same ports. A link that has been silent for long is no reason to refuse
    /// another. A link that is too small for any cell is not used, as if the peer had taken it out.
    pub(crate) fn pair(&mut self, now: Instant, index: u16, origin: Origin, hello: &Hello) {
        if hello.cell_max < CELL_LEAST {
            self.part_link(now, index, origin.port, hello.link, Signal::TooSmall);
            return;
        }
        let Some(peer) = self.peers.get_mut(index) else { return };
        let port = usize::from(origin.port);
        let heard = |link: u8| now.since(peer.inbound[usize::from(link)].health.heard()) <= FORGET_AFTER;
        let other = peer.paired[port].filter(|paired| *paired != hello.link && heard(*paired));
        if other.is_some() && hello.link != origin.port {
            return;
        }
        peer.paired[port] = Some(hello.link);
        // The hello has come this way, so until heartbeats prove more the link is better than none.
        let link = &mut peer.outbound[port];
        link.doubted |= link.endpoint.is_none();
        link.endpoint = Some(origin.from);
        link.cell_max = hello.cell_max;
        link.outdated = false;
    }

    /// Forgets peers that no link has heard for long. Whoever is silent is due, to be judged.
    pub(crate) fn expire(&mut self, now: Instant, overdue: &[u16]) {
        for index in overdue.iter().copied() {
            let gone = self.peers.get(index).is_some_and(|peer| now.since(peer.heard()) > FORGET_AFTER);
            if gone {
                self.part(index);
            }
        }
    }

    /// A peer's lanes end: what still waits for it will not be sent.
    fn forget_lanes(&mut self, index: u16) {
        self.counters.drop_no_link += self.queue.forget_peer(index, &mut self.arena);
        self.arena.disown(index);
    }

    /// A peer is not there any more.
    pub(crate) fn part(&mut self, index: u16) {
        if let Some(peer) = self.drop_peer(index) {
            self.log(Event::PeerLeft { peer });
        }
    }

    /// Drops a peer's state.
    pub(crate) fn drop_peer(&mut self, index: u16) -> Option<NodeId> {
        let peer = self.peers.remove(index, &mut self.pool)?;
        self.learned.forget_peer(index);
        self.ready.disown(index);
        self.forget_lanes(index);
        self.fit_cells();
        Some(peer)
    }

    /// Whether every peer's device takes UDP superframes, so that ours may produce them.
    #[must_use]
    pub fn peers_take_uso(&self) -> bool {
        self.peers.iter().all(|peer| peer.takes_uso)
    }

    /// This node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.settings.node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Settings;
    use crate::link::nic::PortSettings;
    use alloc::vec;

    #[test]
    fn hellos_without_end_are_not_all_answered() {
        let now = Instant::default();
        let node = |number| NodeId::new([2, 0, 0, 0, 0, number], 7420);
        let mut bundle = Bundle::new(now, Settings::new(node(1), 1, vec![PortSettings::new(1_452)]));
        let hello = Hello { node: node(2), incarnation: 5, ..bundle.hello(0, None) };
        let origin = Origin { port: 0, from: "192.0.2.2:7420".parse().unwrap() };
        (0..5_000).for_each(|_| bundle.handle_hello(now, origin, &hello));
        assert_eq!(bundle.held().messages, ANSWERS_BEHIND);
        assert_eq!(bundle.counters().hellos_unanswered, 5_000 - ANSWERS_BEHIND as u64);
        while bundle.poll_control(now).is_some() {}
        bundle.handle_hello(now, origin, &hello);
        assert_eq!(bundle.held().messages, 1, "it is answered again");
    }

    #[test]
    fn a_hello_of_a_former_self_that_comes_late_shuts_nobody_out() {
        let now = Instant::default();
        let node = |number| NodeId::new([2, 0, 0, 0, 0, number], 7420);
        let mut bundle = Bundle::new(now, Settings::new(node(1), 1, vec![PortSettings::new(1_452)]));
        let origin = Origin { port: 0, from: "192.0.2.2:7420".parse().unwrap() };
        let hello =
            |bundle: &Bundle, incarnation| Hello { node: node(2), incarnation, ..bundle.hello(0, None) };
        let of = |bundle: &Bundle| {
            let peer = bundle.peers.get(bundle.peers.find(node(2)).unwrap()).unwrap();
            (peer.incarnation, peer.session_in)
        };
        for incarnation in [6, 5, 6] {
            let hello = hello(&bundle, incarnation);
            bundle.handle_hello(now, origin, &hello);
        }
        let (incarnation, given) = of(&bundle);
        assert_eq!(incarnation, 5, "the last one that was new");
        let alive = Hello { session: 7, your_session: given, ..hello(&bundle, 6) };
        bundle.handle_hello(now, origin, &alive);
        assert_eq!(of(&bundle).0, 6, "who knows what was said last is alive");
        let late = hello(&bundle, 5);
        bundle.handle_hello(now, origin, &late);
        assert_eq!(of(&bundle).0, 6);
    }
}
