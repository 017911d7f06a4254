//! A peer: another node of the bundle, with the state of the lanes and links that lead to it.

use crate::link::health::LATELY;
use crate::link::inbound::{self, Inbound};
use crate::link::outbound::Outbound;
use crate::receive::pool::Pool;
use crate::receive::reassemble::Unpack;
use crate::receive::reorder::Reorder;
use crate::receive::reorder_timeout::Hold;
use crate::send::repair::Budget;
use crate::session::keyring::Keyring;
use crate::time::Instant;
use crate::wire::cell::{LANES, LINKS, session_start};
use crate::wire::hello::{Hello, Name, NodeId};
use crate::wire::repair::Request;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

/// Peers of one bundle: their index takes ten bits of the session number.
pub(crate) const PEERS_MAX: usize = 1 << SLOT_BITS;
const SLOT_BITS: u16 = 10;
/// Whose the cells and frames of a peer are that is gone; no peer has this index.
pub(crate) const NOBODY: u16 = u16::MAX;
/// The links of a peer that has joined are up after this time, or never: heartbeats are quick until then.
const RISES_WITHIN: Duration = Duration::from_millis(100);

/// The receiving side of a lane.
#[derive(Debug, Default)]
pub(crate) struct LaneIn {
    pub(crate) reorder: Reorder,
    pub(crate) unpack: Unpack,
    /// Its part of [`Peers::surplus`].
    pub(crate) surplus: usize,
}

impl LaneIn {
    /// The buffers in which its cells and pieces lie.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = u16> {
        self.reorder.buffers().chain(self.unpack.buffers())
    }
}

/// A peer's state.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u64,
    /// The incarnation before this one: hellos of it are late or replayed.
    pub(crate) former: Option<u64>,
    /// The highest serial number of a handshake that this incarnation has begun and we have answered.
    pub(crate) serial_heard: u32,
    /// When we have begun this session, if we have.
    pub(crate) begun: Option<Instant>,
    pub(crate) name: Name,
    pub(crate) takes_uso: bool,
    /// The number that it puts into its cells to us.
    pub(crate) session_in: u16,
    /// The number that we put into our cells to it; 0 until it has said one.
    pub(crate) session_out: u16,
    /// The keys of its session, where cells are sealed.
    pub(crate) keys: Option<Keyring>,
    /// Our links to it, by port.
    pub(crate) outbound: Vec<Outbound>,
    /// For each port, the peer's number of the link that ends there.
    pub(crate) paired: Vec<Option<u8>>,
    /// Its links to us, by its numbers.
    pub(crate) inbound: Vec<Inbound>,
    /// The number of the next cell of each lane to it.
    pub(crate) lanes_out: [u64; LANES],
    pub(crate) lanes_in: [LaneIn; LANES],
    /// Lanes with a gap, a bit each.
    pub(crate) gapped: u16,
    pub(crate) hold: Hold,
    /// What is to be asked for again, and until when that is worth it.
    pub(crate) missing: Request,
    pub(crate) missing_until: Instant,
    /// What it was asked for last.
    pub(crate) requested: Request,
    /// It says that it makes way for its successor.
    pub(crate) pauses: bool,
    /// What may still be sent to it again.
    pub(crate) repairs: Budget,
    /// When it gave us its session number.
    pub(crate) joined_at: Instant,
    /// When the next heartbeat is due.
    pub(crate) heartbeat_at: Instant,
    /// The serial number of the last heartbeat to it.
    pub(crate) serial: u16,
    /// `sent_at` and `serial` of the latest heartbeat that was obeyed.
    pub(crate) latest_report: Option<(u32, u16)>,
    /// When its links are judged next.
    pub(crate) judge_at: Instant,
    /// Its number is in [`Peers::touched`].
    touched: bool,
}

