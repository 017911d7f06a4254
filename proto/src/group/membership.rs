//! Who is a peer: greetings, answers, departures.
//!
//! Beside the path. Every link greets everyone. A node that receives a stranger's greeting answers with a session number, and
//! the stranger answers in turn. A restarted node has another incarnation: its old state is void. A node forgets a peer from
//! which no link has received for [`FORGET_AFTER`]. Where cells are sealed, a greeting with the group's tag only makes this
//! node act by itself ([`crate::group::greeting`]): a handshake gives the session, and sealed hellos say where a peer
//! listens.
//!
//! Invariant: a session number is given to one peer at a time, and state of a former incarnation ends with it.

use crate::group::{Group, Parts};
use crate::link::Links;
use crate::link::nic::CELL_LEAST;
use crate::link::outbound::Standing;
use crate::link::paths::Paths;
use crate::outputs::event::{Event, Expiry, Mismatch, Refusal, Signal};
use crate::outputs::{Control, Outbox, Outputs, Written};
use crate::security::{Number, TAG};
use crate::session::handshake::may_join;
use crate::session::{Origin, Sessions};
use crate::time::Instant;
use crate::wire::cell::{HEADER, Header, Kind, wire_seq};
use crate::wire::hello::{Hello, NodeId};
use core::time::Duration;

/// A silent peer's state is dropped after this time.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(10);
/// The time between greetings of a link on which nobody has answered yet; ten times as long on others.
const GREET_EVERY: Duration = Duration::from_millis(100);
/// While so many messages wait to be sent, no hello is answered: one for each peer that there may be.
pub(crate) const ANSWERS_BEHIND: usize = 1_024;

impl Group {
    /// Greets everyone on the links whose time has come, and answers peers again that have not received our answer.
    pub(crate) fn greet(&self, now: Instant, parts: &mut Parts<'_>) {
        for number in (0..).take(parts.links.all().len()) {
            let link = &parts.links[number];
            if now < link.greet_at || !link.is_member() {
                continue;
            }
            let known =
                || parts.links.all_paths().filter(|paths| paths.outbound[number].end.endpoint.is_some());
            let settled = known().next().is_some() && known().all(Paths::is_reached);
            let link = &mut parts.links[number];
            link.greet_at = now + GREET_EVERY * if settled { 10 } else { 1 };
            if link.carrier {
                greet_on(number, parts);
            }
        }
    }

    /// An unsealed hello arrived where cells are not sealed.
    pub(crate) fn handle_hello(
        &mut self,
        now: Instant,
        origin: Origin,
        hello: &Hello,
        parts: &mut Parts<'_>,
    ) {
        if hello.group != self.group && !self.others.contains(&hello.group) {
            parts.out.counters.drop_group += 1;
            let mismatch = if hello.seals { Mismatch::Sealed } else { Mismatch::Group };
            return parts.meet_stranger(now, origin, hello, mismatch);
        }
        if hello.node == parts.sessions.node() || !parts.links[origin.link].is_member() {
            return;
        }
        if hello.seals {
            return parts.out.events.refuse(now, hello.node, Refusal::Seals);
        }
        if hello.leaves {
            self.handle_farewell(now, origin, hello, parts);
            return;
        }
        if hello.pauses {
            self.handle_pause(now, hello, parts);
            return;
        }
        let Some(index) = self.acquaint(now, hello, parts) else { return };
        pair(now, index, origin, hello, parts);
        let Some(session) = parts.sessions.table_mut().get_mut(index) else { return };
        let was_joined = session.is_joined();
        if hello.session != 0 && !was_joined {
            session.session_out = hello.session;
        }
        let (node, name, joined) = (session.node, session.name, session.is_joined());
        // An answer carries a session. It is answered only when its number for us is an old one.
        let answer = hello.session == 0 || hello.your_session != session.session_in;
        if joined && !was_joined {
            join(now, index, parts);
            if let Some(paths) = parts.links.paths_mut(index) {
                paths.hasten_heartbeats(now);
            }
            self.was_left = false;
            parts.out.events.log(Event::PeerJoined { peer: node, name, sealed: false });
        }
        if joined {
            self.end_pause(index, parts);
        } else {
            // If our answer is lost, the next greeting makes us repeat it.
            greet_soon(now, parts.links);
        }
        if answer {
            answer_hello(index, origin, parts.out);
        }
        parts.fit_cells();
    }

    /// This machine goes on from a snapshot, as a peer has shown: what was said to that since is about to be said again, under the same
    /// numbers. Ends the session, and begins another.
    pub(crate) fn begin_anew(&self, now: Instant, index: u16, parts: &mut Parts<'_>) {
        let routes = parts.links.paths(index).map(Paths::routes).unwrap_or_default();
        let Some(peer) = drop_peer(index, parts) else { return };
        parts.out.events.log(Event::PeerExpired { peer, expiry: Expiry::RolledBack });
        parts.sessions.skip_serials(peer);
        for route in routes {
            let ours = self.hello(route.0, None, parts.sessions, parts.links);
            parts.sessions.begin_handshake(now, peer, route, &ours, parts.out);
        }
        greet_soon(now, parts.links);
    }

