//! The kernel path of one bundle: what is attached, and what its owner tells the programs.

use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tabane_io::MappedArray;
use tabane_io::tcx::{self, Direction};

use crate::Error;
use crate::again::Again;
use crate::layout::{
    self, AgainCounts, Config, Counts, LINKS, NEWCOMERS, NO_LINK, PATH_UP, PEER_READY, PEER_RECEIVED,
    PEER_SENDERS, PEER_STRIPED, PEER_WEIGHTED, Path, Peer, SEAT_PEER_SHIFT, SEATED, SENDERS, SLOTS, Sender,
    Source, THIS_HOST, TIME_SHIFT, Traffic, Volume,
};
use crate::load::{self, Loaded};
use crate::reorder::Reorder;

/// What a kernel path is made for.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Interface index of the device.
    pub device: u32,
    /// UDP port at which this host receives. Frames that no peer sends there are left to the stack.
    pub port: u16,
    /// How many peers there can be; they are numbered from 0.
    pub peers: usize,
}

/// How links are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// A flow has one link, by its hash and the links' weights. With one weight above 0 all flows have that link.
    #[default]
    Hash,
    /// Each frame takes the link that is free first, by rates and what the links were given before, unless it were much later.
    Stripe,
    /// Each frame takes the link that was given the least by its rate, whatever it carries: rates are shares.
    Weighted,
    /// Each sender has a link: [`KernelPath::set_seat`].
    Senders {
        /// The links of those that have none, by how many there were before ([`KernelPath::newcomers`]) modulo the length.
        newcomers: [u8; NEWCOMERS],
        /// Whether what they receive counts as well, and who answers goes by the link by which the flow came.
        received: bool,
    },
}

/// The link that a sender has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// A peer to which it sends.
    pub peer: usize,
    /// The link.
    pub link: usize,
}

/// How fast and how far a path is, for policies that stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Its speed in bit/s; `None`: unknown, no frame waits for another.
    pub rate: Option<u64>,
    /// How much later than by the nearest path a frame arrives.
    pub delay: Duration,
}

/// What is known of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index of its NIC.
    pub ifindex: u32,
    /// Largest IPv6 packet that it takes, in bytes: the NIC's MTU.
    pub mtu: u32,
    /// Its share of the flows, for [`Policy::Hash`]; with 0 it gets none.
    pub weight: u32,
    /// Whether frames may leave by it.
    pub is_up: bool,
}

/// Where a host can be reached on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The NIC's.
    pub mac: [u8; 6],
    /// The NIC's; link-local addresses serve. It needs no scope, for the path has its link.
    pub ip: Ipv6Addr,
}

/// What is known of a link's way to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathState {
    /// This host's address on the link.
    pub local: Address,
    /// The peer's.
    pub remote: Address,
    /// UDP port at which the peer receives.
    pub remote_port: u16,
    /// Whether frames may leave by it.
    pub is_up: bool,
    /// How fast and how far it is.
    pub pace: Pace,
}

/// What is known of a peer.
#[derive(Clone, Debug)]
struct PeerState {
    mac: Option<[u8; 6]>,
    is_ready: bool,
    policy: Policy,
    slots: [u8; SLOTS],
    paths: [Option<PathState>; LINKS],
}

/// A link of the bundle, with the receive program at its NIC.
#[derive(Debug)]
struct Attached {
    link: Link,
    /// Links that have one NIC share it.
    place: Arc<OwnedFd>,
}

/// Programs at the device and at the NICs of links. They run as long as this lives, or the process.
pub struct KernelPath {
    loaded: Loaded,
    _send: OwnedFd,
    plan: Plan,
    processors: usize,
    links: [Option<Attached>; LINKS],
    peers: Vec<PeerState>,
    traffic: MappedArray,
    counts: MappedArray,
    again: Again,
    senders: MappedArray,
    volumes: MappedArray,
    newcomers: MappedArray,
}

