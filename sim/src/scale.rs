//! The cost of a bundle of many nodes for one of them: a hub with many peers, two of which exchange frames with it.
//!
//! Part of the program, not of the deterministic library, for it times the hub's calls. The cost of a frame must not depend on the
//! number of peers; nor must the cost of a quiet peer (heartbeats).

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant as Wall;
use tabane_proto::{Bundle, Instant, LinkSettings, Name, NodeId, Outcome, Settings};

/// Links of every node.
const NICS: u8 = 2;
/// Simulated time between two turns of every node.
const TICK: Duration = Duration::from_micros(100);
/// Turns in which all nodes find each other.
const SETTLING: usize = 2_000;
/// Turns that are measured: half a second.
const MEASURED: usize = 5_000;
/// Frames that the hub sends in a turn, and as many that it gets.
const FRAMES: usize = 16;
/// Bytes of a frame with its virtio header.
const FRAME: usize = 10 + 1_514;
/// Peers that have traffic.
const TALKING: u16 = 2;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    peers: u16,
    /// Of the calls on the way of frames, for each frame sent or delivered.
    per_frame: Duration,
    /// Of the calls for timers and control messages, for each peer and simulated second.
    upkeep: Duration,
    /// The most that the state of any peer takes.
    peer_bytes: usize,
}

impl Cost {
    /// The head of the table.
    pub(crate) const HEAD: &str = "nodes  per frame  upkeep per peer and second  state per peer";
}

impl fmt::Display for Cost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, kib) = (self.peers + 1, self.peer_bytes.div_ceil(1_024));
        write!(
            out,
            "{nodes:>5}  {:>6} ns  {:>23} us  {kib:>10} KiB",
            self.per_frame.as_nanos(),
            self.upkeep.as_micros()
        )
    }
}

/// Measures a bundle of so many nodes.
pub(crate) fn measure(nodes: u16) -> Result<Cost, String> {
    let mut star = Star::new(nodes - 1);
    for _ in 0..SETTLING {
        star.turn(0);
    }
    let up: usize = star.hub.peers().map(|(_, links)| links.filter(|link| link.sending).count()).sum();
    if up != usize::from(nodes - 1) * usize::from(NICS) {
        return Err(format!("{nodes} nodes: {up} links of the hub are up"));
    }
    star.frames = 0;
    (star.on_the_way, star.beside) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..MEASURED {
        star.turn(FRAMES);
    }
    let frames = u32::try_from(star.frames).unwrap_or(u32::MAX);
    if star.frames < (MEASURED * FRAMES * 2 * 9 / 10) as u64 {
        return Err(format!("{nodes} nodes: only {frames} frames passed"));
    }
    let seconds = TICK.as_secs_f64() * MEASURED as f64;
    Ok(Cost {
        peers: nodes - 1,
        per_frame: star.on_the_way / frames,
        upkeep: star.beside.div_f64(seconds * f64::from(nodes - 1)),
        peer_bytes: star.hub.peer_bytes().max().unwrap_or_default(),
    })
}

/// A datagram, or a train of them, under way.
struct Train {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
    segment: usize,
    is_data: bool,
}

/// The hub, its peers, and what is under way between them.
struct Star {
    hub: Bundle,
    peers: Vec<Bundle>,
    now: Instant,
    wire: VecDeque<Train>,
    /// Frames that the hub sent or delivered.
    frames: u64,
    /// The time of the hub's calls: on the way of frames, and beside it.
    on_the_way: Duration,
    beside: Duration,
    /// Peers that have traffic, and the one whose turn it was.
    talking: u16,
    next: u16,
}

impl Star {
    fn new(peers: u16) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            hub: Bundle::new(now, settings(0, 8_192, 128)),
            peers: (1..=peers).map(|number| Bundle::new(now, settings(number, 256, 4))).collect(),
            now,
            wire: VecDeque::new(),
            frames: 0,
            on_the_way: Duration::ZERO,
            beside: Duration::ZERO,
            talking: TALKING.min(peers),
            next: 0,
        }
    }

    /// A turn of the hub, then one of each peer. The hub sends `frames` and gets as many.
    fn turn(&mut self, frames: usize) {
        self.now = self.now + TICK;
        for _ in 0..frames {
            self.next = self.next % self.talking + 1;
            let peer = self.next;
            self.hub_sends(peer);
            let from = &mut self.peers[usize::from(peer) - 1];
            offer(from, self.now, peer, 0);
        }
        self.hub_timers();
        for (number, peer) in (1..).zip(&mut self.peers) {
            if peer.poll_timeout(self.now) <= self.now {
                peer.handle_timeout(self.now);
            }
            send(peer, self.now, number, &mut self.wire);
        }
        while let Some(train) = self.wire.pop_front() {
            match place(train.to) {
                (0, nic) => self.hub_receives(nic, &train),
                (number, nic) => {
                    receive(&mut self.peers[usize::from(number) - 1], self.now, nic, &train);
                }
            }
        }
    }

    fn hub_sends(&mut self, peer: u16) {
        let began = Wall::now();
        offer(&mut self.hub, self.now, 0, peer);
        send_batches(&mut self.hub, self.now, 0, &mut self.wire);
        _ = self.hub.poll_timeout(self.now);
        self.on_the_way += began.elapsed();
        self.frames += 1;
    }

    fn hub_timers(&mut self) {
        let began = Wall::now();
        if self.hub.poll_timeout(self.now) <= self.now {
            self.hub.handle_timeout(self.now);
        }
        send_control(&mut self.hub, self.now, 0, &mut self.wire);
        self.beside += began.elapsed();
    }

    fn hub_receives(&mut self, nic: u8, train: &Train) {
        let began = Wall::now();
        let frames = receive(&mut self.hub, self.now, nic, train);
        if train.is_data {
            _ = self.hub.poll_timeout(self.now);
            self.frames += frames;
            self.on_the_way += began.elapsed();
        } else {
            send_control(&mut self.hub, self.now, 0, &mut self.wire);
            self.beside += began.elapsed();
        }
    }
}

