//! The table of sessions: one for each peer, by its index, with the session numbers of both directions.
//!
//! On the path a cell's session number gives its peer's index in one step.

use crate::session::keyring::Keyring;
use crate::session::peers::ByPeer;
use crate::time::Instant;
use crate::wire::cell::session_start;
use crate::wire::hello::{Hello, Name, NodeId};

/// Peers of one bundle: their index takes ten bits of the session number.
pub(crate) const PEERS_MAX: usize = 1 << SLOT_BITS;
const SLOT_BITS: u16 = 10;
/// Owner of the frames and cells of peers that are gone; no peer has this index.
pub(crate) const NOBODY: u16 = u16::MAX;

/// A session with a peer: another node of the bundle.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u64,
    /// The incarnation before this one: hellos of it are late or replayed.
    pub(crate) former: Option<u64>,
    /// The highest serial number of a handshake that this incarnation has begun and we have answered.
    pub(crate) serial_received: u32,
    /// When we have begun this session, if we have.
    pub(crate) begun: Option<Instant>,
    pub(crate) name: Name,
    pub(crate) takes_uso: bool,
    /// Its hellos say that it pauses for a handover.
    pub(crate) pauses: bool,
    /// The number that it puts into its cells to us.
    pub(crate) session_in: u16,
    /// The number that we put into our cells to it; 0 until it has given one.
    pub(crate) session_out: u16,
    /// The keys of its session, where cells are sealed.
    pub(crate) keys: Option<Keyring>,
    /// Its cells of later epochs than this node knows since one was opened.
    pub(crate) beyond: u8,
}

impl Session {
    /// A peer whose `hello` has arrived, before it has given us a session number.
    fn new(hello: &Hello, session_in: u16) -> Self {
        Self {
            node: hello.node,
            incarnation: hello.incarnation,
            name: hello.name,
            takes_uso: hello.takes_uso,
            session_in,
            ..Self::default()
        }
    }

    /// Whether both sides know each other's session number.
    pub(crate) fn is_joined(&self) -> bool {
        self.session_out != 0
    }

    /// The epoch of the key that seals what it gets; 0: nothing is sealed.
    pub(crate) fn epoch(&self) -> u8 {
        self.keys.as_ref().map_or(0, Keyring::epoch)
    }
}

/// The index of the peer whose cells carry this number.
const fn place(session: u16) -> u16 {
    session & ((1 << SLOT_BITS) - 1)
}

pub(crate) struct Table {
    slots: ByPeer<Session>,
    /// This node's.
    incarnation: u64,
    /// Session numbers drawn since start.
    drawn: u64,
}

impl Table {
    pub(crate) fn new(incarnation: u64) -> Self {
        Self { slots: ByPeer::default(), incarnation, drawn: 0 }
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Session> {
        self.slots.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Session> {
        self.slots.get_mut(index)
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = u16> + use<> {
        self.slots.indices()
    }

    /// The peer, if there is just one.
    pub(crate) fn only(&self) -> Option<u16> {
        let mut present = self.slots.iter();
        present.next().filter(|_| present.next().is_none()).map(|(index, _)| index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.values_mut()
    }

    pub(crate) fn find(&self, node: NodeId) -> Option<u16> {
        self.slots.iter().find(|(_, session)| session.node == node).map(|(index, _)| index)
    }

    /// The peer that puts this number into its cells to us.
    pub(crate) fn of_session(&self, number: u16) -> Option<u16> {
        let index = place(number);
        self.get(index).filter(|session| session.session_in == number).map(|_| index)
    }

    /// Where the peer's numbers of links and lanes begin.
    pub(crate) fn first_in(&self, index: u16) -> Option<u64> {
        let session = self.get(index)?;
        Some(session_start(session.incarnation, self.incarnation, session.session_in))
    }

    /// Where ours to the peer begin, once it has given us a session number.
    pub(crate) fn first_out(&self, index: u16) -> Option<u64> {
        let session = self.get(index).filter(|session| session.is_joined())?;
        Some(session_start(self.incarnation, session.incarnation, session.session_out))
    }

    /// Admits a new peer under a session number that was drawn for it, and whose place is vacant.
    pub(crate) fn admit(&mut self, hello: &Hello, number: u16) -> u16 {
        let index = place(number);
        debug_assert!(self.get(index).is_none(), "one peer in each place");
        self.slots.insert(index, Session::new(hello, number));
        index
    }

    /// A session number for the peer at an index, or for a newcomer; none of the `promised` ones. `None`: all places are
    /// taken.
    pub(crate) fn draw_session(&mut self, known: Option<u16>, promised: &[u16]) -> Option<u16> {
        const NONCES: u64 = (1 << (16 - SLOT_BITS)) - 1;
        let is_free = |index: &u16| {
            self.get(*index).is_none() && promised.iter().all(|session| place(*session) != *index)
        };
        #[expect(clippy::cast_possible_truncation, reason = "ten bits")]
        let index = known.or_else(|| (0..PEERS_MAX as u16).find(is_free))?;
        let live = self.get(index).map(|peer| peer.session_in);
        (0..NONCES).find_map(|_| {
            self.drawn = self.drawn.wrapping_add(1);
            // Session numbers of successive peers and of successive starts differ.
            // The upper bits are never 0, so no session is.
            let nonce = (self.incarnation.wrapping_add(self.drawn) % NONCES) as u16 + 1;
            let session = nonce << SLOT_BITS | index;
            (live != Some(session) && !promised.contains(&session)).then_some(session)
        })
    }

    /// Begins a session anew under the number that it has.
    pub(crate) fn renew(&mut self, index: u16, hello: &Hello) {
        let Some(session) = self.get_mut(index) else { return };
        *session = Session { former: session.former, ..Session::new(hello, session.session_in) };
    }

    pub(crate) fn remove(&mut self, index: u16) -> Option<NodeId> {
        Some(self.slots.remove(index)?.node)
    }
}
