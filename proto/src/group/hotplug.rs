//! Links that join and leave while frames flow.
//!
//! Beside the path. A link that joins takes the first free number, greets, and is used like any other once its paths are
//! up. The sender does not use a link that leaves: it sends cells that the peers have not yet received over it again over
//! other links. The peers get a farewell on the link, and heartbeats that report its paths as down. The link receives what
//! they have sent for [`GRACE`]. Then its number is free.
//!
//! Invariant: a path's numbers go on counting when its link number is taken again, so a peer that missed the farewell
//! confuses no cells.

use crate::group::membership::part;
use crate::group::{Group, Parts};
use crate::link::nic::{Link, LinkSettings, Presence};
use crate::outputs::Control;
use crate::outputs::event::Signal;
use crate::session::Origin;
use crate::time::Instant;
use crate::wire::hello::Hello;
use core::time::Duration;

/// How long a link that leaves still receives: a round trip across a continent, and the peers' queues.
pub const GRACE: Duration = Duration::from_millis(200);
/// Farewells of a link are this far apart: one may be lost.
const FAREWELL_EVERY: Duration = Duration::from_millis(50);

/// A link joins; returns its number, or `None` when all [`LINKS`](crate::wire::cell::LINKS) numbers are taken.
pub(crate) fn add_link(now: Instant, settings: LinkSettings, parts: &mut Parts<'_>) -> Option<u8> {
    let number = parts.links.add_link(now, settings)?;
    parts.fit_cells();
    Some(number)
}

pub(crate) fn remove_link(now: Instant, number: u8, parts: &mut Parts<'_>) {
    let Some(link) = parts.links.member_mut(number) else { return };
    link.presence = Presence::Leaving { until: now + GRACE };
    link.carrier = false;
    link.full = false;
    bid_farewell(now, number, parts);
    parts.links.leave_all(now, number, Signal::Removed, parts.out);
    parts.links.stop_all(now, number, (Signal::Removed, true), parts.out);
    parts.fit_cells();
}

pub(crate) fn replace_link(now: Instant, number: u8, settings: LinkSettings, parts: &mut Parts<'_>) {
    if parts.links.member_mut(number).is_none() {
        return;
    }
    parts.links.leave_all(now, number, Signal::Carrier, parts.out);
    parts.links.unpair_all(number);
    parts.links.ways(number).for_each(|way| parts.sessions.forget_link(way));
    parts.links[number] = Link::new(now, settings);
    parts.fit_cells();
}

/// The largest cell of a link has changed. The peers get a hello at once. A link that is too small for any cell carries
/// nothing until it is larger again.
pub(crate) fn resize_link(now: Instant, number: u8, cell_max: u16, parts: &mut Parts<'_>) {
    let Some(link) = parts.links.member_mut(number) else { return };
    link.settings.cell_max = cell_max;
    link.greet_at = now;
    let takes_cells = link.takes_cells();
    queue_hellos(parts, Some(number));
    if !takes_cells {
        parts.links.leave_all(now, number, Signal::TooSmall, parts.out);
        parts.links.stop_all(now, number, (Signal::TooSmall, false), parts.out);
    }
    parts.fit_cells();
}

/// A link is drained from now on, or is not any more: the peers get a hello at once, and each later greeting says so, too.
pub(crate) fn drain_link(now: Instant, number: u8, drained: bool, parts: &mut Parts<'_>) {
    let Some(link) = parts.links.member_mut(number).filter(|link| link.settings.drained != drained) else {
        return;
    };
    link.settings.drained = drained;
    link.greet_at = now;
    queue_hellos(parts, Some(number));
    parts.sender.unpark();
}

/// The user states other rates of a link, for what it sends and what it receives, or another weight: the peers get a hello at once when
/// they have to know.
pub(crate) fn state_link(
    now: Instant,
    number: u8,
    rates: [Option<u64>; 2],
    weight: Option<u32>,
    parts: &mut Parts<'_>,
) {
    let Some(link) = parts.links.member_mut(number) else { return };
    let is_news = link.settings.receives != rates[1];
    link.state(rates, weight);
    if is_news {
        link.greet_at = now;
        queue_hellos(parts, Some(number));
    }
    parts.sender.unpark();
}

/// Repeats the farewells of links that leave, until they are gone.
pub(crate) fn see_off(now: Instant, parts: &mut Parts<'_>) {
    for number in (0u8..).take(parts.links.all().len()) {
        let link = &parts.links[number];
        let Presence::Leaving { until } = link.presence else { continue };
        if now >= until {
            vacate(number, parts);
        } else if now >= link.greet_at {
            bid_farewell(now, number, parts);
        }
    }
}

fn bid_farewell(now: Instant, number: u8, parts: &mut Parts<'_>) {
    let Parts { sessions, links, out, .. } = parts;
    let link = &mut links[number];
    if let Presence::Leaving { until } = link.presence {
        link.greet_at = until.min(now + FAREWELL_EVERY);
    }
    for index in sessions.table().indices() {
        let Some(paths) = links.paths(index) else { continue };
        for link in links.ways(number) {
            let to = paths.outbound[link].end.endpoint;
            out.outbox.extend(to.map(|to| Control::Farewell { link, peer: index, to }).into_iter());
        }
    }
}

fn vacate(number: u8, parts: &mut Parts<'_>) {
    parts.links.unpair_all(number);
    parts.links.ways(number).for_each(|way| parts.sessions.forget_link(way));
    parts.links.vacate(number);
}

/// Queues hellos to the peers on this link, or on all: something about this node is new.
pub(super) fn queue_hellos(parts: &mut Parts<'_>, over: Option<u8>) {
    let Parts { sessions, links, out, .. } = parts;
    for index in sessions.table().indices() {
        let is_joined = sessions.table().get(index).is_some_and(|session| session.is_joined());
        let Some(paths) = links.paths(index).filter(|_| is_joined) else { continue };
        for (path, link) in paths
            .outbound
            .iter()
            .zip(0..)
            .filter(|(_, link)| over.is_none_or(|over| links.socket(*link) == over))
        {
            let answer = |to| Control::Answer { link, peer: index, to };
            out.outbox.extend(path.end.endpoint.map(answer).into_iter());
        }
    }
}

impl Group {
    pub(crate) fn end(&mut self, now: Instant, parts: &mut Parts<'_>) {
        self.ends = true;
        (0u8..).take(parts.links.all().len()).for_each(|number| remove_link(now, number, parts));
    }

    /// A peer takes a link out: the sender leaves the path that leads there, and its place is free for another. Returns how
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
        parts.links.part(now, index, (origin.link, hello.link), Signal::Farewell, parts.out);
        let looked_up = parts.send_lost_again();
        if hello.ends {
            part(index, parts);
            self.was_left = parts.sessions.table().iter().next().is_none();
        }
        parts.fit_cells();
        looked_up
    }
}
