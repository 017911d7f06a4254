//! The links: cables that lead from node to switch to node.
//!
//! `send` puts a datagram on its cable; it arrives at the switch as an event (`switch`), and waits in the ring of the receiving
//! NIC until the NIC interrupts (`interrupt`).
//!
//! Invariant: every datagram that was put in comes out, or is counted as lost with its cause.

use crate::agenda::{Agenda, Event};
use crate::cable::{Arrival, Cable, Passage, Place};
use crate::competitor::{Competitor, CompetitorSettings, Fate, SEGMENT};
use crate::fault::Where;
use crate::hostile::Said;
use crate::random::Random;
use crate::router::{Router, Waiting};
use crate::topology::{CableSettings, Link, LinkNumber, Topology};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use tabane_proto::Outcome;

/// Datagrams that did not arrive, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub chance: u64,
    /// An outage, or a cable without carrier.
    pub outage: u64,
    /// The switch's queue was full.
    pub switch_queue: u64,
    pub router: u64,
    pub too_long: u64,
    /// The kernel had no memory.
    pub send_buffer: u64,
    /// The node did not read its socket in time, or was restarted before it did.
    pub receive_buffer: u64,
    /// The bundle lent no buffer.
    pub no_buffer: u64,
}

impl Losses {
    /// Each cause with its count.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { chance, outage, switch_queue, router, too_long, send_buffer, receive_buffer, no_buffer } =
            *self;
        [
            ("chance", chance),
            ("outage", outage),
            ("switch queue full", switch_queue),
            ("dropped by a router", router),
            ("too long", too_long),
            ("send buffer full", send_buffer),
            ("receive buffer full", receive_buffer),
            ("no buffer lent", no_buffer),
        ]
        .into_iter()
    }

    pub fn total(&self) -> u64 {
        self.named().map(|(_, count)| count).sum()
    }
}

pub(crate) struct Network {
    /// By node, by nic.
    cables: Vec<Vec<Cable>>,
    random: Random,
    pub(crate) losses: Losses,
    /// Datagrams put on cables, once for each receiver.
    pub(crate) put_in: u64,
    /// Datagrams that nodes took out.
    pub(crate) taken_out: u64,
}

impl Network {
    pub(crate) fn new(topology: &Topology, random: Random) -> Self {
        let cables = topology.nodes.iter().map(|node| node.cables.iter().map(Cable::new).collect()).collect();
        Self { cables, random, losses: Losses::default(), put_in: 0, taken_out: 0 }
    }

    pub(crate) fn cable(&mut self, place: Place) -> &mut Cable {
        &mut self.cables[usize::from(place.node)][usize::from(place.nic)]
    }

    /// Where the cables of a link end.
    pub(crate) fn places(&self, link: LinkNumber, at: Where) -> Vec<Place> {
        let nodes = (0u8..).zip(&self.cables).filter(|(node, _)| at.is_none_or(|at| at == *node));
        let places = nodes.flat_map(|(node, cables)| {
            let on_link = (0u8..).zip(cables).filter(|(_, cable)| cable.link == link);
            on_link.map(move |(nic, _)| Place { node, nic })
        });
        places.collect()
    }

    /// Sets the loss on the way from the switch, in datagrams of a million, of the links that `which` selects.
    pub(crate) fn set_loss(&mut self, which: impl Fn(LinkNumber) -> bool, per_million: u32) {
        for cable in self.cables.iter_mut().flatten().filter(|cable| which(cable.link)) {
            cable.down.set_loss(per_million);
        }
    }

    /// Nothing longer than so many bytes passes the switch of a link; `None`: everything does.
    pub(crate) fn set_passes(&mut self, link: LinkNumber, bytes: Option<u16>) {
        for cable in self.cables.iter_mut().flatten().filter(|cable| cable.link == link) {
            cable.passes = bytes;
        }
    }

    /// Sets rate, delay, jitter, loss and queue of a link's cables.
    pub(crate) fn set_link(&mut self, agenda: &mut Agenda, number: LinkNumber, link: &Link) {
        let CableSettings { up, down, router, .. } = link.cable(number);
        for place in self.places(number, None) {
            let cable = self.cable(place);
            cable.up.set_way(up);
            cable.down.set_way(down);
            if let (Some(own), Some(router)) = (&mut cable.router, router)
                && let Some(at) = own.set(agenda.now, &router)
            {
                agenda.push(at, Event::Router(place, own.turn));
            }
        }
    }

    /// A link's routers have another rate, or their own again.
    pub(crate) fn set_rate(&mut self, agenda: &mut Agenda, number: LinkNumber, rate: Option<u64>) {
        for place in self.places(number, None) {
            let Some(router) = &mut self.cable(place).router else { continue };
            if let Some(at) = router.set_rate(agenda.now, rate) {
                agenda.push(at, Event::Router(place, router.turn));
            }
        }
    }

    pub(crate) fn end_rivals(&mut self) {
        let routers = self.cables.iter_mut().flatten().filter_map(|cable| cable.router.as_mut());
        routers.filter_map(|router| router.competitor.as_mut()).for_each(Competitor::end);
    }

