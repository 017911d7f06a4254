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

use tabane::events::EventLog;
use tabane::fuzzing;
use tabane_proto::security::Rekey;
use tabane_proto::wire::cell::LINKS;
use tabane_proto::wire::record::{ETHERNET, FRAME_MAX, VNET};
use tabane_proto::{
    BUFFER, Bundle, Carried, Instant, KernelEnd, LinkSettings, Name, NodeId, Outcome, Settings,
};
use tabane_seal::{Cipher, Group, Random};
use tabane_sim::cable::Place;
use tabane_sim::hostile::tap::TappedGroup;
use tabane_sim::hostile::way::{Lanes, Way};
use tabane_sim::hostile::{Hostility, Member};
use tabane_sim::random;

/// The nodes.
pub(crate) const JUDGED: u8 = 0;
pub(crate) const MEMBER: u8 = 1;
pub(crate) const HONEST: u8 = 2;
const NODES: u8 = 3;
/// Links of each.
pub(crate) const NICS: u8 = 2;
/// Receive buffers of the judged bundle: more than a record in single bytes fills.
const BUFFERS: u16 = 64;
/// Pieces of a frame that the device takes in one write.
const PIECES_MAX: usize = 128;
/// Control messages that may wait, whatever peers send.
const MESSAGES_MAX: usize = 2_048;
/// Slots of a ring, and so the most cells that may wait to be sent again.
const SLOTS: usize = 512;
/// Turns of a millisecond that nodes get to join or to deliver a frame, and then turns of ten: 12 s, after which a peer that
/// somebody has made up is forgotten.
const TURNS: usize = 200;
const SLOW_TURNS: usize = 1_200;
const TURN: Duration = Duration::from_millis(1);
const SLOW_TURN: Duration = Duration::from_millis(10);
/// The name of all nodes; fuzzers make others.
const NAME: &str = "a\u{1b}]0;b\u{202e}\"}\n";
/// The longest packet of programs, in bytes: frames of 1,280 bytes fit.
const PACKET: u16 = 1_400;
/// A node that is silent for longer is forgotten.
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
    pub(crate) now: Instant,
    is_sealed: bool,
    bundles: Vec<Bundle>,
    member: Member,
    /// Nodes that take part: the others neither run nor receive.
    pub(crate) runs: [bool; NODES as usize],
    /// Links that carry nothing.
    pub(crate) dead: [bool; NICS as usize],
    pub(crate) shape: Shape,
    starts: u64,
    /// The bytes by which the judged bundle's delivery of [`World::send`] is known, and whether it has happened.
    awaited: Option<Vec<u8>>,
    has_come: bool,
    /// What the judged bundle tells users.
    events: EventLog,
}

