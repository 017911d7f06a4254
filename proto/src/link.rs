//! Links: what each of this node's links carries, and whether the paths over them to each peer work.
//!
//! ```text
//!   nic        a link; nic_queue: its queue and rate     paths      the paths to one peer, each way
//!   nic_load   a NIC's speed, and what others send over it
//!   outbound   a path as its sender sees it: numbers, receipts;    inbound    as its receiver does: numbers, delay
//!   heartbeat  what both ends report of paths            heartbeat_pacing   how often
//!   path_mtu   how long cells may be on the way of a path
//!   congestion how much may be on the way of a path, by the queue that its bottleneck has;    ceiling   what is stated
//!   health     which path is dead: hold_down, incast;    loss   which one is suspect
//!   watch      what either end knows of a black hole: black_hole, gaps, adaptive_timeout
//!   carried    what programs carry beside cells
//! ```
//!
//! When a path is left, [`Links::take_lost`] names the cells that may be lost with it; the sender repeats them over others.

mod adaptive_timeout;
pub(crate) mod black_hole;
pub(crate) mod carried;
mod ceiling;
pub(crate) mod congestion;
mod gaps;
pub(crate) mod health;
mod heartbeat;
mod heartbeat_pacing;
mod hold_down;
pub(crate) mod inbound;
mod incast;
mod loss;
pub(crate) mod nic;
pub(crate) mod nic_load;
mod nic_queue;
pub(crate) mod outbound;
mod path_mtu;
pub(crate) mod paths;
mod watch;

use crate::link::carried::Carried;
use crate::link::health::{Change, LATELY};
use crate::link::inbound::Inbound;
use crate::link::nic::{Link, LinkSettings, Presence};
use crate::link::outbound::Outbound;
use crate::link::paths::Paths;
use crate::outputs::event::{Direction, Event, Signal};
use crate::outputs::{Control, Outputs};
use crate::session::Origin;
use crate::session::peers::ByPeer;
use crate::time::Instant;
use crate::wire::cell::{Header, Kind, LINKS, unwrap_seq, wire_seq};
use crate::wire::hello::NodeId;
use crate::wire::numbered::Numbered;
use crate::wire::repair::Request;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut, Range};
use core::time::Duration;

/// After an error on our side, the peer's reports are not believed for this long.
const DISTRUST: Duration = Duration::from_millis(100);
/// A process that replaces another one meets its peers within this.
const SUCCEEDS_FOR: Duration = Duration::from_secs(2);
/// Of a number that no peer has.
const NEVER: Instant = Instant::from_nanos(u64::MAX);
#[expect(clippy::cast_possible_truncation, reason = "LINKS is 16")]
const LINKS_U8: u8 = LINKS as u8;

/// What went out over a path under these numbers may be lost.
pub(crate) struct Lost {
    pub(crate) peer: u16,
    pub(crate) link: u8,
    pub(crate) numbers: Range<u64>,
}

/// This node's links, and the paths over them to all peers.
///
/// What is done for each frame costs the same however many peers there are: who is due is looked up in a flat table, which
/// is brought up to date for those alone whose state may have changed.
#[derive(Default)]
pub(crate) struct Links {
    own: Numbered<Vec<Link>>,
    peers: ByPeer<Paths>,
    /// When each is due, by index.
    due: Vec<Instant>,
    /// Those whose `due` may be out of date.
    touched: Vec<u16>,
    lost: Vec<Lost>,
    /// A path takes cells again.
    opened: bool,
    /// What paths carry has changed, or which of them can be used.
    resized: bool,
    /// A peer has received what was not sent.
    rolled_back: bool,
    /// Whether lost cells are sent again.
    repair: bool,
    /// Peers that are there before this have had links to this node's former process: they are not new.
    succeeds_until: Instant,
}

impl Links {
    pub(crate) fn new(now: Instant, links: Vec<LinkSettings>, repair: bool) -> Self {
        let own = Numbered(links.into_iter().map(|settings| Link::new(now, settings)).collect());
        Self { own, repair, ..Self::default() }
    }

    /// This node's links, by number.
    pub(crate) fn all(&self) -> &[Link] {
        &self.own
    }

    /// What each number leads to: of a twin, the link that it belongs to.
    pub(crate) fn by_number(&self) -> impl Iterator<Item = &Link> + Clone {
        by_number(&self.own)
    }

    /// The link whose socket this one uses: itself, unless it is a twin.
    pub(crate) fn socket(&self, link: u8) -> u8 {
        socket(&self.own, link)
    }

