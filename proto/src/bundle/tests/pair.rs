//! Two bundles with real keys, for tests in which cells leave and arrive, of this room and of others.

use super::*;
use crate::group::membership::{admit_as, join};
use crate::link::health::HEARTBEAT_QUIET;
use crate::policy::PolicyKind;
use crate::security::{self, Number, SessionKeys, TAG};
use crate::session::keyring::{Agreed, Keyring};
use alloc::vec;
use core::time::Duration;
use tabane_proto::security::{Number as TheirNumber, Security as _};
use tabane_seal::{Cipher, Group, Random};

const GROUP_KEY: [u8; 32] = [7; 32];
pub(crate) const LINK_COUNT: u8 = 2;

/// Two nodes whose links are joined one by one. What a node sends arrives when a test says so.
pub(crate) struct Pair {
    pub(crate) nodes: [Bundle; 2],
    pub(crate) now: Instant,
    pub(crate) delivered: [Vec<Vec<u8>>; 2],
}

#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) from: usize,
    pub(crate) link: u8,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Pair {
    /// Two nodes that know each other and have the keys of epoch 1, and whose links are up.
    pub(crate) fn new(cipher: Cipher) -> Self {
        let nodes = [bundle(0, cipher), bundle(1, cipher)];
        let mut pair = Self { nodes, now: Instant::default(), delivered: Default::default() };
        let hellos = [pair.nodes[0].hello(0, None), pair.nodes[1].hello(0, None)];
        let sessions = [0, 1].map(|node: usize| {
            let mut parts = pair.nodes[node].split().1;
            let number = parts.sessions.table_mut().draw_session(None, &[]).unwrap();
            assert_eq!(admit_as(pair.now, &hellos[1 - node], number, &mut parts), 0);
            number
        });
        for (node, agreed) in session(cipher, 1, 10).into_iter().enumerate() {
            let peer = pair.nodes[node].session(0);
            peer.session_out = sessions[1 - node];
            peer.keys = Some(Keyring::new(pair.now, agreed));
            join(pair.now, 0, &mut pair.nodes[node].split().1);
            let paths = pair.nodes[node].paths(0);
            for link in 0..LINK_COUNT {
                paths.outbound[link].end.endpoint = Some(address(1 - node, link));
                paths.outbound[link].end.cell_max = 1_452;
                paths.paired[link] = Some(link);
            }
        }
        (0..10).for_each(|_| pair.pass(HEARTBEAT_QUIET));
        assert!(pair.nodes.iter_mut().all(|node| node.outbound().iter().all(Outbound::is_up)));
        pair
    }

    pub(crate) fn keys(&mut self, node: usize) -> &mut Keyring {
        self.nodes[node].session(0).keys.as_mut().unwrap()
    }

    pub(crate) fn sent_by(&mut self, node: usize) -> Vec<Sent> {
        let bundle = &mut self.nodes[node];
        let mut sent = Vec::new();
        bundle.handle_timeout(self.now);
        while let Some(message) = bundle.poll_control(self.now) {
            if let Some(to) = message.to {
                sent.push(Sent { from: node, link: message.link, to, bytes: message.bytes.to_vec() });
            }
        }
        while let Some(batch) = bundle.poll_batch(self.now) {
            assert_eq!(batch.slices().count(), 1, "a sealed batch is one piece");
            let bytes = batch.slices().flatten().copied().collect::<Vec<_>>();
            let cells = bytes.chunks(batch.segment);
            let sent_cell =
                |cell: &[u8]| Sent { from: node, link: batch.link, to: batch.to, bytes: cell.to_vec() };
            sent.extend(cells.map(sent_cell));
            bundle.handle_sent(self.now, Outcome::Sent);
        }
        sent
    }

    pub(crate) fn deliver(&mut self, sent: &Sent) {
        self.deliver_from(sent, address(sent.from, sent.link));
    }

    /// Delivers a cell that another endpoint seems to have sent.
    pub(crate) fn deliver_from(&mut self, sent: &Sent, from: SocketAddr) {
        let to = 1 - sent.from;
        let bundle = &mut self.nodes[to];
        let mut buffer = bundle.lend().unwrap();
        buffer[..sent.bytes.len()].copy_from_slice(&sent.bytes);
        let length = sent.bytes.len();
        bundle.handle_datagrams(self.now, sent.link, from, buffer, length, length);
        while let Some(frame) = bundle.poll_frame(self.now) {
            self.delivered[to].push(frame.slices().flatten().copied().collect());
        }
    }

    /// Lets time pass, and everything arrive.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for node in [0, 1, 0, 1] {
            let sent = self.sent_by(node);
            sent.iter().for_each(|sent| self.deliver(sent));
        }
    }

    /// A node reads a frame of so many bytes to everyone from its device.
    pub(crate) fn read(&mut self, node: usize, length: usize, fill: u8) -> Vec<u8> {
        read(&mut self.nodes[node], self.now, [0xff; 6], &vec![fill; length - 14])
    }

    pub(crate) fn received(&self, node: usize) -> u64 {
        self.nodes[node].links.paths(0).unwrap().inbound.iter().map(|path| path.received).sum()
    }
}

