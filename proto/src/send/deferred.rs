//! Frames for peers that make way for their successors: they wait here until the successor has joined.
//!
//! Beside the path, between [`crate::send::segment`] and [`crate::send::queue`]. A peer that pauses ([`crate::group::handover`]) is sent what
//! was taken for it already; what comes from the device then waits as whole records, without numbers and outside of the
//! ring, in a room of its own. So it holds up nobody else's frames, and goes to whatever session, place and cell size
//! the successor has.
//!
//! Invariant: [`ROOMS`] rooms at most, each of [`ROOM_BYTES`] at most; the frames of a room leave in their order.

use crate::link::paths::Paths;
use crate::policy::class::Treatment;
use crate::send::queue::{Flow, Place};
use crate::send::ring::Cell;
use crate::send::{Around, Sender};
use crate::session::Sessions;
use crate::session::table::Session;
use crate::time::Instant;
use crate::wire::hello::NodeId;
use crate::wire::record::{PREFIX, RECORD_MAX};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Peers for which frames wait at once; others lose what is under way during their change.
const ROOMS: usize = 8;
/// What waits for one peer: what comes at 1 Gbit/s in 16 ms, about as long as a change takes.
const ROOM_BYTES: usize = 2 << 20;

#[derive(Default)]
pub(crate) struct Deferred {
    rooms: Vec<Room>,
}

/// What waits for one node.
struct Room {
    node: NodeId,
    /// The incarnation that makes way.
    incarnation: u64,
    /// When the frames leave at the latest, be there a successor or not.
    until: Instant,
    /// Records, one after the other; those before `gone` have left.
    bytes: Vec<u8>,
    gone: usize,
    frames: VecDeque<Waiting>,
}

/// How a frame goes on, and how long its record is.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    flow: Flow,
    lane: u8,
    treatment: Treatment,
    record: usize,
}

impl Deferred {
    /// Frames for this incarnation of a node wait from now on, if there is a room left. Returns whether a room was made.
    pub(crate) fn open(&mut self, node: NodeId, incarnation: u64, until: Instant) -> bool {
        let is_free = self.rooms.len() < ROOMS && !self.has_room(node);
        if is_free {
            let bytes = Vec::with_capacity(ROOM_BYTES);
            self.rooms.push(Room { node, incarnation, until, bytes, gone: 0, frames: VecDeque::new() });
        }
        is_free
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }

    /// Whether frames for a node wait.
    pub(crate) fn has_room(&self, node: NodeId) -> bool {
        self.rooms.iter().any(|room| room.node == node)
    }

    /// Whether a further frame for a node might be dropped.
    fn is_full(&self, node: NodeId) -> bool {
        self.rooms.iter().any(|room| room.node == node && room.is_full())
    }

    /// When a room has to be left whose time is not over by `now`.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.rooms.iter().map(|room| room.until).filter(|until| *until > now).min()
    }

    /// A frame waits, unless too much does; returns whether.
    fn push(&mut self, node: NodeId, like: Cell, flow: Flow, record: &[u8]) -> bool {
        let Some(room) = self.rooms.iter_mut().find(|room| room.node == node && !room.is_full()) else {
            return false;
        };
        room.bytes.extend_from_slice(record);
        let Cell { lane, treatment, .. } = like;
        room.frames.push_back(Waiting { flow, lane, treatment, record: record.len() });
        true
    }
}

impl Room {
    fn is_full(&self) -> bool {
        self.bytes.len() + RECORD_MAX > ROOM_BYTES
    }

    /// Puts the record of the next frame into `record`, and takes it out of the room.
    fn pop(&mut self, record: &mut Vec<u8>) -> Option<Waiting> {
        let next = self.frames.pop_front()?;
        record.clear();
        record.extend_from_slice(&self.bytes[self.gone..self.gone + next.record]);
        self.gone += next.record;
        Some(next)
    }
}

impl Sender {
    pub(super) fn is_deferred(&self, peer: u16, sessions: &Sessions) -> bool {
        !self.deferred.is_empty()
            && sessions.table().get(peer).is_some_and(|peer| self.deferred.has_room(peer.node))
    }

    /// Whether nothing can be done with a frame but drop it: all that could come is for a peer that has no room left.
    pub(super) fn awaits_successor(&self, sessions: &Sessions) -> bool {
        let only = || sessions.table().only().and_then(|index| sessions.table().get(index));
        !self.deferred.is_empty() && only().is_some_and(|peer| self.deferred.is_full(peer.node))
    }

    /// The record in `scratch` waits for the successor of a peer.
    pub(super) fn defer(&mut self, like: Cell, place: Place, around: &mut Around<'_>) {
        let Some(peer) = around.sessions.table().get(like.peer) else { return };
        if !self.deferred.push(peer.node, like, place.flow, &self.scratch) {
            around.counters.drop_deferred += 1;
        }
    }

    /// Frames whose peer is there again, or whose time is over, go on as if they had just been read.
    pub(crate) fn readmit(&mut self, now: Instant, around: &mut Around<'_>) {
        let mut place = 0;
        while place < self.deferred.rooms.len() {
            let room = &self.deferred.rooms[place];
            if now < room.until && !is_back(room, around) {
                place += 1;
            } else if self.empty_room(now, place, around) {
                self.deferred.rooms.remove(place);
            } else {
                return;
            }
        }
    }

    /// Queues what waits in a room, as far as there is space; returns whether nothing is left.
    fn empty_room(&mut self, now: Instant, place: usize, around: &mut Around<'_>) -> bool {
        let peer = around.sessions.table().find(self.deferred.rooms[place].node);
        while !self.fit.is_changing && !self.ring.is_nearly_full() {
            let Some(next) = self.deferred.rooms[place].pop(&mut self.scratch) else { return true };
            let Waiting { flow, lane, treatment, record } = next;
            match peer {
                Some(peer) => {
                    let like = Cell { peer, lane, treatment, ..Cell::default() };
                    self.append_record(now, like, self.queue.place(peer, flow), record - PREFIX, around);
                }
                None => around.counters.drop_no_link += 1,
            }
        }
        false
    }
}

/// Whether a peer can be sent to again: its successor has joined, or it goes on itself.
fn is_back(room: &Room, around: &Around<'_>) -> bool {
    let table = around.sessions.table();
    let goes_on = |peer: &Session| peer.incarnation != room.incarnation || !peer.pauses;
    let index = table.find(room.node).filter(|index| table.get(*index).is_some_and(goes_on));
    index.and_then(|index| around.links.paths(index)).is_some_and(Paths::is_reachable)
}
