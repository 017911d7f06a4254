//! Which flows go by links that are too far away to share a flow with the others.
//!
//! Beside [`crate::send::lane`]. A link that is [`FAR`](crate::link::paths::FAR) away carries no part of a flow, for TCP would wait for it
//! each time. It carries whole flows. While the near links hold cells back and the far ones do not, the heaviest of several bulky flows
//! goes to the far links, in a lane that only such flows use. When the near links have room again, a flow comes back. One flow moves at a
//! time, and not often: TCP needs some round trips until it fills another way.
//!
//! Invariant: a flow keeps its order. What it sends by far links arrives after what it sent before; one that comes back waits until all
//! has arrived that it sent by far links.

use crate::link::paths::Reach;
use crate::policy::{Choice, PolicyKind};
use crate::send::lane::Weights;
use crate::send::ring::Cell;
use crate::send::{Peer, Sender};
use crate::time::Instant;
use core::time::Duration;

/// How often it is decided whether a flow moves.
const PERIOD: Duration = Duration::from_secs(1);
/// Links are full that have held cells back for a [`PERIOD`] with no break as long as this one.
const BREAK: Duration = Duration::from_millis(250);
/// Links that have held no cell back for so long have room.
const ROOM_AFTER: Duration = Duration::from_secs(1);
/// TCP finds out within so much time, and so many times the distance, what another way carries.
const SETTLES: Duration = Duration::from_secs(4);
const SETTLES_DISTANCES: u32 = 8;
/// What was sent by a far link has arrived after so many distances, a queue there included.
const ARRIVES_DISTANCES: u32 = 2;

/// When some links held cells back.
#[derive(Clone, Copy, Debug, Default)]
struct HeldBack {
    since: Instant,
    last: Instant,
}

impl HeldBack {
    fn note(&mut self, now: Instant) {
        if now.since(self.last) > BREAK {
            self.since = now;
        }
        self.last = now;
    }

    fn is_full(&self, now: Instant) -> bool {
        now.since(self.last) <= BREAK && now.since(self.since) >= PERIOD
    }

    fn has_room(&self, now: Instant) -> bool {
        now.since(self.last) > ROOM_AFTER
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Away(usize),
    Back(usize),
}

/// The far links to one peer, beside its near ones.
#[derive(Debug, Default)]
pub(super) struct FarLinks {
    /// How much later cells come over the nearest of them than over the nearest of all; `None`: no link is far.
    distance: Option<Duration>,
    near: HeldBack,
    far: HeldBack,
    decides_at: Instant,
    /// The lane that a flow has left which comes back and has sent nothing since.
    left: Option<u8>,
    /// When all has arrived that was sent in that lane.
    returns_at: Instant,
}

impl FarLinks {
    pub(super) fn note_choices(&mut self, choices: &[Choice]) {
        let far = choices.iter().filter(|choice| choice.is_far);
        self.distance = far.map(|choice| choice.skew).min();
    }

    /// Which flow moves, if it is time to decide that.
    fn decide(&mut self, now: Instant, weigh: impl FnOnce() -> Weights) -> Option<Move> {
        if now < self.decides_at {
            return None;
        }
        self.decides_at = now + PERIOD;
        let Weights { bulky, near, far } = weigh();
        if self.near.is_full(now) && self.far.has_room(now) && bulky > 1 {
            return near.map(Move::Away);
        }
        far.filter(|_| self.near.has_room(now)).map(Move::Back)
    }
}

impl Sender {
    /// A flow sends so many bytes to a peer: now and then one of those to that peer moves.
    pub(super) fn move_flows(&mut self, now: Instant, like: Cell, flow: u64, bytes: usize) {
        let Some(peer) = self.peers.get_mut(like.peer) else { return };
        let (far_links, lanes) = (&mut peer.far_links, &mut self.flow_lanes);
        let Some(distance) = far_links.distance else { return };
        if self.policies.of(like.treatment).kind() != PolicyKind::Adaptive {
            return;
        }
        lanes.count(flow, like.peer, bytes);
        let settles = SETTLES + SETTLES_DISTANCES * distance;
        match far_links.decide(now, || lanes.weigh(like.peer)) {
            Some(Move::Away(flow)) if lanes.send_away(now, flow) => far_links.decides_at = now + settles,
            Some(Move::Back(flow)) => {
                let Some(left) = lanes.bring_back(now, flow) else { return };
                (far_links.left, far_links.returns_at) = (Some(left), now + ARRIVES_DISTANCES * distance);
                far_links.decides_at = now + settles;
            }
            _ => {}
        }
    }

    /// By which links a flow to a peer goes now.
    pub(super) fn reach(&mut self, peer: u16, flow: u64) -> Reach {
        let has_returned = self.peers.get(peer).is_none_or(|peer| peer.far_links.left.is_none());
        self.flow_lanes.reach(peer, flow, has_returned)
    }

    /// When a cell to a peer may leave that waits for what its flow has sent before by far links.
    pub(super) fn returns_at(&self, now: Instant, peer: u16, reach: Reach) -> Option<Instant> {
        let peer = self.peers.get(peer).filter(|_| reach == Reach::Returns)?;
        Some(peer.far_links.returns_at).filter(|at| now < *at)
    }

    /// A cell was sent for the first time.
    pub(super) fn note_sent(&mut self, now: Instant, cell: &Cell) {
        let Some(peer) = self.peers.get_mut(cell.peer) else { return };
        let links = &mut peer.far_links;
        match cell.treatment.reach {
            Reach::Near => {}
            Reach::Far if links.left == Some(cell.lane) => {
                links.returns_at = now + ARRIVES_DISTANCES * links.distance.unwrap_or_default();
            }
            Reach::Far => {}
            Reach::Returns => links.left = None,
        }
    }

    /// The links that a cell to a peer may take hold it back.
    pub(super) fn note_held_back(&mut self, now: Instant, peer: u16, reach: Reach) {
        let Some(Peer { far_links: links, .. }) = self.peers.get_mut(peer) else { return };
        if reach == Reach::Far { &mut links.far } else { &mut links.near }.note(now);
    }
}
