//! The kernel path of one bundle: what is attached, and what its owner tells the programs.

use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tabane_io::MappedArray;
use tabane_io::tcx::{self, Direction};
use tabane_proto::{Choosing, KernelEnd, KernelPath as PeerPath, KernelPeer};

use crate::Error;
use crate::again::Again;
use crate::layout::{
    self, AgainCounts, Config, Counts, LINKS, NEWCOMERS, NO_LINK, PATH_UP, PEER_READY, PEER_RECEIVED,
    PEER_SENDERS, PEER_STRIPED, PEER_WEIGHTED, Path, Peer, ReorderCounts, SEAT_PEER_SHIFT, SEATED, SENDERS,
    SLOTS, Sender, Source, THIS_HOST, TIME_SHIFT, Traffic, Volume,
};
use crate::load::{self, Loaded};
use crate::reorder::{Reorder, is_near};

/// What left by a path before it was given up is sent again when that was not longer ago: a path that dies in quiet is left after
/// 45 ms, and TCP goes on by itself after 200 ms.
const AGAIN_WITHIN: Duration = Duration::from_millis(100);
/// The speed of the link that has the largest share, in bytes per second: shares are relative.
const SHARE: u64 = 125_000_000;

/// What a kernel path is made for.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub device: u32,
    /// The device's own address: frames from it that come from a link are refused.
    pub mac: Option<[u8; 6]>,
    /// UDP port at which this host receives. Frames that no peer sends there are left to the stack.
    pub port: u16,
    /// How many peers there can be; they are numbered from 0.
    pub peers: usize,
}

/// The link that a sender has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    pub peer: usize,
    pub link: usize,
}

/// A link whose NIC has the receive program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub ifindex: u32,
    /// Largest IPv6 packet that it takes, in bytes: the NIC's MTU.
    pub mtu: u32,
    /// Where this host receives there.
    pub end: KernelEnd,
}

/// What the maps hold of a peer.
#[derive(Clone, Debug)]
struct PeerState {
    entry: Peer,
    paths: [Option<Path>; LINKS],
    /// Whether each path worked when it was written last.
    works: [bool; LINKS],
    is_ready: bool,
    choosing: Choosing,
}

/// Programs at the device and at the NICs of links. They run as long as this lives, or the process.
pub struct KernelPath {
    loaded: Loaded,
    _send: OwnedFd,
    processors: usize,
    /// Links of one NIC share its program.
    links: [Option<(Link, Arc<OwnedFd>)>; LINKS],
    peers: Vec<PeerState>,
    traffic: MappedArray,
    counts: MappedArray,
    again: Again,
    senders: MappedArray,
    volumes: MappedArray,
    newcomers: MappedArray,
    /// What puts frames in order; dropped after what sends frames there.
    reorder: Option<Reorder>,
}

impl KernelPath {
    /// Loads the programs and puts the send program at the device. Until peers are ready, all frames travel in cells. `reorder` restores the
    /// order of frames that have one; without it they go to the device as they come.
    /// Errors: [`Error::NotBuilt`], [`Error::NoPlaces`], [`Error::Load`] (CAP_BPF or CAP_NET_ADMIN is missing),
    /// [`Error::Attach`], [`Error::Map`].
    pub fn attach(plan: &Plan, reorder: Option<Reorder>) -> Result<Self, Error> {
        let paths = plan.peers * LINKS;
        let config = Config {
            device: plan.device,
            reorder: reorder.as_ref().map_or(0, Reorder::entry),
            paths: u32::try_from(paths).unwrap_or(u32::MAX),
            port: plan.port.to_be_bytes(),
            padding: [0; 2],
        };
        let processors = load::processors()?;
        let loaded = Loaded::carriers(&config, processors, reorder.as_ref().map(Reorder::programs))?;
        let map = |name, words| MappedArray::new(loaded.map(name), words).map_err(Error::Counters);
        let traffic = map("traffic", processors * paths * Traffic::NAMES.len())?;
        let counts = map("counts", processors * Counts::NAMES.len())?;
        let again = Again::new(loaded.map("last_segments"), processors, plan.device)?;
        let senders = map("senders", SENDERS)?;
        let volumes = map("volumes", processors * SENDERS * Volume::NAMES.len())?;
        let newcomers = map("newcomers", 1)?;
        if let Some(mac) = plan.mac {
            loaded.write("owners", &mac, &THIS_HOST.to_ne_bytes())?;
        }
        let unknown = PeerState {
            entry: Peer { flags: 0, slots: [NO_LINK; SLOTS], newcomers: [NO_LINK; NEWCOMERS] },
            paths: [None; LINKS],
            works: [false; LINKS],
            is_ready: false,
            choosing: Choosing::default(),
        };
        Ok(Self {
            _send: place(&loaded, "send", plan.device, Direction::Egress)?,
            loaded,
            processors,
            links: [const { None }; LINKS],
            peers: vec![unknown; plan.peers],
            traffic,
            counts,
            again,
            senders,
            volumes,
            newcomers,
            reorder,
        })
    }