    /// The link and its twins.
    pub(crate) fn ways(&self, link: u8) -> impl Iterator<Item = u8> + use<> {
        let numbers = (0..LINKS_U8).filter(|number| usize::from(*number) < self.own.len());
        let ways = numbers.filter(|number| self.socket(*number) == link);
        let ways = ways.fold(0u16, |ways, number| ways | 1 << number);
        (0..LINKS_U8).filter(move |number| ways & 1 << number != 0)
    }

    /// Our link at which the peer's link `theirs` ends, if what comes from it arrives in the socket of this one.
    pub(crate) fn end_of(&self, theirs: u8, link: u8) -> u8 {
        let is_twin = |own: &Link| own.presence == Presence::Twin { of: link };
        if self.own.get(usize::from(theirs)).is_some_and(is_twin) { theirs } else { link }
    }

    /// Whether the peer's link `theirs` sends to a link that waits for whoever comes, where another of its links ends, and its number
    /// is free here.
    pub(crate) fn lacks_twin(&self, index: u16, (link, theirs): (u8, u8)) -> bool {
        let settings = &self[link].settings;
        let listens = settings.greet.is_empty() && !settings.multicast;
        let paired = self.paths(index).map(|paths| (paths.paired[link], paths.paired_with(theirs)));
        let is_further = matches!(paired, Some((Some(other), None)) if other != theirs);
        listens && is_further && self.own.get(usize::from(theirs)).is_none_or(Link::is_vacant)
    }

    /// A link gets a twin for the peer's link `theirs` if that lacks one; whether it did.
    pub(crate) fn add_twin(&mut self, now: Instant, index: u16, (link, theirs): (u8, u8)) -> bool {
        if !self.lacks_twin(index, (link, theirs)) {
            return false;
        }
        while self.own.len() <= usize::from(theirs) {
            self.own.push(Link::none(now, Presence::Vacant));
            self.peers.values_mut().for_each(|paths| paths.add_link(now));
        }
        self.own[theirs] = Link::none(now, Presence::Twin { of: link });
        true
    }

    pub(crate) fn all_mut(&mut self) -> &mut [Link] {
        &mut self.own
    }

    /// Whether data has another way to each peer that it reaches over these links, a bit each, than them.
    pub(crate) fn may_drain(&self, links: u16) -> bool {
        let is_other = |link: u8| links & 1 << link == 0;
        let serves = |link: u8| is_other(link) && self.own[link].serves();
        let has_way = |paths: &Paths| {
            let mut up = paths.outbound.iter().zip(0..).filter(|(path, _)| path.is_up());
            let is_used = up.clone().any(|(_, link)| !is_other(link));
            !is_used || up.any(|(path, link)| serves(link) && !path.end.is_drained)
        };
        (0..).take(self.own.len()).any(serves) && self.all_paths().all(has_way)
    }

    /// The link of this number, if it belongs to the bundle.
    pub(crate) fn member_mut(&mut self, number: u8) -> Option<&mut Link> {
        self.own.get_mut(usize::from(number)).filter(|link| link.is_member())
    }

    pub(crate) fn paths(&self, index: u16) -> Option<&Paths> {
        self.peers.get(index)
    }

    pub(crate) fn outbound_mut(&mut self, index: u16, link: u8) -> Option<&mut Outbound> {
        self.paths_mut(index)?.outbound.get_mut(usize::from(link))
    }

    pub(crate) fn paths_mut(&mut self, index: u16) -> Option<&mut Paths> {
        let paths = self.peers.get_mut(index)?;
        if !paths.touched {
            paths.touched = true;
            self.touched.push(index);
        }
        Some(paths)
    }

    pub(crate) fn all_paths(&self) -> impl Iterator<Item = &Paths> {
        self.peers.values()
    }

    /// A peer is there; its numbers begin at `first`.
    pub(crate) fn admit(&mut self, now: Instant, index: u16, node: NodeId, first: u64) {
        self.peers.insert(index, Paths::new(now, node, first, self.own.len()));
        if now < self.succeeds_until {
            self.recognise(index);
        }
        self.due.resize(self.peers.indices().count(), NEVER);
        self.touched.push(index);
    }

    /// The links to a peer carried data before, for another process.
    pub(crate) fn recognise(&mut self, index: u16) {
        let paths = self.peers.get_mut(index).into_iter();
        paths.flat_map(|paths| paths.outbound.iter_mut()).for_each(|path| path.pacing.grow_old());
    }