fn bundle(node: u8, cipher: Cipher) -> Bundle {
    let link = LinkSettings { multicast: false, ..LinkSettings::new(1_452) };
    let settings = Settings {
        policy: PolicyKind::RoundRobin,
        slots: 512,
        buffers: 64,
        ..Settings::new(super::node(node), u64::from(node) + 1, vec![link; usize::from(LINK_COUNT)])
    };
    let mut bundle = Bundle::new(Instant::default(), settings);
    bundle.set_security(Box::new(Foreign(Box::new(group(cipher, 1)))), Rekey::default());
    bundle
}

pub(crate) fn address(node: usize, link: u8) -> SocketAddr {
    SocketAddr::from(([10, link, 0, u8::try_from(node).unwrap()], 7420))
}

/// What both sides of a handshake agree on.
pub(crate) fn session(cipher: Cipher, epoch: u8, seed: u64) -> [Agreed; 2] {
    let (mut one, mut other) = (group(cipher, seed).initiate(), group(cipher, seed + 1).respond(0));
    let (mut first, mut second, mut payload) = (Vec::new(), Vec::new(), Vec::new());
    one.write(&[], &mut first).unwrap();
    other.read(&first, &mut payload).unwrap();
    other.write(&[], &mut second).unwrap();
    one.read(&second, &mut payload).unwrap();
    [one.finish(), other.finish()].map(|keys| {
        let (sealing, opening) = (Box::new(Foreign(keys.sealing)), Box::new(Foreign(keys.opening)));
        Agreed {
            epoch,
            keys: SessionKeys { sealing, opening },
            group_key: group(cipher, seed).tag(0, &[]),
            peer: None,
        }
    })
}

fn group(cipher: Cipher, seed: u64) -> Group {
    Group::new(&[GROUP_KEY], cipher, Random::seeded(seed))
}

/// The traits of the crate under test are not those that `seal` was built with, although they are the same text.
struct Foreign<T: ?Sized>(Box<T>);

impl security::Key for Foreign<dyn tabane_proto::security::Key> {
    fn seal(&self, number: Number, header: &[u8], payload: &[u8], sealed: &mut [u8]) {
        self.0.seal(TheirNumber { link: number.link, seq: number.seq }, header, payload, sealed);
    }

    fn open(&self, number: Number, header: &[u8], sealed: &mut [u8]) -> bool {
        self.0.open(TheirNumber { link: number.link, seq: number.seq }, header, sealed)
    }

    fn cipher(&self) -> &'static str {
        self.0.cipher()
    }
}

impl security::Security for Foreign<Group> {
    fn tag(&self, key: usize, bytes: &[u8]) -> [u8; TAG] {
        self.0.tag(key, bytes)
    }

    fn tagged_by(&self, bytes: &[u8], tag: &[u8; TAG]) -> Option<usize> {
        self.0.tagged_by(bytes, tag)
    }

    fn initiate(&mut self) -> Box<dyn security::Handshake> {
        unreachable!("keys are installed by hand")
    }

    fn respond(&mut self, _: usize) -> Box<dyn security::Handshake> {
        unreachable!("keys are installed by hand")
    }

    fn accepts(&self, peer: Option<&security::PublicKey>) -> bool {
        self.0.accepts(peer)
    }

    fn random(&mut self) -> [u8; TAG] {
        self.0.random()
    }
}
