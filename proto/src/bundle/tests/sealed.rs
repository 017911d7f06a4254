//! Two bundles with real keys: they send sealed cells, and refuse all others.

use super::*;
use crate::group::membership::{admit_as, join};
use crate::link::health::HEARTBEAT_QUIET;
use crate::policy::PolicyKind;
use crate::security::{self, SessionKeys};
use crate::security::{Number, TAG};
use crate::session::keyring::{Agreed, Keyring};
use crate::wire::cell::{Kind, wire_seq};
use crate::wire::hello::NodeId;
use alloc::vec;
use core::time::Duration;
use tabane_proto::security::{Number as TheirNumber, Security as _};
use tabane_seal::{Cipher, Group, Random};

const GROUP_KEY: [u8; 32] = [7; 32];
const LINK_COUNT: u8 = 2;

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

fn group(cipher: Cipher, seed: u64) -> Group {
    Group::new(&[GROUP_KEY], cipher, Random::seeded(seed))
}

/// What both sides of a handshake agree on.
fn session(cipher: Cipher, epoch: u8, seed: u64) -> [Agreed; 2] {
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

/// A cell on its way.
#[derive(Clone)]
struct Sent {
    from: usize,
    link: u8,
    bytes: Vec<u8>,
}

/// Two nodes whose links are joined one by one.
struct Pair {
    nodes: [Bundle; 2],
    now: Instant,
    delivered: [Vec<Vec<u8>>; 2],
}

fn address(node: usize, link: u8) -> SocketAddr {
    SocketAddr::from(([10, link, 0, u8::try_from(node).unwrap()], 7420))
}

fn bundle(node: u8, cipher: Cipher) -> Bundle {
    let link = LinkSettings { multicast: false, ..LinkSettings::new(1_452) };
    let identity = NodeId::new([2, 0, 0, 0, 0, node], 7420);
    let settings = Settings {
        policy: PolicyKind::RoundRobin,
        slots: 512,
        buffers: 64,
        ..Settings::new(identity, u64::from(node) + 1, vec![link; usize::from(LINK_COUNT)])
    };
    let mut bundle = Bundle::new(Instant::default(), settings);
    bundle.set_security(Box::new(Foreign(Box::new(group(cipher, 1)))), Rekey::default());
    bundle
}

impl Pair {
    /// Two nodes that know each other and have the keys of epoch 1, and whose links are up.
    fn new(cipher: Cipher) -> Self {
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
                paths.outbound[usize::from(link)].endpoint = Some(address(1 - node, link));
                paths.outbound[usize::from(link)].cell_max = 1_452;
                paths.paired[usize::from(link)] = Some(link);
            }
        }
        (0..10).for_each(|_| pair.pass(HEARTBEAT_QUIET));
        assert!(
            pair.nodes.iter().all(|node| node.links.paths(0).unwrap().outbound.iter().all(|path| path.up))
        );
        pair
    }

    fn keys(&mut self, node: usize) -> &mut Keyring {
        self.nodes[node].session(0).keys.as_mut().unwrap()
    }

    /// The cells that a node sends now.
    fn sent_by(&mut self, node: usize) -> Vec<Sent> {
        let bundle = &mut self.nodes[node];
        let mut sent = Vec::new();
        bundle.handle_timeout(self.now);
        while let Some(message) = bundle.poll_control(self.now) {
            if message.to.is_some() {
                sent.push(Sent { from: node, link: message.link, bytes: message.bytes.to_vec() });
            }
        }
        while let Some(batch) = bundle.poll_batch(self.now) {
            assert_eq!(batch.slices().count(), 1, "a sealed batch is one piece");
            let bytes = batch.slices().flatten().copied().collect::<Vec<_>>();
            let cells = bytes.chunks(batch.segment);
            sent.extend(cells.map(|cell| Sent { from: node, link: batch.link, bytes: cell.to_vec() }));
            bundle.handle_sent(self.now, Outcome::Sent);
        }
        sent
    }

    fn deliver(&mut self, sent: &Sent) {
        let to = 1 - sent.from;
        let bundle = &mut self.nodes[to];
        let mut buffer = bundle.lend().unwrap();
        buffer[..sent.bytes.len()].copy_from_slice(&sent.bytes);
        let (from, length) = (address(sent.from, sent.link), sent.bytes.len());
        bundle.handle_datagrams(self.now, sent.link, from, buffer, length, length);
        while let Some(frame) = bundle.poll_frame(self.now) {
            self.delivered[to].push(frame.slices().flatten().copied().collect());
        }
    }

    /// Lets time pass, and everything arrive.
    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for node in [0, 1, 0, 1] {
            let sent = self.sent_by(node);
            sent.iter().for_each(|sent| self.deliver(sent));
        }
    }

    /// A node reads a frame of so many bytes from its device.
    fn read(&mut self, node: usize, length: usize, fill: u8) -> Vec<u8> {
        let mut frame = vec![fill; 10 + length];
        frame[..10].fill(0);
        frame[10..24].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        let mut rest = &frame[..];
        for part in self.nodes[node].read_space() {
            let (now, later) = rest.split_at(rest.len().min(part.len()));
            part[..now.len()].copy_from_slice(now);
            rest = later;
        }
        self.nodes[node].handle_frame(self.now, frame.len());
        frame
    }

    fn received(&self, node: usize) -> u64 {
        self.nodes[node].links.paths(0).unwrap().inbound.iter().map(|path| path.received).sum()
    }
}