impl Peer {
    /// A peer that has said `hello`, before it has given us a session number. `ours` is our incarnation.
    pub(crate) fn new(now: Instant, hello: &Hello, ours: u64, session_in: u16, ports: usize) -> Self {
        let first = session_start(hello.incarnation, ours, session_in);
        Self {
            node: hello.node,
            incarnation: hello.incarnation,
            former: None,
            serial_heard: 0,
            begun: None,
            name: hello.name,
            takes_uso: hello.takes_uso,
            session_in,
            session_out: 0,
            keys: None,
            outbound: (0..ports).map(|_| Outbound::new(now)).collect(),
            paired: (0..ports).map(|_| None).collect(),
            inbound: (0..LINKS).map(|_| Inbound::new(now, first)).collect(),
            lanes_out: [0; LANES],
            lanes_in: core::array::from_fn(|_| LaneIn { reorder: Reorder::new(first), ..LaneIn::default() }),
            gapped: 0,
            hold: Hold::new(now),
            missing: Request::default(),
            missing_until: now,
            requested: Request::default(),
            pauses: false,
            repairs: Budget::default(),
            joined_at: now,
            heartbeat_at: now,
            serial: 0,
            latest_report: None,
            judge_at: now,
            touched: true,
        }
    }

    /// The peer has given us a session number. `ours` is our incarnation.
    pub(crate) fn join(&mut self, ours: u64, session: u16) {
        self.session_out = session;
        let first = session_start(ours, self.incarnation, session);
        self.lanes_out = [first; LANES];
        self.outbound.iter_mut().for_each(|link| link.begin(first));
    }

    /// One more port of ours, whose numbers begin where those of all links of the session did. `ours` is our incarnation.
    pub(crate) fn add_port(&mut self, now: Instant, ours: u64) {
        let mut link = Outbound::new(now);
        if self.is_joined() {
            link.begin(session_start(ours, self.incarnation, self.session_out));
        }
        self.outbound.push(link);
        self.paired.push(None);
    }

    /// Whether both sides know each other's session number.
    pub(crate) fn is_joined(&self) -> bool {
        self.session_out != 0
    }

    /// The epoch of the key that seals what it gets; 0: nothing is sealed.
    pub(crate) fn epoch(&self) -> u8 {
        self.keys.as_ref().map_or(0, Keyring::epoch)
    }

    /// Whether some link to it is up, or might be.
    pub(crate) fn is_reachable(&self) -> bool {
        self.is_joined() && self.outbound.iter().any(|link| link.up || link.doubted)
    }

    /// Whether it has just joined, and its links have not had the time to prove themselves.
    pub(crate) fn is_rising(&self, now: Instant) -> bool {
        self.is_joined() && now.since(self.joined_at) < RISES_WITHIN && self.links_heard() == 0
    }

    /// Whether anything can be sent to it.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_joined() && self.outbound.iter().any(|link| link.up)
    }

    /// It was heard now. If it was silent on all links before, it did not run, and that is no fault of the slower ones.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        let is_first =
            |link: &Inbound| link.health.heard() == now || now.since(link.health.heard()) >= LATELY;
        if self.inbound.iter().all(is_first) {
            self.inbound.iter_mut().for_each(|link| link.health.handle_pause(now));
        }
    }

    /// Cells heard from it over all links.
    pub(crate) fn cells_heard(&self) -> u64 {
        self.inbound.iter().map(|link| link.heard).sum()
    }

    /// There is something to say to it at once, over all links.
    pub(crate) fn beat_at_once(&mut self, now: Instant) {
        self.heartbeat_at = now;
        self.outbound.iter_mut().for_each(|link| link.beat.hasten());
    }

    /// The links from it that may still bring cells, a bit each.
    pub(crate) fn links_heard(&self) -> u16 {
        let brings = |link: &Inbound| link.health.is_up() || link.lingers;
        (0..LINKS).filter(|link| brings(&self.inbound[*link])).fold(0, |bits, link| bits | 1 << link)
    }

    /// When any of its links was heard last.
    pub(crate) fn heard(&self) -> Instant {
        self.inbound.iter().map(|link| link.health.heard()).max().unwrap_or_default()
    }

    /// The delay of its fastest link that is up.
    pub(crate) fn fastest(&self) -> Option<u32> {
        let up = self.inbound.iter().filter(|link| link.health.is_up());
        up.filter_map(Inbound::delay).reduce(inbound::faster)
    }

    /// The round trip over its slowest link that is up.
    pub(crate) fn round_trip(&self) -> Duration {
        let up = self.outbound.iter().filter(|link| link.up);
        up.filter_map(|link| link.round_trip).max().unwrap_or_default()
    }

    /// How long a gap is waited for now.
    pub(crate) fn gap_wait(&mut self, now: Instant, repair: bool) -> Duration {
        self.hold.wait(now, repair.then(|| self.round_trip()))
    }

    /// When the oldest gap is given up; the wait is `wait`.
    fn gap_deadline(&self, wait: Duration) -> Option<Instant> {
        self.gapped_lanes()
            .filter_map(|lane| self.lanes_in[lane].reorder.waits_since())
            .min()
            .map(|since| since + wait)
    }

    /// Bytes of memory that its state takes.
    pub(crate) fn bytes(&self) -> usize {
        let outbound = self.outbound.iter().map(|link| size_of_val(link) + link.bytes()).sum::<usize>();
        let lanes =
            self.lanes_in.iter().map(|lane| lane.reorder.bytes() + lane.unpack.bytes()).sum::<usize>();
        size_of_val(self) + outbound + lanes + size_of_val(&*self.paired) + size_of_val(&*self.inbound)
    }

    /// When something is to be done for it, at the latest.
    fn due(&mut self, now: Instant, repair: bool) -> Instant {
        let due = self.heartbeat_at.min(self.judge_at);
        if self.gapped == 0 {
            return due;
        }
        let wait = self.gap_wait(now, repair);
        self.gap_deadline(wait).map_or(due, |at| due.min(at))
    }

    /// Lanes with a gap.
    pub(crate) fn gapped_lanes(&self) -> impl Iterator<Item = usize> + use<> {
        let gapped = self.gapped;
        (0..LANES).filter(move |lane| gapped & 1 << lane != 0)
    }

    /// Places that its lanes have beyond those that empty ones keep.
    pub(crate) fn surplus(&self) -> usize {
        self.lanes_in.iter().map(|lane| lane.surplus).sum()
    }

    /// Gives all held cells back to the pool.
    fn release(&mut self, pool: &mut Pool) {
        for lane in &mut self.lanes_in {
            lane.reorder.drain().for_each(|cell| pool.release(cell.payload.buffer));
            lane.unpack.discard(pool);
        }
    }
}

