//! Two bundles that have joined, and any datagrams that a third party puts on their link.

use tabane_proto::security::{Rekey, Security, TAG};
use tabane_proto::wire::cell::{HEADER, Header};
use tabane_proto::wire::hello::Hello;
use tabane_proto::{BUFFER, Bundle, Event, LinkSettings, NodeId, Outcome, Settings};
use tabane_seal::{Cipher, Group, NODE_KEY, Random, public_key};
use tabane_sim::cable::Place;
use tabane_sim::hostile;
use tabane_sim::table::{self, Sent, TURN, Table};

const TURNS: usize = 400;
/// Turns that they get to join again whatever somebody repeats: a handshake without an answer ends after a second.
const TURNS_TO_REJOIN: usize = 3_000;
const RESTARTS_MAX: u64 = 3;
const RECORDED_FRAMES: usize = 8;

pub(crate) struct Pair {
    table: Table,
    said: Vec<Sent>,
    left: usize,
    restarts: u64,
}

/// Whether a cell is of the second, and not sealed.
fn is_open(said: &Sent) -> bool {
    said.from.node == 1 && said.bytes[1] == 0
}

impl Pair {
    pub(crate) fn joined() -> Self {
        Self::join(|_| {})
    }

    /// As [`Pair::joined`], in a sealed session, always with the same keys.
    pub(crate) fn sealed() -> Self {
        Self::join(|bundle| seal(bundle, 0))
    }

    /// The same, and both have sent frames.
    pub(crate) fn recorded() -> Self {
        let mut pair = Self::sealed();
        for _ in 0..RECORDED_FRAMES {
            (0..2).for_each(|node| pair.send_frame(node));
            pair.turn();
        }
        pair
    }

    fn join(secure: impl Fn(&mut Bundle)) -> Self {
        let mut table = Table::new(false);
        for number in 0..2 {
            let mut bundle = Bundle::new(table.now, settings(number, 0));
            secure(&mut bundle);
            table.add(bundle);
        }
        let mut pair = Self { table, said: Vec::new(), left: 0, restarts: 0 };
        pair.meet(TURNS);
        pair
    }

    fn meet(&mut self, turns: usize) {
        for _ in 0..turns {
            let is_up = |bundle: &Bundle| bundle.peers().any(|(_, mut links)| links.any(|link| link.sending));
            if self.table.nodes.iter().all(|node| is_up(&node.bundle)) {
                return;
            }
            self.turn();
        }
        panic!("two bundles with a link between them join");
    }

    /// Puts a datagram on the link to the first bundle. The lower bits of `mend` say how its header is made plausible:
    /// 1: a header in front of it; 2: the session number of the peer; 4: the numbers of a cell that is next.
    pub(crate) fn inject(&mut self, datagram: &[u8], mend: u8) {
        let mut bytes = datagram.to_vec();
        if mend & 1 != 0 {
            bytes.splice(0..0, self.plausible());
        }
        if bytes.len() >= HEADER && mend & 1 == 0 {
            let header = self.plausible();
            if mend & 2 != 0 {
                bytes[14..16].copy_from_slice(&header[14..16]);
            }
            if mend & 4 != 0 {
                bytes[4..12].copy_from_slice(&header[4..12]);
            }
        }
        self.receive(0, &bytes);
        if mend & 8 != 0 {
            self.turn();
        }
    }

    /// Puts a datagram on the link to the first bundle that is not sealed. The lower bits of `make` say what it is: 1: a
    /// header of a handshake comes before it, else 2: one of a greeting, else 4: it is laid over something that the second
    /// has said; 8: behind it comes a true tag; 16: and a stamp of zeros; 32: time passes. 64: it says how somebody claims the key
    /// of the second (see `claim`), and nothing else counts but 32.
    pub(crate) fn inject_open(&mut self, datagram: &[u8], make: u8) {
        let bytes = if make & 64 == 0 { self.open(datagram, make) } else { self.claim(datagram) };
        self.receive(0, &bytes);
        if make & 32 != 0 {
            self.turn();
        }
    }