impl World {
    /// All have joined, and the member watches its bundle.
    pub(crate) fn joined(is_sealed: bool, repair: bool) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut member = Member::new(usize::from(NODES), random::Random::new(1, random::Stream::Hostile));
        let hostility = Hostility { node: MEMBER, after: TURN, every: TURN, deeds: Vec::new() };
        member.set(Some(hostility));
        let mut world = Self {
            now,
            is_sealed,
            bundles: Vec::new(),
            member,
            runs: [true; NODES as usize],
            dead: [false; NICS as usize],
            shape: Shape::Single,
            starts: 0,
            awaited: None,
            has_come: false,
            events: EventLog::new().expect("an eventfd"),
        };
        for node in 0..NODES {
            let bundle = world.start(node, repair);
            world.bundles.push(bundle);
        }
        for _ in 0..TURNS {
            if (0..NICS).all(|nic| world.way(nic).is_some()) && world.is_met() {
                return world;
            }
            world.turn(TURN);
        }
        panic!("three nodes with two links between them join");
    }

    fn is_met(&self) -> bool {
        let links = self.bundles.iter().map(|bundle| {
            let links = bundle.peers().flat_map(|(_, links)| links);
            links.filter(|link| link.sending && link.receiving).count()
        });
        links.min() == Some(usize::from((NODES - 1) * NICS))
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
            Bundle::new(self.now, Settings { slots: SLOTS, buffers: BUFFERS, repair, ..settings });
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
        self.bundles[usize::from(node)] = bundle;
    }

    pub(crate) fn judged(&mut self) -> &mut Bundle {
        &mut self.bundles[usize::from(JUDGED)]
    }

    /// The member's way to the judged bundle over a nic, once its bundle has sent there.
    pub(crate) fn way(&mut self, nic: u8) -> Option<(&mut Way, &mut Lanes)> {
        self.member.way(Place { node: MEMBER, nic }, Place { node: JUDGED, nic })
    }

    /// The member sends cells to the judged bundle.
    pub(crate) fn say(&mut self, nic: u8, cells: &[Vec<u8>]) {
        let from = Place { node: MEMBER, nic };
        for alike in cells.chunk_by(|one, other| one.len() == other.len()) {
            let length = alike[0].len().max(1);
            for train in alike.chunks((self.shape.train() / length).max(1)) {
                self.receive(Place { node: JUDGED, nic }, from, &train.concat(), length);
            }
        }
        self.deliver(JUDGED);
    }

    /// A datagram train reaches a node.
    pub(crate) fn receive(&mut self, to: Place, from: Place, bytes: &[u8], segment: usize) {
        if !self.runs[usize::from(to.node)] || self.dead[usize::from(to.nic)] {
            return;
        }
        bytes.chunks(segment.max(1)).for_each(|cell| self.member.watch_received(to, from, cell));
        let bundle = &mut self.bundles[usize::from(to.node)];
        let Some(mut buffer) = bundle.lend() else { return };
        let length = bytes.len().min(BUFFER);
        buffer[..length].copy_from_slice(&bytes[..length]);
        bundle.handle_datagrams(self.now, to.nic, from.endpoint(), buffer, length, segment);
    }

    /// Complete frames go to a node's device.
    fn deliver(&mut self, node: u8) {
        let Self { bundles, awaited, has_come, now, .. } = self;
        while let Some(frame) = bundles[usize::from(node)].poll_frame(*now) {
            let slices = || frame.slices();
            let length: usize = slices().map(<[u8]>::len).sum();
            assert!((VNET + ETHERNET..=VNET + FRAME_MAX).contains(&length), "{length} bytes");
            assert!(slices().len() <= PIECES_MAX, "{} pieces", slices().len());
            assert!(slices().all(|slice| !slice.is_empty()), "an empty piece");
            assert!(slices().next().is_some_and(|first| first.len() >= VNET + ETHERNET), "no whole head");
            let is_awaited = awaited.as_ref().is_some_and(|it| it.iter().eq(slices().flatten()));
            *has_come |= is_awaited && node == JUDGED;
        }
    }

    /// A node's device has a frame, if it may take one.
    pub(crate) fn send(&mut self, node: u8, frame: &[u8]) {
        let bundle = &mut self.bundles[usize::from(node)];
        if !bundle.wants_frames() {
            return;
        }
        let mut rest = frame;
        for space in bundle.read_space() {
            let here = space.len().min(rest.len());
            space[..here].copy_from_slice(&rest[..here]);
            rest = &rest[here..];
        }
        if rest.is_empty() {
            bundle.handle_frame(self.now, frame.len());
        }
    }

    /// Lets time pass, and each receive everything that the others send.
    pub(crate) fn turn(&mut self, time: Duration) {
        self.now = self.now + time;
        for node in (0..NODES).filter(|node| self.runs[usize::from(*node)]).collect::<Vec<_>>() {
            for (nic, to, bytes, segment) in self.speak(node) {
                let from = Place { node, nic };
                self.member.watch_sent(from, to.map(Place::endpoint), &bytes, segment);
                if self.dead[usize::from(nic)] {
                    continue;
                }
                let others = (0..NODES).filter(|other| *other != node).map(|node| Place { node, nic });
                for place in others.filter(|place| to.is_none_or(|to| to == *place)).collect::<Vec<_>>() {
                    self.receive(place, from, &bytes, segment);
                }
            }
            (0..NODES).for_each(|node| self.deliver(node));
        }
    }

    /// The datagrams that a node sends: by which nic, to whom, the bytes and the length of each cell.
    fn speak(&mut self, node: u8) -> Vec<(u8, Option<Place>, Vec<u8>, usize)> {
        let now = self.now;
        let bundle = &mut self.bundles[usize::from(node)];
        (0..NICS).for_each(|nic| bundle.handle_queue(now, nic, 0));
        if now >= bundle.poll_timeout(now) {
            bundle.handle_timeout(now);
        }
        let mut said = Vec::new();
        while let Some(message) = bundle.poll_control(now) {
            let to = message.to.and_then(Place::of);
            if message.to.is_none() || to.is_some() {
                said.push((message.link, to, message.bytes.to_vec(), message.bytes.len()));
            }
        }
        while let Some(batch) = bundle.poll_batch(now) {
            let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
            said.extend(Place::of(batch.to).map(|to| (batch.link, Some(to), bytes, batch.segment)));
            bundle.handle_sent(now, Outcome::Sent);
        }
        while let Some(event) = bundle.poll_event() {
            if node == JUDGED {
                fuzzing::record(&self.events, &event);
            }
        }
        while bundle.poll_gate().is_some() {}
        said
    }

    /// What programs in the kernel are told of the judged bundle's peers names each node once, and each link of a node once. What
    /// users are told prints.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn assert_told(&mut self) {
        let now = self.now;
        let bundle = &mut self.bundles[usize::from(JUDGED)];
        bundle.handle_carried(now, |_, _| Some(Carried::default()));
        let peers = bundle.kernel_peers(now, PACKET, true);
        let nodes: BTreeSet<_> = peers.iter().map(|peer| peer.node).collect();
        assert_eq!(nodes.len(), peers.len());
        for peer in &peers {
            let links: BTreeSet<_> = peer.paths.iter().map(|path| path.link).collect();
            assert!(links.len() == peer.paths.len() && links.iter().all(|link| *link < NICS), "{peer:?}");
        }
        let example = serde_json::from_str(include_str!("../../docs/status.example.json"));
        fuzzing::shown(example.expect("the documented example"), bundle, &self.events);
    }

    /// The judged bundle holds no more than its bounds, and no buffer is lost.
    ///
    /// # Panics
    /// When it is not.
    pub(crate) fn assert_bounded(&self) {
        let held = self.bundles[usize::from(JUDGED)].held();
        let all = held.buffers_free + held.buffers_lent + held.buffers_held;
        assert_eq!((all, held.buffers_lent), (usize::from(BUFFERS), 0), "{held:?}");
        assert_eq!(held.frames, 0, "all is delivered");
        assert!(held.messages <= MESSAGES_MAX, "{held:?}");
        assert!(held.repairs <= LINKS * SLOTS, "{held:?}");
    }

    /// A frame that a node sends is delivered at the judged bundle.
    ///
    /// # Panics
    /// When it is not.
    pub(crate) fn assert_delivers(&mut self, node: u8) {
        let mut number = 0;
        self.has_come = false;
        for turn in 0..TURNS + SLOW_TURNS {
            if turn % 10 == 0 {
                number += 1;
                let frame = frame(node, [0xff; 6], VNET + 100, 0x5eed_0000 + number);
                self.send(node, &frame);
                self.awaited = Some(frame);
            }
            self.turn(if turn < TURNS { TURN } else { SLOW_TURN });
            if self.has_come {
                return;
            }
        }
        panic!("no frame of node {node} arrives any more");
    }

    /// When all others are silent for long, all buffers but the one in which cells are gathered have come back.
    ///
    /// # Panics
    /// When they have not.
    pub(crate) fn assert_gives_back(&mut self) {
        self.runs = [true, false, false];
        self.now = self.now + FORGOTTEN_AFTER;
        (0..TURNS).for_each(|_| self.turn(SLOW_TURN));
        assert_eq!(self.judged().peers().count(), 0, "silent peers are forgotten");
        let held = self.judged().held();
        assert!(held.buffers_held <= 1, "{held:?}");
    }
}

/// A frame of a node's host, virtio header included.
pub(crate) fn frame(node: u8, to: [u8; 6], length: usize, number: u32) -> Vec<u8> {
    let mut bytes = vec![0; length.clamp(VNET + ETHERNET + 4, VNET + FRAME_MAX)];
    bytes[VNET..VNET + 6].copy_from_slice(&to);
    bytes[VNET + 6..VNET + 12].copy_from_slice(&host(node));
    bytes[VNET + 12..VNET + 14].copy_from_slice(&[0x88, 0xb5]);
    bytes[VNET + 14..VNET + 18].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The address of a node's host.
pub(crate) fn host(node: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, node]
}
