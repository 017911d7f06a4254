//! Handshakes under way: those that this node began, and sessions that the other side has not confirmed yet.
//!
//! Beside the path. Two messages make a session, or new keys for one that lives:
//!
//! ```text
//!   initiator                                   responder
//!      | <------------------------- greeting (tag) |     a node that receives a stranger's begins: greeting.rs
//!      | initiation ------------------------------> |     the session is tentative: responder.rs
//!      | <-------------------------------- response |     joined: initiator.rs
//!      | first sealed cell -----------------------> |     confirmed: joined
//! ```
//!
//! The key that an initiation claims is proven only when a cell opens under the keys that come of it. So who has the group key
//! alone can send initiations in any node's name. They make tentative sessions, several of each node side by side, and change
//! nothing else. An initiation that renews the keys of a session is vouched for with these keys, in place of a stamp.
//!
//! Invariants: the state is bounded; nothing but the two sides of a session, with their own keys, ends or changes it or a
//! handshake of theirs; the same response answers the same initiation, so losses cost no computation.
//! Source: `WireGuard`, Donenfeld, NDSS 2017, section 5.4; the cryptography is behind [`crate::security`].

mod initiator;
mod responder;

use crate::outputs::Outputs;
use crate::outputs::event::{Events, Refusal};
use crate::security::{self, PublicKey, Rejected, Security, SessionKeys, TAG};
use crate::session::cookie::{Cookie, Cookies};
use crate::session::keyring::Agreed;
use crate::session::{Origin, Sessions};
use crate::time::Instant;
use crate::wire::Malformed;
use crate::wire::handshake::{Message, Step, Tagged};
use crate::wire::hello::{HELLO_MAX, Hello, NodeId};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// Handshakes under way that this node began, and as many that others did.
const UNDER_WAY: usize = 64;
/// Of these, those that came in the name of one node.
const OF_ONE_NODE: usize = 32;
/// Addresses to which one initiation is sent: each link of a peer, and some that are wrong.
const ROUTES: usize = 32;
const OUTGOING: usize = 256;
/// An initiation that nobody answers is given up after this time.
const PENDING_FOR: Duration = Duration::from_secs(1);
/// No node is sent another initiation before this time, however often its greeting is repeated.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// An initiation is sent again after this time, and then when it has been under way for twice as long each time.
const RESEND_AFTER: Duration = Duration::from_millis(25);
/// But no later than this.
const RESEND_AFTER_MAX: Duration = Duration::from_millis(100);
/// A session that nobody confirms is dropped after this time.
const TENTATIVE_FOR: Duration = Duration::from_secs(2);
/// Both have begun: the larger node takes no response before the smaller one had this time to confirm its own session.
const YIELDS_FOR: Duration = Duration::from_millis(100);
/// Serial numbers that are passed by: a node begins fewer handshakes with another in months.
const SKIPPED: u32 = 1 << 16;
/// Nodes for which some were.
const SKIPPED_FOR: usize = 64;
/// A repeated initiation is answered once per link in this time.
const SAY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What a handshake is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// A session with a node that has none, or had one in a former life.
    Session,
    /// Other keys for the session with a peer.
    Keys,
    /// Another session with a peer, since one of the two has lost what belongs to this one.
    Another,
}

/// Where a cell goes: through a link, to an endpoint.
pub(crate) type Route = (u8, SocketAddr);

/// A handshake that this node began.
pub(crate) struct Pending {
    node: NodeId,
    /// The number that the peer is to put into its cells.
    session: u16,
    epoch: u8,
    serial: u32,
    /// The group key under which it was begun, as in [`Agreed`].
    group_key: [u8; TAG],
    aim: Aim,
    /// The peer, the smaller node, has begun as well, and its handshake counts until then.
    yields_until: Option<Instant>,
    /// `None`: it has ended, and only delays the next one with this node.
    state: Option<Box<dyn security::Handshake>>,
    /// The initiation, vouched for or without its stamp.
    cell: Vec<u8>,
    /// Where it is sent, each with the cookie that was given there.
    routes: Vec<(Route, Option<Cookie>)>,
    began: Instant,
    resend_at: Instant,
}

impl Pending {
    /// When something is to be done about it.
    fn due(&self) -> Instant {
        match self.state {
            Some(_) => self.resend_at.min(self.began + PENDING_FOR),
            None => self.began + AGAIN_AFTER,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.began + if self.state.is_some() { PENDING_FOR } else { AGAIN_AFTER }
    }
}

/// An initiation that was answered.
pub(crate) struct Tentative {
    /// The initiator's hello.
    hello: Hello,
    initiation: [u8; TAG],
    serial: u32,
    epoch: u8,
    /// The group key under which it was begun, as in [`Agreed`].
    group_key: [u8; TAG],
    /// The key that it claims, and proves when it seals a cell.
    peer: Option<PublicKey>,
    /// The number that it is to put into its cells.
    session: u16,
    /// The keys of a session that is tentative; new keys for a live session are in its keyring.
    keys: Option<SessionKeys>,
    cell: Vec<u8>,
    began: Instant,
    /// Links over which it was sent lately, a bit each, and since when.
    said: (u16, Instant),
}

/// All handshakes that are under way.
#[derive(Default)]
pub(crate) struct Handshakes {
    pending: Vec<Pending>,
    tentative: Vec<Tentative>,
    cookies: Cookies,
    outgoing: VecDeque<(Route, Vec<u8>)>,
    /// Of the last handshake that this node began.
    serial: u32,
    /// By how much more those with some nodes are numbered.
    skipped: VecDeque<(NodeId, u32)>,
}

impl Handshakes {
    pub(crate) fn new(now: Instant) -> Self {
        Self { cookies: Cookies::new(now), ..Self::default() }
    }

