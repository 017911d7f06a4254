//! The initiator of a handshake: it begins with a stranger that greets, or with a peer whose keys are old.
//!
//! Part of [`super`], which has the picture and the invariants.

use super::{
    AGAIN_AFTER, Agreement, Aim, Pending, Progress, RESEND_AFTER, RESEND_AFTER_MAX, ROUTES, Route, UNDER_WAY,
    introduction, reject,
};
use crate::outputs::Outputs;
use crate::security::{Rejected, Security, TAG};
use crate::session::cookie::{self, Cookie};
use crate::session::keyring::{Agreed, Keyring};
use crate::session::{Origin, Sessions};
use crate::time::Instant;
use crate::wire::handshake::{Message, Step};
use crate::wire::hello::{Hello, NodeId};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// So many cells of later epochs, and none of a known one, are no stranger's that came by chance.
const BEYOND: u8 = 8;

impl Sessions {
    /// A stranger's greeting arrived by this route: begins a handshake with it, or adds the route to the one that is under
    /// way. `ours`: this node's hello on the route's link.
    pub(crate) fn begin_handshake(
        &mut self,
        now: Instant,
        node: NodeId,
        route: Route,
        ours: &Hello,
        out: &mut Outputs,
    ) {
        if let Some(pending) = self.handshakes.pending_with(node) {
            let is_new = pending.routes.iter().all(|(known, _)| *known != route);
            if is_new && pending.routes.len() < ROUTES {
                pending.routes.push((route, None));
                let cell = pending.cell.clone();
                self.handshakes.send(route, cell);
            }
            return;
        }
        self.initiate(now, node, (&[route], Aim::Session), ours, out);
    }

    /// Whether the keys of a peer are old, and no handshake renews them.
    pub(crate) fn wants_keys(&mut self, now: Instant, index: u16) -> bool {
        let Some(session) = self.table.get(index) else { return false };
        // One of the two sides is enough: the larger node begins later.
        let limits = if self.node < session.node { self.rekey } else { self.rekey.later() };
        let is_old = session.keys.as_ref().is_some_and(|keys| keys.is_old(now, &limits));
        let node = session.node;
        is_old && self.handshakes.pending_with(node).is_none()
    }

    /// Whether a peer has later keys than this node, and no handshake with it is under way.
    pub(crate) fn lacks_keys(&mut self, index: u16) -> bool {
        let Some(node) = self.table.get(index).filter(|peer| peer.beyond >= BEYOND).map(|peer| peer.node)
        else {
            return false;
        };
        self.handshakes.pending_with(node).is_none()
    }

    /// Begins a handshake with a node over all routes. `ours`: this node's hello on the link of the first route.
    pub(crate) fn initiate(
        &mut self,
        now: Instant,
        node: NodeId,
        (routes, aim): (&[Route], Aim),
        ours: &Hello,
        out: &mut Outputs,
    ) {
        let pending = &mut self.handshakes.pending;
        if pending.iter().any(|other| other.node == node && now < other.began + AGAIN_AFTER) {
            return;
        }
        pending.retain(|other| other.state.is_some() || other.node != node);
        if pending.len() == UNDER_WAY {
            let Some(over) = pending.iter().position(|other| other.state.is_none()) else { return };
            pending.swap_remove(over);
        }
        let known = self.table.find(node).filter(|_| aim != Aim::Another);
        let Some(session) = self.session_for(known, None) else { return };
        let peer = known.and_then(|index| self.table.get(index));
        let your_session = peer.map_or(0, |peer| peer.session_out);
        let epoch = peer.and_then(|peer| peer.keys.as_ref()).map_or(1, Keyring::next_epoch);
        let payload = introduction(ours, session, your_session);
        let Some(security) = &mut self.security else { return };
        let group_key = security.tag(0, &[]);
        let mut state = security.initiate();
        let mut body = Vec::new();
        if let Err(rejected) = state.write(&payload, &mut body) {
            return reject(now, node, rejected, out);
        }
        let serial = self.handshakes.next_serial(node);
        let (ours, incarnation) = (self.node, self.incarnation);
        let step = Step::Initiation;
        let message = Message { step, epoch, serial, node: ours, incarnation, addressee: node, body: &body };
        let mut cell = self.tag_message(0, &message);
        let renews =
            known.filter(|_| aim == Aim::Keys).and_then(|index| self.table.get(index)?.keys.as_ref());
        if let (Some(keys), Some((initiation, stamp))) = (renews, cell.split_last_chunk_mut()) {
            *stamp = keys.vouch(serial, initiation);
        }
        self.handshakes.pending.push(Pending {
            node,
            session,
            epoch,
            serial,
            group_key,
            aim,
            yields_until: None,
            state: Some(state),
            routes: routes.iter().map(|route| (*route, None)).collect(),
            began: now,
            resend_at: now + RESEND_AFTER,
            cell: cell.clone(),
        });
        routes.iter().for_each(|route| self.handshakes.send(*route, cell.clone()));
    }