/// A frame is read from the device of node `from`.
fn offer(bundle: &mut Bundle, now: Instant, from: u16, to: u16) {
    if !bundle.wants_frames() {
        return;
    }
    let mut frame = [0; FRAME];
    frame[10..16].copy_from_slice(&mac(to));
    frame[16..22].copy_from_slice(&mac(from));
    frame[22..24].copy_from_slice(&[0x88, 0xb5]);
    let mut rest = &frame[..];
    for space in bundle.read_space() {
        let (part, later) = rest.split_at(rest.len().min(space.len()));
        space[..part.len()].copy_from_slice(part);
        rest = later;
    }
    bundle.handle_frame(now, FRAME);
}

fn send(bundle: &mut Bundle, now: Instant, number: u16, wire: &mut VecDeque<Train>) {
    send_control(bundle, now, number, wire);
    send_batches(bundle, now, number, wire);
}

fn send_control(bundle: &mut Bundle, now: Instant, number: u16, wire: &mut VecDeque<Train>) {
    while let Some(message) = bundle.poll_control(now) {
        let Some(to) = message.to else { continue };
        let (from, bytes) = (endpoint(number, message.link), message.bytes.to_vec());
        wire.push_back(Train { from, to, segment: bytes.len(), bytes, is_data: false });
    }
    while bundle.poll_event().is_some() {}
    (0..NICS).for_each(|nic| bundle.handle_queue(now, nic, 0));
}

fn send_batches(bundle: &mut Bundle, now: Instant, number: u16, wire: &mut VecDeque<Train>) {
    while let Some(batch) = bundle.poll_batch(now) {
        let (from, to, segment) = (endpoint(number, batch.link), batch.to, batch.segment);
        let bytes = batch.slices().collect::<Vec<_>>().concat();
        wire.push_back(Train { from, to, bytes, segment, is_data: true });
        bundle.handle_sent(now, Outcome::Sent);
    }
}

/// A train arrives; returns how many frames it completed.
fn receive(bundle: &mut Bundle, now: Instant, nic: u8, train: &Train) -> u64 {
    let Some(mut buffer) = bundle.lend() else { return 0 };
    buffer[..train.bytes.len()].copy_from_slice(&train.bytes);
    bundle.handle_datagrams(now, nic, train.from, buffer, train.bytes.len(), train.segment);
    let mut frames = 0;
    while bundle.poll_frame(now).is_some() {
        frames += 1;
    }
    frames
}

fn settings(number: u16, slots: usize, buffers: u16) -> Settings {
    let greet = |nic| if number == 0 { Vec::new() } else { vec![endpoint(0, nic)] };
    let nic = |nic| LinkSettings { greet: greet(nic), multicast: false, ..LinkSettings::new(1_452) };
    let identity = NodeId::new(mac(number), 7420);
    Settings {
        group: 0x7461_6261_6e65,
        name: Name::new(&format!("n{number}")),
        slots,
        buffers,
        ..Settings::new(identity, u64::from(number) + 1, (0..NICS).map(nic).collect())
    }
}

fn mac(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    [2, 0, 0, 0, high, low]
}

/// Where a node's nic listens: `fd00::node:nic`.
fn endpoint(number: u16, nic: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, number, nic.into())), 7420)
}

fn place(endpoint: SocketAddr) -> (u16, u8) {
    let IpAddr::V6(address) = endpoint.ip() else { return (0, 0) };
    let [.., number, nic] = address.segments();
    (number, u8::try_from(nic).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_nodes_are_measured() {
        let cost = measure(3).unwrap();
        assert!(cost.per_frame > Duration::ZERO && cost.peer_bytes > 1_000, "{cost:?}");
    }
}