impl std::fmt::Debug for KernelPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelPath")
            .field("plan", &self.plan)
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}

impl KernelPath {
    /// Loads the programs and puts the send program at the device. Until peers are ready, all frames travel in cells. `reorder` restores the
    /// order of frames that have one; without it they go to the device as they come.
    /// Errors: [`Error::NotBuilt`], [`Error::NoPlaces`], [`Error::Load`] (CAP_BPF or CAP_NET_ADMIN is missing),
    /// [`Error::Attach`].
    pub fn attach(plan: &Plan, reorder: Option<&Reorder>) -> Result<Self, Error> {
        let paths = plan.peers * LINKS;
        let config = Config {
            device: plan.device,
            reorder: reorder.map_or(0, Reorder::entry),
            paths: u32::try_from(paths).unwrap_or(u32::MAX),
            port: plan.port.to_be_bytes(),
            padding: [0; 2],
        };
        let processors = load::processors()?;
        let loaded = Loaded::carriers(&config, processors, reorder.map(Reorder::programs))?;
        let map = |name, words| MappedArray::new(loaded.map(name), words).map_err(Error::Counters);
        let traffic = map("traffic", processors * paths * Traffic::NAMES.len())?;
        let counts = map("counts", processors * Counts::NAMES.len())?;
        let again = Again::new(loaded.map("last_segments"), processors, plan.device);
        let senders = map("senders", SENDERS)?;
        let volumes = map("volumes", processors * SENDERS * Volume::NAMES.len())?;
        let newcomers = map("newcomers", 1)?;
        let send = place(&loaded, "send", plan.device, Direction::Egress)?;
        let no_path = PeerState {
            mac: None,
            is_ready: false,
            policy: Policy::default(),
            slots: [NO_LINK; SLOTS],
            paths: [None; LINKS],
        };
        Ok(Self {
            _send: send,
            loaded,
            plan: *plan,
            processors,
            links: [const { None }; LINKS],
            peers: vec![no_path; plan.peers],
            traffic,
            counts,
            again: again?,
            senders,
            volumes,
            newcomers,
        })
    }

    /// Says how links to a peer are chosen.
    /// Errors: [`Error::Number`], [`Error::Map`].
    pub fn set_policy(&mut self, peer: usize, policy: Policy) -> Result<(), Error> {
        check("peer", peer, self.peers.len())?;
        self.peers[peer].policy = policy;
        self.write_peer(peer)
    }

    /// Says which link a sender has, from 0 to [`SENDERS`]; `None`: the next newcomer's.
    /// Errors: [`Error::Number`], [`Error::Map`].
    pub fn set_seat(&mut self, sender: usize, seat: Option<Seat>) -> Result<(), Error> {
        check("sender", sender, SENDERS)?;
        let word = |seat: Seat| SEATED | (seat.peer as u64) << SEAT_PEER_SHIFT | seat.link as u64;
        self.loaded.write("senders", &key(sender), &Sender { seat: seat.map_or(0, word) }.bytes())
    }

    /// Says what is known of a link, from 0 to [`LINKS`]; the receive program is put at its NIC when that is another one than
    /// before. `None`: it has left.
    /// Errors: [`Error::Number`], [`Error::Attach`], [`Error::Map`].
    pub fn set_link(&mut self, link: usize, known: Option<Link>) -> Result<(), Error> {
        check("link", link, LINKS)?;
        let Some(known) = known else { return self.leave(link) };
        let place = match self.links.iter().flatten().find(|there| there.link.ifindex == known.ifindex) {
            Some(there) => Arc::clone(&there.place),
            None => Arc::new(place(&self.loaded, "receive", known.ifindex, Direction::Ingress)?),
        };
        self.forget_sources(link)?;
        self.links[link] = Some(Attached { link: known, place });
        self.write_link(link)
    }

    /// Takes a link out.
    fn leave(&mut self, link: usize) -> Result<(), Error> {
        self.forget_sources(link)?;
        self.links[link] = None;
        self.write_link(link)
    }

