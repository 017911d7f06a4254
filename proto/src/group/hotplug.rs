//! Ports that join and leave while frames flow.
//!
//! Beside the path. A port that joins takes the first free number, greets, and is used like any other once its links are
//! up. A port that leaves is not used from that moment on: what was not yet heard of it goes again over other links, the
//! peers are told (a farewell on the port, and heartbeats that report its links as down), and what they have sent is
//! heard for [`GRACE`]. Then its number is free.
//!
//! Invariant: a link's numbers go on counting when its port number is taken again, so a peer that missed the farewell
//! mixes nothing up.

use crate::bundle::Bundle;
use crate::link::health::{Change, Signal};
use crate::link::heartbeat::Control;
use crate::link::nic::{Port, PortSettings, Presence};
use crate::receive::deliver::Origin;
use crate::time::Instant;
use crate::wire::cell::LINKS;
use crate::wire::hello::Hello;
use core::time::Duration;

/// A port that leaves hears for this time: a round trip across a continent, and what waits in the peers' queues.
pub const GRACE: Duration = Duration::from_millis(200);
/// Farewells of a port are this far apart: one may be lost.
const FAREWELL_EVERY: Duration = Duration::from_millis(50);

impl Bundle {
    /// A port joins; returns its number, or `None` when all [`LINKS`] numbers are taken.
    pub fn add_port(&mut self, now: Instant, settings: PortSettings) -> Option<u8> {
        let vacant = self.ports.iter().position(Port::is_vacant);
        let number = vacant.unwrap_or(self.ports.len());
        if number == LINKS {
            return None;
        }
        let port = Port::new(now, settings);
        if vacant.is_some() {
            self.ports[number] = port;
        } else {
            self.ports.push(port);
            let ours = self.settings.incarnation;
            self.peers.iter_mut().for_each(|peer| peer.add_port(now, ours));
        }
        self.fit_cells();
        u8::try_from(number).ok()
    }

    /// A port leaves. [`Self::has_port`] tells when it hears nothing more and its socket may be closed.
    pub fn remove_port(&mut self, now: Instant, number: u8) {
        let Some(port) = self.ports.get_mut(usize::from(number)).filter(|port| port.is_member()) else {
            return;
        };
        port.presence = Presence::Leaving { until: now + GRACE };
        port.carrier = false;
        port.full = false;
        self.bid_farewell(now, number);
        for index in self.peers.indices() {
            self.leave_link(now, index, number, Signal::Removed);
            let paired = self.peers.get(index).and_then(|peer| peer.paired[usize::from(number)]);
            if let Some(link) = paired {
                self.stop_hearing(now, index, link, Signal::Removed);
                if let Some(peer) = self.peers.get_mut(index) {
                    peer.inbound[usize::from(link)].lingers = true;
                }
            }
        }
        self.fit_cells();
    }

    /// This node ends: tells all peers over all links. Only [`Self::poll_control`] is to be called afterwards.
    pub fn end(&mut self, now: Instant) {
        self.ends = true;
        (0u8..).take(self.ports.len()).for_each(|number| self.remove_port(now, number));
    }

    /// Whether there is no peer because the last one has said that it ends.
    #[must_use]
    pub fn was_left(&self) -> bool {
        self.was_left
    }

    /// The NIC of a port was replaced by another: what was known of its links is void.
    pub fn replace_port(&mut self, now: Instant, number: u8, settings: PortSettings) {
        if !self.ports.get(usize::from(number)).is_some_and(Port::is_member) {
            return;
        }
        for index in self.peers.indices() {
            self.leave_link(now, index, number, Signal::Carrier);
            self.unpair(index, number);
        }
        self.handshakes.forget_port(number);
        self.ports[usize::from(number)] = Port::new(now, settings);
        self.fit_cells();
    }

    /// The largest cell of a port is another, for the MTU of its NIC has changed. The peers are told at once. Cells that
    /// are too large and wait already are lost where they do not fit ([`Outcome::Lost`](crate::Outcome::Lost)), and
    /// repaired where they do. A port that is too small for any cell carries nothing until it is larger again.
    pub fn resize_port(&mut self, now: Instant, number: u8, cell_max: u16) {
        let port = self.ports.get_mut(usize::from(number)).filter(|port| port.is_member());
        let Some(port) = port else { return };
        port.settings.cell_max = cell_max;
        port.greet_at = now;
        let takes_cells = port.takes_cells();
        self.tell_peers(|port| port == number);
        for index in self.peers.indices().filter(|_| !takes_cells) {
            self.leave_link(now, index, number, Signal::TooSmall);
            let paired = self.peers.get(index).and_then(|peer| peer.paired[usize::from(number)]);
            if let Some(link) = paired {
                self.stop_hearing(now, index, link, Signal::TooSmall);
            }
        }
        self.fit_cells();
    }

