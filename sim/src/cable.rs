//! A cable with the NIC at its end: the send buffer, the datagrams on their way, and when the NIC interrupts.
//!
//! Part of [`crate::network`]. Received datagrams gather in the NIC's ring until an interrupt hands all of them over
//! ([`Coalesce`]).
//!
//! Invariant: an interrupt is due whenever the ring is not empty.

use crate::pipe::Pipe;
use crate::router::Router;
use crate::topology::{CableSettings, Coalesce, LinkNumber};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;
use std::rc::Rc;
use tabane_proto::Instant;

const UDP_PORT: u16 = 7420;

/// A nic of a node: the end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub node: u8,
    pub nic: u8,
}

impl Place {
    /// Its endpoint: `fd00::node:nic`.
    pub fn endpoint(self) -> SocketAddr {
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, self.node.into(), self.nic.into());
        SocketAddr::new(IpAddr::V6(address), UDP_PORT)
    }

    pub fn of(endpoint: SocketAddr) -> Option<Self> {
        let IpAddr::V6(address) = endpoint.ip() else { return None };
        let [0xfd00, 0, 0, 0, 0, 0, node, nic] = address.segments() else { return None };
        Some(Self { node: u8::try_from(node).ok()?, nic: u8::try_from(nic).ok()? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "n{}p{}", self.node, self.nic)
    }
}

/// A datagram between a NIC and its switch.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) from: Place,
    /// `None`: everyone on the link.
    pub(crate) to: Option<Place>,
    pub(crate) bytes: Rc<[u8]>,
}

/// A datagram in the ring of a NIC, or on its way there.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// The address that it claims to come from.
    pub(crate) from: Place,
    pub(crate) is_injected: bool,
    pub(crate) bytes: Rc<[u8]>,
}

pub(crate) struct Cable {
    pub(crate) link: LinkNumber,
    /// From the node to the switch.
    pub(crate) up: Pipe,
    /// From the switch to the node.
    pub(crate) down: Pipe,
    /// The router in front of `down`.
    pub(crate) router: Option<Router>,
    /// The longest datagram that passes from the switch to the node, if any is too long.
    pub(crate) passes: Option<u16>,
    /// The kernel has memory for datagrams that the node sends.
    pub(crate) has_memory: bool,
    carrier_losses: u8,
    /// Bytes that the NIC takes now: the socket's send buffer.
    send_buffer: u64,
    coalesce: Coalesce,
    pub(crate) ring: VecDeque<Arrival>,
    interrupt_at: Option<Instant>,
}

impl Cable {
    pub(crate) fn new(settings: &CableSettings) -> Self {
        Self {
            link: settings.link,
            up: Pipe::new(settings.up),
            down: Pipe::new(settings.down),
            router: settings.router.map(Router::new),
            passes: None,
            has_memory: true,
            carrier_losses: 0,
            send_buffer: settings.up.queue,
            coalesce: settings.coalesce,
            ring: VecDeque::new(),
            interrupt_at: None,
        }
    }

    pub(crate) fn has_carrier(&self) -> bool {
        self.carrier_losses == 0
    }

    /// One more cause for which there is no carrier, or one less; returns whether the carrier has changed.
    pub(crate) fn set_carrier_loss(&mut self, begins: bool) -> bool {
        let had = self.has_carrier();
        self.carrier_losses =
            if begins { self.carrier_losses + 1 } else { self.carrier_losses.saturating_sub(1) };
        had != self.has_carrier()
    }

    /// Sets the send buffer, within what the NIC takes.
    pub(crate) fn set_send_buffer(&mut self, bytes: u64) {
        self.send_buffer = bytes.min(self.up.way.queue);
    }

    /// Whether the send buffer takes another batch, whatever its size: what a socket does (`sock_alloc_send_pskb`).
    pub(crate) fn is_writable(&self, now: Instant) -> bool {
        self.up.queued(now) < self.send_buffer
    }

