//! Three bundles on two links: one that is judged, a member that sends anything, and an honest one.
//!
//! ```text
//!   judged (0) ──┬── link 0 ──┬── member (1): its bundle, and further cells that the fuzzer wants
//!                └── link 1 ──┴── honest (2)
//! ```
//!
//! The member is the simulator's ([`tabane_sim::hostile`]): it holds the keys, so its cells are authentic.

use std::collections::BTreeSet;
use std::time::Duration;

use tabane_proto::security::Rekey;
use tabane_proto::wire::cell::LINKS;
use tabane_proto::wire::record::{ETHERNET, FRAME_MAX, VNET};
use tabane_proto::{BUFFER, Bundle, Carried, KernelEnd, LinkSettings, Name, NodeId, Settings};
use tabane_seal::{Cipher, Group, Random};
use tabane_sim::cable::Place;
use tabane_sim::hostile::tap::TappedGroup;
use tabane_sim::hostile::way::{Lanes, Way};
use tabane_sim::hostile::{Hostility, Member};
use tabane_sim::random;
use tabane_sim::table::{self, TURN, Table};
use tabaned::events::EventLog;
use tabaned::fuzzing;

pub(crate) const JUDGED: u8 = 0;
pub(crate) const MEMBER: u8 = 1;
pub(crate) const HONEST: u8 = 2;
const NODES: u8 = 3;
pub(crate) const NICS: u8 = 2;
/// Receive buffers of the judged bundle: more than a record in single bytes fills.
const BUFFERS: u16 = 64;
/// Control messages that may wait, whatever peers send.
const MESSAGES_MAX: usize = 2_048;
/// Slots of a ring, and so the most cells that may wait to be sent again.
const SLOTS: usize = 512;
/// Turns of a millisecond that nodes get to join or to deliver a frame, and then turns of ten: 12 s, after which a peer that
/// somebody has made up is forgotten.
const TURNS: usize = 200;
const SLOW_TURNS: usize = 1_200;
const SLOW_TURN: Duration = Duration::from_millis(10);
/// The name of all nodes; fuzzers make others.
const NAME: &str = "a\u{1b}]0;b\u{202e}\"}\n";
/// The longest packet of programs, in bytes: frames of 1,280 bytes fit.
const PACKET: u16 = 1_400;
const FORGOTTEN_AFTER: Duration = Duration::from_secs(11);

/// How the member's cells reach the judged bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each alone in a buffer, from which it is gathered with others.
    Single,
    /// Those of one length together, as the kernel merges them, but too few to keep their buffer.
    Sparse,
    /// Those of one length together, as many as fit a buffer.
    Long,
}

impl Shape {
    /// Bytes of a train at most.
    fn train(self) -> usize {
        match self {
            Self::Single => 0,
            Self::Sparse => 8_000,
            Self::Long => BUFFER - 1,
        }
    }
}

pub(crate) struct World {
    pub(crate) table: Table,
    is_sealed: bool,
    member: Member,
    /// Links that carry nothing.
    pub(crate) dead: [bool; NICS as usize],
    pub(crate) shape: Shape,
    starts: u64,
    events: EventLog,
}

impl World {
    /// All have joined, and the member watches its bundle.
    pub(crate) fn joined(is_sealed: bool, repair: bool) -> Self {
        let mut member = Member::new(usize::from(NODES), random::Random::new(1, random::Stream::Hostile));
        let hostility = Hostility { node: MEMBER, after: TURN, every: TURN, deeds: Vec::new() };
        member.set(Some(hostility));
        let mut world = Self {
            table: Table::new(true),
            is_sealed,
            member,
            dead: [false; NICS as usize],
            shape: Shape::Single,
            starts: 0,
            events: EventLog::new().expect("an eventfd"),
        };
        for node in 0..NODES {
            let bundle = world.start(node, repair);
            world.table.add(bundle);
        }
        for _ in 0..TURNS {
            let is_met = (0..NODES).all(|node| world.table.links_up(node) == usize::from((NODES - 1) * NICS));
            if is_met && (0..NICS).all(|nic| world.way(nic).is_some()) {
                return world;
            }
            world.turn(TURN);
        }
        panic!("three nodes with two links between them join");
    }

    fn start(&mut self, node: u8, repair: bool) -> Bundle {
        self.starts += 1;
        let id = NodeId::new([2, 0, 0, 0, 0, node], 7420);
        let nic = |nic: u8| {
            let (mac, address) = ([2, 0, 0, 0, nic, node], [0xfe80, 0, 0, 0, 0, 0, nic.into(), node.into()]);
            let end = KernelEnd { mac, address: address.into(), port: 7_421, orders: true };
            LinkSettings { kernel: Some(end), ..LinkSettings::new(1_452) }
        };
        let settings = Settings::new(id, 10 * self.starts + u64::from(node), (0..NICS).map(nic).collect());
        let settings = Settings { name: Name::new(NAME), ..settings };
        let mut bundle =
            Bundle::new(self.table.now, Settings { slots: SLOTS, buffers: BUFFERS, repair, ..settings });
        if self.is_sealed {
            let group = Group::new(&[[7; 32]], Cipher::Aes256Gcm, Random::seeded(self.starts));
            let tap = self.member.tap();
            match node {
                MEMBER => bundle.set_security(Box::new(TappedGroup { group, tap }), Rekey::default()),
                _ => bundle.set_security(Box::new(group), Rekey::default()),
            }
        }
        bundle
    }

