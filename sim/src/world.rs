//! The world: nodes on links, driven from event to event.
//!
//! [`World::run_until`] is the loop; scenario tests and the swarm use the methods around it. A run depends on the seed and
//! the calls alone: the same calls give the same run, byte for byte.

use crate::agenda::Event;
use crate::cable::Place;
use crate::competitor::{CompetitorSettings, Fate, SEGMENT};
use crate::fault::{Fault, FaultPeriod, Where};
use crate::flow::Flow;
use crate::hostile::Hostility;
use crate::injector::{Injection, InjectionSettings};
use crate::network::Losses;
use crate::node::Node;
use crate::surroundings::{LogEntry, Surroundings, Trace, Violation};
use crate::topology::{Link, LinkNumber, NodeNumber, Topology};
use crate::traffic::{FlowNumber, FlowResult};
use core::time::Duration;
use tabane_proto::{Bundle, Instant, PolicyKind};

/// The longest time after which the kernel signals a change of the carrier to the node.
const CARRIER_NOTICE: Duration = Duration::from_millis(1);
/// How often [`World::settle`] checks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub struct World<'t> {
    nodes: Vec<Node>,
    surroundings: Surroundings<'t>,
    pub events: u64,
}

impl<'t> World<'t> {
    /// A world at its beginning: every node has just started. `trace` takes a line per event.
    pub fn new(seed: u64, topology: &Topology, trace: Option<Trace<'t>>) -> Self {
        let mut surroundings = Surroundings::new(seed, topology, trace);
        let numbers = (0u8..).zip(&topology.nodes).map(|(number, _)| number);
        let nodes = numbers.map(|number| {
            surroundings.agenda.push(Instant::default(), Event::Start(number));
            let incarnation = surroundings.incarnation();
            Node::new(number, topology, incarnation, &surroundings.member.tap())
        });
        let nodes = nodes.collect();
        for (place, begins) in surroundings.network.rivals() {
            surroundings.agenda.push(Instant::default() + begins, Event::Competitor(place, Fate::Begins));
        }
        Self { nodes, surroundings, events: 0 }
    }

    pub fn now(&self) -> Instant {
        self.surroundings.agenda.now
    }

    pub fn start(&mut self, flow: Flow) -> FlowNumber {
        let number = self.surroundings.traffic.add(flow);
        self.surroundings.agenda.push(self.now(), Event::Flow(number));
        number
    }

    pub fn start_between(&mut self, flow: Flow, begins: Instant, ends: Instant) -> FlowNumber {
        let number = self.surroundings.traffic.add(flow);
        self.surroundings.agenda.push(begins, Event::Flow(number));
        self.surroundings.agenda.push(ends, Event::FlowEnd(number));
        number
    }

    /// Sends a message of so many bytes on a flow of [`crate::flow::Pace::Messages`].
    pub fn send(&mut self, flow: FlowNumber, bytes: u64) {
        self.surroundings.traffic.send(flow, bytes);
        self.surroundings.agenda.push(self.now(), Event::Flow(flow));
    }

    /// Bytes of a flow's messages that have come.
    pub fn came(&self, flow: FlowNumber) -> u64 {
        self.surroundings.traffic.came(flow)
    }

    pub fn stop(&mut self, flow: FlowNumber) {
        self.surroundings.traffic.stop(flow);
    }

    /// A fault begins; returns when.
    pub fn begin(&mut self, fault: Fault) -> Instant {
        self.surroundings.agenda.push(self.now(), Event::Fault(fault, true));
        self.now()
    }

    /// A fault ends; returns when.
    pub fn end(&mut self, fault: Fault) -> Instant {
        self.surroundings.agenda.push(self.now(), Event::Fault(fault, false));
        self.now()
    }

    /// A fault will begin, and end if it does.
    pub fn schedule(&mut self, period: &FaultPeriod) {
        let agenda = &mut self.surroundings.agenda;
        agenda.push(Instant::default() + period.begins, Event::Fault(period.fault, true));
        if let Some(ends) = period.ends {
            agenda.push(Instant::default() + ends, Event::Fault(period.fault, false));
        }
    }

    /// From now on a link has this rate, delay, jitter, loss and queue; datagrams on their way keep their time. The other
    /// fields of `link` must be those that the link was made with.
    pub fn set_link(&mut self, number: LinkNumber, link: &Link) {
        self.surroundings.note(format_args!("link {number} is now {link:?}"));
        let Surroundings { network, agenda, .. } = &mut self.surroundings;
        network.set_link(agenda, number, link);
    }

