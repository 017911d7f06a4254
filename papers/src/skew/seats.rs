//! Which link carries which sender: read from the cells that come to the switches from the first host.
//!
//! A link frame whose first cell begins a record shows the inner TCP port, and with it the sender; frames that only go on
//! with a record are not counted. Layout: `docs/wire.md`; IPv6 and UDP outside, IPv4 and TCP inside.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use tabane_io::packet::{self, PacketSocket};
use tabane_proto::wire::cell::{self, Header, Kind, NO_RECORD};
use tabane_proto::wire::record::{ETHERNET, PREFIX, VNET};

use super::{FIRST_PORT, LINKS, SENDERS};
use tabane_kit::netns::joined;
use tabane_kit::topology::Topology;

/// Bytes in front of the first cell: virtio header, Ethernet, IPv6, UDP.
const OUTSIDE: usize = packet::HEADER + ETHERNET + 40 + 8;
/// Bytes of a record in front of the TCP destination port: prefix, virtio header, Ethernet, IPv4, source port.
const INSIDE: usize = PREFIX + VNET + ETHERNET + 20 + 2;
/// Bytes of a frame that are looked at: a record may begin late in the first cell.
const SNAP: usize = 2_048;
/// Pause of a watcher that has read everything.
const PAUSE: Duration = Duration::from_millis(2);
/// The switch's port to the first host.
const SWITCH_PORT: &str = "port1";

/// Records that began, of each sender.
type Counts = [AtomicU64; SENDERS];

/// A watcher at each switch.
pub(super) struct Seats {
    counts: [Arc<Counts>; LINKS],
    end: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<Result<()>>>,
}

impl Seats {
    /// Begins to watch.
    pub(super) fn watch(topology: &Topology) -> Result<Seats> {
        let counts: [Arc<Counts>; LINKS] = Default::default();
        let end = Arc::new(AtomicBool::new(false));
        let watchers = counts.iter().enumerate().map(|(link, counts)| {
            let (counts, end) = (Arc::clone(counts), Arc::clone(&end));
            topology.switch(link).spawn("watcher", move || count(&counts, &end))
        });
        let watchers = watchers.collect::<Result<_>>()?;
        Ok(Seats { counts, end, watchers })
    }

    /// The link that began most records of each sender since this was called last.
    pub(super) fn take(&self) -> [Option<usize>; SENDERS] {
        std::array::from_fn(|sender| {
            let counts = self.counts.iter().map(|link| link[sender].swap(0, Ordering::Relaxed));
            let (count, link) = counts.zip(0..).max()?;
            (count > 0).then_some(link)
        })
    }

    /// Ends the watchers.
    pub(super) fn finish(self) -> Result<()> {
        self.end.store(true, Ordering::Relaxed);
        self.watchers.into_iter().try_for_each(joined)
    }
}

/// Counts until told to end.
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

/// The sender whose record begins in the first cell of a link frame.
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