    pub(crate) fn restart(&mut self, node: u8) {
        let bundle = self.start(node, true);
        self.table[node].bundle = bundle;
    }

    pub(crate) fn judged(&mut self) -> &mut Bundle {
        &mut self.table[JUDGED].bundle
    }

    /// The member's way to the judged bundle over a nic, once its bundle has sent there.
    pub(crate) fn way(&mut self, nic: u8) -> Option<(&mut Way, &mut Lanes)> {
        self.member.way(Place { node: MEMBER, nic }, Place { node: JUDGED, nic })
    }

    pub(crate) fn say(&mut self, nic: u8, cells: &[Vec<u8>]) {
        let from = Place { node: MEMBER, nic };
        for alike in cells.chunk_by(|one, other| one.len() == other.len()) {
            let length = alike[0].len().max(1);
            for train in alike.chunks((self.shape.train() / length).max(1)) {
                self.receive(Place { node: JUDGED, nic }, from, &train.concat(), length);
            }
        }
        self.table.deliver(JUDGED);
    }

    pub(crate) fn receive(&mut self, to: Place, from: Place, bytes: &[u8], segment: usize) {
        if self.table[to.node].is_away || self.dead[usize::from(to.nic)] {
            return;
        }
        bytes.chunks(segment.max(1)).for_each(|cell| self.member.watch_received(to, from, cell));
        self.table.receive(to, from.endpoint(), bytes, segment);
    }

    /// Lets time pass, and each receive everything that the others send.
    pub(crate) fn turn(&mut self, time: Duration) {
        let Self { table, member, dead, events, .. } = self;
        table.nodes.iter_mut().for_each(|node| node.delivered.clear());
        table.turn(time, |said, places| {
            let from = said.from;
            member.watch_sent(from, said.to, &said.bytes, said.segment);
            if dead[usize::from(from.nic)] {
                return false;
            }
            for place in places {
                said.bytes.chunks(said.segment).for_each(|cell| member.watch_received(*place, from, cell));
            }
            true
        });
        table[JUDGED].events.drain(..).for_each(|event| fuzzing::record(events, &event));
        [MEMBER, HONEST].into_iter().for_each(|node| table[node].events.clear());
    }

    /// What programs in the kernel are told of the judged bundle's peers names each node once, and each link of a node once. What
    /// users are told prints.
    pub(crate) fn assert_told(&mut self) {
        let now = self.table.now;
        let bundle = &mut self.table[JUDGED].bundle;
        bundle.handle_carried(now, |_, _| Some(Carried::default()));
        let peers = bundle.kernel_peers(now, PACKET, true);
        let nodes: BTreeSet<_> = peers.iter().map(|peer| peer.node).collect();
        assert_eq!(nodes.len(), peers.len());
        for peer in &peers {
            let links: BTreeSet<_> = peer.paths.iter().map(|path| path.link).collect();
            assert!(links.len() == peer.paths.len() && links.iter().all(|link| *link < NICS), "{peer:?}");
        }
        let example = serde_json::from_str(include_str!("../../docs/status.example.json"));
        let status = fuzzing::status(example.expect("the documented example"), bundle, &self.events);
        tabane::fuzzing::shown(&status);
    }

    /// The judged bundle holds no more than its bounds, and no buffer is lost.
    pub(crate) fn assert_bounded(&self) {
        let held = self.table[JUDGED].bundle.held();
        let all = held.buffers_free + held.buffers_lent + held.buffers_held;
        assert_eq!((all, held.buffers_lent), (usize::from(BUFFERS), 0), "{held:?}");
        assert_eq!(held.frames, 0, "all is delivered");
        assert!(held.messages <= MESSAGES_MAX, "{held:?}");
        assert!(held.repairs <= LINKS * SLOTS, "{held:?}");
    }

    pub(crate) fn assert_delivers(&mut self, node: u8) {
        for (turn, number) in (0..TURNS + SLOW_TURNS).zip(0_u32..) {
            let awaited = frame(node, [0xff; 6], VNET + 100, 0x5eed_0000 + number / 10);
            if turn % 10 == 0 {
                self.table.send(node, &awaited);
            }
            self.turn(if turn < TURNS { TURN } else { SLOW_TURN });
            if self.table[JUDGED].delivered.drain(..).any(|delivered| delivered == awaited) {
                return;
            }
        }
        panic!("no frame of node {node} arrives any more");
    }

    /// When all others are silent for long, all buffers but the one in which cells are gathered have come back.
    pub(crate) fn assert_gives_back(&mut self) {
        [MEMBER, HONEST].into_iter().for_each(|node| self.table[node].is_away = true);
        self.table.now = self.table.now + FORGOTTEN_AFTER;
        (0..TURNS).for_each(|_| self.turn(SLOW_TURN));
        assert_eq!(self.judged().peers().count(), 0, "silent peers are forgotten");
        let held = self.judged().held();
        assert!(held.buffers_held <= 1, "{held:?}");
    }
}

/// A frame of a node's host, virtio header included.
pub(crate) fn frame(node: u8, to: [u8; 6], length: usize, number: u32) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(length.clamp(VNET + ETHERNET + 4, VNET + FRAME_MAX) - VNET - ETHERNET, 0);
    table::frame(to, host(node), &payload)
}

pub(crate) fn host(node: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, node]
}