    /// Puts the receive program at the NIC of a link, from 0 to [`LINKS`].
    pub fn add_link(&mut self, number: usize, link: Link) -> Result<(), Error> {
        check("link", number, LINKS)?;
        let there = self.links.iter().flatten().find(|(there, _)| there.ifindex == link.ifindex);
        let place = match there {
            Some((_, place)) => Arc::clone(place),
            None => Arc::new(place(&self.loaded, "receive", link.ifindex, Direction::Ingress)?),
        };
        self.links[number] = Some((link, place));
        Ok(())
    }

    /// Has the programs know this of a peer, and give it frames if it `is_ready` and has a path. Writes what differs: what closes comes
    /// before what opens. Of a path that has ceased to work, the last segment of each TCP flow is sent again.
    ///
    /// Frames from the peer's addresses are received also on paths that are not open. An address on a link belongs to the peer that has
    /// it first: returned is one that belongs to another, where that leaves this peer without a path.
    /// Errors: [`Error::Number`], [`Error::Map`]; the next call writes what is missing.
    pub fn set_peer(
        &mut self,
        number: usize,
        peer: &KernelPeer,
        is_ready: bool,
    ) -> Result<Option<Ipv6Addr>, Error> {
        check("peer", number, self.peers.len())?;
        if !is_ready {
            self.close_peer(number)?;
        }
        if let Some(reorder) = &mut self.reorder {
            reorder.set_order(number, &peer.order)?;
        }
        self.peers[number].choosing = peer.choosing;
        let (mut wanted, mut taken) = ([None; LINKS], None);
        let of = |link: usize| peer.paths.iter().find(|path| usize::from(path.link) == link);
        let works = std::array::from_fn(|link| of(link).is_some_and(|path| path.up));
        let worked = std::mem::replace(&mut self.peers[number].works, works);
        for path in &peer.paths {
            let link = usize::from(path.link);
            let has = |other: &PeerState| {
                other.paths[link].is_some_and(|other| other.remote == path.end.address.octets())
            };
            let others = self.peers.iter().enumerate().filter(|(other, _)| *other != number);
            if others.map(|(_, other)| other).any(has) {
                taken = taken.or(Some(path.end.address));
            } else {
                wanted[link] = self.entry(peer, path);
            }
        }
        for opens in [false, true] {
            for (link, path) in
                wanted.iter().enumerate().filter(|(_, path)| path.as_ref().is_some_and(is_open) == opens)
            {
                self.write_path(number, link, *path)?;
            }
        }
        let has_path = wanted.iter().any(Option::is_some);
        self.peers[number].is_ready = is_ready && has_path;
        self.write_peer(number, None)?;
        for link in (0..LINKS).filter(|link| worked[*link] && !works[*link] && wanted[*link].is_some()) {
            self.again.send(path_number(number, link), AGAIN_WITHIN);
        }
        Ok(taken.filter(|_| !has_path))
    }

    /// Gives a peer no more frames by programs. What it sends is received on.
    pub fn close_peer(&mut self, number: usize) -> Result<(), Error> {
        check("peer", number, self.peers.len())?;
        self.peers[number].is_ready = false;
        self.write_peer(number, None)
    }