    /// The next serial number of a handshake with a node.
    fn next_serial(&mut self, node: NodeId) -> u32 {
        self.serial += 1;
        let skipped = self.skipped.iter().find(|(other, _)| *other == node);
        self.serial.saturating_add(skipped.map_or(0, |(_, skipped)| *skipped))
    }

    /// A node may know serial numbers that this one has not given yet: handshakes with it pass them by from now on.
    fn skip_serials(&mut self, node: NodeId) {
        self.pending.retain(|pending| pending.node != node);
        let known = self.skipped.iter().position(|(other, _)| *other == node);
        let (_, before) = known.and_then(|place| self.skipped.remove(place)).unwrap_or((node, 0));
        if self.skipped.len() == SKIPPED_FOR {
            self.skipped.pop_front();
        }
        self.skipped.push_back((node, before.saturating_add(SKIPPED)));
    }

    /// When something is to be done, at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        let tentative = self.tentative.iter().map(|session| session.began + TENTATIVE_FOR);
        self.pending.iter().map(Pending::due).chain(tentative).min()
    }

    /// Drops handshakes under a group key, or with a node's key, that is not accepted any more.
    pub(crate) fn keep_accepted(&mut self, security: &dyn Security) {
        let is_accepted = |tag: &_| security.tagged_by(&[], tag).is_some();
        self.pending.retain(|pending| is_accepted(&pending.group_key));
        self.tentative.retain(|tentative| {
            is_accepted(&tentative.group_key) && security.accepts(tentative.peer.as_ref())
        });
    }

    /// A link is gone or leads elsewhere: nothing more is sent where it led.
    pub(crate) fn forget_link(&mut self, number: u8) {
        let leads_elsewhere = |(link, _): &Route| *link != number;
        self.pending
            .iter_mut()
            .for_each(|pending| pending.routes.retain(|(route, _)| leads_elsewhere(route)));
        self.outgoing.retain(|(route, _)| leads_elsewhere(route));
    }

    /// Session numbers that handshakes have promised.
    fn promised(&self) -> Vec<u16> {
        let tentative = self.tentative.iter().map(|session| session.session);
        self.pending.iter().map(|pending| pending.session).chain(tentative).collect()
    }

    fn send(&mut self, route: Route, cell: Vec<u8>) {
        if self.outgoing.len() < OUTGOING {
            self.outgoing.push_back((route, cell));
        }
    }

    /// The handshake with a node that has not ended.
    fn pending_with(&mut self, node: NodeId) -> Option<&mut Pending> {
        self.pending.iter_mut().find(|pending| pending.node == node && pending.state.is_some())
    }

    /// A handshake that this node began has ended.
    fn finish(&mut self, node: NodeId) {
        if let Some(pending) = self.pending_with(node) {
            pending.state = None;
        }
    }

    /// The other side has begun as well, and claims to be the one that counts: it gets time to prove it, once.
    fn give_way(&mut self, now: Instant, node: NodeId) {
        if let Some(pending) = self.pending_with(node) {
            pending.yields_until.get_or_insert(now + YIELDS_FOR);
        }
    }

    /// Makes room for another tentative session with a node: the oldest gives way, of this node or of the one that has most.
    fn make_room(&mut self, node: NodeId) {
        let tentative = &mut self.tentative;
        let count = |node| tentative.iter().filter(|tentative| tentative.hello.node == node).count();
        let whose = if count(node) >= OF_ONE_NODE {
            Some(node)
        } else if tentative.len() >= UNDER_WAY {
            tentative.iter().rev().map(|tentative| tentative.hello.node).max_by_key(|node| count(*node))
        } else {
            None
        };
        let oldest = tentative.iter().position(|tentative| Some(tentative.hello.node) == whose);
        oldest.map(|place| tentative.remove(place));
    }
}

/// A session that begins: a node has proven that it has its keys.
pub(crate) struct Agreement {
    pub(crate) hello: Hello,
    /// The number that it is to put into its cells.
    pub(crate) session: u16,
    pub(crate) agreed: Agreed,
}

/// The outcome of a handshake cell.
pub(crate) enum Progress {
    /// Nothing, or only an answer.
    Nothing,
    /// A node does not know yet that this node has joined it; the caller treats its hello as a greeting.
    Greeted(Hello),
    /// This node joins a peer, and asks it for hellos at these addresses.
    Joins(Box<Agreement>, Vec<Route>),
    /// The peer of this index has new keys.
    Renewed(u16),
}