    /// A flow begins to compete on a link's way to a node; nothing happens where there is no router, or one competes already.
    pub fn compete(&mut self, place: Place, round_trip: Duration) {
        let begins = self.now().since(Instant::default());
        let settings = CompetitorSettings { round_trip, begins };
        if self.surroundings.network.add_rival(place, settings) {
            self.happen(Event::Competitor(place, Fate::Begins));
        }
    }

    /// Bytes that a flow which competes on a link's way to a node has brought through the router so far.
    pub fn competed(&mut self, place: Place) -> u64 {
        self.surroundings.network.rival(place).map_or(0, |rival| rival.passed * SEGMENT)
    }

    /// Bytes that wait in the router in front of a node.
    pub fn routing(&mut self, place: Place) -> u64 {
        self.surroundings.network.cable(place).router.as_ref().map_or(0, |router| router.queued)
    }

    /// A node's policy will be changed at a time since the beginning.
    pub fn schedule_policy(&mut self, at: Duration, node: NodeNumber, kind: PolicyKind) {
        self.surroundings.agenda.push(Instant::default() + at, Event::Policy(node, kind));
    }

    /// A stranger begins to put things on the links, or ends.
    pub fn inject(&mut self, settings: Option<InjectionSettings>) {
        self.surroundings.injector.set(settings);
        if let Some(next) = self.surroundings.injector.next(self.now()) {
            self.surroundings.agenda.push(next, Event::Injection);
        }
    }

    /// A member becomes hostile, or is as before; from then on no check judges its frames. Where cells are sealed,
    /// [`crate::topology::NodeSettings::may_be_hostile`] has to be set.
    pub fn set_hostile(&mut self, hostility: Option<Hostility>) {
        if let Some(hostility) = &hostility {
            self.surroundings.traffic.set_hostile(hostility.node);
            self.surroundings.agenda.push(self.now() + hostility.after, Event::Deed);
        }
        self.surroundings.member.set(hostility);
    }

    /// Cells that the hostile member has sent beside its bundle, and frames that no check judged.
    pub fn hostile(&self) -> (u64, u64) {
        (self.surroundings.member.said, self.surroundings.traffic.unjudged)
    }

    /// Whether a flow neither begins nor ends at the hostile member.
    pub fn is_judged(&self, flow: &Flow) -> bool {
        self.surroundings.traffic.is_judged(flow)
    }

    /// How often the stranger has done something.
    pub fn injected(&self, kind: Injection) -> u64 {
        self.surroundings.injector.count(kind)
    }

    /// From now on no link loses anything by chance, nothing is injected, nobody competes, and hosts begin with empty devices.
    pub fn end_trouble(&mut self) {
        self.inject(None);
        self.surroundings.traffic.forget_waiting();
        self.surroundings.network.set_loss(|_| true, 0);
        self.surroundings.network.end_rivals();
    }

    pub fn run_for(&mut self, span: Duration) -> Result<(), Violation> {
        self.run_until(self.now() + span)
    }

    /// Runs the world until `until`, events at that time included.
    pub fn run_until(&mut self, until: Instant) -> Result<(), Violation> {
        while self.step(until)? {}
        Ok(())
    }