/// The place of a peer whose cells carry this number.
const fn place(session: u16) -> u16 {
    session & ((1 << SLOT_BITS) - 1)
}

/// Of a number that no peer has.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// All peers, by index.
///
/// What is done for each frame costs the same however many there are: who is due is looked up in a flat table, which is
/// brought up to date for those alone whose state may have changed.
#[derive(Debug)]
pub(crate) struct Peers {
    slots: Vec<Option<Box<Peer>>>,
    /// When each is due, by index.
    due: Vec<Instant>,
    /// Those whose `due` may be out of date.
    touched: Vec<u16>,
    /// This node's.
    incarnation: u64,
    /// Peers admitted since start.
    admitted: u64,
    /// Places that all lanes together have beyond those that empty ones keep.
    surplus: usize,
}

impl Peers {
    /// No peers. `incarnation` is this node's.
    pub(crate) fn new(incarnation: u64) -> Self {
        let (slots, due, touched) = (Vec::new(), Vec::new(), Vec::new());
        Self { slots, due, touched, incarnation, admitted: 0, surplus: 0 }
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Peer> {
        self.slots.get(usize::from(index))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Peer> {
        let peer = self.slots.get_mut(usize::from(index))?.as_deref_mut()?;
        if !peer.touched {
            peer.touched = true;
            self.touched.push(index);
        }
        Some(peer)
    }

    /// Places that all lanes together have beyond those that empty ones keep.
    pub(crate) fn surplus(&self) -> usize {
        self.surplus
    }

    /// A lane had so many of these places, and has so many.
    pub(crate) fn count_surplus(&mut self, had: usize, has: usize) {
        self.surplus = self.surplus - had + has;
    }

    /// All numbers that peers have, and some that none has.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u16> + use<> {
        #[expect(clippy::cast_possible_truncation, reason = "below PEERS_MAX")]
        let end = self.slots.len() as u16;
        0..end
    }

    /// When something is to be done for any of them, at the latest.
    pub(crate) fn due(&mut self, now: Instant, repair: bool) -> Option<Instant> {
        self.touched.retain(|index| {
            let index = usize::from(*index);
            let Some(peer) = &mut self.slots[index] else { return false };
            self.due[index] = peer.due(now, repair);
            // The time for which a gap is waited depends on the time.
            peer.touched = peer.gapped != 0;
            peer.touched
        });
        self.due.iter().min().copied().filter(|due| *due != NEVER)
    }

    /// Puts the numbers of those that are due into `overdue`.
    pub(crate) fn list_overdue(&mut self, now: Instant, repair: bool, overdue: &mut Vec<u16>) {
        overdue.clear();
        self.due(now, repair);
        overdue.extend((0..).zip(&self.due).filter(|(_, due)| **due <= now).map(|(index, _)| index));
    }

    /// The peer, if there is just one.
    pub(crate) fn only(&self) -> Option<u16> {
        let mut present = self.slots.iter().zip(0..).filter(|(slot, _)| slot.is_some());
        present.next().filter(|_| present.next().is_none()).map(|(_, index)| index)
    }

    /// All peers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.slots.iter().flatten().map(Box::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.touched.clear();
        self.touched.extend(self.indices());
        self.slots.iter_mut().flatten().map(|peer| {
            peer.touched = true;
            &mut **peer
        })
    }