    /// The peer that sent a hello; admits it if it is new.
    fn acquaint(&mut self, now: Instant, hello: &Hello, parts: &mut Parts<'_>) -> Option<u16> {
        let Some(index) = parts.sessions.table().find(hello.node) else {
            return self.admit(now, hello, None, parts);
        };
        let known = parts.sessions.table().get(index)?;
        let former = known.incarnation;
        if former != hello.incarnation {
            // Of two incarnations that send in turn, the one that knows our latest session number is alive.
            if known.former == Some(hello.incarnation) && hello.your_session != known.session_in {
                return None;
            }
            part(index, parts);
            return self.admit(now, hello, Some(former), parts);
        }
        if hello.session == 0 || !known.is_joined() || known.session_out == hello.session {
            return Some(index);
        }
        if hello.your_session != 0 && hello.your_session != known.session_in {
            // It sent this before it knew our number, and later hellos have overtaken it.
            return None;
        }
        // It forgot us and gave us a new number: lanes begin anew on both sides.
        parts.sender.forget_lanes(index, &mut parts.out.counters);
        parts.sessions.table_mut().renew(index, hello);
        parts.sender.begin(index);
        begin(now, index, parts);
        Some(index)
    }

    fn admit(
        &mut self,
        now: Instant,
        hello: &Hello,
        former: Option<u64>,
        parts: &mut Parts<'_>,
    ) -> Option<u16> {
        let ours = self.hello(0, None, parts.sessions, parts.links);
        if !may_join(now, &ours, hello, &mut parts.out.events) {
            return None;
        }
        let Some(session) = parts.sessions.table_mut().draw_session(None, &[]) else {
            parts.out.events.refuse(now, hello.node, Refusal::Full);
            return None;
        };
        let index = admit_as(now, hello, session, parts);
        parts.sessions.table_mut().get_mut(index)?.former = former;
        if former.is_some() {
            parts.links.recognise(index);
        }
        Some(index)
    }

    /// Writes a hello to everyone, to an endpoint, or to a peer. A tag proves that a greeting comes from the group.
    pub(crate) fn write_hello(
        &self,
        control: Control,
        sessions: &mut Sessions,
        links: &mut Links,
        outbox: &mut Outbox,
    ) -> Option<Written> {
        match control {
            Control::Greet { link, to } => {
                let hello = self.hello(link, None, sessions, links);
                let space = outbox.space();
                Header::new(Kind::Hello, link, 0, 0).emit(space);
                let mut length = HEADER + hello.emit(&mut space[HEADER..]);
                let (greeting, rest) = space.split_at_mut(length);
                if let Some(tag) = sessions.group_tag(greeting) {
                    rest[..TAG].copy_from_slice(&tag);
                    length += TAG;
                }
                Some(Written { link, to, length, numbered: None })
            }
            Control::Answer { link, peer, to } | Control::Farewell { link, peer, to } => {
                let hello = self.hello(link, Some(peer), sessions, links);
                let space = outbox.space();
                let mut length = HEADER + hello.emit(&mut space[HEADER..]);
                let mut header = Header::new(Kind::Hello, link, 0, 0);
                let session = sessions.table().get(peer);
                (header.session, header.epoch) =
                    session.map_or((0, 0), |session| (session.session_out, session.epoch()));
                let is_sealed = header.epoch != 0;
                let path = links.paths_mut(peer).map(|paths| &mut paths.outbound[link]);
                let seq = path.filter(|_| is_sealed).map(|path| path.numbers.take(None));
                header.link_seq = seq.map_or(0, wire_seq);
                header.emit(space);
                if let Some(seq) = seq {
                    length = sessions.seal_control(peer, Number { link, seq }, space, length);
                }
                Some(Written { link, to: Some(to), length, numbered: is_sealed.then_some(peer) })
            }
            Control::Heartbeat { .. } | Control::Probe { .. } | Control::Repair { .. } => None,
        }
    }
}

/// Something about a peer is new: greets soon, so that both sides know.
pub(super) fn greet_soon(now: Instant, links: &mut Links) {
    for link in links.all_mut().iter_mut().filter(|link| link.is_member()) {
        link.greet_at = link.greet_at.min(now + GREET_EVERY);
    }
}

fn greet_on(link: u8, parts: &mut Parts<'_>) {
    let Parts { sessions, links, out, .. } = parts;
    let settings = &links[link].settings;
    let everyone = settings.multicast.then_some(Control::Greet { link, to: None });
    let named = settings.greet.iter().map(|endpoint| Control::Greet { link, to: Some(*endpoint) });
    out.outbox.extend(everyone.into_iter().chain(named));
    for index in sessions.table().indices() {
        let (Some(session), Some(paths)) = (sessions.table().get(index), links.paths(index)) else {
            continue;
        };
        let path = &paths.outbound[link];
        let asked = path.end.asked.filter(|_| path.end.endpoint.is_none()).map(|(to, _)| to);
        if let Some(to) = path.end.endpoint.filter(|_| !session.is_joined()).or(asked) {
            out.outbox.push(Control::Answer { link, peer: index, to });
        }
    }
}

