//! Links that nothing tells of, or not of everything: the worker looks at them in each turn, and sleeps no longer than until the next look.
//!
//! Under traffic that is the configured interval. In quiet the next look comes after an eighth of the time that no frame
//! has moved, so that what arrives is late by an eighth of the silence before it, and at most [`SELDOM`]: a quiet bundle
//! then takes less than 1 % of a processor.

use std::time::Duration;

use tabane_io::AnyLink;
use tabane_proto::Instant;

use super::{Ready, Worker};

/// How often a quiet link is looked at.
const SELDOM: Duration = Duration::from_millis(5);
/// How often room is looked for in the rings of AF_XDP: a batch leaves in this time at 10 Gbit/s.
const ROOM: Duration = Duration::from_micros(50);
/// The part of the silence after which the next look comes.
const PART: u32 = 8;

impl Worker {
    /// How long to sleep, `timeout` at most.
    pub(super) fn until_next_look(&self, now: Instant, timeout: Duration) -> Duration {
        let within = |poll: Duration| (now.since(self.moved) / PART).clamp(poll, SELDOM.max(poll));
        let polls = self.ports.iter().flatten().filter_map(|port| match &port.link {
            AnyLink::Mem(link) => Some(within(link.poll())),
            AnyLink::Ether(link) if link.has_news() => Some(Duration::ZERO),
            AnyLink::Ether(link) => link.wants_tending(port.wants_room).then_some(ROOM),
            AnyLink::Udp(_) => None,
        });
        polls.min().map_or(timeout, |poll| timeout.min(poll))
    }

    /// Looks who is there, and notes these links as what epoll would have said of them.
    pub(super) fn look(&mut self, now: Instant, ready: &mut Ready) {
        for (number, port) in (0_u8..).zip(&mut self.ports) {
            let Some(port) = port else { continue };
            let link = match &mut port.link {
                AnyLink::Mem(link) => link,
                AnyLink::Ether(link) => {
                    ready.readable |= u16::from(link.has_news()) << number;
                    if link.wants_tending(port.wants_room) {
                        ready.writable |= u16::from(link.tend() && port.wants_room) << number;
                    }
                    continue;
                }
                AnyLink::Udp(_) => continue,
            };
            if let Some(faults) = link.tend(Duration::from_nanos(now.as_nanos())) {
                let nic = &self.nics[usize::from(number)];
                tracing::warn!(nic, ?faults, "another node writes what cannot be true");
            }
            ready.readable |= u16::from(link.has_news()) << number;
            ready.writable |= u16::from(port.wants_room && link.has_room_again()) << number;
            if link.has_carrier() != port.carrier {
                port.carrier = link.has_carrier();
                self.bundle.handle_carrier(now, number, port.carrier);
            }
        }
    }
}