    pub(crate) fn find(&self, node: NodeId) -> Option<u16> {
        self.indices().find(|index| self.get(*index).is_some_and(|peer| peer.node == node))
    }

    /// The peer that puts `session` into its cells to us.
    pub(crate) fn of_session(&self, session: u16) -> Option<u16> {
        let index = place(session);
        self.get(index).filter(|peer| peer.session_in == session).map(|_| index)
    }

    /// Takes a new peer in; `None` when the bundle is full.
    pub(crate) fn admit(&mut self, now: Instant, hello: &Hello, ports: usize) -> Option<u16> {
        let session = self.draw_session(None, &[])?;
        Some(self.admit_as(now, hello, session, ports))
    }

    /// Takes a new peer in under a session number that was drawn for it, and whose place is vacant.
    pub(crate) fn admit_as(&mut self, now: Instant, hello: &Hello, session: u16, ports: usize) -> u16 {
        let index = place(session);
        let vacant = usize::from(index);
        let peer = Box::new(Peer::new(now, hello, self.incarnation, session, ports));
        if vacant >= self.slots.len() {
            self.slots.resize_with(vacant + 1, || None);
            self.due.resize(vacant + 1, NEVER);
        }
        debug_assert!(self.slots[vacant].is_none(), "one peer in each place");
        self.slots[vacant] = Some(peer);
        self.touched.push(index);
        index
    }

    /// A session number for the peer in a place, or for a newcomer, which is none of those that are `promised`. `None`:
    /// all places are taken.
    pub(crate) fn draw_session(&mut self, known: Option<u16>, promised: &[u16]) -> Option<u16> {
        const NONCES: u64 = (1 << (16 - SLOT_BITS)) - 1;
        let is_free = |index: &u16| {
            self.get(*index).is_none() && promised.iter().all(|session| place(*session) != *index)
        };
        #[expect(clippy::cast_possible_truncation, reason = "ten bits")]
        let index = known.or_else(|| (0..PEERS_MAX as u16).find(is_free))?;
        let live = self.get(index).map(|peer| peer.session_in);
        (0..NONCES).find_map(|_| {
            self.admitted = self.admitted.wrapping_add(1);
            // Session numbers of successive peers and of successive starts differ.
            // The upper bits are never 0, so no session is.
            let nonce = (self.incarnation.wrapping_add(self.admitted) % NONCES) as u16 + 1;
            let session = nonce << SLOT_BITS | index;
            (live != Some(session) && !promised.contains(&session)).then_some(session)
        })
    }

    /// Begins a peer's state anew under the number that it has.
    pub(crate) fn renew(&mut self, index: u16, now: Instant, hello: &Hello, pool: &mut Pool) {
        let ours = self.incarnation;
        let Some(peer) = self.get_mut(index) else { return };
        peer.release(pool);
        let surplus = peer.surplus();
        let (session, former, ports) = (peer.session_in, peer.former, peer.outbound.len());
        *peer = Peer { former, ..Peer::new(now, hello, ours, session, ports) };
        self.count_surplus(surplus, 0);
    }

    /// Drops a peer's state.
    pub(crate) fn remove(&mut self, index: u16, pool: &mut Pool) -> Option<NodeId> {
        let mut peer = self.slots.get_mut(usize::from(index))?.take()?;
        self.due[usize::from(index)] = NEVER;
        peer.release(pool);
        self.count_surplus(peer.surplus(), 0);
        Some(peer.node)
    }
}
