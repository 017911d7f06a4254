//! Ports that join and leave while frames flow.
//!
//! Beside the path. A port that joins takes the first free number, greets, and is used like any other once its links are
//! up. A port that leaves is not used from that moment on: what was not yet heard of it goes again over other links, the
//! peers are told (a farewell on the port, and heartbeats that report its links as down), and what they have sent is
//! heard for [`GRACE`]. Then its number is free.
//!
//! Invariant: a link's numbers go on counting when its port number is taken again, so a peer that missed the farewell
//! mixes nothing up.

use crate::event::Signal;
use crate::group::membership::part;
use crate::group::{Group, Parts};
use crate::link::nic::{Port, PortSettings, Presence};
use crate::outbox::Control;
use crate::session::Origin;
use crate::time::Instant;
use crate::wire::hello::Hello;
use core::time::Duration;

/// A port that leaves hears for this time: a round trip across a continent, and what waits in the peers' queues.
pub const GRACE: Duration = Duration::from_millis(200);
/// Farewells of a port are this far apart: one may be lost.
const FAREWELL_EVERY: Duration = Duration::from_millis(50);

/// A port joins; returns its number, or `None` when all [`LINKS`](crate::wire::cell::LINKS) numbers are taken.
pub(crate) fn add_port(now: Instant, settings: PortSettings, parts: &mut Parts<'_>) -> Option<u8> {
    let number = parts.links.add_port(now, settings)?;
    parts.fit_cells();
    Some(number)
}

/// A port leaves.
pub(crate) fn remove_port(now: Instant, number: u8, parts: &mut Parts<'_>) {
    let Some(port) = parts.links.member_mut(number) else { return };
    port.presence = Presence::Leaving { until: now + GRACE };
    port.carrier = false;
    port.full = false;
    bid_farewell(now, number, parts);
    for index in parts.sessions.table().indices() {
        parts.links.leave(now, index, number, Signal::Removed, parts.out);
        parts.links.stop_hearing_at(now, index, number, (Signal::Removed, true), parts.out);
    }
    parts.fit_cells();
}

/// The NIC of a port was replaced by another: what was known of its links is void.
pub(crate) fn replace_port(now: Instant, number: u8, settings: PortSettings, parts: &mut Parts<'_>) {
    if parts.links.member_mut(number).is_none() {
        return;
    }
    for index in parts.sessions.table().indices() {
        parts.links.leave(now, index, number, Signal::Carrier, parts.out);
        parts.links.unpair(index, number);
    }
    parts.sessions.forget_port(number);
    *parts.links.port_mut(number) = Port::new(now, settings);
    parts.fit_cells();
}

/// The largest cell of a port is another. The peers are told at once. A port that is too small for any cell carries nothing
/// until it is larger again.
pub(crate) fn resize_port(now: Instant, number: u8, cell_max: u16, parts: &mut Parts<'_>) {
    let Some(port) = parts.links.member_mut(number) else { return };
    port.settings.cell_max = cell_max;
    port.greet_at = now;
    let takes_cells = port.takes_cells();
    tell_peers(parts, |port| port == number);
    for index in parts.sessions.table().indices().filter(|_| !takes_cells) {
        parts.links.leave(now, index, number, Signal::TooSmall, parts.out);
        parts.links.stop_hearing_at(now, index, number, (Signal::TooSmall, false), parts.out);
    }
    parts.fit_cells();
}

/// Ports that leave say so again, until they are gone.
pub(crate) fn see_off(now: Instant, parts: &mut Parts<'_>) {
    for number in (0u8..).take(parts.links.ports().len()) {
        let port = parts.links.port(number);
        let Presence::Leaving { until } = port.presence else { continue };
        if now >= until {
            vacate(number, parts);
        } else if now >= port.greet_at {
            bid_farewell(now, number, parts);
        }
    }
}

fn bid_farewell(now: Instant, number: u8, parts: &mut Parts<'_>) {
    let Parts { sessions, links, out, .. } = parts;
    let port = links.port_mut(number);
    if let Presence::Leaving { until } = port.presence {
        port.greet_at = until.min(now + FAREWELL_EVERY);
    }
    for index in sessions.table().indices() {
        let paths = links.get(index);
        if let Some(to) = paths.and_then(|paths| paths.outbound[usize::from(number)].endpoint) {
            out.outbox.push(Control::Farewell { port: number, peer: index, to });
        }
    }
}

/// A port is gone.
fn vacate(number: u8, parts: &mut Parts<'_>) {
    parts.links.port_mut(number).presence = Presence::Vacant;
    parts.sessions.forget_port(number);
    for index in parts.sessions.table().indices() {
        parts.links.unpair(index, number);
    }
}

/// Says hello to the peers on these ports: something about this node is new.
pub(super) fn tell_peers(parts: &mut Parts<'_>, ports: impl Fn(u8) -> bool) {
    let Parts { sessions, links, out, .. } = parts;
    for index in sessions.table().indices() {
        let is_joined = sessions.table().get(index).is_some_and(|session| session.is_joined());
        let Some(paths) = links.get(index).filter(|_| is_joined) else { continue };
        for (link, port) in paths.outbound.iter().zip(0..).filter(|(_, port)| ports(*port)) {
            let answer = |to| Control::Answer { port, peer: index, to };
            out.outbox.extend(link.endpoint.map(answer).into_iter());
        }
    }
}

impl Group {
    /// This node ends: tells all peers over all links.
    pub(crate) fn end(&mut self, now: Instant, parts: &mut Parts<'_>) {
        self.ends = true;
        (0u8..).take(parts.links.ports().len()).for_each(|number| remove_port(now, number, parts));
    }

    /// A peer takes a port out: the link that leads there is not used any more, and its place is free for another. Returns how
    /// many numbers were looked up: none twice, however often a link is left.
    pub(crate) fn handle_farewell(
        &mut self,
        now: Instant,
        origin: Origin,
        hello: &Hello,
        parts: &mut Parts<'_>,
    ) -> u64 {
        let table = parts.sessions.table();
        let Some(index) = table.find(hello.node) else { return 0 };
        if table.get(index).is_none_or(|session| session.incarnation != hello.incarnation) {
            return 0;
        }
        parts.links.part(now, index, (origin.port, hello.link), Signal::Farewell, parts.out);
        let looked_up = parts.send_lost_again();
        if hello.ends {
            part(index, parts);
            self.was_left = parts.sessions.table().iter().next().is_none();
        }
        parts.fit_cells();
        looked_up
    }
}