    /// An initiation in the name of the second, with its key, by somebody who cannot go on with that. `how`: the lowest bit tells
    /// whether the two's session is to have new keys, else there is to be a new one, of an incarnation that is so much later;
    /// the epoch; the serial; and what is laid over the hello.
    fn claim(&self, how: &[u8]) -> Vec<u8> {
        let last = |from| {
            let mut said = self.said.iter().rev().filter(|said| said.from.node == from && said.bytes[1] != 0);
            said.find_map(|said| Header::parse(&said.bytes).ok()).map_or(0, |header| header.session)
        };
        let mut open = self.said.iter().filter(|said| is_open(said));
        let greeting = open.find_map(|said| hostile::greeting(&said.bytes));
        let (Some(hello), [what, epoch, serial, over @ ..]) = (greeting, how) else { return Vec::new() };
        let (session, your_session) = if what & 1 == 0 { (last(0), last(1)) } else { (0x4444, 0) };
        let incarnation = hello.incarnation + u64::from(what >> 1);
        let hello = Hello { session, your_session, incarnation, ..hello };
        let serial = i32::from(serial.cast_signed()).cast_unsigned();
        let (mut group, numbers) = (group(1, self.said.len() as u64), (*epoch, serial));
        hostile::initiation(&mut group, &hello, self.table[0].bundle.node(), numbers, over)
            .unwrap_or_default()
    }

    fn open(&self, datagram: &[u8], make: u8) -> Vec<u8> {
        let kinds = [(1, 0x14), (2, 0x11)];
        let kind = kinds.iter().find(|(bit, _)| make & bit != 0);
        let mut bytes = match kind {
            Some((_, first)) => [&[*first], &[0; 11][..], &[0xff, 0xff, 0, 0], datagram].concat(),
            None if make & 4 != 0 && self.said.iter().any(is_open) => {
                let open: Vec<_> = self.said.iter().filter(|said| is_open(said)).collect();
                let mut bytes = open[datagram.len() % open.len()].bytes.clone();
                bytes.iter_mut().zip(datagram).for_each(|(byte, over)| *byte ^= over);
                bytes.truncate(bytes.len() - if make & 24 != 0 { 2 * TAG } else { 0 });
                bytes
            }
            None => datagram.to_vec(),
        };
        if make & 8 != 0 {
            let tag = group(0, 0).tag(0, &bytes);
            bytes.extend(tag);
        }
        if make & 16 != 0 {
            bytes.extend([0; TAG]);
        }
        bytes
    }

    /// Repeats a recorded datagram, which must bring no frame. `step`: which (two bytes); how to change it, and what happens
    /// then; where to change it.
    ///
    /// Of the third byte, the lowest two bits change it: 1: a bit is another; 2: the end is missing; 3: the end comes
    /// twice. 4: its sender receives it; 8: time passes; 16: a frame is sent; 32: its sender restarts.
    pub(crate) fn repeat(&mut self, step: [u8; 4]) {
        let [low, high, how, at] = step;
        let said = &self.said[usize::from(u16::from_le_bytes([low, high])) % self.said.len()];
        let (from, mut bytes) = (said.from.node, said.bytes.clone());
        let at = usize::from(at) % bytes.len();
        match how & 3 {
            1 => bytes[at] ^= 1 << (how >> 6),
            2 => bytes.truncate(at),
            3 => bytes.extend_from_within(at..),
            _ => {}
        }
        let to = if how & 4 == 0 { 1 - from } else { from };
        let is_sealed = bytes.get(1).is_some_and(|epoch| *epoch != 0);
        let (delivered, dropped) = (self.table[to].delivered.len(), self.dropped(to));
        self.receive(to, &bytes);
        assert_eq!(self.table[to].delivered.len(), delivered, "nothing is delivered twice");
        assert!(!is_sealed || self.dropped(to) > dropped, "sealed cells count once: {step:?}, {bytes:02x?}");
        if how & 16 != 0 {
            self.send_frame(from);
        }
        if how & 8 != 0 {
            self.turn();
        }
        if how & 32 != 0 && self.restarts < RESTARTS_MAX {
            self.restart(from);
        }
    }

