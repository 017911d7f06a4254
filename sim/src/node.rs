//! A node: a bundle with its sockets and its clock, and the events that reach it from outside.
//!
//! An event only notes what is ready (a socket, a carrier, a timer), as the kernel does; the worker then takes its turn
//! ([`crate::turn`]). A node that restarts loses all but its identity. It may take a cable out of its bundle while frames flow,
//! and back in, or drain it: the bundle gives its links numbers of its own, and a cable keeps its place. A socket stays open
//! until the bundle has no link of its number any more.
//!
//! Invariant that is checked: the bundle's counters agree with what went in and out.

use crate::cable::Place;
use crate::hostile::tap::{Tap, TappedGroup};
use crate::socket::Socket;
use crate::surroundings::Surroundings;
use crate::topology::{CableSettings, NodeSettings, Topology};
use crate::worker::Worker;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use tabane_proto::{Bundle, Counters, Fdb, Instant, LinkSettings, Name, NodeId, Settings};
use tabane_seal::{Cipher, Group, Random};

/// The group key, which all nodes share.
const GROUP_KEY: [u8; 32] = [0x7a; 32];

pub(crate) struct Node {
    pub(crate) number: u8,
    pub(crate) bundle: Bundle,
    pub(crate) settings: NodeSettings,
    /// The settings of its next bundle.
    bundle_settings: Settings,
    /// By nic.
    pub(crate) sockets: Vec<Socket>,
    /// When its timer event comes, on the world's clock.
    pub(crate) timer_at: Option<Instant>,
    pub(crate) worker: Worker,
    /// Causes for which the process is not scheduled.
    pauses: u8,
    /// When its machine fell asleep, and how long it has slept in all: its clock stood still.
    suspended_at: Option<Instant>,
    slept: Duration,
    /// The counters of the bundles before the last restart.
    before: Counted,
    pub(crate) tally: Tally,
    /// Reused: a frame on its way from or to the device, the bytes of a batch.
    pub(crate) frame: Vec<u8>,
    pub(crate) batch: Vec<u8>,
}

pub(crate) type Counted = Vec<(&'static str, u64)>;

/// What the worker saw, for comparison with what its bundles counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cells_received: u64,
    pub(crate) data_cells_sent: u64,
    pub(crate) frames_delivered: u64,
}

impl Node {
    pub(crate) fn new(number: u8, topology: &Topology, incarnation: u64, tap: &Tap) -> Self {
        let settings = topology.nodes[usize::from(number)].clone();
        let bundle_settings = bundle_settings(number, topology, incarnation);
        Self {
            number,
            bundle: bundle(Instant::default() + settings.clock, &settings, &bundle_settings, tap),
            sockets: (0..).zip(&settings.cables).map(|(nic, _)| Socket::new(Some(nic), None)).collect(),
            settings,
            bundle_settings,
            timer_at: None,
            worker: Worker::default(),
            pauses: 0,
            suspended_at: None,
            slept: Duration::ZERO,
            before: Vec::new(),
            tally: Tally::default(),
            frame: Vec::new(),
            batch: Vec::new(),
        }
    }

    pub(crate) fn clock(&self, now: Instant) -> Instant {
        now + self.settings.clock - self.slept
    }

    pub(crate) fn nics(&self) -> core::ops::Range<u8> {
        0..u8::try_from(self.sockets.len()).unwrap_or_default()
    }

    pub(crate) fn place(&self, nic: u8) -> Place {
        Place { node: self.number, nic }
    }

    pub(crate) fn socket(&mut self, nic: u8) -> &mut Socket {
        &mut self.sockets[usize::from(nic)]
    }

    /// A NIC interrupts: the datagrams in its ring go to the socket. Returns whether the interrupt was due.
    pub(crate) fn interrupt(&mut self, world: &mut Surroundings<'_>, nic: u8) -> bool {
        let place = self.place(nic);
        let Surroundings { network, agenda, .. } = world;
        let (was_due, dropped) =
            self.socket(nic).receive(|received| network.interrupt(agenda, place, received));
        network.losses.receive_buffer += dropped;
        was_due
    }