    /// Runs the world until a message has come further, at most until `until`; returns whether one has.
    pub fn run_until_some_came(&mut self, until: Instant) -> Result<bool, Violation> {
        while !core::mem::take(&mut self.surroundings.traffic.has_news) {
            if !self.step(until)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next event until `until`; without one it is `until`.
    fn step(&mut self, until: Instant) -> Result<bool, Violation> {
        let Some(event) = self.surroundings.agenda.pop(until) else { return Ok(false) };
        self.events += 1;
        self.happen(event);
        self.surroundings.violation.clone().map_or(Ok(true), Err)
    }

    /// Runs the world until every node takes every link to every other for usable, at most for `limit`.
    pub fn settle(&mut self, limit: Duration) -> Result<(), Violation> {
        let until = self.now() + limit;
        while !self.is_settled() {
            if self.now() >= until {
                let what = format!("every link is in use within {limit:?}");
                return Err(Violation { at: self.now(), node: None, what });
            }
            self.run_for(LOOK_EVERY)?;
        }
        Ok(())
    }

    /// Whether every node takes every link to every other for usable, both ways.
    pub fn is_settled(&self) -> bool {
        self.nodes.iter().all(|node| {
            let peers = node.bundle.peers();
            let good = peers.map(|(_, links)| links.filter(|link| link.sending && link.receiving).count());
            good.sum::<usize>() == node.sockets.len() * (self.nodes.len() - 1)
        })
    }

    /// Something happens to a node, which takes a turn if that is a reason for one.
    fn wake(&mut self, node: NodeNumber, happens: impl FnOnce(&mut Node, &mut Surroundings<'t>) -> bool) {
        let (node, surroundings) = (&mut self.nodes[usize::from(node)], &mut self.surroundings);
        if happens(node, surroundings) {
            node.turn(surroundings);
        }
    }

    /// Something changes at a node, which takes a turn.
    fn change(&mut self, node: NodeNumber, change: impl FnOnce(&mut Node, &mut Surroundings<'t>)) {
        self.wake(node, |node, surroundings| (change(node, surroundings), true).1);
    }

    fn happen(&mut self, event: Event) {
        let surroundings = &mut self.surroundings;
        match event {
            Event::Start(node) => self.change(node, |_, _| {}),
            Event::Switch(passage) => surroundings.switch(&passage),
            Event::Router(place, turn) => surroundings.network.route(&mut surroundings.agenda, place, turn),
            Event::Competitor(place, fate) => {
                surroundings.network.compete(&mut surroundings.agenda, place, fate);
            }
            Event::Interrupt(place) => {
                self.wake(place.node, |node, surroundings| node.interrupt(surroundings, place.nic));
            }
            Event::Writable(place) => {
                self.change(place.node, |node, _| node.socket(place.nic).writable = true);
            }
            Event::Carrier(place, carrier) => {
                self.change(place.node, |node, _| node.socket(place.nic).carrier = Some(carrier));
            }
            Event::Timer(node) => self.wake(node, |node, surroundings| node.timer(surroundings.agenda.now)),
            Event::Wake(node) => {
                self.wake(node, |node, surroundings| node.worker.is_woken(surroundings.agenda.now));
            }
            Event::Flow(flow) => self.flow(flow),
            Event::FlowEnd(flow) => surroundings.traffic.stop(flow),
            Event::Fault(fault, begins) => self.fault(fault, begins),
            Event::Policy(node, kind) => {
                surroundings.note(format_args!("n{node} has policy {kind}"));
                self.change(node, |node, _| node.bundle.set_policy(kind));
            }
            Event::Injection => surroundings.inject(),
            Event::Deed => surroundings.act(),
        }
    }

    /// A flow's next frames are due.
    fn flow(&mut self, flow: FlowNumber) {
        let surroundings = &mut self.surroundings;
        let Some((node, again)) = surroundings.traffic.emit(surroundings.agenda.now, flow) else { return };
        if let Some(again) = again {
            surroundings.agenda.push(again, Event::Flow(flow));
        }
        self.change(node, |_, _| {});
    }

    fn fault(&mut self, fault: Fault, begins: bool) {
        self.surroundings.note(format_args!("{fault:?} {}", if begins { "begins" } else { "ends" }));
        match fault {
            Fault::Mute(link, at) => self.set_outage(link, at, begins, true, false),
            Fault::Deaf(link, at) => self.set_outage(link, at, begins, false, true),
            Fault::BlackHole(link, at) => self.set_outage(link, at, begins, true, true),
            Fault::NoCarrier(link, at) => {
                self.set_outage(link, at, begins, true, true);
                self.set_carrier_loss(link, at, begins);
            }
            Fault::Removed(link, node) => self.set_removed(link, node, begins),
            Fault::Drained(link, node) => self.set_drained(link, node, begins),
            Fault::Loss(link, per_million) => {
                let per_million = if begins { per_million } else { 0 };
                self.surroundings.network.set_loss(|other| other == link, per_million);
            }
            Fault::Rate(link, kilobits) => {
                let Surroundings { network, agenda, .. } = &mut self.surroundings;
                let rate = begins.then(|| u64::from(kilobits) * 1_000);
                network.set_rate(agenda, link, rate);
            }
            Fault::Narrow(link, bytes) => {
                self.surroundings.network.set_passes(link, begins.then_some(bytes));
            }
            Fault::NoMemory(link, node) => {
                for place in self.surroundings.network.places(link, Some(node)) {
                    self.surroundings.network.cable(place).has_memory = !begins;
                }
            }
            Fault::Pause(node) => self.change(node, |node, _| node.set_paused(begins)),
            Fault::Suspend(node) => {
                self.change(node, |node, surroundings| node.set_suspended(surroundings.agenda.now, begins));
            }
            Fault::Slow(node, span) => {
                self.nodes[usize::from(node)].worker.per_datagram =
                    if begins { span } else { Duration::ZERO };
            }
            Fault::Late(node, span) => {
                self.nodes[usize::from(node)].worker.late = if begins { span } else { Duration::ZERO };
            }
            Fault::Restart(node) if begins => {
                self.surroundings.injector.forget(node);
                self.change(node, Node::restart);
            }
            Fault::Restart(_) => {}
        }
    }

    fn set_outage(&mut self, link: LinkNumber, at: Where, begins: bool, up: bool, down: bool) {
        let Surroundings { network, agenda, .. } = &mut self.surroundings;
        for place in network.places(link, at) {
            if up {
                network.cable(place).up.set_outage(begins);
            }
            if down {
                network.cable(place).down.set_outage(begins);
                network.losses.outage += network.cable(place).lose_what_is_coming(agenda.now);
            }
        }
    }

    /// A node takes a link out of its bundle, or in again as soon as its last socket there is closed.
    fn set_removed(&mut self, link: LinkNumber, node: u8, begins: bool) {
        self.change(node, |state, surroundings| {
            for place in surroundings.network.places(link, Some(node)) {
                if begins {
                    state.unplug(surroundings, place.nic);
                } else if !state.plug(surroundings, place.nic) {
                    let later = surroundings.agenda.now + tabane_proto::GRACE / 4;
                    surroundings.agenda.push(later, Event::Fault(Fault::Removed(link, node), false));
                }
            }
        });
    }

    fn set_drained(&mut self, link: LinkNumber, node: u8, drained: bool) {
        self.change(node, |state, surroundings| {
            for place in surroundings.network.places(link, Some(node)) {
                state.drain(surroundings, place.nic, drained);
            }
        });
    }

    fn set_carrier_loss(&mut self, link: LinkNumber, at: Where, begins: bool) {
        let Surroundings { network, agenda, .. } = &mut self.surroundings;
        for place in network.places(link, at) {
            if network.cable(place).set_carrier_loss(begins) {
                agenda.push(agenda.now + CARRIER_NOTICE, Event::Carrier(place, !begins));
            }
        }
    }

    pub fn result(&self, flow: FlowNumber) -> FlowResult {
        self.result_since(flow, Instant::default())
    }

    /// The figures of the frames of a flow that were taken from `since` on.
    pub fn result_since(&self, flow: FlowNumber, since: Instant) -> FlowResult {
        self.surroundings.traffic.result(flow, since)
    }

    /// Bits per second of a flow that its addressee got from `since` until now.
    pub fn goodput(&self, flow: FlowNumber, since: Instant) -> f64 {
        let bytes = self.surroundings.traffic.delivered_between(flow, since, self.now());
        let bits = u32::try_from(bytes * 8 / 1_000).unwrap_or(u32::MAX);
        f64::from(bits) * 1_000.0 / self.now().since(since).as_secs_f64()
    }

    /// The longest time from `since` until now in which the addressee of a flow got none of its frames; a time that
    /// began before counts whole.
    pub fn longest_pause(&self, flow: FlowNumber, since: Instant) -> Duration {
        self.surroundings.traffic.longest_pause(flow, since, self.now())
    }

    /// How long each question of a flow with [`crate::flow::Pace::Asking`] that was asked from `since` on waited for its
    /// answer, in order.
    pub fn round_trips(&self, flow: FlowNumber, since: Instant) -> Vec<Duration> {
        self.surroundings.traffic.round_trips(flow, since)
    }

    pub fn log(&self) -> &[LogEntry] {
        &self.surroundings.log
    }

    pub fn bundle(&self, node: u8) -> &Bundle {
        &self.nodes[usize::from(node)].bundle
    }

    /// The counters of each node's bundles, by name.
    pub fn counted(&self) -> impl Iterator<Item = Vec<(&'static str, u64)>> {
        self.nodes.iter().map(Node::counted)
    }

    /// Cells that did not arrive, by cause.
    pub fn losses(&self) -> Losses {
        self.surroundings.network.losses
    }

    pub fn device_full(&self) -> u64 {
        self.surroundings.traffic.device_full
    }

    /// Deliveries to nodes that were not addressed.
    pub fn flooded(&self) -> u64 {
        self.surroundings.traffic.flooded
    }

    /// All flows, those that answer included.
    pub fn flows(&self) -> impl Iterator<Item = (FlowNumber, &Flow)> {
        self.surroundings.traffic.flows()
    }

    /// Cells that by the counts are on their way, and cells that the links hold: equal unless the world itself is wrong.
    pub fn on_the_way(&self) -> (u64, u64) {
        let switching =
            self.surroundings.agenda.waiting().filter(|event| matches!(event, Event::Switch(_))).count();
        let network = &self.surroundings.network;
        (network.on_the_way(), switching as u64 + network.in_routers() + network.in_rings())
    }

    /// Ends the world: how many of its receive buffers each node's bundle still lends.
    pub fn into_lendable(self) -> impl Iterator<Item = usize> {
        self.nodes.into_iter().map(Node::into_lendable)
    }
}
