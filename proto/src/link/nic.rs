//! A link: one of this node's NICs or memory rings. The paths to all peers share its queue and its rate.
//!
//! Beside [`crate::send::transmit`]. What waits in its queue, and how fast that leaves: [`crate::link::nic_queue`].

use crate::link::ceiling::Ceiling;
use crate::link::health::ALL_SILENT_FOR;
use crate::link::incast::Incast;
use crate::link::nic_load::NicLoad;
use crate::link::nic_queue::NicQueue;
use crate::time::{Instant, nanos};
use crate::wire::hello::KernelEnd;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// The smallest cell that is made: what the smallest link of IPv4 takes (576 bytes) without its headers.
pub const CELL_LEAST: u16 = 576 - 20 - 8;

/// What is known of a link when the bundle is made.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// The largest link frame (cell with header) that the NIC takes, in bytes. With less than [`CELL_LEAST`] the link
    /// carries nothing.
    pub cell_max: u16,
    /// Bytes of a packet before its cell; 0: the way carries whatever the link takes, so that no MTU is looked for.
    pub headers: u16,
    /// Endpoints that are greeted besides the multicast group.
    pub greet: Vec<SocketAddr>,
    /// Whether peers are looked for by multicast.
    pub multicast: bool,
    /// The most that this node is to send, in bits per second, if the user states it; else the rate is measured.
    pub rate: Option<u64>,
    /// The most that it wants to receive from each peer, in bits per second, if the user states it: peers are told.
    pub receives: Option<u64>,
    /// Its part of the traffic under `weighted`, at least 1; counts when every link has one.
    pub weight: Option<u32>,
    /// Whether it is drained: data takes another link, if one is up.
    pub drained: bool,
    /// Where it receives frames of the kernel path, if it does.
    pub kernel: Option<KernelEnd>,
}

impl LinkSettings {
    /// A link over IPv6 and UDP that finds its peers by multicast and measures its rate.
    pub fn new(cell_max: u16) -> Self {
        Self {
            cell_max,
            headers: 40 + 8,
            greet: Vec::new(),
            multicast: true,
            rate: None,
            receives: None,
            weight: None,
            drained: false,
            kernel: None,
        }
    }
}

/// Whether a link belongs to the bundle: [`crate::group::hotplug`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It does.
    Member,
    /// It only receives what was still on its way.
    Leaving {
        /// When it is gone.
        until: Instant,
    },
    /// Its number is free.
    Vacant,
    /// It is a further way over another link, for those links of peers that have its number: all else is that link's.
    Twin {
        /// The other link.
        of: u8,
    },
}

pub(crate) struct Link {
    pub(crate) settings: LinkSettings,
    pub(crate) presence: Presence,
    /// Whether the NIC has one; a link that is no member counts as one without.
    pub(crate) carrier: bool,
    /// The socket took no more; cleared when it does again.
    pub(crate) full: bool,
    /// Until when what came has been read; `None`: always until now.
    read_until: Option<Instant>,
    /// Cells may still wait in its socket.
    pub(crate) is_behind: bool,
    pub(crate) incast: Incast,
    /// When everyone is greeted next, or bidden farewell.
    pub(crate) greet_at: Instant,
    pub(crate) queue: NicQueue,
    pub(crate) ceiling: Ceiling,
    pub(crate) load: NicLoad,
}

impl Link {
    pub(crate) fn new(now: Instant, settings: LinkSettings) -> Self {
        let (stated, ceiling) = (settings.rate.map(|bits| bits / 8), Ceiling::new(settings.rate));
        Self {
            settings,
            presence: Presence::Member,
            carrier: true,
            full: false,
            read_until: None,
            is_behind: false,
            incast: Incast::default(),
            greet_at: now,
            queue: NicQueue::new(now, stated),
            ceiling,
            load: NicLoad::default(),
        }
    }

    /// What stands at a number that no link of the user's has.
    pub(crate) fn none(now: Instant, presence: Presence) -> Self {
        Self { presence, carrier: false, ..Self::new(now, LinkSettings::new(0)) }
    }

    /// The user states another rate, for what is sent and what is received, or weight, or none.
    pub(crate) fn state(&mut self, [rate, receives]: [Option<u64>; 2], weight: Option<u32>) {
        let settings = &mut self.settings;
        (settings.rate, settings.receives, settings.weight) = (rate, receives, weight);
        self.queue.state(rate.map(|bits| bits / 8));
        self.ceiling.set(rate);
    }

    /// The I/O has read it at `now`, and may have left something there.
    pub(crate) fn handle_read(&mut self, now: Instant, is_behind: bool) {
        self.is_behind = is_behind;
        if !is_behind || self.read_until.is_none() {
            self.read_until = Some(now);
        }
    }

    /// Until when what came in by it has been read: what is not received by then has not come. Nobody is so much behind that this
    /// would be longer ago than [`ALL_SILENT_FOR`].
    pub(crate) fn read_until(&self, now: Instant) -> Instant {
        self.read_until.map_or(now, |until| until.max(now - ALL_SILENT_FOR).min(now))
    }

    pub(crate) fn is_member(&self) -> bool {
        self.presence == Presence::Member
    }

    /// Whether its NIC takes the smallest cells that are made.
    pub(crate) fn takes_cells(&self) -> bool {
        self.settings.cell_max >= CELL_LEAST
    }

    /// Whether anything may be sent through it.
    pub(crate) fn carries(&self) -> bool {
        self.carrier && self.takes_cells()
    }

    /// Whether data may take it as it takes any other.
    pub(crate) fn serves(&self) -> bool {
        self.is_member() && self.carries() && !self.settings.drained
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.presence == Presence::Vacant
    }

    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full || self.ceiling.is_full(now)
    }

    /// Bytes of the packets in which so many cells, of `bytes` in all, travel.
    pub(crate) fn bytes_of(&self, cells: usize, bytes: usize) -> u64 {
        (bytes + cells * usize::from(self.settings.headers)) as u64
    }

    /// Packets of so many bytes left over it.
    pub(crate) fn handle_packets(&mut self, now: Instant, bytes: u64) {
        self.ceiling.handle_sent(now, bytes);
        self.load.handle_sent(bytes);
    }

    /// Programs send by it, and have sent packets of so many bytes.
    pub(crate) fn handle_carried(&mut self, now: Instant, bytes: u64) {
        self.queue.handle_shared(now);
        self.load.handle_sent(bytes);
    }
}

/// Bytes that pass in `span` at `rate` bytes per second.
pub(crate) fn bytes_in(rate: u64, span: Duration) -> u64 {
    let bytes = u128::from(rate) * u128::from(nanos(span)) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How long `bytes` take at `rate` bytes per second.
pub(crate) fn time_of(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The rate in bytes per second of `bytes` in `span`.
pub(crate) fn per_second(bytes: u64, span: Duration) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(nanos(span)).max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_until_it_was_last_found_empty_but_not_for_ever() {
        let millis = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut link = Link::new(millis(0), LinkSettings::new(1_452));
        assert_eq!(link.read_until(millis(9)), millis(9), "nobody says otherwise");
        link.handle_read(millis(500), false);
        link.handle_read(millis(510), true);
        assert_eq!((link.read_until(millis(520)), link.is_behind), (millis(500), true));
        assert_eq!(link.read_until(millis(900)), millis(900) - ALL_SILENT_FOR);
        link.handle_read(millis(900), false);
        assert_eq!((link.read_until(millis(900)), link.is_behind), (millis(900), false));
    }
}
