//! Two bundles that know each other, and whatever a third party puts on their link.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use tabane_proto::wire::cell::HEADER;
use tabane_proto::{BUFFER, Bundle, Instant, Name, NodeId, Outcome, PolicyKind, PolicyOptions, PortSettings, Settings};

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
}

impl Pair {
    /// Two bundles whose link is up.
    #[must_use]
    pub fn joined() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let node = |number| Bundle::new(now, settings(number));
        let mut pair = Self { now, nodes: [node(0), node(1)], delivered: [0; 2] };
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
            said.iter().for_each(|bytes| self.hear(1 - node, bytes));
            while self.nodes[node].poll_event().is_some() {}
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

fn endpoint(node: usize) -> SocketAddr {
    let host = u16::try_from(node).unwrap_or_default() + 1;
    SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host), 7420, 0, 0).into()
}

fn settings(number: u8) -> Settings {
    Settings {
        node: NodeId::new([2, 0, 0, 0, 0, number], 7420),
        incarnation: u64::from(number) + 1,
        group: 0,
        name: Name::new("fuzz"),
        workers: 1,
        takes_uso: true,
        policy: PolicyKind::Adaptive,
        policy_options: PolicyOptions::default(),
        classes: Vec::new(),
        repair: true,
        ports: vec![PortSettings { cell_max: 1452, greet: Vec::new(), multicast: true, rate: None, weight: None }],
        slots: 128,
        buffers: 16,
    }
}