/// Queues an answer to a hello, unless too many messages wait; the peer repeats its hello.
pub(super) fn answer_hello(peer: u16, origin: Origin, out: &mut Outputs) {
    if out.outbox.len() >= ANSWERS_BEHIND {
        out.counters.hellos_unanswered += 1;
        return;
    }
    out.outbox.push(Control::Answer { link: origin.link, peer, to: origin.from });
}

/// Admits a new peer under a session number that was drawn for it.
pub(crate) fn admit_as(now: Instant, hello: &Hello, session: u16, parts: &mut Parts<'_>) -> u16 {
    let index = parts.sessions.table_mut().admit(hello, session);
    parts.sender.admit(now, index, hello.node);
    begin(now, index, parts);
    index
}

/// The state of links and lanes for a peer begins with its session.
fn begin(now: Instant, index: u16, parts: &mut Parts<'_>) {
    let table = parts.sessions.table();
    let (Some(session), Some(first)) = (table.get(index), table.first_in(index)) else { return };
    parts.links.admit(now, index, session.node, first);
    parts.receiver.admit(now, index, first);
}

/// A peer has given us a session number.
pub(crate) fn join(now: Instant, index: u16, parts: &mut Parts<'_>) {
    let Some(first) = parts.sessions.table().first_out(index) else { return };
    parts.sender.join(index, first);
    if let Some(paths) = parts.links.paths_mut(index) {
        paths.join(now, first);
    }
}

/// Notes where the peer listens on this link.
///
/// Where a switch connects several links, a link receives from several links of a peer: it pairs with the one that has its
/// own number, else with the first, so that both ends pair the same links. A pairing with a link that has been silent for
/// long gives way to another. A link that is too small for any cell is not used, as if the peer had taken it out.
pub(super) fn pair(now: Instant, index: u16, origin: Origin, hello: &Hello, parts: &mut Parts<'_>) {
    if hello.cell_max < CELL_LEAST {
        parts.links.part(now, index, (origin.link, hello.link), Signal::TooSmall, parts.out);
        parts.send_lost_again();
        return;
    }
    let Some(paths) = parts.links.paths_mut(index) else { return };
    let link = origin.link;
    let received = |link: u8| now.since(paths.inbound[link].health.last_received()) <= FORGET_AFTER;
    let other = paths.paired[link].filter(|paired| *paired != hello.link && received(*paired));
    if other.is_some() && hello.link != origin.link {
        return;
    }
    paths.paired[link] = Some(hello.link);
    // The hello arrived this way, so until heartbeats prove more the path is better than none.
    let path = &mut paths.outbound[link];
    if path.end.endpoint.is_none() {
        path.standing = path.standing.max(Standing::Doubted);
    }
    path.end.endpoint = Some(origin.from);
    path.end.cell_max = hello.cell_max;
    path.end.kernel = hello.kernel;
    path.ceiling.state(hello.receives);
    path.end.outdated = false;
    if core::mem::replace(&mut path.end.is_drained, hello.drains) != hello.drains {
        let (peer, link) = (paths.node, origin.link);
        parts.out.events.log(if hello.drains {
            Event::LinkDrained { peer, link }
        } else {
            Event::LinkResumed { peer, link }
        });
        parts.sender.unpark();
    }
}

/// Forgets peers from which no link has received for long. A silent peer is always due, for its paths are judged.
pub(crate) fn expire(now: Instant, overdue: &[u16], parts: &mut Parts<'_>) {
    for index in overdue.iter().copied() {
        let gone =
            parts.links.paths(index).is_some_and(|paths| now.since(paths.last_received()) > FORGET_AFTER);
        if gone {
            part(index, parts);
        }
    }
}

/// Ends the sessions that have expired. Their peers are due, for heartbeats are.
pub(crate) fn end_expired(now: Instant, overdue: &[u16], parts: &mut Parts<'_>) {
    for index in overdue.iter().copied() {
        let Some(expiry) = parts.sessions.expired(now, index) else { continue };
        if let Some(peer) = drop_peer(index, parts) {
            parts.out.events.log(Event::PeerExpired { peer, expiry });
        }
    }
}

/// The lists of group keys or nodes' keys have changed: ends sessions with nodes that are no longer allowed.
pub(crate) fn review_keys(parts: &mut Parts<'_>) {
    for (node, key) in parts.sessions.review_keys(parts.polled) {
        if let Some(index) = parts.sessions.table().find(node) {
            drop_peer(index, parts);
            parts.out.counters.drop_not_allowed += 1;
            parts.out.events.shut_out(parts.polled, node, Refusal::NotAllowed { key });
        }
    }
}

pub(crate) fn part(index: u16, parts: &mut Parts<'_>) {
    if let Some(peer) = drop_peer(index, parts) {
        parts.out.events.log(Event::PeerLeft { peer });
    }
}

fn drop_peer(index: u16, parts: &mut Parts<'_>) -> Option<NodeId> {
    let peer = parts.sessions.table_mut().remove(index)?;
    parts.links.remove(index);
    parts.receiver.remove(index);
    parts.sender.remove(index, &mut parts.out.counters);
    parts.fit_cells();
    Some(peer)
}
