//! Links: what each port carries, and whether the paths over it work.
//!
//! ```text
//!   nic        a port: its queue and rate                paths      the links to one peer, each way
//!   outbound   numbers and log of what was sent          inbound    numbers and delay of what came
//!   heartbeat  what is said and heard of links           heartbeat_pacing   how often
//!   health     which link is dead: black_hole, adaptive_timeout, incast, hold_down;    loss   which one is sick
//! ```
//!
//! What is lost with a link that is left waits in [`Links::take_lost`], to be sent again over others.

mod adaptive_timeout;
pub(crate) mod black_hole;
pub(crate) mod health;
mod heartbeat;
mod heartbeat_pacing;
mod hold_down;
pub(crate) mod inbound;
mod incast;
mod loss;
pub(crate) mod nic;
pub(crate) mod outbound;
pub(crate) mod paths;

use crate::event::{Direction, Event, Signal};
use crate::link::health::{Change, LATELY};
use crate::link::heartbeat_pacing::earned;
use crate::link::inbound::Inbound;
use crate::link::nic::{Port, PortSettings};
use crate::link::paths::Paths;
use crate::outbox::{Control, Outputs};
use crate::time::Instant;
use crate::wire::cell::{Header, Kind, LINKS};
use crate::wire::hello::NodeId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

/// After an error on our side, the peer's reports are not believed for this long.
const DISTRUST: Duration = Duration::from_millis(100);
/// Of a number that no peer has.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// What went out under these numbers of a link may be lost.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) peer: u16,
    pub(crate) port: u8,
    pub(crate) numbers: Range<u64>,
}

/// All ports, and the paths over them to all peers.
///
/// What is done for each frame costs the same however many peers there are: who is due is looked up in a flat table, which
/// is brought up to date for those alone whose state may have changed.
#[derive(Debug)]
pub(crate) struct Links {
    ports: Vec<Port>,
    /// By the index of the peer.
    peers: Vec<Option<Box<Paths>>>,
    /// When each is due, by index.
    due: Vec<Instant>,
    /// Those whose `due` may be out of date.
    touched: Vec<u16>,
    lost: Vec<Lost>,
    /// Whether lost cells are sent again.
    repair: bool,
}

impl Links {
    pub(crate) fn new(now: Instant, ports: Vec<PortSettings>, repair: bool) -> Self {
        Self {
            ports: ports.into_iter().map(|settings| Port::new(now, settings)).collect(),
            peers: Vec::new(),
            due: Vec::new(),
            touched: Vec::new(),
            lost: Vec::new(),
            repair,
        }
    }

    pub(crate) fn ports(&self) -> &[Port] {
        &self.ports
    }

    pub(crate) fn ports_mut(&mut self) -> &mut [Port] {
        &mut self.ports
    }

    pub(crate) fn port(&self, number: u8) -> &Port {
        &self.ports[usize::from(number)]
    }

    pub(crate) fn port_mut(&mut self, number: u8) -> &mut Port {
        &mut self.ports[usize::from(number)]
    }