    /// The session number to promise to a node: the peer of a session that is `live` keeps its own; one that has another gets a new one.
    pub(super) fn session_for(&mut self, live: Option<u16>, peer: Option<u16>) -> Option<u16> {
        let kept = live.and_then(|index| self.table.get(index)).map(|peer| peer.session_in);
        kept.or_else(|| self.table.draw_session(peer, &self.handshakes.promised()))
    }

    pub(super) fn resend_initiations(&mut self, now: Instant) {
        let Some(security) = &self.security else { return };
        let mut cells = Vec::new();
        for pending in &mut self.handshakes.pending {
            if pending.state.is_none() || now < pending.resend_at {
                continue;
            }
            pending.resend_at = now + pending.resend_at.since(pending.began).min(RESEND_AFTER_MAX);
            for (route, cookie) in &pending.routes {
                let stamped = |cookie| stamped(&**security, &pending.cell, cookie);
                cells.push((*route, cookie.as_ref().map_or_else(|| pending.cell.clone(), stamped)));
            }
        }
        cells.into_iter().for_each(|(route, cell)| self.handshakes.send(route, cell));
    }

    /// A peer that gets too many initiations wants a proof of our address.
    pub(super) fn handle_cookie(&mut self, origin: Origin, message: &Message<'_>) {
        let (Some(security), Ok(cookie)) = (&self.security, message.body.try_into()) else { return };
        let Some(pending) = self.handshakes.pending_with(message.node) else { return };
        let route = (origin.link, origin.from);
        let given = pending.routes.iter_mut().find(|(known, _)| *known == route);
        let Some((_, known)) =
            given.filter(|(_, known)| pending.serial == message.serial && *known != Some(cookie))
        else {
            return;
        };
        *known = Some(cookie);
        let cell = stamped(&**security, &pending.cell, &cookie);
        self.handshakes.send(route, cell);
    }

    /// The other side has answered: both know the keys now, and this node seals first.
    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        origin: Origin,
        message: &Message<'_>,
        ours: &Hello,
        out: &mut Outputs,
    ) -> Option<Progress> {
        let pending = self.handshakes.pending_with(message.node)?;
        let yields = pending.yields_until.is_some_and(|until| now < until);
        if yields || pending.serial != message.serial || pending.epoch != message.epoch {
            return None;
        }
        let mut payload = Vec::new();
        let mut state = pending.state.take()?;
        if let Err(rejected) = state.read(message.body, &mut payload) {
            if rejected == Rejected::Forged {
                pending.state = Some(state);
            }
            reject(now, message.node, rejected, out);
            return None;
        }
        let (session, aim, epoch, group_key) =
            (pending.session, pending.aim, pending.epoch, pending.group_key);
        let routes: Vec<_> = pending.routes.iter().map(|(route, _)| *route).collect();
        let key = state.peer();
        let hello = self.introduced(now, message, &payload, key, (ours, out))?;
        if hello.your_session != session {
            out.counters.drop_malformed += 1;
            return None;
        }
        let known = self.table.find(hello.node).filter(|index| self.is_session(*index, &hello));
        if let Some(index) = known {
            if aim != Aim::Keys || !self.is_same(now, index, key, out) {
                return None;
            }
            let keys = self.table.get_mut(index)?.keys.as_mut()?;
            keys.install(now, Agreed { epoch, keys: state.finish(), group_key, peer: key });
            return Some(Progress::Renewed(index));
        }
        let agreed = Agreed { epoch, keys: state.finish(), group_key, peer: key };
        if self.node < hello.node {
            self.handshakes.tentative.retain(|tentative| tentative.hello.node != hello.node);
        }
        let here = (origin.link, origin.from);
        let routes = routes.into_iter().filter(|route| *route != here).chain([here]).collect();
        Some(Progress::Joins(Box::new(Agreement { hello, session, agreed }), routes))
    }

    /// Whether a hello belongs to the session that a peer has.
    pub(super) fn is_session(&self, index: u16, hello: &Hello) -> bool {
        self.table.get(index).is_some_and(|peer| {
            peer.incarnation == hello.incarnation
                && peer.session_out == hello.session
                && peer.session_in == hello.your_session
        })
    }
}

/// An initiation with the stamp that a cookie asks for.
fn stamped(security: &dyn Security, cell: &[u8], cookie: &Cookie) -> Vec<u8> {
    let covered = &cell[..cell.len() - TAG];
    [covered, &cookie::stamp(security, covered, cookie)].concat()
}