    /// Writes what the programs need to know of a link's paths.
    fn write_link(&mut self, link: usize) -> Result<(), Error> {
        for peer in 0..self.peers.len() {
            if self.peers[peer].paths[link].is_some() {
                self.write_path(peer, link)?;
                self.write_peer(peer)?;
            }
        }
        Ok(())
    }

    /// Says which MAC address a peer's device has, if that is known, and whether the peer takes frames by its programs. Frames from
    /// that address that come from other peers are refused. `None`: it has left, with its paths, the addresses behind it and the
    /// seats of those that send to it, so that another peer may have its number.
    /// Errors: [`Error::Number`], [`Error::Map`].
    pub fn set_peer(&mut self, peer: usize, known: Option<(Option<[u8; 6]>, bool)>) -> Result<(), Error> {
        check("peer", peer, self.peers.len())?;
        let mac = known.and_then(|(mac, _)| mac);
        if let Some(old) = self.peers[peer].mac.filter(|old| Some(*old) != mac) {
            self.loaded.delete("owners", &old)?;
        }
        if let Some(mac) = mac {
            self.loaded.write("owners", &mac, &key(peer))?;
        }
        self.peers[peer].mac = mac;
        self.peers[peer].is_ready = known.is_some_and(|(_, is_ready)| is_ready);
        if known.is_none() {
            self.peers[peer].policy = Policy::default();
            (0..LINKS).try_for_each(|link| self.set_path(peer, link, None).map(drop))?;
            self.loaded.delete_all("fdb", |value| *value == key(peer))?;
            let sends_there =
                |sender: &usize| self.sender(*sender).is_some_and(|(seat, _)| seat.peer == peer);
            let seats: Vec<_> = (0..SENDERS).filter(sends_there).collect();
            seats.into_iter().try_for_each(|sender| self.set_seat(sender, None))?;
        }
        self.write_peer(peer)
    }

    /// Says which MAC address the device has itself: frames from it that come from a link are refused.
    /// Errors: [`Error::Map`].
    pub fn set_own(&mut self, mac: [u8; 6]) -> Result<(), Error> {
        self.loaded.write("owners", &mac, &THIS_HOST.to_ne_bytes())
    }

    /// Says what is known of a link's way to a peer; `None`: there is none. Frames from the peer's address are received on links
    /// that have a NIC, also when the path is not up. An address on a link belongs to the peer that has it first: `false` when that
    /// is another one; then there is no way.
    /// Errors: [`Error::Number`], [`Error::Map`].
    pub fn set_path(&mut self, peer: usize, link: usize, known: Option<PathState>) -> Result<bool, Error> {
        check("link", link, LINKS)?;
        check("peer", peer, self.peers.len())?;
        let is_others = |state: &PathState| {
            let has = |(other, peer_state): (usize, &PeerState)| {
                other != peer && peer_state.paths[link].is_some_and(|path| path.remote.ip == state.remote.ip)
            };
            self.peers.iter().enumerate().any(has)
        };
        let wanted = known;
        let known = wanted.filter(|state| !is_others(state));
        self.forget_source(peer, link)?;
        self.peers[peer].paths[link] = known;
        // No flow has a path that is closed, so that none of its frames goes on in cells.
        if !known.is_some_and(|path| path.is_up) {
            self.write_peer(peer)?;
        }
        self.write_path(peer, link)?;
        self.write_peer(peer)?;
        Ok(known.is_some() == wanted.is_some())
    }

    /// Says how fast and how far a path is that is known. Frames on their way do not notice.
    /// Errors: [`Error::Number`], [`Error::Map`].
    pub fn set_pace(&mut self, peer: usize, link: usize, pace: Pace) -> Result<(), Error> {
        check("link", link, LINKS)?;
        check("peer", peer, self.peers.len())?;
        if let Some(path) = &mut self.peers[peer].paths[link] {
            path.pace = pace;
            self.write_path(peer, link)?;
        }
        Ok(())
    }