#[test]
fn frames_cross_and_nothing_of_them_is_seen() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::new(cipher);
        let frames = vec![pair.read(0, 60_000, 0xa5), pair.read(0, 100, 0xa5)];
        let sent = pair.sent_by(0);
        assert!(sent.iter().any(|sent| sent.bytes.len() == 1_452), "cells are as large as the link takes");
        for cell in &sent {
            assert_eq!(cell.bytes[1], 1, "the epoch");
            assert!(cell.bytes.len() <= 1_452);
            assert!(cell.bytes.windows(8).all(|window| window != [0xa5; 8]));
        }
        sent.iter().for_each(|cell| pair.deliver(cell));
        assert_eq!(pair.delivered[1], frames);
        assert_eq!(pair.nodes[1].counters().drop_forged + pair.nodes[1].counters().drop_replayed, 0);
        assert_eq!(pair.nodes[1].cell_max(), 1_452);
    }
}

#[test]
fn whatever_is_touched_is_refused_and_counts_for_nothing() {
    let mut pair = Pair::new(Cipher::fastest());
    let frame = pair.read(0, 300, 1);
    let sent = pair.sent_by(0).pop().unwrap();
    let (received, refused) = (pair.received(1), |counters: &crate::Counters| {
        counters.drop_forged + counters.drop_replayed + counters.drop_malformed + counters.drop_session
    });
    for at in 0..sent.bytes.len() {
        for bit in 0..8 {
            let mut touched = sent.clone();
            touched.bytes[at] ^= 1 << bit;
            let before = refused(pair.nodes[1].counters());
            pair.deliver(&touched);
            assert_eq!(refused(pair.nodes[1].counters()), before + 1, "bit {bit} of byte {at}");
        }
    }
    for length in HEADER..sent.bytes.len() {
        let mut shorter = sent.clone();
        shorter.bytes.truncate(length);
        pair.deliver(&shorter);
    }
    assert_eq!((pair.received(1), pair.delivered[1].len()), (received, 0));
    pair.deliver(&sent);
    assert_eq!((pair.received(1), &pair.delivered[1]), (received + 1, &vec![frame]));
}