    /// The timer event is here; returns whether it is the latest one.
    pub(crate) fn timer(&mut self, now: Instant) -> bool {
        self.timer_at.take_if(|at| *at == now).is_some()
    }

    /// The process is no longer scheduled, or is again.
    pub(crate) fn set_paused(&mut self, begins: bool) {
        self.pauses = if begins { self.pauses + 1 } else { self.pauses.saturating_sub(1) };
    }

    pub(crate) fn set_suspended(&mut self, now: Instant, begins: bool) {
        self.set_paused(begins);
        if begins {
            self.suspended_at = Some(now);
        } else if let Some(since) = self.suspended_at.take() {
            self.slept += now.since(since);
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pauses > 0
    }

    /// The process ends, and a new one begins with nothing.
    pub(crate) fn restart(&mut self, world: &mut Surroundings<'_>) {
        self.before = self.counted();
        self.bundle_settings.incarnation = world.incarnation();
        self.bundle_settings.fdb = Arc::new(Fdb::new(0, self.bundle_settings.incarnation));
        let tap = world.member.tap();
        self.bundle = bundle(self.clock(world.agenda.now), &self.settings, &self.bundle_settings, &tap);
        for nic in self.nics() {
            let carrier = world.network.cable(self.place(nic)).has_carrier();
            world.network.losses.receive_buffer += self.socket(nic).waiting();
            *self.socket(nic) = Socket::new(Some(nic), Some(carrier));
        }
    }

    /// The counters of all the node's bundles since the beginning.
    pub(crate) fn counted(&self) -> Counted {
        self.bundle
            .counters()
            .named()
            .map(|(name, count)| (name, count + self.counted_before(name)))
            .collect()
    }

    fn counted_before(&self, name: &str) -> u64 {
        self.before.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count)
    }

    /// Compares the bundle's counters with what went in and out.
    pub(crate) fn compare(&self, world: &mut Surroundings<'_>) {
        let Counters { cells_received, drop_no_buffer, cells_sent, frames_delivered, .. } =
            *self.bundle.counters();
        for (names, counted, seen) in [
            (
                &["cells_received", "drop_no_buffer"][..],
                cells_received + drop_no_buffer,
                self.tally.cells_received,
            ),
            (&["cells_sent"], cells_sent, self.tally.data_cells_sent),
            (&["frames_delivered"], frames_delivered, self.tally.frames_delivered),
        ] {
            let counted = counted + names.iter().map(|name| self.counted_before(name)).sum::<u64>();
            if counted != seen {
                let names = names.join(" and ");
                world.violated(self.number, &format!("counters add up: {names} {counted}, seen {seen}"));
            }
        }
    }

    /// The bundle's number of the nic at which a cable ends, if it is in the bundle.
    pub(crate) fn number(&self, nic: u8) -> Option<u8> {
        self.sockets[usize::from(nic)].number
    }

    /// The cable that ends at the bundle's nic of this number.
    pub(crate) fn cable_at(&self, number: u8) -> Option<u8> {
        self.nics().find(|nic| self.number(*nic) == Some(number))
    }

    /// Takes a cable out of the bundle, unless it is the last one or out already.
    pub(crate) fn unplug(&mut self, world: &Surroundings<'_>, nic: u8) {
        let staying = self.sockets.iter().filter(|socket| socket.number.is_some() && !socket.is_leaving);
        let Some(number) = self.number(nic).filter(|_| staying.count() > 1) else { return };
        self.socket(nic).is_leaving = true;
        self.bundle.remove_link(self.clock(world.agenda.now), number);
    }

