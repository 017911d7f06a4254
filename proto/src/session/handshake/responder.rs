//! The responder of a handshake: it answers, and keeps the session tentative until the other side has sealed a cell with its
//! keys.
//!
//! Part of [`super`], which has the picture and the invariants.

use super::{Agreement, Progress, SAY_AGAIN_AFTER, Tentative, introduction, reject};
use crate::outputs::Outputs;
use crate::outputs::counters::Counters;
use crate::security::{Number, PublicKey, SessionKeys, TAG};
use crate::session::cookie::Admission;
use crate::session::keyring::Agreed;
use crate::session::{Origin, Sessions};
use crate::time::Instant;
use crate::wire::cell::{HEADER, Header, session_start, unwrap_seq};
use crate::wire::handshake::{Message, Step, Tagged};
use crate::wire::hello::Hello;
use alloc::vec::Vec;
use core::time::Duration;

/// After this node has begun a session, its peer is given this time to confirm it before it may begin another.
const OURS_COUNTS_FOR: Duration = Duration::from_secs(1);

impl Sessions {
    /// A node of the group begins a handshake.
    pub(super) fn handle_initiation(
        &mut self,
        now: Instant,
        origin: Origin,
        message: &Message<'_>,
        tagged: &Tagged<'_>,
        (key, ours): (usize, &Hello),
        out: &mut Outputs,
    ) -> Option<Progress> {
        let has_begun = self.handshakes.pending_with(message.node).is_some();
        if self.node < message.node && has_begun && key == 0 {
            // Both have begun: the initiation of the smaller node counts. But the other node may not accept the group key
            // of ours, if it speaks another.
            self.begin_handshake(now, message.node, (origin.link, origin.from), ours, out);
            return None;
        }
        if self.say_again(now, origin, tagged) || self.is_late(message, &mut out.counters) {
            return None;
        }
        let initiation = [tagged.covered, tagged.tag].concat();
        let vouched = self.vouched(message, &initiation, tagged.stamp);
        let security = self.security.as_mut()?;
        let cookies = &mut self.handshakes.cookies;
        let admission = match vouched {
            Some(_) => Admission::Answer,
            None => cookies.admit(now, &mut **security, origin.from, &initiation, tagged.stamp),
        };
        match admission {
            Admission::Answer => {
                return self.answer(now, origin, (message, tagged), (key, ours, vouched), out);
            }
            Admission::Again(cookie) => {
                let cell = self.tag_message(key, &self.reply(message, Step::Cookie, &cookie));
                self.handshakes.send((origin.link, origin.from), cell);
            }
            Admission::Drop => out.counters.drop_flood += 1,
        }
        None
    }

    /// The peer that has made this initiation, if the keys of its session vouch for it.
    fn vouched(&self, message: &Message<'_>, initiation: &[u8], stamp: &[u8; TAG]) -> Option<u16> {
        let index = self.table.find(message.node)?;
        let peer = self.table.get(index).filter(|peer| peer.incarnation == message.incarnation)?;
        peer.keys.as_ref()?.is_vouched(message.serial, initiation, stamp).then_some(index)
    }

    /// Whether an initiation is of a former incarnation, or older than one of the same session.
    fn is_late(&self, message: &Message<'_>, counters: &mut Counters) -> bool {
        let peer = self.table.find(message.node).and_then(|index| self.table.get(index));
        let is_late = peer.is_some_and(|peer| {
            if peer.incarnation == message.incarnation {
                message.serial <= peer.serial_received
            } else {
                peer.former == Some(message.incarnation)
            }
        });
        counters.drop_replayed += u64::from(is_late);
        is_late
    }

    /// Answers an initiation again that was answered, and tells whether it was.
    fn say_again(&mut self, now: Instant, origin: Origin, tagged: &Tagged<'_>) -> bool {
        let tentative = &mut self.handshakes.tentative;
        let answered = tentative.iter_mut().find(|tentative| tentative.initiation == *tagged.tag);
        let Some(tentative) = answered else { return false };
        let (mut links, since) = tentative.said;
        if now.since(since) >= SAY_AGAIN_AFTER {
            (links, tentative.said.1) = (0, now);
        }
        let is_said = links & 1 << origin.link != 0;
        tentative.said.0 = links | 1 << origin.link;
        if !is_said {
            let cell = tentative.cell.clone();
            self.handshakes.send((origin.link, origin.from), cell);
        }
        true
    }