    /// Datagrams in the rings of NICs, or on their way there.
    pub(crate) fn in_rings(&self) -> u64 {
        self.cables.iter().flatten().map(|cable| cable.ring.len() as u64).sum()
    }

    /// A node sends one cell each `segment` bytes.
    pub(crate) fn send(
        &mut self,
        agenda: &mut Agenda,
        from: Place,
        to: SocketAddr,
        bytes: &[u8],
        segment: usize,
    ) -> Outcome {
        let cable = self.cable(from);
        if !cable.has_carrier() {
            return Outcome::Refused;
        }
        if !cable.is_writable(agenda.now) {
            agenda.push(cable.writable_at(), Event::Writable(from));
            return Outcome::Full;
        }
        let has_memory = cable.has_memory;
        if !has_memory && self.random.chance(125_000) {
            let cells = bytes.chunks(segment).count() as u64;
            self.put_in += cells;
            self.losses.send_buffer += cells;
            return Outcome::Lost;
        }
        for cell in bytes.chunks(segment) {
            self.put(agenda, Passage { from, to: Place::of(to), bytes: Rc::from(cell) });
        }
        Outcome::Sent
    }

    /// A node sends a control message, to everyone when `to` is `None`.
    pub(crate) fn send_control(
        &mut self,
        agenda: &mut Agenda,
        from: Place,
        to: Option<SocketAddr>,
        bytes: &[u8],
    ) -> Outcome {
        let to = to.and_then(Place::of);
        let cable = self.cable(from);
        if !cable.has_carrier() {
            self.put_in += 1;
            self.losses.outage += 1;
            return Outcome::Refused;
        }
        if !cable.is_writable(agenda.now) {
            agenda.push(cable.writable_at(), Event::Writable(from));
            return Outcome::Full;
        }
        self.put(agenda, Passage { from, to, bytes: Rc::from(bytes) });
        Outcome::Sent
    }

    fn put(&mut self, agenda: &mut Agenda, passage: Passage) {
        self.put_in += 1;
        let Self { cables, random, .. } = self;
        let cable = &mut cables[usize::from(passage.from.node)][usize::from(passage.from.nic)];
        let at = cable.up.push(agenda.now, passage.bytes.len(), random);
        agenda.push(at, Event::Switch(passage));
    }

    /// A member puts a cell on its cable beside its bundle, if that is writable.
    pub(crate) fn put_anyway(&mut self, agenda: &mut Agenda, said: Said) {
        let Said { from, to, bytes } = said;
        let cable = self.cable(from);
        if cable.has_carrier() && cable.is_writable(agenda.now) {
            self.put(agenda, Passage { from, to: Some(to), bytes: Rc::from(bytes) });
        }
    }

    /// A datagram has arrived at its switch, which passes it on.
    pub(crate) fn switch(&mut self, agenda: &mut Agenda, passage: &Passage) {
        let cable = self.cable(passage.from);
        let link = cable.link;
        if cable.up.is_out() {
            self.losses.outage += 1;
            return;
        }
        let Some(to) = passage.to else {
            let mut others = self.places(link, None);
            others.retain(|place| place.node != passage.from.node);
            self.put_in = self.put_in + others.len() as u64 - 1;
            for to in others {
                self.pass_down(agenda, passage, to);
            }
            return;
        };
        assert_eq!(self.cable(to).link, link, "nodes address only from whom they received on that link");
        self.pass_down(agenda, passage, to);
    }

    /// A datagram goes to a node, by way of the router if there is one.
    fn pass_down(&mut self, agenda: &mut Agenda, passage: &Passage, to: Place) {
        if self.cable(to).router.is_none() {
            return self.put_down(agenda, passage, to);
        }
        let cell = Passage { to: Some(to), ..passage.clone() };
        if !self.queue(agenda, to, passage.bytes.len() as u64, Waiting::Cell(cell)) {
            self.losses.router += 1;
        }
    }

    /// A router takes a datagram to a node, or drops it; returns whether it took it.
    fn queue(&mut self, agenda: &mut Agenda, to: Place, bytes: u64, what: Waiting) -> bool {
        let Some(router) = &mut self.cable(to).router else { return false };
        let (taken, leaves) = router.push(agenda.now, bytes, what);
        if let Some(at) = leaves {
            agenda.push(at, Event::Router(to, router.turn));
        }
        taken
    }

    /// The first datagram of a router's queue has left.
    pub(crate) fn route(&mut self, agenda: &mut Agenda, to: Place, turn: u64) {
        let Some(router) = self.cable(to).router.as_mut().filter(|router| router.turn == turn) else {
            return;
        };
        let mut dropped = Vec::new();
        let (sent, next) = router.pop(agenda.now, &mut dropped);
        if let Some(at) = next {
            agenda.push(at, Event::Router(to, router.turn));
        }
        match sent {
            Some(Waiting::Cell(passage)) => self.put_down(agenda, &passage, to),
            Some(Waiting::Rival) => self.pass_rival(agenda, to, true),
            None => {}
        }
        for what in dropped {
            match what {
                Waiting::Cell(_) => self.losses.router += 1,
                Waiting::Rival => self.pass_rival(agenda, to, false),
            }
        }
    }