    /// This process goes on in the place of another one.
    pub(crate) fn succeed(&mut self, now: Instant) {
        self.succeeds_until = now + SUCCEEDS_FOR;
    }

    pub(crate) fn remove(&mut self, index: u16) {
        if self.peers.remove(index).is_some() {
            self.due[usize::from(index)] = NEVER;
        }
    }

    /// When something is to be done for any peer, at the latest.
    pub(crate) fn due(&mut self) -> Option<Instant> {
        for index in self.touched.drain(..) {
            let Some(paths) = self.peers.get_mut(index) else { continue };
            self.due[usize::from(index)] = paths.heartbeat_at.min(paths.judge_at);
            paths.touched = false;
        }
        self.due.iter().min().copied().filter(|due| *due != NEVER)
    }

    /// Puts the numbers of those that are due into `overdue`.
    pub(crate) fn list_overdue(&mut self, now: Instant, overdue: &mut Vec<u16>) {
        self.due();
        overdue.extend((0..).zip(&self.due).filter(|(_, due)| **due <= now).map(|(index, _)| index));
    }

    /// A link joins; returns its number, or `None` when all [`LINKS`] numbers are taken.
    pub(crate) fn add_link(&mut self, now: Instant, settings: LinkSettings) -> Option<u8> {
        let vacant = self.own.iter().position(Link::is_vacant);
        let number = vacant.unwrap_or(self.own.len());
        if number == LINKS {
            return None;
        }
        let (link, number) = (Link::new(now, settings), u8::try_from(number).ok()?);
        if vacant.is_some() {
            self.own[number] = link;
        } else {
            self.own.push(link);
            self.peers.values_mut().for_each(|paths| paths.add_link(now));
        }
        Some(number)
    }

    /// Whether all peers have received all that was sent to them over paths that are up.
    pub(crate) fn are_received(&self) -> bool {
        self.all_paths()
            .flat_map(|paths| paths.outbound.iter())
            .all(|path| !path.is_up() || path.is_received())
    }

    /// Whether a path that took no more takes cells again, since this was last asked.
    pub(crate) fn take_opened(&mut self) -> bool {
        core::mem::take(&mut self.opened)
    }

    /// Whether the peer of the last heartbeat has received more than was sent to it.
    pub(crate) fn take_rolled_back(&mut self) -> bool {
        core::mem::take(&mut self.rolled_back)
    }

    /// Whether cells may have to be of another size, since this was last asked.
    pub(crate) fn take_resized(&mut self) -> bool {
        core::mem::take(&mut self.resized)
    }

    /// Numbers that may be lost since this was asked last.
    pub(crate) fn take_lost(&mut self) -> Vec<Lost> {
        core::mem::take(&mut self.lost)
    }

    /// Notes that a cell came over its path: the numbers that it shows to be lost, or `None` when it is of another
    /// session.
    pub(crate) fn account(
        &mut self,
        now: Instant,
        link: u8,
        index: u16,
        header: &Header,
        data: usize,
        out: &mut Outputs,
    ) -> Option<Range<u64>> {
        // A heartbeat over a link that leaves, or that is too small for cells, brings no path up.
        let state = &mut self[link];
        let rises = header.kind == Kind::Heartbeat && state.is_member() && state.takes_cells();
        state.incast.note(now, index);
        let paths = self.paths_mut(index)?;
        let was_up = paths.inbound[header.link].health.is_up();
        let alone = !was_up && paths.links_receiving() == 0;
        let path = &mut paths.inbound[header.link];
        let Some(missing) = path.handle_seq(header.link_seq) else {
            out.counters.drop_session += 1;
            return None;
        };
        path.bytes += data as u64;
        path.health.handle_late(now, path.next_seq() - 1);
        let was_silent = now.since(path.health.last_received()) >= LATELY;
        let change = path.health.handle_cell(now, rises, alone);
        if was_silent {
            paths.end_pause(now);
        }
        if let Some(change) = change {
            self.judged(now, index, header.link, change, out);
        }
        Some(if was_up { missing } else { 0..0 })
    }

    /// A heartbeat that is a probe came over a path.
    pub(crate) fn note_probe(&mut self, index: u16, header: &Header) {
        if let Some(paths) = self.paths_mut(index) {
            paths.inbound[header.link].handle_probe(header.link_seq);
        }
    }

