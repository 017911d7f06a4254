//! Greetings and hellos where cells are sealed: who is there, and where its links end.
//!
//! Beside the path. A greeting bears the group's tag, but may be an old one that somebody repeats. So it changes nothing: it
//! makes this node begin a handshake with a stranger, or ask a peer for a sealed hello. Only sealed hellos, which are as
//! fresh as any cell of the session, say where a peer listens and which links it takes out.
//!
//! Invariant: nothing that somebody without the group key can repeat changes an endpoint, a pairing or a session.

use crate::group::membership::{FORGET_AFTER, admit_as, answer_hello, greet_soon, join, pair, part};
use crate::group::{Group, Parts};
use crate::link::Links;
use crate::outputs::event::{Event, Mismatch, Refusal};
use crate::outputs::{Control, Outputs};
use crate::receive::pool::Piece;
use crate::session::Origin;
use crate::session::handshake::{Agreement, Aim, Progress, may_join};
use crate::session::keyring::Keyring;
use crate::time::Instant;
use crate::wire::Malformed;
use crate::wire::cell::{HEADER, Header, Kind, VERSION};
use crate::wire::handshake::Tagged;
use crate::wire::hello::{Hello, greeter};
use core::net::SocketAddr;
use core::time::Duration;

/// This node asks a peer on a link no more often than this: a request to a wrong address is a number that the peer misses.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// The same on a link that is up.
const ASK_RARELY: Duration = Duration::from_secs(1);
/// A peer of which nothing was received for so long but cells of later keys has agreed on them with this node, whose machine goes on from
/// a snapshot.
const DEAF_AFTER: Duration = Duration::from_millis(100);
/// No greeting and no handshake is longer. Strangers send longer cells as well, and a hash of each for each accepted key is dear.
const UNSEALED_MAX: usize = 512;

impl Group {
    /// An unsealed cell arrived where cells are sealed: a stranger may greet and take part in handshakes.
    pub(crate) fn handle_unsealed(
        &mut self,
        now: Instant,
        origin: Origin,
        kind: Kind,
        cell: Piece,
        parts: &mut Parts<'_>,
    ) -> Result<(), Malformed> {
        let cell = unsealed(parts.receiver.pool().bytes(cell))?;
        match kind {
            Kind::Hello => {
                let (greeting, tag) = cell.split_last_chunk().ok_or(Malformed::Truncated)?;
                if parts.sessions.tagged_by(greeting, tag).is_some() {
                    let hello = Hello::parse(greeting.get(HEADER..).ok_or(Malformed::Truncated)?)?;
                    self.handle_greeting(now, origin, &hello, parts);
                } else {
                    parts.out.counters.drop_tag += 1;
                    if let Ok(hello) = Hello::parse(cell.get(HEADER..).unwrap_or_default()) {
                        let mismatch = if hello.seals { Mismatch::Key } else { Mismatch::Unsealed };
                        parts.meet_stranger(now, origin, &hello, mismatch);
                    }
                }
            }
            Kind::Handshake => {
                let Tagged { covered, tag, .. } = Tagged::split(cell)?;
                if let Some(key) = parts.sessions.tagged_by(covered, tag) {
                    let cell = cell.to_vec();
                    self.handle_handshake(now, origin, &cell, key, parts)?;
                } else {
                    parts.out.counters.drop_tag += 1;
                }
            }
            Kind::Data | Kind::Heartbeat | Kind::Repair => parts.out.counters.drop_forged += 1,
        }
        Ok(())
    }

    /// A cell of another version arrived. Only a greeting with the group's tag is reported, for anyone can send other bytes.
    pub(crate) fn handle_other_version(now: Instant, cell: Piece, parts: &mut Parts<'_>) -> Malformed {
        let greeting = unsealed(parts.receiver.pool().bytes(cell)).ok().and_then(<[u8]>::split_last_chunk);
        let greeter = greeting.and_then(|(greeting, tag)| {
            let (theirs, node) = greeter(greeting)?;
            parts.sessions.tagged_by(greeting, tag).map(|_| (theirs, node))
        });
        if let Some((theirs, node)) = greeter.filter(|(_, node)| *node != parts.sessions.node()) {
            parts.out.events.refuse(now, node, Refusal::Version { ours: VERSION, theirs });
        }
        Malformed::Version
    }