    /// Sends the last segment again of each TCP flow that left by a path within this time, which has most likely lost it.
    pub fn send_again(&mut self, peer: usize, link: usize, within: Duration) {
        self.again.send(path_number(peer, link), within);
    }

    /// What was sent again so far.
    pub fn again_counts(&self) -> AgainCounts {
        self.again.counts()
    }

    /// What [`Self::send_again`] sends, as frames on the device.
    pub fn last_segments(&self, peer: usize, link: usize, within: Duration) -> Vec<Vec<u8>> {
        self.again.frames(path_number(peer, link), within).collect()
    }

    /// Says that an address behind a bridge lives behind a peer, as the receive program does when it sees a frame from there.
    /// Errors: [`Error::Number`], [`Error::Map`].
    pub fn learn(&mut self, mac: [u8; 6], peer: usize) -> Result<(), Error> {
        check("peer", peer, self.peers.len())?;
        self.loaded.write("fdb", &mac, &key(peer))
    }

    /// Forgets where an address behind a bridge lives.
    /// Errors: [`Error::Map`].
    pub fn forget(&mut self, mac: [u8; 6]) -> Result<(), Error> {
        self.loaded.delete("fdb", &mac)
    }

    /// The programs, for whoever runs them without a NIC (`BPF_PROG_TEST_RUN`).
    pub fn programs(&self) -> &Loaded {
        &self.loaded
    }

    /// What crossed a path since the programs were loaded; takes no call.
    pub fn traffic(&self, peer: usize, link: usize) -> Traffic {
        let words = Traffic::NAMES.len();
        let paths = self.peers.len() * LINKS;
        let of_processor = |processor: usize, word: usize| {
            self.traffic.word((processor * paths + peer * LINKS + link) * words + word).unwrap_or(0)
        };
        let mut sum = Traffic::from_words(
            (0..words).map(|word| (0..self.processors).map(|p| of_processor(p, word)).sum()),
        );
        let newest = words - 1;
        sum.received_ns = (0..self.processors).map(|p| of_processor(p, newest)).max().unwrap_or(0);
        sum
    }

    /// The link of a sender, if it has one, and what it has sent and received since the programs were loaded; takes no call.
    pub fn sender(&self, sender: usize) -> Option<(Seat, Volume)> {
        let seat = self.senders.word(sender).filter(|seat| *seat > 0)?;
        let [peer, link] = [(seat & !SEATED) >> SEAT_PEER_SHIFT, seat & u64::from(u8::MAX)]
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let words = Volume::NAMES.len();
        let of_processor =
            |p: usize, word: usize| self.volumes.word((p * SENDERS + sender) * words + word).unwrap_or(0);
        let sum = |word| (0..self.processors).map(|p| of_processor(p, word)).sum();
        Some((Seat { peer, link }, Volume::from_words((0..words).map(sum))))
    }

    /// How many senders have come that had no link, or one that was down; takes no call.
    pub fn newcomers(&self) -> u64 {
        self.newcomers.word(0).unwrap_or(0)
    }

    /// What the programs did not carry since they were loaded; takes no call.
    pub fn counts(&self) -> Counts {
        let words = Counts::NAMES.len();
        let of_processor = |p: usize, word: usize| self.counts.word(p * words + word).unwrap_or(0);
        Counts::from_words((0..words).map(|word| (0..self.processors).map(|p| of_processor(p, word)).sum()))
    }