    /// A heartbeat came from `origin`. When it is the latest on its path, the peer is there now: a NAT may have given it another
    /// port. No number is taken twice, so none that is repeated gets here. Between two endpoints that this node greets it does not
    /// change: they are addresses of one peer, and where both ends followed each other, they would change in turn for ever.
    pub(crate) fn follow(&mut self, origin: Origin, index: u16, header: &Header) {
        let Some(path) = self.paths(index).map(|paths| &paths.outbound[origin.link]) else {
            return;
        };
        let Some(endpoint) = path.end.endpoint.filter(|endpoint| *endpoint != origin.from) else { return };
        let greeted = &self[origin.link].settings.greet;
        if greeted.contains(&endpoint) && greeted.contains(&origin.from) {
            return;
        }
        let Some(paths) = self.paths_mut(index) else { return };
        let is_latest = wire_seq(paths.inbound[header.link].next_seq() - 1) == header.link_seq;
        let is_paired = paths.paired[origin.link] == Some(header.link);
        if is_latest && is_paired {
            paths.outbound[origin.link].end.endpoint = Some(origin.from);
        }
    }

    /// The judgement of the path from a peer has changed: the peer has to know at once.
    fn judged(&mut self, now: Instant, index: u16, link: u8, change: Change, out: &mut Outputs) {
        let Some(paths) = self.paths_mut(index) else { return };
        paths.hasten_heartbeats(now);
        let (peer, direction) = (paths.node, Direction::Receiving);
        out.events.log(match change {
            Change::Up => Event::LinkUp { peer, link, direction },
            Change::Down(signal) => Event::LinkDown { peer, link, direction, signal },
        });
    }

    /// A batch left over a link; heartbeats follow.
    pub(crate) fn handle_sent(&mut self, now: Instant, (index, link): (u16, u8), cells: usize, bytes: usize) {
        let state = &mut self[link];
        state.queue.handle_sent(bytes);
        let (sent, packets) = (state.queue.sent(), state.bytes_of(cells, bytes));
        state.handle_packets(now, packets);
        let Some(paths) = self.paths_mut(index) else { return };
        let all = paths.earned();
        let path = &mut paths.outbound[link];
        path.handle_sent(now, sent, bytes as u64);
        path.ceiling.handle_sent(now, packets);
        paths.heartbeat_at = paths.heartbeat_at.min(path.heartbeat_due(now, all));
    }

    /// Programs have carried so much between this node and a peer over our link.
    pub(crate) fn handle_carried(&mut self, now: Instant, index: u16, link: u8, carried: &Carried) {
        let (sent, received) = (carried.sent(), carried.received());
        let Some(paths) = self.paths(index) else { return };
        let theirs = paths.paired[link];
        let known =
            (paths.outbound[link].programs.sent(), theirs.map(|theirs| paths.inbound[theirs].carried));
        if known == (sent, theirs.map(|_| received)) {
            return;
        }
        let Some(paths) = self.paths_mut(index) else { return };
        let path = &mut paths.outbound[link];
        let more = path.programs.handle_carried(now, carried);
        if let Some(theirs) = theirs {
            paths.inbound[theirs].carried = received;
            paths.inbound[theirs].health.handle_carried(carried.received_at);
        }
        paths.handle_earned(now);
        self[link].handle_carried(now, more);
    }

    /// A path is not to be used any more. What may be lost on it goes over the others: each number once, however often the
    /// path is left.
    pub(crate) fn leave(&mut self, now: Instant, index: u16, link: u8, signal: Signal, out: &mut Outputs) {
        let Some(paths) = self.paths_mut(index) else { return };
        let peer = paths.node;
        let path = &mut paths.outbound[link];
        if signal != Signal::Report {
            path.obey_reports_from = now + DISTRUST;
        }
        if !path.leave(now, signal.is_doubt()) {
            return;
        }
        let numbers = path.take_unreceived();
        paths.hasten_heartbeats(now);
        let has_small = paths.has_small();
        self.resized |= has_small;
        out.events.log(Event::LinkDown { peer, link, direction: Direction::Sending, signal });
        if self.repair {
            self.lost.push(Lost { peer: index, link, numbers });
        }
    }

    pub(crate) fn leave_all(&mut self, now: Instant, link: u8, signal: Signal, out: &mut Outputs) {
        for link in self.ways(link) {
            self.peers.indices().for_each(|index| self.leave(now, index, link, signal, out));
        }
    }

    /// Paths from all peers that end at this link bring nothing more.
    pub(crate) fn stop_all(&mut self, now: Instant, link: u8, signal: (Signal, bool), out: &mut Outputs) {
        for link in self.ways(link) {
            self.peers.indices().for_each(|index| self.stop_receiving_at(now, index, link, signal, out));
        }
    }