    /// A greeting with the group's tag arrived: its node is there, or was once.
    fn handle_greeting(&mut self, now: Instant, origin: Origin, hello: &Hello, parts: &mut Parts<'_>) {
        if hello.node == parts.sessions.node() || !parts.links[origin.link].is_member() {
            return;
        }
        let ours = self.hello(origin.link, None, parts.sessions, parts.links);
        if !may_join(now, &ours, hello, &mut parts.out.events) {
            return;
        }
        let Parts { sessions, links, out, .. } = parts;
        let route = (origin.link, origin.from);
        let known = sessions.table().find(hello.node);
        let Some((index, peer)) = known.and_then(|index| Some((index, sessions.table().get(index)?))) else {
            return sessions.begin_handshake(now, hello.node, route, &ours, out);
        };
        if peer.incarnation == hello.incarnation {
            if links.paths(index).is_some_and(|paths| now.since(paths.last_received()) >= DEAF_AFTER) {
                // Perhaps it has forgotten this node.
                greet_soon(now, links);
            }
            if let Some(to) = whom_to_ask(now, index, origin, hello, links) {
                ask(now, index, (origin.link, to), links, out);
            }
        } else if peer.former != Some(hello.incarnation) {
            sessions.begin_handshake(now, hello.node, route, &ours, out);
        }
    }

    /// A handshake cell arrived whose tag was made with the accepted group key `key`.
    fn handle_handshake(
        &mut self,
        now: Instant,
        origin: Origin,
        cell: &[u8],
        key: usize,
        parts: &mut Parts<'_>,
    ) -> Result<(), Malformed> {
        let ours = self.hello(origin.link, None, parts.sessions, parts.links);
        match parts.sessions.handle_handshake(now, origin, cell, key, &ours, parts.out)? {
            Progress::Nothing => {}
            Progress::Greeted(hello) => self.handle_greeting(now, origin, &hello, parts),
            Progress::Joins(agreement, routes) => {
                if let Some(index) = self.join_sealed(now, *agreement, parts) {
                    for route in routes {
                        ask(now, index, route, parts.links, parts.out);
                    }
                }
            }
            Progress::Renewed(index) => {
                if let Some(paths) = parts.links.paths_mut(index) {
                    paths.hasten_heartbeats(now);
                }
                parts.out.counters.rekeys += 1;
            }
        }
        Ok(())
    }

    /// A cell of a session that no peer has: if it was sealed with the keys of a tentative one, its sender has joined.
    pub(crate) fn confirm(
        &mut self,
        now: Instant,
        header: &Header,
        cell: Piece,
        parts: &mut Parts<'_>,
    ) -> Option<u16> {
        let cell = parts.receiver.pool().bytes(cell);
        let (agreement, serial) = parts.sessions.confirm(header, cell, &mut parts.out.counters)?;
        let index = self.join_sealed(now, agreement, parts)?;
        let session = parts.sessions.table_mut().get_mut(index)?;
        (session.serial_received, session.begun) = (serial, None);
        Some(index)
    }

    /// Begins handshakes with the peers whose keys are old, or are not known here.
    pub(crate) fn renew_keys(&self, now: Instant, overdue: &[u16], parts: &mut Parts<'_>) {
        for index in overdue.iter().copied() {
            let Some(paths) = parts.links.paths(index) else { continue };
            let is_deaf = parts.sessions.lacks_keys(index) && now.since(paths.last_received()) >= DEAF_AFTER;
            if !is_deaf && !parts.sessions.wants_keys(now, index) {
                continue;
            }
            let (node, routes) = (paths.node, paths.routes());
            if is_deaf {
                parts.sessions.skip_serials(node);
            }
            if let Some((link, _)) = routes.first() {
                let ours = self.hello(*link, None, parts.sessions, parts.links);
                let aim = if is_deaf { Aim::Another } else { Aim::Keys };
                parts.sessions.initiate(now, node, (&routes, aim), &ours, parts.out);
            }
        }
    }