    /// Whether a port of this number is there, be it on its way out.
    #[must_use]
    pub fn has_port(&self, number: u8) -> bool {
        self.ports.get(usize::from(number)).is_some_and(|port| !port.is_vacant())
    }

    /// Ports that leave say so again, until they are gone.
    pub(crate) fn see_off(&mut self, now: Instant) {
        for number in (0u8..).take(self.ports.len()) {
            let port = &self.ports[usize::from(number)];
            let Presence::Leaving { until } = port.presence else { continue };
            if now >= until {
                self.vacate(number);
            } else if now >= port.greet_at {
                self.bid_farewell(now, number);
            }
        }
    }

    fn bid_farewell(&mut self, now: Instant, number: u8) {
        let port = &mut self.ports[usize::from(number)];
        if let Presence::Leaving { until } = port.presence {
            port.greet_at = until.min(now + FAREWELL_EVERY);
        }
        for index in self.peers.indices() {
            let peer = self.peers.get(index);
            if let Some(to) = peer.and_then(|peer| peer.outbound[usize::from(number)].endpoint) {
                self.control.push_back(Control::Farewell { port: number, peer: index, to });
            }
        }
    }

    /// A port is gone.
    fn vacate(&mut self, number: u8) {
        self.ports[usize::from(number)].presence = Presence::Vacant;
        self.handshakes.forget_port(number);
        for index in self.peers.indices() {
            self.unpair(index, number);
        }
    }

