//! Greetings and hellos where cells are sealed: who is there, and where its links end.
//!
//! Beside the path. A greeting bears the group's mark, but may be an old one that somebody repeats: it makes this node
//! begin a handshake with a stranger, or ask a peer for a sealed hello; it changes nothing by itself. Only sealed hellos,
//! which are as fresh as any cell of the session, say where a peer listens and which links it takes out.

use crate::bundle::Bundle;
use crate::event::{Event, Refusal};
use crate::group::membership::FORGET_AFTER;
use crate::link::heartbeat::Control;
use crate::receive::deliver::Origin;
use crate::receive::pool::Piece;
use crate::session::keyring::{Agreed, Keyring};
use crate::time::Instant;
use crate::wire::Malformed;
use crate::wire::cell::{HEADER, Kind, VERSION};
use crate::wire::handshake::Marked;
use crate::wire::hello::{Hello, greeter};
use core::net::SocketAddr;
use core::time::Duration;

/// A peer is asked on a link no more often than this: a question that leads astray is a number that the peer misses.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// The same on a link that is up.
const ASK_RARELY: Duration = Duration::from_secs(1);

impl Bundle {
    /// A cell that is not sealed came where cells are sealed: a stranger may greet and take part in handshakes.
    pub(crate) fn handle_unsealed(
        &mut self,
        now: Instant,
        origin: Origin,
        kind: Kind,
        cell: Piece,
    ) -> Result<(), Malformed> {
        let Some(security) = &self.security else { return Err(Malformed::Field) };
        let bytes = self.pool.bytes(cell);
        match kind {
            Kind::Hello => {
                let (greeting, mark) = bytes.split_last_chunk().ok_or(Malformed::Truncated)?;
                if security.marked_by(greeting, mark).is_some() {
                    let hello = Hello::parse(greeting.get(HEADER..).ok_or(Malformed::Truncated)?)?;
                    self.handle_greeting(now, origin, &hello);
                } else {
                    self.counters.drop_mark += 1;
                }
            }
            Kind::Handshake => {
                let Marked { covered, mark, .. } = Marked::split(bytes)?;
                if let Some(key) = security.marked_by(covered, mark) {
                    let bytes = bytes.to_vec();
                    self.handle_handshake(now, origin, &bytes, key)?;
                } else {
                    self.counters.drop_mark += 1;
                }
            }
            Kind::Data | Kind::Heartbeat | Kind::Repair => self.counters.drop_forged += 1,
        }
        Ok(())
    }

    /// A cell of another version came. Of all that could be one only a greeting with the group's mark is told of, for anyone
    /// can send the rest.
    pub(crate) fn handle_other_version(&mut self, now: Instant, cell: Piece) -> Malformed {
        let greeting = self.pool.bytes(cell).split_last_chunk();
        let greeter = greeting.and_then(|(greeting, mark)| {
            let (theirs, node) = greeter(greeting)?;
            self.security.as_ref()?.marked_by(greeting, mark).map(|_| (theirs, node))
        });
        if let Some((theirs, node)) = greeter.filter(|(_, node)| *node != self.settings.node) {
            self.refuse(now, node, Refusal::Version { ours: VERSION, theirs });
        }
        Malformed::Version
    }

    /// A node of the group is there, or was once.
    pub(crate) fn handle_greeting(&mut self, now: Instant, origin: Origin, hello: &Hello) {
        if hello.node == self.settings.node || !self.ports[usize::from(origin.port)].is_member() {
            return;
        }
        if !self.may_join(now, hello) {
            return;
        }
        let Some(index) = self.peers.find(hello.node) else {
            return self.begin_handshake(now, hello.node, (origin.port, origin.from));
        };
        let Some(peer) = self.peers.get(index) else { return };
        if peer.incarnation == hello.incarnation {
            if let Some(to) = self.whom_to_ask(now, index, origin, hello) {
                self.ask(now, index, origin.port, to);
            }
        } else if peer.former != Some(hello.incarnation) {
            self.begin_handshake(now, hello.node, (origin.port, origin.from));
        }
    }

    /// Where a peer is to be sent a sealed hello, if its greeting shows that one side may not know where the other is.
    fn whom_to_ask(&self, now: Instant, index: u16, origin: Origin, hello: &Hello) -> Option<SocketAddr> {
        let peer = self.peers.get(index)?;
        let link = &peer.outbound[usize::from(origin.port)];
        let paired = peer.paired[usize::from(origin.port)];
        let health = |link: u8| &peer.inbound[usize::from(link)].health;
        // What is sent to the endpoint of a link that is up arrives: that the peer is elsewhere may be a lie.
        let works = link.up && link.endpoint.is_some() && paired.is_some_and(|link| health(link).is_up());
        let pause = if works { ASK_RARELY } else { ASK_EVERY };
        if link.asked.is_some_and(|(_, at)| now.since(at) < pause) {
            return None;
        }
        let prefers = hello.link == origin.port && paired != Some(hello.link);
        let heard = |link: u8| now.since(health(link).heard()) <= FORGET_AFTER;
        if !prefers && paired.is_some_and(|other| other != hello.link && heard(other)) {
            return None;
        }
        if prefers || !works {
            return Some(origin.from);
        }
        link.endpoint.filter(|_| link.cell_max != hello.cell_max)
    }

    /// Asks a peer for a hello on a link.
    pub(crate) fn ask(&mut self, now: Instant, index: u16, port: u8, to: SocketAddr) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let link = &mut peer.outbound[usize::from(port)];
        (link.asked, link.outdated) = (Some((to, now)), true);
        self.control.push_back(Control::Answer { port, peer: index, to });
    }

    /// A peer says of itself, in secret, where one of its links ends.
    pub(crate) fn handle_sealed_hello(&mut self, now: Instant, origin: Origin, index: u16, hello: &Hello) {
        let is_its = self.peers.get(index).is_some_and(|peer| peer.node == hello.node);
        if !is_its || !self.ports[usize::from(origin.port)].is_member() {
            return;
        }
        if hello.leaves {
            self.handle_farewell(now, origin, hello);
            return;
        }
        if hello.pauses {
            self.handle_pause(now, hello);
            return;
        }
        self.end_pause(index);
        self.pair(now, index, origin, hello);
        if hello.asks {
            self.answer_hello(index, origin);
        }
        self.fit_cells();
    }

    /// A node has shown that it has the keys of a session. What was known of its former self is void.
    pub(crate) fn join_sealed(
        &mut self,
        now: Instant,
        hello: &Hello,
        session: u16,
        agreed: Agreed,
    ) -> Option<u16> {
        let (mut former, mut serial_heard) = (None, 0);
        if let Some(known) = self.peers.find(hello.node) {
            let peer = self.peers.get(known)?;
            if peer.incarnation == hello.incarnation {
                (former, serial_heard) = (peer.former, peer.serial_heard);
            } else {
                former = Some(peer.incarnation);
            }
            self.part(known);
        }
        let index = self.peers.admit_as(now, hello, session, self.ports.len());
        self.learned.meet_peer(now, index, hello.node);
        let peer = self.peers.get_mut(index)?;
        peer.former = former;
        peer.serial_heard = serial_heard;
        peer.begun = Some(now);
        peer.joined_at = now;
        peer.keys = Some(Keyring::new(now, agreed));
        peer.join(self.settings.incarnation, hello.session);
        self.was_left = false;
        self.log(Event::PeerJoined { peer: hello.node, name: hello.name, sealed: true });
        self.end_pause(index);
        self.fit_cells();
        self.greet_soon(now);
        Some(index)
    }
}
