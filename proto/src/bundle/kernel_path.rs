//! What programs in the kernel may do in place of cells: to which peers they may send frames, and over which paths.
//!
//! Beside the path. The programs carry out. Cells on a path, heartbeats above all, show as ever whether it works.

use crate::bundle::Bundle;
use crate::link::Links;
use crate::link::carried::Carried;
use crate::link::nic::Link;
use crate::link::outbound::Outbound;
use crate::link::paths::Paths;
use crate::policy::classify::Mac;
use crate::policy::{Choosing, Seen};
use crate::send::seats::Seats;
use crate::time::Instant;
use crate::wire::cell::LINKS;
use crate::wire::hello::{KernelEnd, NodeId};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// The first bytes of an address that stands for an Ethernet address: `io/src/ether.rs`.
const ETHER_PREFIX: [u16; 5] = [0x100, 0, 0, 0, 0x6574];
/// A superframe lasts so long on a link of 10 Mbit/s: by that much frames of one flow may be apart, whatever the links' skew.
const SUPERFRAME: Duration = Duration::from_millis(52);

/// A peer, for the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPeer {
    /// Which node.
    pub node: NodeId,
    /// The paths on which it takes frames of the kernel path.
    pub paths: Vec<KernelPath>,
    /// How programs choose among those that are open.
    pub choosing: Choosing,
    /// How its own frames are put in order here.
    pub order: KernelOrder,
    /// Why frames to it need cells, if they do.
    pub needs_cells: Option<NeedsCells>,
}

/// A path over which both ends take frames of the kernel path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPath {
    /// Our link.
    pub link: u8,
    /// Where the peer receives there.
    pub end: KernelEnd,
    /// Whether flows may have it.
    pub open: bool,
    /// Whether it works: else what was on its way is most likely lost.
    pub up: bool,
    /// Bytes per second, as programs that spread flows take it; 0: unknown.
    pub speed: u64,
    /// How much later than by the nearest one a frame arrives.
    pub delay: Duration,
}

/// How frames of a peer that come over several links are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOrder {
    /// How long a missing one is waited for at least, while a link is silent.
    pub hold: Duration,
    /// Links of ours by which it may send, a bit each.
    pub links: u16,
    /// Another one for each start of the peer: its numbers begin anew.
    pub incarnation: u64,
}

/// The link of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSender {
    /// A peer to which it sends.
    pub node: NodeId,
    /// Our link.
    pub link: u8,
}

/// Why frames to a peer need cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsCells {
    /// This link of ours takes none: it has joined later, or is no Ethernet device.
    Link(u8),
    /// The peer takes none there: an older node, or one without programs.
    Peer(u8),
    /// Programs cannot do what the policy does.
    Policy,
    /// The policy spreads flows, and the peer does not put frames in order.
    Order,
    /// Some frames have a policy of their own.
    Classes,
    /// Programs do not keep to the rate that is stated for this link.
    Rate(u8),
    /// Nobody knows whether a router stands on the way of this link.
    Routed(u8),
    /// Its way carries packets of so many bytes, and the device's frames are longer.
    Mtu(u8, u16),
    /// The peer is about to be replaced by another process, or no path is up, or what one carries is not known yet.
    Now,
}

impl Bundle {
    /// All peers that have joined, for the programs of this node. `packet`: the longest that the programs make, in bytes.
    /// `unordered`: flows may be spread also where the peer puts nothing in order.
    pub fn kernel_peers(&mut self, now: Instant, packet: u16, unordered: bool) -> Vec<KernelPeer> {
        let indices: Vec<u16> = self.sessions.table().indices().collect();
        let peer = |index| self.kernel_peer(now, index, packet, unordered);
        indices.into_iter().filter_map(peer).collect()
    }

    fn kernel_peer(&mut self, now: Instant, index: u16, packet: u16, unordered: bool) -> Option<KernelPeer> {
        let session = self.sessions.table().get(index).filter(|session| session.is_joined())?;
        let (node, pauses, incarnation) = (session.node, session.pauses, session.incarnation);
        let seats = if pauses { Err(NeedsCells::Now) } else { self.seats(now, index, packet, unordered) };
        let open = seats.unwrap_or_default();
        let all = self.links.paths(index)?;
        let paths = ways(all, &self.links).filter_map(|way| way.for_programs(&open)).collect();
        let wait = self.receiver.reorder_timeout(index, &self.links).unwrap_or_default();
        let order = KernelOrder { hold: wait + SUPERFRAME, links: arriving(all), incarnation };
        Some(KernelPeer { node, paths, choosing: open.choosing, order, needs_cells: seats.err() })
    }

    /// The links among which programs choose.
    fn seats(&mut self, now: Instant, index: u16, packet: u16, unordered: bool) -> Result<Seats, NeedsCells> {
        let paths = self.links.paths(index).ok_or(NeedsCells::Now)?;
        // Flows do not change between a link that programs use and one that takes cells alone: all have to fit.
        ways(paths, &self.links).filter(|way| way.open).try_for_each(|way| way.fit(packet))?;
        let is_ordered = |way: Way<'_>| way.path.end.kernel.is_some_and(|end| end.orders);
        let may_spread = unordered || ways(paths, &self.links).filter(|way| way.open).all(is_ordered);
        let (sender, around) = self.sending(now);
        if sender.has_classes() {
            return Err(NeedsCells::Classes);
        }
        match sender.seats(index, &around) {
            None => Err(NeedsCells::Policy),
            Some(seats) if seats.links == 0 => Err(NeedsCells::Now),
            Some(seats) if seats.choosing.spreads() && !may_spread => Err(NeedsCells::Order),
            Some(seats) => Ok(seats),
        }
    }