    fn answer(
        &mut self,
        now: Instant,
        origin: Origin,
        (message, tagged): (&Message<'_>, &Tagged<'_>),
        (key, ours, vouched): (usize, &Hello, Option<u16>),
        out: &mut Outputs,
    ) -> Option<Progress> {
        let security = self.security.as_mut()?;
        let group_key = security.tag(key, &[]);
        let mut state = security.respond(key);
        let mut payload = Vec::new();
        if let Err(rejected) = state.read(message.body, &mut payload) {
            reject(now, message.node, rejected, out);
            return None;
        }
        let peer_key = state.peer();
        let hello = self.introduced(now, message, &payload, peer_key, (ours, out))?;
        let known = self.table.find(hello.node);
        let live = known.filter(|index| self.is_session(*index, &hello));
        if live.is_none() && self.counts_ours(now, &hello) {
            // It does not know yet that this node has joined.
            return Some(Progress::Greeted(hello));
        }
        if !self.may_answer(now, message, peer_key, (live, vouched), out) {
            return None;
        }
        self.handshakes.make_room(hello.node);
        let session = self.session_for(live, known)?;
        let mut body = Vec::new();
        if let Err(rejected) = state.write(&introduction(ours, session, hello.session), &mut body) {
            reject(now, message.node, rejected, out);
            return None;
        }
        let cell = self.tag_message(key, &self.reply(message, Step::Response, &body));
        let Message { serial, epoch, .. } = *message;
        let agreed = Agreed { epoch, keys: state.finish(), group_key, peer: peer_key };
        let keys = self.offer(now, live, serial, agreed);
        if self.node < message.node || key == 0 {
            // If the two sides took each the other's session, they would be in two by turns.
            match live {
                Some(_) => self.handshakes.finish(message.node),
                None => self.handshakes.give_way(now, message.node),
            }
        }
        self.handshakes.send((origin.link, origin.from), cell.clone());
        self.handshakes.tentative.push(Tentative {
            hello,
            initiation: *tagged.tag,
            serial,
            epoch,
            group_key,
            peer: peer_key,
            session,
            keys,
            cell,
            began: now,
            said: (1 << origin.link, now),
        });
        None
    }

    /// A session that is `live` gets other keys by a handshake of this number; returns those of one that is not.
    fn offer(&mut self, now: Instant, live: Option<u16>, serial: u32, agreed: Agreed) -> Option<SessionKeys> {
        let Some(peer) = live.and_then(|index| self.table.get_mut(index)) else { return Some(agreed.keys) };
        peer.serial_received = serial;
        peer.keys.as_mut()?.offer(now, agreed);
        None
    }

    /// Whether an initiation may be answered: of a new session always; of the session that is `live` when it comes from its peer, in
    /// time, and the session's keys have `vouched` for it.
    fn may_answer(
        &self,
        now: Instant,
        message: &Message<'_>,
        peer_key: Option<PublicKey>,
        (live, vouched): (Option<u16>, Option<u16>),
        out: &mut Outputs,
    ) -> bool {
        if live.is_some_and(|index| !self.is_same(now, index, peer_key, out)) {
            return false;
        }
        let is_late = live.is_some_and(|index| self.next_epoch(index) != Some(message.epoch));
        let is_forged = !is_late && live != vouched;
        out.counters.drop_replayed += u64::from(is_late);
        out.counters.drop_forged += u64::from(is_forged);
        !is_late && !is_forged
    }

    fn reply<'a>(&self, message: &Message<'_>, step: Step, body: &'a [u8]) -> Message<'a> {
        let Message { epoch, serial, node: addressee, .. } = *message;
        let (node, incarnation) = (self.node, self.incarnation);
        Message { step, epoch, serial, node, incarnation, addressee, body }
    }

    /// Whether the session that this node has begun lately with the same node takes precedence.
    fn counts_ours(&self, now: Instant, hello: &Hello) -> bool {
        let peer = self.table.find(hello.node).and_then(|index| self.table.get(index));
        let same = peer.filter(|peer| peer.incarnation == hello.incarnation);
        same.and_then(|peer| peer.begun).is_some_and(|begun| now.since(begun) < OURS_COUNTS_FOR)
    }

    fn next_epoch(&self, index: u16) -> Option<u8> {
        Some(self.table.get(index)?.keys.as_ref()?.next_epoch())
    }

    /// A cell of a session that no peer has: if it was sealed with the keys of a tentative one, its sender has joined.
    /// Returns the session, and the serial number of its handshake.
    pub(crate) fn confirm(
        &mut self,
        header: &Header,
        cell: &[u8],
        counters: &mut Counters,
    ) -> Option<(Agreement, u32)> {
        let place = self.handshakes.tentative.iter().position(|tentative| {
            tentative.session == header.session && tentative.epoch == header.epoch && tentative.keys.is_some()
        })?;
        let tentative = &self.handshakes.tentative[place];
        let first = session_start(tentative.hello.incarnation, self.incarnation, tentative.session);
        let seq = unwrap_seq(header.link_seq, first).filter(|seq| *seq >= first)?;
        let number = Number { link: header.link, seq };
        let (head, sealed) = cell.split_at(HEADER);
        let opening = &tentative.keys.as_ref()?.opening;
        if !opening.open(number, head, &mut sealed.to_vec()) {
            counters.drop_forged += 1;
            return None;
        }
        let tentative = self.handshakes.tentative.remove(place);
        let Tentative { hello, serial, session, epoch, group_key, peer, keys, .. } = tentative;
        self.handshakes.tentative.retain(|other| other.hello.node != hello.node);
        self.handshakes.finish(hello.node);
        let agreed = Agreed { epoch, keys: keys?, group_key, peer };
        Some((Agreement { hello, session, agreed }, serial))
    }
}