    /// A port leads to no link of the peer any more.
    fn unpair(&mut self, index: u16, number: u8) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        if let Some(link) = peer.paired[usize::from(number)].take() {
            peer.inbound[usize::from(link)].lingers = false;
        }
        peer.outbound[usize::from(number)].withdraw();
    }

    /// A link of the peer brings nothing more.
    fn stop_hearing(&mut self, now: Instant, index: u16, link: u8, signal: Signal) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        if peer.inbound[usize::from(link)].health.withdraw() {
            self.judged(now, index, link, Change::Down(signal));
        }
    }

    /// A peer takes a port out: the link that leads there is not used any more, and its place is free for another. Returns how
    /// many numbers were looked up, as [`Self::leave_link`] does.
    pub(crate) fn handle_farewell(&mut self, now: Instant, origin: Origin, hello: &Hello) -> u64 {
        let Some(index) = self.peers.find(hello.node) else { return 0 };
        if self.peers.get(index).is_none_or(|peer| peer.incarnation != hello.incarnation) {
            return 0;
        }
        let looked_up = self.part_link(now, index, origin.port, hello.link, Signal::Farewell);
        if hello.ends {
            self.part(index);
            self.was_left = self.peers.iter().next().is_none();
        }
        self.fit_cells();
        looked_up
    }

    /// A peer's `link`, which ended at this port if it was used, is not to be used any more. Returns as [`Self::leave_link`].
    pub(crate) fn part_link(&mut self, now: Instant, index: u16, port: u8, link: u8, signal: Signal) -> u64 {
        let Some(peer) = self.peers.get(index) else { return 0 };
        let mut looked_up = 0;
        if peer.paired[usize::from(port)] == Some(link) {
            looked_up = self.leave_link(now, index, port, signal);
            self.unpair(index, port);
        }
        self.stop_hearing(now, index, link, signal);
        looked_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Settings;
    use crate::event::{Direction, Event};
    use crate::link::nic::CELL_LEAST;
    use crate::wire::hello::NodeId;
    use alloc::vec;
    use alloc::vec::Vec;

    fn bundle(ports: usize) -> Bundle {
        let node = NodeId::new([2, 0, 0, 0, 0, 1], 7420);
        let ports = vec![PortSettings::new(1_452); ports];
        Bundle::new(at(0), Settings { slots: 512, buffers: 16, ..Settings::new(node, 1, ports) })
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Lets time pass until `millis`, and drops what is said.
    fn pass(bundle: &mut Bundle, millis: u64) {
        bundle.handle_timeout(at(millis));
        while bundle.poll_control(at(millis)).is_some() {}
    }

    #[test]
    fn numbers_are_taken_in_order_and_again_when_they_are_free() {
        let mut bundle = bundle(2);
        assert_eq!(bundle.add_port(at(0), PortSettings::new(1_452)), Some(2));
        bundle.remove_port(at(0), 1);
        assert!(bundle.has_port(1), "it still hears");
        assert_eq!(bundle.add_port(at(0), PortSettings::new(1_452)), Some(3));
        pass(&mut bundle, 199);
        assert!(bundle.has_port(1));
        assert!(bundle.poll_timeout(at(199)) <= at(200));
        pass(&mut bundle, 200);
        assert!(!bundle.has_port(1));
        assert_eq!(bundle.add_port(at(200), PortSettings::new(1_452)), Some(1));
        assert!(bundle.has_port(1) && !bundle.has_port(4));
    }

    /// A member that takes a link out and in, over and over.
    #[test]
    fn farewells_without_end_have_what_was_sent_looked_up_once() {
        let mut bundle = bundle(1);
        let node = NodeId::new([2, 0, 0, 0, 0, 2], 7420);
        let hello = Hello { node, incarnation: 5, session: 7, ..bundle.hello(0, None) };
        let origin = Origin { port: 0, from: "192.0.2.2:7420".parse().unwrap() };
        let mut looked_up = 0;
        for _ in 0..1_000 {
            bundle.handle_hello(at(0), origin, &hello);
            let link = &mut bundle.peers.get_mut(0).unwrap().outbound[0];
            link.rise(at(0));
            link.take_seq(None);
            looked_up += bundle.handle_farewell(at(0), origin, &Hello { leaves: true, ..hello });
        }
        assert_eq!(looked_up, 1_000, "one number was taken in each round");
    }

    #[test]
    fn no_more_ports_than_the_wire_has_numbers() {
        let mut bundle = bundle(LINKS);
        assert_eq!(bundle.add_port(at(0), PortSettings::new(1_452)), None);
        bundle.remove_port(at(0), 7);
        assert_eq!(bundle.add_port(at(0), PortSettings::new(1_452)), None, "its number is not free yet");
        pass(&mut bundle, 200);
        assert_eq!(bundle.add_port(at(200), PortSettings::new(1_452)), Some(7));
    }

    #[test]
    fn cells_fit_the_ports_that_are_there() {
        let mut bundle = bundle(1);
        assert_eq!(bundle.add_port(at(0), PortSettings::new(1_232)), Some(1));
        assert_eq!(bundle.cell_max(), 1_232);
        bundle.remove_port(at(0), 1);
        assert_eq!(bundle.cell_max(), 1_452);
        bundle.replace_port(at(0), 0, PortSettings::new(4_000));
        assert_eq!(bundle.cell_max(), 4_000);
    }

    #[test]
    fn cells_follow_the_mtu_of_a_nic() {
        let mut bundle = bundle(2);
        pass(&mut bundle, 0);
        for (number, cell_max, fits) in [(0, 8_952, 1_452), (1, 8_952, 8_952), (0, 1_232, 1_232)] {
            bundle.resize_port(at(1), number, cell_max);
            assert_eq!(bundle.cell_max(), fits);
            assert!(bundle.poll_timeout(at(1)) <= at(1), "the peers are told at once");
            pass(&mut bundle, 1);
        }
        bundle.resize_port(at(1), 9, 1_000);
        assert_eq!(bundle.cell_max(), 1_232);
    }

    #[test]
    fn a_port_too_small_for_cells_carries_nothing_and_makes_no_cells_smaller() {
        for cell_max in [0, 16, 76, CELL_LEAST - 1] {
            let mut bundle = bundle(1);
            assert_eq!(bundle.add_port(at(0), PortSettings::new(cell_max)), Some(1));
            assert_eq!((bundle.cell_max(), bundle.ports[1].carries()), (1_452, false));
            bundle.resize_port(at(0), 0, cell_max);
            assert_eq!(bundle.cell_max(), usize::from(CELL_LEAST), "no link is left");
            bundle.resize_port(at(0), 1, CELL_LEAST + 1);
            assert_eq!((bundle.cell_max(), bundle.ports[1].carries()), (usize::from(CELL_LEAST) + 1, true));
            let node = NodeId::new([2, 0, 0, 0, 0, 1], 7420);
            let ports = vec![PortSettings::new(cell_max)];
            let mut bundle = Bundle::new(at(0), Settings { buffers: 16, ..Settings::new(node, 1, ports) });
            bundle.touch_memory();
            assert_eq!(bundle.cell_max(), usize::from(CELL_LEAST));
        }
    }

    /// Both ends stop using it: the one whose NIC has shrunk, and the one that is told so.
    #[test]
    fn a_link_too_small_for_cells_is_left_and_taken_again_when_it_is_larger() {
        let mut bundle = bundle(2);
        let peer = NodeId::new([2, 0, 0, 0, 0, 2], 7420);
        let say = |bundle: &mut Bundle, millis, cell_max| {
            let from = "192.0.2.2:7420".parse().unwrap();
            let hello = Hello { node: peer, incarnation: 5, session: 7, cell_max, ..bundle.hello(0, None) };
            bundle.handle_hello(at(millis), Origin { port: 0, from }, &hello);
        };
        let rise = |bundle: &mut Bundle, millis| {
            let link = &mut bundle.peers.get_mut(0).unwrap().outbound[0];
            link.rise(at(millis));
            link.up
        };
        say(&mut bundle, 1, 1_232);
        assert!(rise(&mut bundle, 1));
        assert_eq!(bundle.cell_max(), 1_232);
        say(&mut bundle, 2, 60);
        assert!(!rise(&mut bundle, 2), "it leads nowhere");
        assert_eq!(bundle.cell_max(), 1_452, "and makes no cells smaller");
        say(&mut bundle, 3, 1_232);
        assert!(rise(&mut bundle, 3));
        while bundle.poll_event().is_some() {}
        bundle.resize_port(at(4), 0, 60);
        let direction = Direction::Sending;
        let left = Event::LinkDown { peer, link: 0, direction, signal: Signal::TooSmall };
        assert_eq!(bundle.poll_event(), Some(left));
        pass(&mut bundle, 100);
        let heartbeat = |message: &[u8]| message[0] & 0x0f == crate::wire::cell::Kind::Heartbeat as u8;
        let mut said = |millis| {
            bundle.handle_timeout(at(millis));
            let said = core::iter::from_fn(|| bundle.poll_control(at(millis)).map(|m| heartbeat(m.bytes)));
            said.filter(|is_heartbeat| *is_heartbeat).count()
        };
        assert_eq!(said(200), 0, "no heartbeat brings it back");
    }

    #[test]
    fn a_node_that_ends_says_so_over_all_links_and_is_forgotten_at_once() {
        let (mut bundle, mut ends) = (bundle(2), bundle(2));
        let peer = NodeId::new([2, 0, 0, 0, 0, 2], 7420);
        let from = "192.0.2.2:7420".parse().unwrap();
        let say = |bundle: &mut Bundle, node, incarnation, leaves| {
            let hello = bundle.hello(0, None);
            let hello = Hello { node, incarnation, session: 7, leaves, ends: leaves, ..hello };
            bundle.handle_hello(at(1), Origin { port: 0, from }, &hello);
        };
        say(&mut bundle, peer, 5, false);
        assert!(!bundle.was_left());
        say(&mut bundle, peer, 4, true);
        assert!(bundle.peers.find(peer).is_some() && !bundle.was_left(), "a former self");
        say(&mut bundle, peer, 5, true);
        assert!(bundle.peers.find(peer).is_none() && bundle.was_left() && !bundle.has_way());
        say(&mut bundle, peer, 6, false);
        assert!(bundle.peers.find(peer).is_some() && !bundle.was_left());

        say(&mut ends, peer, 5, false);
        pass(&mut ends, 1);
        ends.end(at(2));
        let said = core::iter::from_fn(|| ends.poll_control(at(2)).map(|message| message.bytes.to_vec()));
        let hellos: Vec<_> = said.filter_map(|cell| Hello::parse(cell.get(16..)?).ok()).collect();
        assert!(hellos.iter().any(|hello| hello.leaves && hello.ends), "{hellos:?}");
    }

    #[test]
    fn a_port_that_is_no_member_is_left_alone() {
        let mut bundle = bundle(2);
        bundle.remove_port(at(0), 1);
        pass(&mut bundle, 100);
        bundle.remove_port(at(100), 1);
        bundle.replace_port(at(100), 1, PortSettings::new(1_000));
        bundle.handle_carrier(at(100), 1, true);
        pass(&mut bundle, 200);
        assert!(!bundle.has_port(1), "its time has not begun anew");
        bundle.remove_port(at(200), 9);
        pass(&mut bundle, 300);
        assert!(bundle.poll_timeout(at(300)) > at(300));
    }
}