    /// Hands in what programs have carried so far: `carried` has it by peer and link of ours. The caller does so at
    /// the beginning of a turn, for paths are judged by it, and by when cells came after it.
    pub fn handle_carried(&mut self, now: Instant, carried: impl Fn(NodeId, u8) -> Option<Carried>) {
        for index in self.sessions.table().indices() {
            for link in (0..).take(LINKS) {
                let Some(paths) = self.links.paths(index) else { break };
                let is_used =
                    paths.outbound.get(usize::from(link)).is_some_and(|path| path.end.kernel.is_some());
                if let Some(carried) = is_used.then(|| carried(paths.node, link)).flatten() {
                    self.links.handle_carried(now, index, link, &carried);
                }
            }
        }
    }

    /// Hands in how many senders programs have given one of the links of [`Choosing::Senders`], and what they know of each of
    /// [`SENDERS`](crate::SENDERS) that has a link: that, and how many bytes it has sent and received. The caller does so before
    /// [`Self::kernel_peers`].
    pub fn handle_senders(
        &mut self,
        newcomers: u64,
        known: impl Fn(u32) -> Option<(KernelSender, [u64; 2])>,
    ) {
        let table = self.sessions.table();
        self.sender.handle_senders(newcomers, |sender| {
            let (KernelSender { node, link }, carried) = known(sender)?;
            Some(Seen { peer: table.find(node)?, link, carried })
        });
    }

    /// The senders that have another link than programs know of, or none, each by its number. The caller asks after
    /// [`Self::kernel_peers`].
    pub fn poll_moves(&mut self) -> Vec<(u32, Option<KernelSender>)> {
        let table = self.sessions.table();
        let known = |(peer, link)| Some(KernelSender { node: table.get(peer)?.node, link });
        self.sender.moves().map(|(sender, seat)| (sender, seat.and_then(known))).collect()
    }

    /// An address that was learned from a frame in cells, once in a second for each in use, and the node behind which it lives.
    pub fn poll_learned(&mut self) -> Option<(Mac, NodeId)> {
        loop {
            let (mac, peer) = self.sender.poll_learned()?;
            if let Some(paths) = self.links.paths(peer) {
                return Some((mac, paths.node));
            }
        }
    }
}

/// A path, with our end.
struct Way<'a> {
    number: u8,
    link: &'a Link,
    path: &'a Outbound,
    /// Whether data may leave over it.
    open: bool,
}

/// Links by which a peer may send, a bit each: frames of its programs come by those that bring cells.
fn arriving(paths: &Paths) -> u16 {
    let brings = |theirs: &u8| paths.inbound[*theirs].health.is_up();
    let links = (0..).zip(&*paths.paired).filter(|(_, theirs)| theirs.as_ref().is_some_and(brings));
    links.fold(0, |links, (link, _): (u8, _)| links | 1 << link)
}

/// The paths to a peer. Data takes those that are up, and that it avoids least.
fn ways<'a>(paths: &'a Paths, links: &'a Links) -> impl Iterator<Item = Way<'a>> {
    let all = paths.outbound.iter().zip(links.by_number()).zip(0..);
    let avoidance = |path: &Outbound, link: &Link| path.is_up().then(|| path.avoidance(&link.settings));
    let least = all.clone().filter_map(|((path, link), _)| avoidance(path, link)).min();
    all.map(move |((path, link), number)| {
        let open = path.is_up() && avoidance(path, link) == least;
        Way { number, link, path, open }
    })
}

impl Way<'_> {
    fn for_programs(&self, seats: &Seats) -> Option<KernelPath> {
        let (link, end) = (self.number, self.path.end.kernel?);
        let (open, speed, delay) = (seats.links & 1 << link != 0, seats.speeds[link], seats.delays[link]);
        self.link.settings.kernel.map(|_| KernelPath { link, end, open, up: self.path.is_up(), speed, delay })
    }

    /// Whether programs can send over it what cells can.
    fn fit(&self, packet: u16) -> Result<(), NeedsCells> {
        let Self { number, link, path, .. } = self;
        if link.settings.kernel.is_none() {
            return Err(NeedsCells::Link(*number));
        }
        if path.end.kernel.is_none() {
            return Err(NeedsCells::Peer(*number));
        }
        if link.settings.rate.is_some() || path.ceiling.rate().is_some() {
            return Err(NeedsCells::Rate(*number));
        }
        if !path.end.endpoint.is_some_and(is_on_link) {
            return Err(NeedsCells::Routed(*number));
        }
        match path.path_mtu.packets() {
            Some((carries, _)) if carries < packet => Err(NeedsCells::Mtu(*number, carries)),
            Some(_) => Ok(()),
            None => Err(NeedsCells::Now),
        }
    }
}

/// Whether who has this address is reached without a router.
fn is_on_link(endpoint: SocketAddr) -> bool {
    let SocketAddr::V6(endpoint) = endpoint else { return false };
    endpoint.ip().is_unicast_link_local() || endpoint.ip().segments()[..5] == ETHER_PREFIX
}