    /// The path from the peer that ends at this link brings nothing more; `lingers`: it still brings what was sent before.
    pub(crate) fn stop_receiving_at(
        &mut self,
        now: Instant,
        index: u16,
        link: u8,
        (signal, lingers): (Signal, bool),
        out: &mut Outputs,
    ) {
        let Some(theirs) = self.paths(index).and_then(|paths| paths.paired[link]) else {
            return;
        };
        self.stop_receiving(now, index, theirs, signal, out);
        if lingers && let Some(paths) = self.paths_mut(index) {
            paths.inbound[theirs].lingers = true;
        }
    }

    /// The path from the peer's link `theirs` brings nothing more.
    fn stop_receiving(&mut self, now: Instant, index: u16, theirs: u8, signal: Signal, out: &mut Outputs) {
        let Some(paths) = self.paths_mut(index) else { return };
        if paths.inbound[theirs].health.withdraw() {
            self.judged(now, index, theirs, Change::Down(signal), out);
        }
    }

    /// The peer takes out its link `theirs`, which ended at our `link` if it was used.
    pub(crate) fn part(
        &mut self,
        now: Instant,
        index: u16,
        (link, theirs): (u8, u8),
        signal: Signal,
        out: &mut Outputs,
    ) {
        let Some(paths) = self.paths(index) else { return };
        if paths.paired[link] == Some(theirs) {
            self.leave(now, index, link, signal, out);
            self.unpair(index, link);
        }
        self.stop_receiving(now, index, theirs, signal, out);
    }

    /// A link leads to no link of any peer any more.
    pub(crate) fn unpair_all(&mut self, link: u8) {
        for link in self.ways(link) {
            self.peers.indices().for_each(|index| self.unpair(index, link));
        }
    }

    /// The numbers of a link and of its twins are free.
    pub(crate) fn vacate(&mut self, link: u8) {
        self.ways(link).for_each(|way| self.own[way].presence = Presence::Vacant);
    }

    /// A link leads to no link of the peer any more.
    pub(crate) fn unpair(&mut self, index: u16, link: u8) {
        let Some(paths) = self.paths_mut(index) else { return };
        if let Some(theirs) = paths.paired[link].take() {
            paths.inbound[theirs].lingers = false;
        }
        paths.outbound[link].withdraw();
    }

    /// The peer asks for what it misses.
    pub(crate) fn handle_missing(&mut self, now: Instant, index: u16, request: &Request, out: &mut Outputs) {
        let Some(paths) = self.paths_mut(index) else { return };
        for gap in request.gaps() {
            let Some(path) = paths.outbound.get_mut(usize::from(gap.link)) else { continue };
            let Some(first) = unwrap_seq(gap.first, path.numbers.next()) else { continue };
            if path.handle_missing(now, &(first..first + u64::from(gap.count))) {
                out.events.log(Event::RunsLost { peer: paths.node, link: gap.link });
            }
        }
    }

    /// A link takes cells again: the heartbeat that it did not take comes first.
    pub(crate) fn catch_up(&mut self, link: u8, index: u16, out: &mut Outputs) {
        let Some(paths) = self.paths_mut(index) else { return };
        let path = &mut paths.outbound[link];
        if core::mem::take(&mut path.path_mtu.lacks_probe) {
            out.outbox.push(Control::Probe { link, peer: index });
        }
        if core::mem::take(&mut path.pacing.is_owed) {
            out.outbox.push(Control::Heartbeat { link, peer: index });
        }
    }

    pub(crate) fn inbound(&self, index: u16, theirs: u8) -> Option<&Inbound> {
        self.paths(index)?.inbound.get(usize::from(theirs))
    }
}

impl Index<u8> for Links {
    type Output = Link;

    fn index(&self, link: u8) -> &Link {
        &self.own[self.socket(link)]
    }
}

impl IndexMut<u8> for Links {
    fn index_mut(&mut self, link: u8) -> &mut Link {
        let link = self.socket(link);
        &mut self.own[link]
    }
}

fn socket(own: &Numbered<Vec<Link>>, link: u8) -> u8 {
    match own[link].presence {
        Presence::Twin { of } => of,
        _ => link,
    }
}

fn by_number(own: &Numbered<Vec<Link>>) -> impl Iterator<Item = &Link> + Clone {
    (0..).take(own.len()).map(|number| &own[socket(own, number)])
}