#[test]
fn what_is_repeated_is_refused() {
    let mut pair = Pair::new(Cipher::fastest());
    let frame = pair.read(0, 300, 1);
    pair.now = pair.now + HEARTBEAT_QUIET;
    let sent = pair.sent_by(0);
    assert!(sent.len() > 2, "heartbeats and data");
    sent.iter().for_each(|sent| pair.deliver(sent));
    let received = pair.received(1);
    sent.iter().rev().for_each(|sent| pair.deliver(sent));
    assert_eq!(pair.nodes[1].counters().drop_replayed, sent.len() as u64);
    assert_eq!((pair.received(1), &pair.delivered[1]), (received, &vec![frame]));
}

#[test]
fn what_is_not_sealed_is_refused() {
    let mut pair = Pair::new(Cipher::fastest());
    let seq = pair.nodes[0].outbound()[0].next_seq();
    let session = pair.nodes[0].session(0).session_out;
    for kind in [Kind::Data, Kind::Hello, Kind::Heartbeat, Kind::Repair] {
        let header = Header {
            kind,
            epoch: 0,
            link: 0,
            lane: 0,
            link_seq: wire_seq(seq),
            lane_seq: 0,
            block_offset: 0,
            session,
        };
        let mut bytes = vec![0; 100];
        header.emit(&mut bytes);
        let received = pair.received(1);
        pair.deliver(&Sent { from: 0, link: 0, bytes });
        assert_eq!(pair.received(1), received);
    }
    let counters = *pair.nodes[1].counters();
    assert_eq!((counters.drop_forged, counters.drop_tag), (3, 1), "a greeting needs a tag");
}

#[test]
fn a_change_of_keys_loses_no_cell() {
    let mut pair = Pair::new(Cipher::fastest());
    let [one, other] = session(Cipher::fastest(), 2, 20);
    let now = pair.now;
    let mut frames = vec![pair.read(0, 9_000, 1)];
    let before = pair.sent_by(0);
    pair.keys(1).offer(now, other);
    let mut back = vec![pair.read(1, 9_000, 4)];
    let late = pair.sent_by(1);
    pair.keys(0).install(now, one);
    frames.push(pair.read(0, 9_000, 2));
    let after = pair.sent_by(0);
    assert!(before.iter().all(|cell| cell.bytes[1] == 1) && after.iter().all(|cell| cell.bytes[1] == 2));

    // The cells under the new keys overtake those under the old ones, on both links.
    after.iter().chain(&before).for_each(|cell| pair.deliver(cell));
    back.push(pair.read(1, 9_000, 5));
    let new = pair.sent_by(1);
    assert!(late.iter().all(|cell| cell.bytes[1] == 1) && new.iter().all(|cell| cell.bytes[1] == 2));
    late.iter().chain(&new).for_each(|cell| pair.deliver(cell));
    let fills = |frames: &[Vec<u8>]| frames.iter().map(|frame| frame[30]).collect::<Vec<_>>();
    assert_eq!((fills(&pair.delivered[0]), fills(&pair.delivered[1])), (vec![4, 5], vec![1, 2]));
    assert!(pair.delivered == [back, frames]);
    assert_eq!([0, 1].map(|node| pair.nodes[node].counters().drop_forged), [0, 0]);
}

#[test]
fn old_keys_die() {
    let mut pair = Pair::new(Cipher::fastest());
    pair.now = pair.now + HEARTBEAT_QUIET;
    let old = pair.sent_by(0);
    let [one, other] = session(Cipher::fastest(), 2, 20);
    let now = pair.now;
    pair.keys(1).offer(now, other);
    pair.keys(0).install(now, one);
    pair.pass(HEARTBEAT_QUIET);
    assert_eq!((pair.keys(0).epoch(), pair.keys(1).epoch()), (2, 2));
    let (early, late) = old.split_at(1);
    pair.deliver(&early[0]);
    assert_eq!(pair.nodes[1].counters().drop_forged, 0);
    pair.now = pair.now + Duration::from_secs(11);
    late.iter().for_each(|cell| pair.deliver(cell));
    assert_eq!(pair.nodes[1].counters().drop_forged, late.len() as u64);
}