    /// The port of this number, if it belongs to the bundle.
    pub(crate) fn member_mut(&mut self, number: u8) -> Option<&mut Port> {
        self.ports.get_mut(usize::from(number)).filter(|port| port.is_member())
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Paths> {
        self.peers.get(usize::from(index))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Paths> {
        let paths = self.peers.get_mut(usize::from(index))?.as_deref_mut()?;
        if !paths.touched {
            paths.touched = true;
            self.touched.push(index);
        }
        Some(paths)
    }

    /// The paths to all peers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Paths> {
        self.peers.iter().flatten().map(Box::as_ref)
    }

    /// All numbers that peers have, and some that none has.
    fn indices(&self) -> impl Iterator<Item = u16> + use<> {
        #[expect(clippy::cast_possible_truncation, reason = "below PEERS_MAX")]
        let end = self.peers.len() as u16;
        0..end
    }

    /// A peer is there; its numbers begin at `first`.
    pub(crate) fn admit(&mut self, now: Instant, index: u16, node: NodeId, first: u64) {
        let place = usize::from(index);
        if place >= self.peers.len() {
            self.peers.resize_with(place + 1, || None);
            self.due.resize(place + 1, NEVER);
        }
        self.peers[place] = Some(Box::new(Paths::new(now, node, first, self.ports.len())));
        self.touched.push(index);
    }

    /// A peer is gone.
    pub(crate) fn remove(&mut self, index: u16) {
        if let Some(place) = self.peers.get_mut(usize::from(index)) {
            *place = None;
            self.due[usize::from(index)] = NEVER;
        }
    }

    /// When something is to be done for any peer, at the latest.
    pub(crate) fn due(&mut self) -> Option<Instant> {
        for index in self.touched.drain(..) {
            let index = usize::from(index);
            let Some(paths) = &mut self.peers[index] else { continue };
            self.due[index] = paths.heartbeat_at.min(paths.judge_at);
            paths.touched = false;
        }
        self.due.iter().min().copied().filter(|due| *due != NEVER)
    }

    /// Puts the numbers of those that are due into `overdue`.
    pub(crate) fn list_overdue(&mut self, now: Instant, overdue: &mut Vec<u16>) {
        self.due();
        overdue.extend((0..).zip(&self.due).filter(|(_, due)| **due <= now).map(|(index, _)| index));
    }

    /// A port joins; returns its number, or `None` when all [`LINKS`] numbers are taken.
    pub(crate) fn add_port(&mut self, now: Instant, settings: PortSettings) -> Option<u8> {
        let vacant = self.ports.iter().position(Port::is_vacant);
        let number = vacant.unwrap_or(self.ports.len());
        if number == LINKS {
            return None;
        }
        let port = Port::new(now, settings);
        if vacant.is_some() {
            self.ports[number] = port;
        } else {
            self.ports.push(port);
            self.peers.iter_mut().flatten().for_each(|paths| paths.add_port(now));
        }
        u8::try_from(number).ok()
    }

    /// Whether all peers have heard all that was sent to them over links that are up.
    pub(crate) fn are_heard(&self) -> bool {
        self.iter().flat_map(|paths| &paths.outbound).all(|link| !link.up || link.is_heard())
    }

    /// Numbers that may be lost since this was asked last.
    pub(crate) fn take_lost(&mut self) -> Vec<Lost> {
        core::mem::take(&mut self.lost)
    }

    /// Enters a cell into the account of its link: the numbers that it shows to be lost, or `None` when it is of another
    /// session.
    pub(crate) fn account(
        &mut self,
        now: Instant,
        port: u8,
        index: u16,
        header: &Header,
        out: &mut Outputs,
    ) -> Option<Range<u64>> {
        // What comes in by a port that leaves, or that is too small for cells, brings no link back.
        let state = self.port_mut(port);
        let rises = header.kind == Kind::Heartbeat && state.is_member() && state.takes_cells();
        state.crowd.note(now, index);
        let paths = self.get_mut(index)?;
        let was_up = paths.inbound[usize::from(header.link)].health.is_up();
        let alone = !was_up && paths.links_heard() == 0;
        let link = &mut paths.inbound[usize::from(header.link)];
        let Some(missing) = link.handle_seq(header.link_seq) else {
            out.counters.drop_session += 1;
            return None;
        };
        link.health.handle_late(now, link.next_seq() - 1);
        let was_silent = now.since(link.health.heard()) >= LATELY;
        let change = link.health.handle_cell(now, rises, alone);
        if was_silent {
            paths.end_pause(now);
        }
        if let Some(change) = change {
            self.judged(now, index, header.link, change, out);
        }
        Some(if was_up { missing } else { 0..0 })
    }

    /// The judgement of a peer's link has changed: the peer has to know at once.
    fn judged(&mut self, now: Instant, index: u16, link: u8, change: Change, out: &mut Outputs) {
        let Some(paths) = self.get_mut(index) else { return };
        paths.beat_at_once(now);
        let (peer, direction) = (paths.node, Direction::Receiving);
        out.events.log(match change {
            Change::Up => Event::LinkUp { peer, link, direction },
            Change::Down(signal) => Event::LinkDown { peer, link, direction, signal },
        });
    }

    /// A batch left over a link; heartbeats follow.
    pub(crate) fn handle_sent(&mut self, now: Instant, index: u16, port: u8, bytes: usize) {
        self.port_mut(port).handle_sent(bytes);
        let sent = self.port(port).sent();
        let Some(paths) = self.get_mut(index) else { return };
        let heard = paths.cells_heard();
        let link = &mut paths.outbound[usize::from(port)];
        link.mark(sent);
        let due = link.beat.due(now, earned(link.sent(), heard), link.loss.is_suspect());
        paths.heartbeat_at = paths.heartbeat_at.min(due);
    }

    /// A link is not to be used any more: what may be lost on it is to go over the others, each number once, however often a
    /// link is left.
    pub(crate) fn leave(&mut self, now: Instant, index: u16, port: u8, signal: Signal, out: &mut Outputs) {
        let Some(paths) = self.get_mut(index) else { return };
        let peer = paths.node;
        let link = &mut paths.outbound[usize::from(port)];
        if signal != Signal::Report {
            link.obey_reports_from = now + DISTRUST;
        }
        let was_up = core::mem::replace(&mut link.up, false);
        link.doubted = signal.is_doubt() && (was_up || link.doubted);
        if !was_up {
            return;
        }
        let numbers = link.take_unheard();
        paths.beat_at_once(now);
        out.events.log(Event::LinkDown { peer, link: port, direction: Direction::Sending, signal });
        if self.repair {
            self.lost.push(Lost { peer: index, port, numbers });
        }
    }

    /// The same for all peers.
    pub(crate) fn leave_all(&mut self, now: Instant, port: u8, signal: Signal, out: &mut Outputs) {
        self.indices().for_each(|index| self.leave(now, index, port, signal, out));
    }

    /// The link of the peer that ends at this port brings nothing more; `lingers`: it still brings what was sent before.
    pub(crate) fn stop_hearing_at(
        &mut self,
        now: Instant,
        index: u16,
        port: u8,
        (signal, lingers): (Signal, bool),
        out: &mut Outputs,
    ) {
        let Some(link) = self.get(index).and_then(|paths| paths.paired[usize::from(port)]) else { return };
        self.stop_hearing(now, index, link, signal, out);
        if lingers && let Some(paths) = self.get_mut(index) {
            paths.inbound[usize::from(link)].lingers = true;
        }
    }

    /// A link of the peer brings nothing more.
    fn stop_hearing(&mut self, now: Instant, index: u16, link: u8, signal: Signal, out: &mut Outputs) {
        let Some(paths) = self.get_mut(index) else { return };
        if paths.inbound[usize::from(link)].health.withdraw() {
            self.judged(now, index, link, Change::Down(signal), out);
        }
    }

    /// A peer's `link`, which ended at this port if it was used, is not to be used any more.
    pub(crate) fn part(
        &mut self,
        now: Instant,
        index: u16,
        (port, link): (u8, u8),
        signal: Signal,
        out: &mut Outputs,
    ) {
        let Some(paths) = self.get(index) else { return };
        if paths.paired[usize::from(port)] == Some(link) {
            self.leave(now, index, port, signal, out);
            self.unpair(index, port);
        }
        self.stop_hearing(now, index, link, signal, out);
    }

    /// A port leads to no link of the peer any more.
    pub(crate) fn unpair(&mut self, index: u16, number: u8) {
        let Some(paths) = self.get_mut(index) else { return };
        if let Some(link) = paths.paired[usize::from(number)].take() {
            paths.inbound[usize::from(link)].lingers = false;
        }
        paths.outbound[usize::from(number)].withdraw();
    }

    /// A port takes cells again: the heartbeat to a peer that it did not take comes first.
    pub(crate) fn catch_up(&mut self, port: u8, index: u16, out: &mut Outputs) {
        let Some(paths) = self.get_mut(index) else { return };
        if core::mem::take(&mut paths.outbound[usize::from(port)].owes_heartbeat) {
            out.outbox.push(Control::Heartbeat { port, peer: index });
        }
    }

    /// A link of a peer, by its number of it.
    pub(crate) fn inbound(&self, index: u16, link: u8) -> Option<&Inbound> {
        self.get(index)?.inbound.get(usize::from(link))
    }
}