    /// Forgets a peer, with its paths, the addresses behind it and the seats of those that send to it, so that another peer may have its number.
    pub fn remove_peer(&mut self, number: usize) -> Result<(), Error> {
        self.close_peer(number)?;
        (0..LINKS).try_for_each(|link| self.write_path(number, link, None))?;
        self.peers[number].works = [false; LINKS];
        self.loaded.delete_all("fdb", |value| *value == key(number))?;
        let sends_there = |sender: &usize| self.sender(*sender).is_some_and(|(seat, _)| seat.peer == number);
        (0..SENDERS).filter(sends_there).try_for_each(|sender| self.set_seat(sender, None))
    }

    /// Whether frames to a peer leave by programs.
    pub fn is_ready(&self, number: usize) -> bool {
        self.peers.get(number).is_some_and(|peer| peer.is_ready)
    }

    /// Says which link a sender has, from 0 to [`SENDERS`]; `None`: the next newcomer's.
    pub fn set_seat(&self, sender: usize, seat: Option<Seat>) -> Result<(), Error> {
        check("sender", sender, SENDERS)?;
        let word = |seat: Seat| SEATED | (seat.peer as u64) << SEAT_PEER_SHIFT | seat.link as u64;
        self.loaded.write("senders", &key(sender), &Sender { seat: seat.map_or(0, word) }.bytes())
    }

    /// Says that an address behind a bridge lives behind a peer, as the receive program does when it sees a frame from there.
    pub fn learn(&self, mac: [u8; 6], peer: usize) -> Result<(), Error> {
        check("peer", peer, self.peers.len())?;
        self.loaded.write("fdb", &mac, &key(peer))
    }

    /// The name of what puts frames in order, if there is such.
    pub fn pair(&self) -> Option<&str> {
        self.reorder.as_ref().map(Reorder::name)
    }

    /// Deletes what puts frames in order, which would outlive the process.
    pub fn close(&mut self) {
        self.reorder = None;
    }

    /// The programs, for whoever runs them without a NIC (`BPF_PROG_TEST_RUN`).
    pub fn programs(&self) -> &Loaded {
        &self.loaded
    }