#[test]
fn keys_under_a_dropped_group_key_are_renewed_at_once_whatever_is_offered_under_it() {
    let mut pair = Pair::new(Cipher::fastest());
    let [_, other] = session(Cipher::fastest(), 2, 20);
    let (now, limits) = (pair.now, Rekey::default());
    pair.keys(1).offer(now, other);
    assert!(!pair.keys(1).is_old(now, &limits));
    pair.keys(1).review(now, |_| false);
    assert!(pair.keys(1).is_old(now, &limits));
    assert_eq!(pair.keys(1).age().1, Some(now));
    pair.keys(1).review(now + HEARTBEAT_QUIET, |_| false);
    assert_eq!(pair.keys(1).age().1, Some(now), "it was dropped before");
    pair.keys(1).review(now, |_| true);
    assert!(!pair.keys(1).is_old(now, &limits));
}

#[test]
fn lost_cells_are_sealed_again_under_other_numbers() {
    let mut pair = Pair::new(Cipher::fastest());
    let frame = pair.read(0, 40_000, 3);
    let sent = pair.sent_by(0);
    let kept = sent.iter().enumerate().filter(|(number, _)| number % 5 != 1).map(|(_, cell)| cell);
    kept.for_each(|cell| pair.deliver(cell));
    assert_eq!(pair.delivered[1].len(), 0);
    (0..3).for_each(|_| pair.pass(Duration::from_millis(1)));
    assert_eq!(pair.delivered[1], [frame]);
    assert!(pair.nodes[0].counters().cells_repaired > 0);
    assert_eq!(pair.nodes[1].counters().drop_replayed, 0);
}

#[test]
fn a_number_is_given_again_only_if_nothing_left_under_it() {
    let mut pair = Pair::new(Cipher::fastest());
    let next = |pair: &Pair| -> u64 {
        pair.nodes[0]
            .links
            .paths(0)
            .unwrap()
            .outbound
            .iter()
            .map(crate::link::outbound::Outbound::next_seq)
            .sum()
    };
    pair.read(0, 9_000, 1);
    let before = next(&pair);
    let now = pair.now;
    pair.nodes[0].poll_batch(now).unwrap();
    let cells = next(&pair) - before;
    pair.nodes[0].handle_sent(now, Outcome::Full);
    assert_eq!(next(&pair), before);
    pair.nodes[0].poll_batch(now).unwrap();
    pair.nodes[0].handle_sent(now, Outcome::Refused);
    assert_eq!(next(&pair), before + cells);
}

/// The next control messages of a node to its peer on each link, and their outcomes.
fn say(pair: &mut Pair, outcomes: [Outcome; LINK_COUNT as usize]) -> Vec<(Sent, Kind, Outcome)> {
    let mut said = Vec::new();
    while let Some(message) = pair.nodes[0].poll_control(pair.now) {
        let (link, outcome) = (message.link, outcomes[usize::from(message.link)]);
        if message.to.is_some() {
            let kind = Header::parse(message.bytes).unwrap().kind;
            said.push((Sent { from: 0, link, bytes: message.bytes.to_vec() }, kind, outcome));
        }
        pair.nodes[0].handle_control_sent(outcome);
    }
    said
}

