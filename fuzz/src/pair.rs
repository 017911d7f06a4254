//! Two bundles that know each other, and whatever a third party puts on their link.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use tabane_proto::security::{Rekey, Security, TAG};
use tabane_proto::wire::cell::HEADER;
use tabane_proto::{BUFFER, Bundle, Event, Instant, NodeId, Outcome, PortSettings, Settings};
use tabane_seal::{Cipher, Group, Random};

/// The virtio and Ethernet headers of an empty broadcast frame.
const FRAME: [u8; 24] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
/// Turns that two bundles get to join, or to deliver a frame.
const TURNS: usize = 400;
/// Time between turns.
const TURN: Duration = Duration::from_millis(1);

/// Two joined bundles with one link.
pub struct Pair {
    now: Instant,
    nodes: [Bundle; 2],
    /// Frames that each has delivered.
    delivered: [usize; 2],
    /// What the second has said that was not sealed.
    said: Vec<Vec<u8>>,
    /// Peers that left.
    left: usize,
}

impl Pair {
    /// Two bundles whose link is up.
    #[must_use]
    pub fn joined() -> Self {
        Self::join(|_| {})
    }

    /// The same in a sealed session, always with the same keys.
    #[must_use]
    pub fn sealed() -> Self {
        Self::join(|bundle| bundle.set_security(Box::new(group(bundle.node().0)), Rekey::default()))
    }