    /// Takes a cable into the bundle; `false`: its last socket is still open.
    pub(crate) fn plug(&mut self, world: &mut Surroundings<'_>, nic: u8) -> bool {
        // A number that is free in the bundle must not be that of a cable here any more when it is given again.
        self.close_sockets(world);
        if self.number(nic).is_some() {
            return !self.socket(nic).is_leaving;
        }
        let settings = self.bundle_settings.links[usize::from(nic)].clone();
        let number = self.bundle.add_link(self.clock(world.agenda.now), settings);
        let carrier = world.network.cable(self.place(nic)).has_carrier();
        *self.socket(nic) = Socket::new(number, Some(carrier));
        // The nic greets as it does after a start.
        world.starts += 1;
        true
    }

    /// Drains the link at the end of a cable, or ends that; nothing, when the cable is not in the bundle.
    pub(crate) fn drain(&mut self, world: &Surroundings<'_>, nic: u8, drained: bool) {
        if let Some(number) = self.number(nic) {
            self.bundle.drain_link(self.clock(world.agenda.now), number, drained);
        }
    }

    /// Closes the sockets of links that are gone; datagrams in them are lost, and so are those that arrive later.
    pub(crate) fn close_sockets(&mut self, world: &mut Surroundings<'_>) {
        for nic in self.nics() {
            if self.number(nic).is_none_or(|number| !self.bundle.has_link(number)) {
                world.network.losses.receive_buffer += self.socket(nic).waiting();
                *self.socket(nic) = Socket::default();
            }
        }
    }

    /// Ends the node: how many of its receive buffers its bundle still lends.
    pub(crate) fn into_lendable(mut self) -> usize {
        core::iter::from_fn(|| self.bundle.lend()).count()
    }
}

/// A bundle that has just started, with the real cryptography if its cells are sealed. Its incarnation decides its randomness;
/// its node decides the cipher, and whether it has a key of its own, so that sessions of all kinds meet.
fn bundle(now: Instant, node: &NodeSettings, settings: &Settings, tap: &Tap) -> Bundle {
    let mut bundle = Bundle::new(now, settings.clone());
    if let Some(rekey) = node.sealed {
        let group = group(settings.node, settings.incarnation);
        if node.may_be_hostile {
            bundle.set_security(Box::new(TappedGroup { group, tap: tap.clone() }), rekey);
        } else {
            bundle.set_security(Box::new(group), rekey);
        }
    }
    bundle
}

/// What a node knows of its group, and its own key: every second one has one.
pub(crate) fn group(node: NodeId, seed: u64) -> Group {
    let number = node.0.to_be_bytes()[5];
    let cipher = Cipher::ALL[usize::from(number) % Cipher::ALL.len()];
    let group = Group::new(&[GROUP_KEY], cipher, Random::seeded(seed));
    if number.is_multiple_of(2) { group.with_node_key(&[number.wrapping_add(1); 32]) } else { group }
}

fn bundle_settings(number: u8, topology: &Topology, incarnation: u64) -> Settings {
    let node = &topology.nodes[usize::from(number)];
    let nic = |cable: &CableSettings| LinkSettings {
        greet: if node.multicast { Vec::new() } else { others(number, cable, topology) },
        multicast: node.multicast,
        weight: cable.weight,
        rate: cable.sends,
        receives: cable.receives,
        ..LinkSettings::new(cable.cell_max)
    };
    let identity = NodeId::new([2, 0, 0, 0, 0, number], 7420);
    Settings {
        group: 0x7461_6261_6e65,
        name: Name::new(&format!("n{number}")),
        policy: node.policy,
        policy_options: node.policy_options,
        classes: node.classes.clone(),
        repair: node.repair,
        slots: node.slots,
        buffers: node.buffers,
        ..Settings::new(identity, incarnation, node.cables.iter().map(nic).collect())
    }
}

/// The endpoints of the other nodes on a cable's link.
fn others(number: u8, cable: &CableSettings, topology: &Topology) -> Vec<SocketAddr> {
    let nodes = (0u8..).zip(&topology.nodes).filter(|(other, _)| *other != number);
    let endpoints = nodes.flat_map(|(node, settings)| {
        let on_link = (0u8..).zip(&settings.cables).filter(|(_, other)| other.link == cable.link);
        on_link.map(move |(nic, _)| Place { node, nic }.endpoint())
    });
    endpoints.collect()
}