impl Sessions {
    /// A handshake cell arrived whose tag was made with the accepted group key at place `key`. `ours`: this node's hello on
    /// the link.
    pub(crate) fn handle_handshake(
        &mut self,
        now: Instant,
        origin: Origin,
        cell: &[u8],
        key: usize,
        ours: &Hello,
        out: &mut Outputs,
    ) -> Result<Progress, Malformed> {
        let tagged = Tagged::split(cell)?;
        let message = Message::parse(tagged.covered)?;
        if message.addressee != self.node || ours.leaves {
            return Ok(Progress::Nothing);
        }
        let progress = match message.step {
            Step::Initiation => self.handle_initiation(now, origin, &message, &tagged, (key, ours), out),
            Step::Response => self.handle_response(now, origin, &message, ours, out),
            Step::Cookie => {
                self.handle_cookie(origin, &message);
                None
            }
        };
        Ok(progress.unwrap_or(Progress::Nothing))
    }

    /// The next cell of a handshake to send.
    pub(crate) fn next_handshake(&mut self) -> Option<(Route, Vec<u8>)> {
        self.handshakes.outgoing.pop_front()
    }

    pub(crate) fn skip_serials(&mut self, node: NodeId) {
        self.handshakes.skip_serials(node);
    }

    pub(crate) fn handshakes_due(&self) -> Option<Instant> {
        self.handshakes.due()
    }

    pub(crate) fn forget_link(&mut self, number: u8) {
        self.handshakes.forget_link(number);
    }

    /// Sends initiations again, and drops handshakes that timed out.
    pub(crate) fn pass_handshakes(&mut self, now: Instant) {
        let handshakes = &mut self.handshakes;
        handshakes.pending.retain(|pending| !pending.is_over(now));
        handshakes.tentative.retain(|tentative| now < tentative.began + TENTATIVE_FOR);
        self.resend_initiations(now);
    }

    /// A message with its tag, made with the accepted group key at place `key`, and a stamp of zeros.
    fn tag_message(&self, key: usize, message: &Message<'_>) -> Vec<u8> {
        let mut cell = message.emit();
        if let Some(security) = &self.security {
            let tag = security.tag(key, &cell);
            cell.extend(tag);
            cell.extend([0; TAG]);
        }
        cell
    }

    /// The hello of the other side, which has this key, if it agrees with the fields that stand in the clear.
    fn introduced(
        &self,
        now: Instant,
        message: &Message<'_>,
        payload: &[u8],
        key: Option<PublicKey>,
        (ours, out): (&Hello, &mut Outputs),
    ) -> Option<Hello> {
        let hello = Hello::parse(payload).ok();
        let agrees = |hello: &Hello| hello.node == message.node && hello.incarnation == message.incarnation;
        let Some(hello) = hello.filter(|hello| agrees(hello) && hello.session != 0) else {
            out.counters.drop_malformed += 1;
            return None;
        };
        let is_allowed = |out| self.is_allowed(now, hello.node, key, out);
        (may_join(now, ours, &hello, &mut out.events) && is_allowed(out)).then_some(hello)
    }

    /// Whether a node with this key may be a peer.
    fn is_allowed(&self, now: Instant, node: NodeId, key: Option<PublicKey>, out: &mut Outputs) -> bool {
        let accepts = self.security.as_ref().is_none_or(|security| security.accepts(key.as_ref()));
        if !accepts {
            out.counters.drop_not_allowed += 1;
            out.events.refuse(now, node, Refusal::NotAllowed { key });
        }
        accepts
    }

    /// Whether a handshake that renews a peer's keys proves the key that the peer has. A node that knows the group key alone
    /// cannot take a session over.
    fn is_same(&self, now: Instant, index: u16, key: Option<PublicKey>, out: &mut Outputs) -> bool {
        let peer = self.table.get(index).and_then(|peer| Some((peer.node, peer.keys.as_ref()?.peer())));
        let Some((node, _)) = peer.filter(|(_, known)| *known != key) else { return true };
        out.counters.drop_forged += 1;
        out.events.refuse(now, node, Refusal::OtherKey { key });
        false
    }
}

/// A message of a handshake was rejected. Its tag is valid, so a member of the group has made it.
fn reject(now: Instant, node: NodeId, rejected: Rejected, out: &mut Outputs) {
    match rejected {
        Rejected::Forged => out.counters.drop_forged += 1,
        Rejected::Cipher(theirs) => out.events.refuse(now, node, Refusal::Cipher { theirs }),
    }
}

/// This node's hello in a handshake.
fn introduction(ours: &Hello, session: u16, your_session: u16) -> Vec<u8> {
    let hello = Hello { session, your_session, ..*ours };
    let mut payload = alloc::vec![0; HELLO_MAX];
    let length = hello.emit(&mut payload);
    payload.truncate(length);
    payload
}

/// Whether a node could be a peer of ours; if not, it is refused.
pub(crate) fn may_join(now: Instant, ours: &Hello, hello: &Hello, events: &mut Events) -> bool {
    let (ours, theirs) = (ours.workers, hello.workers);
    if ours != theirs {
        events.refuse(now, hello.node, Refusal::Workers { ours, theirs });
    }
    ours == theirs
}