    fn join(secure: impl Fn(&mut Bundle)) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let node = |number| {
            let mut bundle = Bundle::new(now, settings(number));
            secure(&mut bundle);
            bundle
        };
        let (nodes, said) = ([node(0), node(1)], Vec::new());
        let mut pair = Self { now, nodes, delivered: [0; 2], said, left: 0 };
        let up = |pair: &Self| {
            pair.nodes.iter().all(|node| node.peers().any(|(_, mut links)| links.any(|l| l.sending)))
        };
        for _ in 0..TURNS {
            if up(&pair) {
                return pair;
            }
            pair.turn();
        }
        panic!("two bundles with a link between them join");
    }

    /// Puts a datagram on the link to the first bundle. The lower bits of `mend` say how its header is made plausible:
    /// 1: a header in front of it; 2: the session number of the peer; 4: the numbers of a cell that is next.
    pub fn inject(&mut self, datagram: &[u8], mend: u8) {
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
        self.hear(0, &bytes);
        if mend & 8 != 0 {
            self.turn();
        }
    }

    /// Puts a datagram on the link to the first bundle that is not sealed. The lower bits of `make` say what it is: 1: a
    /// header of a handshake comes before it, else 2: one of a greeting, else 4: it is laid over something that the second
    /// has said; 8: behind it comes a true mark; 16: and a stamp of zeros; 32: time passes.
    pub fn inject_open(&mut self, datagram: &[u8], make: u8) {
        let kinds = [(1, 0x14), (2, 0x11)];
        let kind = kinds.iter().find(|(bit, _)| make & bit != 0);
        let mut bytes = match kind {
            Some((_, first)) => [&[*first], &[0; 11][..], &[0xff, 0xff, 0, 0], datagram].concat(),
            None if make & 4 != 0 && !self.said.is_empty() => {
                let mut bytes = self.said[datagram.len() % self.said.len()].clone();
                bytes.iter_mut().zip(datagram).for_each(|(byte, over)| *byte ^= over);
                bytes.truncate(bytes.len() - if make & 24 != 0 { 2 * TAG } else { 0 });
                bytes
            }
            None => datagram.to_vec(),
        };
        if make & 8 != 0 {
            let mark = group(0).mark(0, &bytes);
            bytes.extend(mark);
        }
        if make & 16 != 0 {
            bytes.extend([0; TAG]);
        }
        self.hear(0, &bytes);
        if make & 32 != 0 {
            self.turn();
        }
    }

    /// No session has ended.
    ///
    /// # Panics
    /// When one has.
    pub fn assert_faithful(&self) {
        assert_eq!(self.left, 0, "sessions that live go on living");
    }

    /// Whatever was heard, a frame that the second sends arrives at the first, and memory has come back.
    ///
    /// # Panics
    /// When it does not.
    pub fn assert_alive(&mut self) {
        // What was injected may have taken the numbers of true cells, as anyone may while nothing is authenticated; the
        // lane goes on with the next ones.
        let before = self.delivered[0];
        for _ in 0..TURNS {
            self.send_frame(1);
            self.turn();
            if self.delivered[0] > before {
                break;
            }
        }
        let lent: Vec<_> = std::iter::from_fn(|| self.nodes[0].lend()).collect();
        assert!(lent.len() >= 4, "{} of 16 buffers came back", lent.len());
        assert!(lent.iter().all(|buffer| buffer.len() == BUFFER));
    }

    /// The header of the data cell that the second bundle would send next.
    fn plausible(&mut self) -> [u8; HEADER] {
        self.send_frame(1);
        let mut header = [0; HEADER];
        if let Some(batch) = self.nodes[1].poll_batch(self.now) {
            if let Some(bytes) = batch.slices().next() {
                header.copy_from_slice(&bytes[..HEADER]);
            }
            self.nodes[1].handle_sent(self.now, Outcome::Sent);
        }
        header
    }

    fn send_frame(&mut self, node: usize) {
        if let Some(space) = self.nodes[node].read_space().next() {
            space[..FRAME.len()].copy_from_slice(&FRAME);
        }
        self.nodes[node].handle_frame(self.now, FRAME.len());
    }

    /// Lets time pass and everything that both have to say reach the other.
    fn turn(&mut self) {
        self.now = self.now + TURN;
        for node in 0..2 {
            if self.now >= self.nodes[node].poll_timeout(self.now) {
                self.nodes[node].handle_timeout(self.now);
            }
            let mut said = Vec::new();
            while let Some(message) = self.nodes[node].poll_control(self.now) {
                said.push(message.bytes.to_vec());
            }
            while let Some(batch) = self.nodes[node].poll_batch(self.now) {
                let train: Vec<u8> = batch.slices().flatten().copied().collect();
                said.extend(train.chunks(batch.segment).map(<[u8]>::to_vec));
                self.nodes[node].handle_sent(self.now, Outcome::Sent);
            }
            if node == 1 {
                self.said.extend(said.iter().filter(|bytes| bytes[1] == 0).cloned());
            }
            said.iter().for_each(|bytes| self.hear(1 - node, bytes));
            while let Some(event) = self.nodes[node].poll_event() {
                self.left += usize::from(matches!(event, Event::PeerLeft { .. } | Event::PeerLapsed { .. }));
            }
        }
    }

    /// A datagram reaches a node; what it completes is delivered.
    fn hear(&mut self, node: usize, bytes: &[u8]) {
        let bundle = &mut self.nodes[node];
        let Some(mut buffer) = bundle.lend() else { return };
        let length = bytes.len().min(BUFFER);
        buffer[..length].copy_from_slice(&bytes[..length]);
        bundle.handle_datagrams(self.now, 0, endpoint(1 - node), buffer, length, length);
        while let Some(frame) = bundle.poll_frame(self.now) {
            assert!(frame.slices().map(<[u8]>::len).sum::<usize>() >= FRAME.len());
            self.delivered[node] += 1;
        }
    }
}

fn group(seed: u64) -> Group {
    Group::new(&[[7; 32]], Cipher::Aes256Gcm, Random::seeded(seed))
}

fn endpoint(node: usize) -> SocketAddr {
    let host = u16::try_from(node).unwrap_or_default() + 1;
    SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host), 7420, 0, 0).into()
}

fn settings(number: u8) -> Settings {
    let node = NodeId::new([2, 0, 0, 0, 0, number], 7420);
    let ports = vec![PortSettings::new(1452)];
    Settings { slots: 128, buffers: 16, ..Settings::new(node, u64::from(number) + 1, ports) }
}