    /// A sealed hello arrived: a peer says where one of its links listens.
    pub(crate) fn handle_sealed_hello(
        &mut self,
        now: Instant,
        origin: Origin,
        index: u16,
        hello: &Hello,
        parts: &mut Parts<'_>,
    ) {
        let is_its = parts.sessions.table().get(index).is_some_and(|session| session.node == hello.node);
        if !is_its || !parts.links[origin.link].is_member() {
            return;
        }
        if hello.leaves {
            self.handle_farewell(now, origin, hello, parts);
            return;
        }
        if hello.pauses {
            self.handle_pause(now, hello, parts);
            return;
        }
        self.end_pause(index, parts);
        pair(now, index, origin, hello, parts);
        if hello.asks {
            answer_hello(index, origin, parts.out);
        }
        parts.fit_cells();
    }

    /// A node has proven that it has the keys of a session. The state of its former incarnation is void.
    fn join_sealed(&mut self, now: Instant, agreement: Agreement, parts: &mut Parts<'_>) -> Option<u16> {
        let Agreement { hello, session, agreed } = agreement;
        let (mut former, mut serial_received) = (None, 0);
        if let Some(known) = parts.sessions.table().find(hello.node) {
            let peer = parts.sessions.table().get(known)?;
            if peer.incarnation == hello.incarnation {
                (former, serial_received) = (peer.former, peer.serial_received);
            } else {
                former = Some(peer.incarnation);
            }
            part(known, parts);
        }
        let index = admit_as(now, &hello, session, parts);
        let peer = parts.sessions.table_mut().get_mut(index)?;
        peer.former = former;
        peer.serial_received = serial_received;
        peer.begun = Some(now);
        peer.keys = Some(Keyring::new(now, agreed));
        peer.session_out = hello.session;
        if former.is_some() {
            parts.links.recognise(index);
        }
        join(now, index, parts);
        self.was_left = false;
        parts.out.events.log(Event::PeerJoined { peer: hello.node, name: hello.name, sealed: true });
        self.end_pause(index, parts);
        parts.fit_cells();
        greet_soon(now, parts.links);
        Some(index)
    }
}

/// A cell that is not sealed, if it may be a greeting or a handshake.
const fn unsealed(cell: &[u8]) -> Result<&[u8], Malformed> {
    if cell.len() <= UNSEALED_MAX { Ok(cell) } else { Err(Malformed::Field) }
}

/// Where to send a peer a sealed hello, if its greeting shows that one side may not know where the other listens.
fn whom_to_ask(now: Instant, index: u16, origin: Origin, hello: &Hello, links: &Links) -> Option<SocketAddr> {
    let paths = links.paths(index)?;
    let path = &paths.outbound[origin.link];
    let paired = paths.paired[origin.link];
    let health = |theirs: u8| &paths.inbound[theirs].health;
    // Cells to the endpoint of a link that is up arrive: a greeting from elsewhere may be repeated by somebody.
    let works =
        path.is_up() && path.end.endpoint.is_some() && paired.is_some_and(|theirs| health(theirs).is_up());
    let pause = if works { ASK_RARELY } else { ASK_EVERY };
    let lacks_twin = links.lacks_twin(index, (origin.link, hello.link));
    let pause = if lacks_twin { ASK_EVERY } else { pause };
    if path.end.asked.is_some_and(|(_, at)| now.since(at) < pause) {
        return None;
    }
    if lacks_twin {
        return Some(origin.from);
    }
    let prefers = hello.link == origin.link && paired != Some(hello.link);
    let received = |theirs: u8| now.since(health(theirs).last_received()) <= FORGET_AFTER;
    if !prefers && paired.is_some_and(|other| other != hello.link && received(other)) {
        return None;
    }
    if prefers || !works {
        return Some(origin.from);
    }
    let is_news = path.end.cell_max != hello.cell_max
        || path.end.is_drained != hello.drains
        || !path.ceiling.is_stated(hello.receives);
    path.end.endpoint.filter(|_| is_news)
}

/// Asks a peer for a hello on a link.
pub(crate) fn ask(
    now: Instant,
    index: u16,
    (link, to): (u8, SocketAddr),
    links: &mut Links,
    out: &mut Outputs,
) {
    let Some(paths) = links.paths_mut(index) else { return };
    let path = &mut paths.outbound[link];
    (path.end.asked, path.end.outdated) = (Some((to, now)), true);
    out.outbox.push(Control::Answer { link, peer: index, to });
}
