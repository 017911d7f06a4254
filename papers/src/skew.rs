//! P0.skew: sender A starts 10 s before B, C and D, over two links of 100 Mbit/s.
//!
//! At the next renewal `tlb` takes A for the heaviest, and B, C and D share the other link (P0, finding 6 and figure 10).
//! At later renewals the order decides in which the four happen to send: three share a link again unless two of them send
//! before A. The paper saw it at every renewal of its run. `tlb-history` spreads them.
//!
//! 1. The four connections, and when they start.
//! 2. Which link carries which of them, seen at the switches.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tabane_io::packet::{self, PacketSocket};
use tabane_proto::wire::cell::{self, Header, Kind, NO_RECORD};
use tabane_proto::wire::record::{ETHERNET, PREFIX, VNET};

use crate::prelude::*;

const LINKS: usize = 2;
const LINK_RATE: Bitrate = Bitrate::mbit(100);
pub(crate) const SENDERS: usize = 4;
pub(crate) const LATER: usize = 10;
const PERIOD: usize = 10;
/// Seconds after the start of the latecomers that do not count: TCP starts, and a second is a sample.
const STARTING: usize = 3;
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Second {
    /// The link that carried most of it.
    pub(crate) link: Option<usize>,
    pub(crate) mbit: f64,
}

pub(crate) type Series = Vec<[Second; SENDERS]>;

/// The part of the settled seconds of each period after the latecomers' start, 0 to 1, in which they share one link.
pub(crate) fn three_share_one(series: &Series) -> Vec<f64> {
    let periods = series.get(LATER..).unwrap_or_default().chunks(PERIOD);
    periods.map(|period| part_skewed(&period[STARTING.min(period.len() - 1)..])).collect()
}

/// The part of the seconds in which B, C and D share one link, and A has the other.
fn part_skewed(seconds: &[[Second; SENDERS]]) -> f64 {
    let on = |second: &[Second; SENDERS], link| second.iter().filter(|each| each.link == Some(link)).count();
    let is_skewed = |second: &&[Second; SENDERS]| {
        second[0].link.is_some_and(|link| on(second, link) == 1 && on(second, 1 - link) == SENDERS - 1)
    };
    seconds.iter().filter(is_skewed).count() as f64 / seconds.len() as f64
}