    /// When a socket that was full becomes writable: at half of its buffer (`sock_writeable`).
    pub(crate) fn writable_at(&self) -> Instant {
        self.up.drained_to(self.send_buffer / 2)
    }

    /// A datagram will reach the ring. Returns when to interrupt, if that is new.
    pub(crate) fn receive(&mut self, arrival: Arrival) -> Option<Instant> {
        let behind = self.ring.iter().rev().take_while(|other| other.at > arrival.at).count();
        self.ring.insert(self.ring.len() - behind, arrival);
        self.due()
    }

    /// The interrupt that was due `now` takes the datagrams in the ring, if it is still the one that is due.
    pub(crate) fn interrupt(&mut self, now: Instant, taken: &mut VecDeque<Arrival>) -> bool {
        if self.interrupt_at != Some(now) {
            return false;
        }
        self.interrupt_at = None;
        let here = self.ring.partition_point(|arrival| arrival.at <= now);
        taken.extend(self.ring.drain(..here));
        true
    }

    /// When the next interrupt is due, if that has changed.
    pub(crate) fn due(&mut self) -> Option<Instant> {
        let timed = self.ring.front()?.at + self.coalesce.delay;
        let counted = self.ring.get(usize::from(self.coalesce.frames) - 1).map(|arrival| arrival.at);
        let due = counted.map_or(timed, |counted| counted.min(timed));
        if self.interrupt_at.is_some_and(|at| at <= due) {
            return None;
        }
        self.interrupt_at = Some(due);
        Some(due)
    }

    /// Datagrams on their way are lost; returns how many.
    pub(crate) fn lose_what_is_coming(&mut self, now: Instant) -> u64 {
        let here = self.ring.partition_point(|arrival| arrival.at <= now);
        let lost = self.ring.len() - here;
        self.ring.truncate(here);
        lost as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Link;
    use core::time::Duration;

    fn micros(count: u64) -> Instant {
        Instant::from_nanos(count * 1_000)
    }

    fn cable(frames: u16, delay: Duration) -> Cable {
        Cable::new(&Link { coalesce: Coalesce { frames, delay }, ..Link::GIGABIT }.cable(0))
    }

    fn arrival(at: Instant) -> Arrival {
        Arrival { at, from: Place { node: 0, nic: 0 }, is_injected: false, bytes: Rc::from([0; 60]) }
    }

    #[test]
    fn an_interrupt_comes_with_the_nth_frame_or_after_the_delay() {
        let mut cable = cable(3, Duration::from_micros(100));
        assert_eq!(cable.receive(arrival(micros(10))), Some(micros(110)));
        assert_eq!(cable.receive(arrival(micros(20))), None, "as before");
        assert_eq!(cable.receive(arrival(micros(30))), Some(micros(30)));
        let mut taken = VecDeque::new();
        assert!(cable.interrupt(micros(30), &mut taken));
        assert_eq!(taken.len(), 3);
        assert!(!cable.interrupt(micros(110), &mut taken), "overtaken by the one before");
    }

    #[test]
    fn datagrams_on_their_way_can_be_lost_and_those_in_the_ring_cannot() {
        let mut cable = cable(1, Duration::ZERO);
        cable.receive(arrival(micros(10)));
        cable.receive(arrival(micros(30)));
        assert_eq!(cable.lose_what_is_coming(micros(20)), 1);
        let mut taken = VecDeque::new();
        assert!(cable.interrupt(micros(10), &mut taken));
        assert_eq!((taken.len(), cable.due()), (1, None));
    }

    #[test]
    fn a_full_send_buffer_is_writable_at_half() {
        let mut cable = cable(1, Duration::ZERO);
        cable.set_send_buffer(2_500);
        let mut random = crate::random::Random::new(1, crate::random::Stream::Network);
        cable.up.push(micros(0), 3_750, &mut random);
        assert!(!cable.is_writable(micros(9)) && cable.is_writable(micros(11)));
        assert_eq!(cable.writable_at(), micros(20));
    }
}