    /// The last segments of TCP flows that left by a path within this time, as frames on the device.
    pub fn last_segments(&self, peer: usize, link: usize, within: Duration) -> Vec<Vec<u8>> {
        self.again.frames(path_number(peer, link), within).collect()
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

    /// What the programs did not carry since they were loaded, what was sent again, and what the qdisc did; takes no call.
    pub fn counts(&self) -> (Counts, AgainCounts, ReorderCounts) {
        let words = Counts::NAMES.len();
        let of_processor = |p: usize, word: usize| self.counts.word(p * words + word).unwrap_or(0);
        let sum = |word| (0..self.processors).map(|p| of_processor(p, word)).sum();
        let reorder = self.reorder.as_ref().map(Reorder::counts).unwrap_or_default();
        (Counts::from_words((0..words).map(sum)), self.again.counts(), reorder)
    }

    /// What the programs need to know of a path; `None`: its link has no program.
    fn entry(&self, peer: &KernelPeer, path: &PeerPath) -> Option<Path> {
        let (link, _) = self.links.get(usize::from(path.link))?.as_ref()?;
        let mut entry = Path {
            flags: if path.open { PATH_UP } else { 0 },
            ifindex: link.ifindex,
            mtu: link.mtu,
            delay_ns: 0,
            byte_time: 0,
            local_mac: link.end.mac,
            remote_mac: path.end.mac,
            local: link.end.address.octets(),
            remote: path.end.address.octets(),
            remote_port: path.end.port.to_be_bytes(),
            padding: [0; 2],
        };
        if path.open && peer.choosing.spreads() {
            let fastest = peer.paths.iter().map(|path| path.speed).max().unwrap_or(0);
            let share = || u128::from(path.speed) * u128::from(SHARE) / u128::from(fastest.max(1));
            let is_share = peer.choosing == Choosing::Shares;
            entry.byte_time = byte_time(if is_share { share() } else { path.speed.into() });
            entry.delay_ns = u32::try_from(path.delay.as_nanos()).unwrap_or(u32::MAX);
        }
        Some(entry)
    }

    /// Writes a path, unless the map holds about the same.
    fn write_path(&mut self, peer: usize, link: usize, wanted: Option<Path>) -> Result<(), Error> {
        let there = self.peers[peer].paths[link];
        let is_same = |there: Path, wanted: Path| {
            let (delay_ns, byte_time) = (there.delay_ns, there.byte_time);
            Path { delay_ns, byte_time, ..wanted } == there
                && is_near(delay_ns, wanted.delay_ns)
                && is_near(byte_time, wanted.byte_time)
        };
        if there == wanted || there.zip(wanted).is_some_and(|(there, wanted)| is_same(there, wanted)) {
            return Ok(());
        }
        // No flow has a path that is closed, so that none of its frames goes on in cells.
        if !wanted.as_ref().is_some_and(is_open) {
            self.write_peer(peer, Some(link))?;
        }
        if let Some(there) = there.filter(|there| wanted.is_none_or(|wanted| wanted.remote != there.remote)) {
            self.loaded.delete("sources", &source(&there))?;
        }
        let index = key(peer * LINKS + link);
        let bytes = wanted.map_or_else(|| vec![0; size_of::<Path>()], |path| path.bytes());
        self.loaded.write("paths", &index, &bytes)?;
        if let Some(path) = &wanted {
            self.loaded.write("sources", &source(path), &index)?;
        }
        self.peers[peer].paths[link] = wanted;
        Ok(())
    }

    /// Writes what the send program needs to know of a peer, if the map holds something else. `closing`: a link that no flow may have.
    fn write_peer(&mut self, number: usize, closing: Option<usize>) -> Result<(), Error> {
        let peer = &mut self.peers[number];
        let open = std::array::from_fn(|link| {
            closing != Some(link) && peer.paths[link].as_ref().is_some_and(is_open)
        });
        let mut entry = peer.entry;
        layout::assign(&mut entry.slots, &open);
        let (choosing, newcomers) = match peer.choosing {
            Choosing::Hash => (0, [NO_LINK; NEWCOMERS]),
            Choosing::Earliest => (PEER_STRIPED, [NO_LINK; NEWCOMERS]),
            Choosing::Shares => (PEER_STRIPED | PEER_WEIGHTED, [NO_LINK; NEWCOMERS]),
            Choosing::Senders { newcomers, received: false } => (PEER_SENDERS, newcomers),
            Choosing::Senders { newcomers, received: true } => (PEER_SENDERS | PEER_RECEIVED, newcomers),
        };
        entry.newcomers = newcomers;
        entry.flags = choosing | if peer.is_ready { PEER_READY } else { 0 };
        if entry != peer.entry {
            self.loaded.write("peers", &key(number), &entry.bytes())?;
            peer.entry = entry;
        }
        Ok(())
    }
}

fn is_open(path: &Path) -> bool {
    path.flags & PATH_UP != 0
}

/// Who sends from a path's other end.
fn source(path: &Path) -> Vec<u8> {
    Source { ifindex: path.ifindex, address: path.remote }.bytes()
}

pub(crate) fn place(
    loaded: &Loaded,
    name: &'static str,
    ifindex: u32,
    direction: Direction,
) -> Result<OwnedFd, Error> {
    let program = loaded.program(name).ok_or(Error::NotBuilt)?;
    tcx::attach(program, ifindex, direction).map_err(|error| Error::Attach(name, ifindex, error))
}

/// Time that a byte takes at so many bytes per second, as [`Path::byte_time`] has it.
fn byte_time(speed: u128) -> u32 {
    const SECOND_NS: u128 = 1_000_000_000;
    (SECOND_NS << TIME_SHIFT).checked_div(speed).map_or(0, |time| u32::try_from(time).unwrap_or(u32::MAX))
}

fn path_number(peer: usize, link: usize) -> u32 {
    u32::try_from(peer * LINKS + link).unwrap_or(u32::MAX)
}

/// A number as arrays and hashes of the programs have it.
pub(crate) fn key(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes()
}

pub(crate) fn check(what: &'static str, number: usize, bound: usize) -> Result<(), Error> {
    if number < bound { Ok(()) } else { Err(Error::Number { what, number, bound }) }
}