    /// A competing flow's segment has left the router, or was dropped there.
    fn pass_rival(&mut self, agenda: &mut Agenda, to: Place, has_left: bool) {
        let Some(router) = &mut self.cable(to).router else { return };
        let wait = router.wait();
        let Some(rival) = &mut router.competitor else { return };
        let rest = rival.settings.round_trip;
        if has_left {
            rival.passed += 1;
            agenda.push(agenda.now + rest, Event::Competitor(to, Fate::Arrived));
        } else {
            rival.lost += 1;
            agenda.push(agenda.now + rest + wait, Event::Competitor(to, Fate::Dropped));
        }
    }

    /// A competing flow begins, or gets an acknowledgement or a loss, and sends what its window allows.
    pub(crate) fn compete(&mut self, agenda: &mut Agenda, to: Place, fate: Fate) {
        let Some(router) = &mut self.cable(to).router else { return };
        let wait = router.wait();
        let Some(rival) = &mut router.competitor else { return };
        match fate {
            Fate::Begins => {}
            Fate::Arrived => rival.handle_ack(agenda.now),
            Fate::Dropped => rival.handle_loss(agenda.now, wait),
        }
        while self.rival(to).is_some_and(Competitor::sends) {
            if !self.queue(agenda, to, SEGMENT, Waiting::Rival) {
                self.pass_rival(agenda, to, false);
            }
        }
    }

    /// The flow that competes on the way to a node.
    pub(crate) fn rival(&mut self, to: Place) -> Option<&mut Competitor> {
        self.cable(to).router.as_mut()?.competitor.as_mut()
    }

    /// A flow competes on the way to a node from now on; returns whether that is so.
    pub(crate) fn add_rival(&mut self, to: Place, settings: CompetitorSettings) -> bool {
        let router = self.cable(to).router.as_mut().filter(|router| router.competitor.is_none());
        let is_new = router.is_some();
        if let Some(router) = router {
            router.competitor = Some(Competitor::new(settings));
        }
        is_new
    }

    /// When each competing flow begins, and where.
    pub(crate) fn rivals(&mut self) -> Vec<(Place, Duration)> {
        let all = (0u8..).zip(&self.cables).flat_map(|(node, cables)| {
            (0u8..).zip(cables).filter_map(move |(nic, cable)| {
                let rival = cable.router.as_ref()?.competitor.as_ref()?;
                Some((Place { node, nic }, rival.settings.begins))
            })
        });
        all.collect()
    }

    /// Datagrams of the bundle in routers.
    pub(crate) fn in_routers(&self) -> u64 {
        self.cables.iter().flatten().filter_map(|cable| cable.router.as_ref()).map(Router::cells).sum()
    }

    fn put_down(&mut self, agenda: &mut Agenda, passage: &Passage, to: Place) {
        let Self { cables, random, losses, .. } = self;
        let cable = &mut cables[usize::from(to.node)][usize::from(to.nic)];
        if cable.down.is_out() {
            losses.outage += 1;
        } else if cable.passes.is_some_and(|most| passage.bytes.len() > most.into()) {
            losses.too_long += 1;
        } else if !cable.down.has_room(agenda.now, passage.bytes.len()) {
            losses.switch_queue += 1;
        } else if cable.down.loses(random) {
            losses.chance += 1;
        } else {
            let at = cable.down.push(agenda.now, passage.bytes.len(), random);
            let bytes = Rc::clone(&passage.bytes);
            let arrival = Arrival { at, from: passage.from, is_injected: false, bytes };
            if let Some(due) = cable.receive(arrival) {
                agenda.push(due, Event::Interrupt(to));
            }
        }
    }

    /// A stranger makes a datagram appear in the ring of a NIC.
    pub(crate) fn inject(&mut self, agenda: &mut Agenda, to: Place, arrival: Arrival) {
        self.put_in += 1;
        if let Some(due) = self.cable(to).receive(arrival) {
            agenda.push(due, Event::Interrupt(to));
        }
    }

    /// A NIC interrupts: the datagrams in its ring go to the socket. Returns whether the interrupt was due.
    pub(crate) fn interrupt(
        &mut self,
        agenda: &mut Agenda,
        place: Place,
        socket: &mut VecDeque<Arrival>,
    ) -> bool {
        let before = socket.len();
        let cable = self.cable(place);
        let was_due = cable.interrupt(agenda.now, socket);
        if let Some(due) = cable.due() {
            agenda.push(due, Event::Interrupt(place));
        }
        self.taken_out += (socket.len() - before) as u64;
        was_due
    }

    /// Datagrams on their way: those put in that have neither come out nor been lost on the links.
    pub(crate) fn on_the_way(&self) -> u64 {
        let losses = &self.losses;
        let on_links = losses.chance + losses.outage + losses.switch_queue + losses.router + losses.too_long;
        let on_links = on_links + losses.send_buffer;
        self.put_in - self.taken_out - on_links
    }
}