    fn dropped(&self, node: u8) -> u64 {
        let counts = self.table[node].bundle.counters().named();
        counts.filter(|(name, _)| name.starts_with("drop_")).map(|(_, count)| count).sum()
    }

    fn restart(&mut self, node: u8) {
        self.restarts += 1;
        self.table[node].bundle = Bundle::new(self.table.now, settings(node, self.restarts));
        seal(&mut self.table[node].bundle, self.restarts);
    }

    /// They join again, and no session has ended but by a restart.
    pub(crate) fn assert_faithful(&mut self) {
        self.meet(TURNS_TO_REJOIN);
        assert!(self.left as u64 <= self.restarts, "sessions that live go on living");
    }

    /// Whatever was received, a frame that the second sends arrives at the first, and memory has come back.
    pub(crate) fn assert_alive(&mut self) {
        // What was injected may have taken the numbers of true cells, as anyone may while nothing is authenticated; the
        // lane goes on with the next ones.
        let before = self.table[0].delivered.len();
        for _ in 0..TURNS {
            self.send_frame(1);
            self.turn();
            if self.table[0].delivered.len() > before {
                break;
            }
        }
        let lent: Vec<_> = std::iter::from_fn(|| self.table[0].bundle.lend()).collect();
        assert!(lent.len() >= 4, "{} of 16 buffers came back", lent.len());
        assert!(lent.iter().all(|buffer| buffer.len() == BUFFER));
    }

    /// The header of the data cell that the second bundle would send next.
    fn plausible(&mut self) -> [u8; HEADER] {
        self.send_frame(1);
        let mut header = [0; HEADER];
        let now = self.table.now;
        let bundle = &mut self.table[1].bundle;
        if let Some(batch) = bundle.poll_batch(now) {
            if let Some(bytes) = batch.slices().next() {
                header.copy_from_slice(&bytes[..HEADER]);
            }
            bundle.handle_sent(now, Outcome::Sent);
        }
        header
    }

    fn send_frame(&mut self, node: u8) {
        self.table.send(node, &table::frame([0xff; 6], [2, 0, 0, 0, 0, 1], &[]));
    }

    /// Lets time pass, and each receive everything that the other sends.
    fn turn(&mut self) {
        let Self { table, said, left, .. } = self;
        table.turn(TURN, |cell, _| {
            said.push(cell.clone());
            true
        });
        for event in table.nodes.iter_mut().flat_map(|node| node.events.drain(..)) {
            *left += usize::from(matches!(event, Event::PeerLeft { .. } | Event::PeerExpired { .. }));
        }
    }

    fn receive(&mut self, node: u8, bytes: &[u8]) {
        let from = Place { node: 1 - node, nic: 0 };
        self.table.receive(Place { node, nic: 0 }, from.endpoint(), bytes, bytes.len());
    }
}

/// Lets a bundle seal, with keys that follow from its node and its incarnation, and let in the two alone.
fn seal(bundle: &mut Bundle, restarts: u64) {
    let node = bundle.node();
    let number = node.0.to_be_bytes()[5];
    let keys = [0, 1].map(|number| public_key(&node_key(number))).into();
    bundle.set_security(Box::new(group(number, node.0 + restarts).allowing(keys)), Rekey::default());
}

fn group(number: u8, seed: u64) -> Group {
    let group = Group::new(&[[7; 32]], Cipher::Aes256Gcm, Random::seeded(seed));
    group.with_node_key(&node_key(number))
}

fn node_key(number: u8) -> [u8; NODE_KEY] {
    [number + 1; NODE_KEY]
}

fn settings(number: u8, restarts: u64) -> Settings {
    let node = NodeId::new([2, 0, 0, 0, 0, number], 7420);
    let nics = vec![LinkSettings::new(1452)];
    Settings { slots: 256, buffers: 16, ..Settings::new(node, 10 * restarts + u64::from(number) + 1, nics) }
}