    /// Writes what the programs need to know of a path.
    fn write_path(&self, peer: usize, link: usize) -> Result<(), Error> {
        let index = key(peer * LINKS + link);
        let there = self.peers[peer].paths[link].zip(self.links[link].as_ref());
        let Some((known, attached)) = there else {
            return self.loaded.write("paths", &index, &[0; size_of::<Path>()]);
        };
        let link = &attached.link;
        let path = Path {
            flags: if known.is_up && link.is_up { PATH_UP } else { 0 },
            ifindex: link.ifindex,
            mtu: link.mtu,
            delay_ns: u32::try_from(known.pace.delay.as_nanos()).unwrap_or(u32::MAX),
            byte_time: byte_time(known.pace.rate),
            local_mac: known.local.mac,
            remote_mac: known.remote.mac,
            local: known.local.ip.octets(),
            remote: known.remote.ip.octets(),
            remote_port: known.remote_port.to_be_bytes(),
            padding: [0; 2],
        };
        self.loaded.write("paths", &index, &path.bytes())?;
        let source = Source { ifindex: link.ifindex, address: path.remote };
        self.loaded.write("sources", &source.bytes(), &index)
    }

    /// Deletes who sends from addresses on a link.
    fn forget_sources(&self, link: usize) -> Result<(), Error> {
        (0..self.peers.len()).try_for_each(|peer| self.forget_source(peer, link))
    }

    /// Deletes who sends from a path's address.
    fn forget_source(&self, peer: usize, link: usize) -> Result<(), Error> {
        let there = self.peers[peer].paths[link].zip(self.links[link].as_ref());
        let Some((known, attached)) = there else { return Ok(()) };
        let source = Source { ifindex: attached.link.ifindex, address: known.remote.ip.octets() };
        self.loaded.delete("sources", &source.bytes())
    }

    /// Writes what the send program needs to know of a peer.
    fn write_peer(&mut self, peer: usize) -> Result<(), Error> {
        let weights = std::array::from_fn(|link| {
            let is_up = self.peers[peer].paths[link].is_some_and(|path| path.is_up);
            self.links[link]
                .as_ref()
                .filter(|there| is_up && there.link.is_up)
                .map_or(0, |there| there.link.weight)
        });
        let state = &mut self.peers[peer];
        layout::assign(&mut state.slots, &weights);
        let ready = if state.is_ready { PEER_READY } else { 0 };
        let (choosing, newcomers) = match state.policy {
            Policy::Hash => (0, [NO_LINK; NEWCOMERS]),
            Policy::Stripe => (PEER_STRIPED, [NO_LINK; NEWCOMERS]),
            Policy::Weighted => (PEER_STRIPED | PEER_WEIGHTED, [NO_LINK; NEWCOMERS]),
            Policy::Senders { newcomers, received: false } => (PEER_SENDERS, newcomers),
            Policy::Senders { newcomers, received: true } => (PEER_SENDERS | PEER_RECEIVED, newcomers),
        };
        let entry = Peer { flags: ready | choosing, slots: state.slots, newcomers };
        self.loaded.write("peers", &key(peer), &entry.bytes())
    }
}

/// Puts a program at a NIC.
pub(crate) fn place(
    loaded: &Loaded,
    name: &'static str,
    ifindex: u32,
    direction: Direction,
) -> Result<OwnedFd, Error> {
    let program = loaded.program(name).ok_or(Error::NotBuilt)?;
    tcx::attach(program, ifindex, direction).map_err(|error| Error::Attach(name, ifindex, error))
}

/// Time that a byte takes, as [`Path::byte_time`] has it.
fn byte_time(rate: Option<u64>) -> u32 {
    const BIT_NS: u64 = 8 * 1_000_000_000;
    rate.map_or(0, |rate| u32::try_from((BIT_NS << TIME_SHIFT) / rate.max(1)).unwrap_or(u32::MAX))
}

/// The number that programs give to a path.
fn path_number(peer: usize, link: usize) -> u32 {
    u32::try_from(peer * LINKS + link).unwrap_or(u32::MAX)
}

/// A number as arrays and hashes of the programs have it.
fn key(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes()
}

fn check(what: &'static str, number: usize, bound: usize) -> Result<(), Error> {
    if number < bound { Ok(()) } else { Err(Error::Number { what, number, bound }) }
}