#[test]
fn a_heartbeat_that_finds_no_room_waits_for_it_and_leaves_no_gap() {
    use Outcome::{Full, Sent};
    let mut pair = Pair::new(Cipher::fastest());
    let state = |pair: &Pair| {
        let links = &pair.nodes[0].links.paths(0).unwrap().outbound;
        let link = &pair.nodes[0].links[1];
        (links[1].next_seq(), link.sent(), link.queued(), link.full)
    };
    let before = state(&pair);
    pair.now = pair.now + HEARTBEAT_QUIET;
    pair.nodes[0].handle_timeout(pair.now);
    let said = say(&mut pair, [Sent, Full]);
    let refused = said.iter().filter(|(.., outcome)| *outcome == Full).count();
    assert_eq!((said.len(), refused), (2, 1), "one on each link");
    assert_eq!(state(&pair), (before.0, before.1, before.2, true));
    said.iter().filter(|(.., outcome)| *outcome == Sent).for_each(|(sent, ..)| pair.deliver(sent));
    pair.now = pair.now + HEARTBEAT_QUIET;
    pair.nodes[0].handle_timeout(pair.now);
    let said = say(&mut pair, [Sent, Sent]);
    assert!(said.iter().all(|(sent, ..)| sent.link == 0), "the other one is full");
    said.iter().for_each(|(sent, ..)| pair.deliver(sent));
    pair.nodes[0].handle_writable(1);
    let said = say(&mut pair, [Sent, Sent]);
    assert_eq!((said.len(), said[0].0.link, said[0].1), (1, 1, Kind::Heartbeat));
    pair.deliver(&said[0].0);
    let counters = *pair.nodes[1].counters();
    assert_eq!((counters.cells_missed, counters.drop_forged, counters.drop_replayed), (0, 0, 0));
    assert_eq!(state(&pair).0, before.0 + 1);
}

#[test]
fn a_control_message_that_may_have_left_keeps_its_number() {
    let mut pair = Pair::new(Cipher::fastest());
    for (outcome, round) in [(Outcome::Lost, 1), (Outcome::Refused, 2)] {
        let next = |pair: &Pair| pair.nodes[0].links.paths(0).unwrap().outbound[0].next_seq();
        let (before, bytes) = (next(&pair), pair.nodes[0].links[0].sent());
        pair.now = pair.now + HEARTBEAT_QUIET;
        pair.nodes[0].handle_timeout(pair.now);
        say(&mut pair, [outcome, Outcome::Sent]);
        assert_eq!((next(&pair), pair.nodes[0].links[0].sent()), (before + 1, bytes));
        assert_eq!((pair.nodes[0].counters().drop_refused, pair.nodes[0].links[0].full), (round, false));
    }
}

/// Numbers of the second node's first link are found missing.
fn miss(pair: &mut Pair, numbers: core::ops::Range<u64>) {
    let Bundle { receiver, out, .. } = &mut pair.nodes[0];
    receiver.miss(pair.now, 0, 0, numbers, &mut out.outbox);
}

/// Both sendings of a request find no room, or one, or neither: the peer gets it as soon as there is room.
#[test]
fn a_request_that_finds_no_room_goes_over_another_link_or_later() {
    use Outcome::{Full, Sent};
    for outcomes in [[Sent, Sent], [Full, Sent], [Sent, Full], [Full, Full]] {
        let mut pair = Pair::new(Cipher::fastest());
        miss(&mut pair, 7..8);
        let went = |said: &[(self::Sent, Kind, Outcome)]| {
            said.iter().filter(|(_, kind, outcome)| (*kind, *outcome) == (Kind::Repair, Sent)).count()
        };
        let said = say(&mut pair, outcomes);
        assert_eq!(went(&said), if outcomes == [Full, Full] { 0 } else { 2 }, "{outcomes:?}");
        (0..LINK_COUNT).for_each(|link| pair.nodes[0].handle_writable(link));
        let later = say(&mut pair, [Sent, Sent]);
        assert_eq!(went(&later), if outcomes == [Full, Full] { 2 } else { 0 }, "{outcomes:?}");
    }
}

#[test]
fn what_no_lane_waits_for_any_more_is_not_asked_for() {
    use Outcome::{Full, Sent};
    let mut pair = Pair::new(Cipher::fastest());
    miss(&mut pair, 7..8);
    say(&mut pair, [Full, Full]);
    pair.now = pair.now + crate::receive::reorder_timeout::LONGEST;
    (0..LINK_COUNT).for_each(|link| pair.nodes[0].handle_writable(link));
    assert!(say(&mut pair, [Sent, Sent]).iter().all(|(_, kind, _)| *kind != Kind::Repair));
    miss(&mut pair, 9..10);
    assert_eq!(pair.nodes[0].receiver.get(0).unwrap().missing(), 1, "what is missing now");
}