pub(crate) fn play(
    daemon: &Path,
    policy: &str,
    seconds: u64,
    seed: u64,
    prefix: &'static str,
) -> Result<Series> {
    let links = vec![LinkPlan::shaped(LINK_RATE); LINKS];
    let topology = Topology::build(Plan { prefix, addressed: false, ..Plan::two_hosts(links) })?;
    let options = bundle::Options {
        arguments: ["--policy", policy].map(str::to_string).to_vec(),
        // As Linux knows the rate of a NIC; here it would first have to be measured.
        rate: Some(LINK_RATE),
        // The switches read the senders from the cells.
        protection: bundle::Protection::None,
        ..bundle::Options::new(daemon)
    };
    let bundles = Bundle::start_all(&topology, &options)?;
    let seats = Seats::watch(&topology)?;
    let mut senders = Senders::start(&topology, seed)?;
    let mut series = Series::new();
    let began = Instant::now();
    for second in 1..=seconds {
        thread::sleep((began + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
        let (links, mbits) = (seats.take(), senders.take());
        series.push(std::array::from_fn(|sender| Second { link: links[sender], mbit: mbits[sender] }));
        if series.len() == LATER {
            senders.start_others(&topology)?;
        }
    }
    senders.finish()?;
    seats.finish()?;
    Bundle::stop_all(bundles)?;
    Ok(series)
}

// Four connections from the first host to the second, the first of which starts earlier than the others.

const FIRST_PORT: u16 = 7_501;
const FILE_BYTES: u64 = 1 << 20;

struct Senders {
    transfers: Vec<Transfer>,
    seed: u64,
    /// When [`Senders::take`] was asked last, and what had arrived by then.
    taken: (Instant, [u64; SENDERS]),
}

impl Senders {
    fn start(topology: &Topology, seed: u64) -> Result<Senders> {
        let mut senders = Senders { transfers: Vec::new(), seed, taken: (Instant::now(), [0; SENDERS]) };
        senders.start_next(topology)?;
        Ok(senders)
    }

    fn start_others(&mut self, topology: &Topology) -> Result<()> {
        (1..SENDERS).try_for_each(|_| self.start_next(topology))
    }

    fn start_next(&mut self, topology: &Topology) -> Result<()> {
        let number = u16::try_from(self.transfers.len())?;
        let at = SocketAddr::new(bundle::address(1), FIRST_PORT + number);
        let source = Source::random(FILE_BYTES, self.seed + u64::from(number));
        self.transfers.push(Transfer::start(topology.host(0), topology.host(1), at, source)?);
        Ok(())
    }

    /// Mbit/s of each since this was called last.
    fn take(&mut self) -> [f64; SENDERS] {
        let mut arrived = [0; SENDERS];
        for (arrived, transfer) in arrived.iter_mut().zip(&self.transfers) {
            *arrived = transfer.arrived();
        }
        let (since, before) = std::mem::replace(&mut self.taken, (Instant::now(), arrived));
        let seconds = since.elapsed().as_secs_f64();
        std::array::from_fn(|sender| (arrived[sender] - before[sender]) as f64 * 8e-6 / seconds)
    }

    fn finish(self) -> Result<()> {
        self.transfers.iter().for_each(Transfer::end);
        for transfer in self.transfers {
            let outcome = transfer.finish()?;
            ensure!(outcome.is_whole, "a connection was lost or damaged: {:?}", outcome.lost);
        }
        Ok(())
    }
}

// Which link carries which sender: read from the cells that come to the switches from the first host.
//
// A link frame whose first cell begins a record shows the inner TCP port, and with it the sender; frames that only go on
// with a record are not counted. Layout: `docs/wire.md`; IPv6 and UDP outside, IPv4 and TCP inside.

/// Bytes in front of the first cell: virtio header, Ethernet, IPv6, UDP.
const OUTSIDE: usize = packet::HEADER + ETHERNET + 40 + 8;
/// Bytes of a record in front of the TCP destination port: prefix, virtio header, Ethernet, IPv4, source port.
const INSIDE: usize = PREFIX + VNET + ETHERNET + 20 + 2;
/// Bytes of a frame that are looked at: a record may begin late in the first cell.
const SNAP: usize = 2_048;
const PAUSE: Duration = Duration::from_millis(2);
const SWITCH_PORT: &str = "port1";

/// Records that began, of each sender.
type Counts = [AtomicU64; SENDERS];

struct Seats {
    counts: [Arc<Counts>; LINKS],
    watchers: Vec<Running<()>>,
}

impl Seats {
    fn watch(topology: &Topology) -> Result<Seats> {
        let counts: [Arc<Counts>; LINKS] = Default::default();
        let watchers = counts.iter().enumerate().map(|(link, counts)| {
            let counts = Arc::clone(counts);
            Running::start(topology.switch(link), "watcher", move |end| count(&counts, end))
        });
        let watchers = watchers.collect::<Result<_>>()?;
        Ok(Seats { counts, watchers })
    }

    fn take(&self) -> [Option<usize>; SENDERS] {
        std::array::from_fn(|sender| {
            let counts = self.counts.iter().map(|link| link[sender].swap(0, Ordering::Relaxed));
            let (count, link) = counts.zip(0..).max()?;
            (count > 0).then_some(link)
        })
    }

    fn finish(self) -> Result<()> {
        self.watchers.into_iter().try_for_each(Running::end)
    }
}

fn count(counts: &Counts, end: &AtomicBool) -> Result<()> {
    let socket = PacketSocket::open(SWITCH_PORT)?;
    let mut frame = [0; SNAP];
    while !end.load(Ordering::Relaxed) {
        match socket.receive(&mut frame) {
            Ok(length) => {
                if let Some(count) = sender(&frame[..length.min(SNAP)]).and_then(|sender| counts.get(sender))
                {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn sender(frame: &[u8]) -> Option<usize> {
    let first = frame.get(OUTSIDE..)?;
    let header = Header::parse(first).ok()?;
    if header.kind != Kind::Data || header.block_offset == NO_RECORD {
        return None;
    }
    let record = first.get(cell::HEADER + usize::from(header.block_offset)..)?;
    let port: [u8; 2] = record.get(INSIDE..INSIDE + 2)?.try_into().ok()?;
    u16::from_be_bytes(port).checked_sub(FIRST_PORT).map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_latecomers_on_one_link_are_told_from_two_on_each() {
        let second = |links: [usize; SENDERS]| links.map(|link| Second { link: Some(link), mbit: 1.0 });
        let series = [[0, 1, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0]].map(second);
        assert!((part_skewed(&series) - 1.0 / 3.0).abs() < 1e-9, "A alone, not D");
    }

    #[test]
    fn a_sender_is_known_by_the_port_inside() {
        let mut frame = [0; 400];
        let header = Header {
            kind: Kind::Data,
            epoch: 0,
            link: 0,
            lane: 3,
            link_seq: 1,
            lane_seq: 1,
            block_offset: 100,
            session: 1_024,
        };
        header.emit(&mut frame[OUTSIDE..]);
        let port = OUTSIDE + cell::HEADER + 100 + INSIDE;
        frame[port..port + 2].copy_from_slice(&(FIRST_PORT + 2).to_be_bytes());
        assert_eq!(sender(&frame), Some(2));
        Header { block_offset: NO_RECORD, ..header }.emit(&mut frame[OUTSIDE..]);
        assert_eq!(sender(&frame), None);
    }
}
