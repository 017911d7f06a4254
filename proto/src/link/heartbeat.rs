//! What nodes say to each other besides data: making and hearing heartbeats, and sending what is queued.
//!
//! Beside the path. Heartbeats go over every link of a peer as [`crate::link::heartbeat_pacing`] says, and at once when a judgement has
//! changed. The I/O sends what [`Bundle::poll_control`] gives.

use crate::bundle::Bundle;
use crate::event::{Direction, Event};
use crate::link::black_hole::OWED_FOR;
use crate::link::health::{Change, HEARTBEAT_BUSY, HEARTBEAT_QUIET, Signal};
use crate::link::heartbeat_pacing::earned;
use crate::link::incast::OTHERS_HEARD_WITHIN;
use crate::link::nic::Port;
use crate::link::outbound::ESTIMATE_MAX;
use crate::send::transmit::Outcome;
use crate::session::security::TAG;
use crate::time::{Instant, wire_micros};
use crate::wire::cell::{HEADER, Header, Kind, LINKS, NO_RECORD, unwrap_seq, wire_seq};
use crate::wire::heartbeat::{HEARTBEAT_MAX, Heard, Heartbeat, Sent};
use crate::wire::hello::HELLO_MAX;
use crate::wire::repair::REQUEST_MAX;
use core::net::SocketAddr;
use core::time::Duration;

/// The longest control message.
pub(crate) const CONTROL_MAX: usize = max(HEARTBEAT_MAX, max(HELLO_MAX, REQUEST_MAX)) + TAG;
/// A worker that was not woken for this long has cells waiting in its sockets: it judges nobody before it read them.
const NOT_SCHEDULED: Duration = Duration::from_millis(20);

const fn max(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// A message that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// A hello to everyone, or to an endpoint.
    Greet { port: u8, to: Option<SocketAddr> },
    /// A hello to a peer.
    Answer { port: u8, peer: u16, to: SocketAddr },
    /// A hello to a peer that says that the port leaves.
    Farewell { port: u8, peer: u16, to: SocketAddr },
    /// A heartbeat.
    Heartbeat { port: u8, peer: u16 },
    /// What is missing, on the link with the shortest queue. `after`: the same went over that link.
    Repair { peer: u16, after: Option<u8> },
}

/// A message that has been written.
struct Written {
    port: u8,
    to: Option<SocketAddr>,
    length: usize,
    /// The peer that it took a link number of.
    numbered: Option<u16>,
}

/// The message that the I/O is sending.
pub(crate) struct Spoken {
    /// `None`: it belongs to a handshake.
    control: Option<Control>,
    port: u8,
    bytes: usize,
    numbered: Option<u16>,
}

/// A control message for the I/O to send.
pub struct ControlMessage<'a> {
    /// The port to send through.
    pub port: u8,
    /// The endpoint; `None`: the multicast group.
    pub to: Option<SocketAddr>,
    /// The cell.
    pub bytes: &'a [u8],
}

impl Bundle {
    /// Queues heartbeats for the peers whose time has come.
    pub(crate) fn beat(&mut self, now: Instant, overdue: &[u16]) {
        for index in overdue.iter().copied() {
            let Some(peer) = self.peers.get_mut(index).filter(|peer| now >= peer.heartbeat_at) else {
                continue;
            };
            peer.heartbeat_at = now + if peer.is_rising(now) { HEARTBEAT_BUSY } else { HEARTBEAT_QUIET };
            if !peer.is_joined() {
                continue;
            }
            let (is_rising, heard) = (peer.is_rising(now), peer.cells_heard());
            for ((link, state), port) in peer.outbound.iter_mut().zip(&self.ports).zip(0..) {
                if link.endpoint.is_none() || !state.carries() {
                    continue;
                }
                let earned = earned(link.sent(), heard);
                let suspect = link.loss.is_suspect();
                if is_rising || link.beat.due(now, earned, suspect) <= now {
                    link.beat.handle_beat(now, earned);
                    self.control.push_back(Control::Heartbeat { port, peer: index });
                }
                peer.heartbeat_at = peer.heartbeat_at.min(link.beat.due(now, earned, suspect));
            }
        }
    }

    /// A port takes cells again: what it did not take of heartbeats and requests comes first.
    pub(crate) fn catch_up(&mut self, port: u8) {
        for index in self.peers.indices() {
            let Some(peer) = self.peers.get_mut(index) else { continue };
            if core::mem::take(&mut peer.outbound[usize::from(port)].owes_heartbeat) {
                self.control.push_back(Control::Heartbeat { port, peer: index });
            }
            if !peer.missing.gaps().is_empty() {
                self.request_repair(index);
            }
        }
    }

    /// The next control message. To be asked after every `handle_*`, before [`Bundle::poll_batch`]. It counts as sent
    /// unless [`Self::handle_control_sent`] says otherwise before the next call.
    pub fn poll_control(&mut self, now: Instant) -> Option<ControlMessage<'_>> {
        loop {
            let control = self.control.pop_front();
            let written = match control {
                Some(control) => self.write_control(now, control),
                None => Some(self.write_handshake()?),
            };
            let Some(Written { port, to, length, numbered }) = written else { continue };
            self.ports[usize::from(port)].handle_sent(length);
            self.spoken = Some(Spoken { control, port, bytes: length, numbered });
            return Some(ControlMessage { port, to, bytes: &self.control_bytes[..length] });
        }
    }

    /// What became of the last control message. When there was no room, its number is given back, for no byte has left, and
    /// heartbeats and requests go when there is ([`Self::handle_writable`]). Otherwise nobody knows whether it has left, so
    /// the number is lost: no number seals two cells. What else is not said is said again by its timer.
    pub fn handle_control_sent(&mut self, outcome: Outcome) {
        let Some(spoken) = self.spoken.take().filter(|_| outcome != Outcome::Sent) else { return };
        let port = &mut self.ports[usize::from(spoken.port)];
        port.take_back(spoken.bytes);
        if outcome != Outcome::Full {
            self.counters.drop_refused += 1;
            return;
        }
        port.full = true;
        let Some(peer) = spoken.numbered.and_then(|index| self.peers.get_mut(index)) else { return };
        let link = &mut peer.outbound[usize::from(spoken.port)];
        link.return_seqs(1);
        match spoken.control {
            Some(Control::Heartbeat { .. }) => link.owes_heartbeat = true,
            // Over a link that has room, or later.
            Some(again @ Control::Repair { after: Some(_), .. }) => {
                peer.missing = peer.requested;
                self.control.push_front(again);
            }
            // The second copy, which is next, becomes the first.
            Some(Control::Repair { after: None, .. }) => {
                if let Some(Control::Repair { after, .. }) = self.control.front_mut() {
                    *after = None;
                }
            }
            _ => {}
        }
    }

    /// Writes a message to `control_bytes`; `None` when there is nobody to send it to.
    fn write_control(&mut self, now: Instant, control: Control) -> Option<Written> {
        match control {
            Control::Greet { port, to } => {
                Some(Written { port, to, length: self.write_greeting(port), numbered: None })
            }
            Control::Answer { port, peer, to } | Control::Farewell { port, peer, to } => {
                let is_sealed = self.peers.get(peer).is_some_and(|peer| peer.epoch() != 0);
                let length = self.write_hello(port, Some(peer));
                Some(Written { port, to: Some(to), length, numbered: is_sealed.then_some(peer) })
            }
            Control::Heartbeat { port, peer } => self.write_heartbeat(now, port, peer),
            Control::Repair { peer, after } => self.write_request(now, peer, after),
        }
    }

    fn write_handshake(&mut self) -> Option<Written> {
        let ((port, to), cell) = self.handshakes.next_cell()?;
        let length = cell.len().min(self.control_bytes.len());
        self.control_bytes[..length].copy_from_slice(&cell[..length]);
        Some(Written { port, to: Some(to), length, numbered: None })
    }

    /// A greeting shows by a mark that it comes from the group.
    fn write_greeting(&mut self, port: u8) -> usize {
        let length = self.write_hello(port, None);
        let Some(security) = &self.security else { return length };
        let (greeting, rest) = self.control_bytes.split_at_mut(length);
        rest[..TAG].copy_from_slice(&security.mark(0, greeting));
        length + TAG
    }

    fn write_hello(&mut self, port: u8, peer: Option<u16>) -> usize {
        let hello = self.hello(port, peer);
        let length = HEADER + hello.emit(&mut self.control_bytes[HEADER..]);
        let mut header = header(Kind::Hello, port, 0);
        if let Some(peer) = peer.and_then(|index| self.peers.get_mut(index)) {
            (header.session, header.epoch) = (peer.session_out, peer.epoch());
            if header.epoch != 0 {
                header.link_seq = wire_seq(peer.outbound[usize::from(port)].take_seq(None));
            }
        }
        header.emit(&mut self.control_bytes);
        peer.map_or(length, |index| self.seal_control(index, port, length))
    }

    fn write_heartbeat(&mut self, now: Instant, port: u8, index: u16) -> Option<Written> {
        let peer = self.peers.get_mut(index)?;
        if self.ports[usize::from(port)].full {
            peer.outbound[usize::from(port)].owes_heartbeat = true;
            return None;
        }
        let paired = peer.paired[usize::from(port)].map(usize::from);
        let echo = paired.and_then(|link| peer.inbound[link].echo(now));
        peer.serial = peer.serial.wrapping_add(1);
        let mut heartbeat = Heartbeat {
            serial: peer.serial,
            sent_at: now.as_wire_micros(),
            echo: echo.map_or(0, |(sent_at, _)| sent_at),
            echo_age: echo.map_or(u32::MAX, |(_, age)| wire_micros(age)),
            ..Heartbeat::default()
        };
        for ((sent, link), port) in heartbeat.sent.iter_mut().zip(&mut peer.outbound).zip(&self.ports) {
            let queued = u32::try_from(port.queued()).unwrap_or(u32::MAX);
            *sent = Sent { departed: wire_seq(link.departed(port.departed())), queued };
            heartbeat.sent_links += 1;
        }
        let fastest = peer.fastest();
        for (number, (heard, link)) in (0..).zip(heartbeat.heard.iter_mut().zip(&peer.inbound)) {
            if link.heard == 0 {
                continue;
            }
            let port = peer.paired.iter().position(|paired| *paired == Some(number));
            heartbeat.heard_links = number + 1;
            *heard = Heard {
                next: wire_seq(link.next_seq()),
                count: wire_seq(link.heard),
                skew_micros: wire_micros(link.skew(fastest)),
                up: link.health.is_up(),
                behind: port.is_some_and(|port| self.ports[port].is_behind),
            };
        }
        let link = &mut peer.outbound[usize::from(port)];
        let to = link.endpoint?;
        let seq = link.take_seq(None);
        let (session, epoch) = (peer.session_out, peer.epoch());
        Header { session, epoch, ..header(Kind::Heartbeat, port, seq) }.emit(&mut self.control_bytes);
        let length = HEADER + heartbeat.emit(&mut self.control_bytes[HEADER..]);
        let length = self.seal_control(index, port, length);
        Some(Written { port, to: Some(to), length, numbered: Some(index) })
    }

    /// A request that is lost would not be repeated, so it goes twice, over two links where there are two. If all links that
    /// are up are full, it goes when one of them takes cells again.
    fn write_request(&mut self, now: Instant, index: u16, after: Option<u8>) -> Option<Written> {
        let peer = self.peers.get_mut(index)?;
        peer.forget_missing(now);
        if peer.missing.gaps().is_empty() {
            return None;
        }
        let links = peer.outbound.iter().zip(&self.ports).zip(0u8..);
        let up = links.filter(|((link, port), _)| link.up && link.endpoint.is_some() && !port.full);
        let shortest = up.min_by_key(|((_, port), number)| (Some(*number) == after, port.queued()));
        let (_, port) = shortest?;
        let request = if after.is_none() {
            self.control.push_front(Control::Repair { peer: index, after: Some(port) });
            peer.missing
        } else {
            peer.requested = core::mem::take(&mut peer.missing);
            peer.requested
        };
        let link = &mut peer.outbound[usize::from(port)];
        let (seq, to) = (link.take_seq(None), link.endpoint);
        let (session, epoch) = (peer.session_out, peer.epoch());
        Header { session, epoch, ..header(Kind::Repair, port, seq) }.emit(&mut self.control_bytes);
        let length = HEADER + request.emit(&mut self.control_bytes[HEADER..]);
        let length = self.seal_control(index, port, length);
        Some(Written { port, to, length, numbered: Some(index) })
    }

    /// A heartbeat came over the peer's `link` to `port`. Returns how many numbers were looked up, as [`Self::leave_link`] does:
    /// whatever heartbeats say, none twice.
    pub(crate) fn handle_heartbeat(
        &mut self,
        now: Instant,
        port: u8,
        index: u16,
        link: u8,
        heartbeat: &Heartbeat,
    ) -> u64 {
        let Some(peer) = self.peers.get_mut(index) else { return 0 };
        peer.inbound[usize::from(link)].handle_heartbeat(now, heartbeat.sent_at);
        let skew = peer.inbound[usize::from(link)].skew(peer.fastest());
        peer.hold.saw_skew(now, skew);
        let round_trip = round_trip(now, heartbeat);
        if let Some(sample) = round_trip {
            peer.outbound[usize::from(port)].handle_round_trip(sample);
        }
        let order = (heartbeat.sent_at, heartbeat.serial);
        if peer.latest_report.is_some_and(|latest| !is_later(order, latest)) {
            return 0;
        }
        peer.latest_report = Some(order);
        for (sent, link) in
            heartbeat.sent.iter().zip(&mut peer.inbound).take(usize::from(heartbeat.sent_links))
        {
            link.handle_departed(now, *sent);
        }
        peer.judge_at = now;
        // What the peer says now was true when it had just heard what it echoes, or later.
        let as_of = round_trip.filter(|_| skew < OWED_FOR).map(|round_trip| now - round_trip);
        let heard = &heartbeat.heard[..usize::from(heartbeat.heard_links).min(self.ports.len())];
        let reports = heard.iter().zip(0..);
        reports.map(|(report, port)| self.handle_report(now, index, port, *report, as_of)).sum()
    }

    /// The peer says what it has heard on our link over `port`. `as_of`: it said so then or later, and over a link about as
    /// fast as any. Returns how many numbers were looked up.
    fn handle_report(
        &mut self,
        now: Instant,
        index: u16,
        port: u8,
        report: Heard,
        as_of: Option<Instant>,
    ) -> u64 {
        let Some(peer) = self.peers.get_mut(index) else { return 0 };
        let node = peer.node;
        let crowd = self.ports[usize::from(port)].crowd;
        let link = &mut peer.outbound[usize::from(port)];
        if let Some(heard) = unwrap_seq(report.next, link.heard()) {
            link.handle_heard(now, heard, report.count, self.ports[usize::from(port)].departed());
        }
        link.handle_skew(Duration::from_micros(u64::from(report.skew_micros)));
        // While others are heard here, port and switch live: whether this peer's cells only wait there, it knows better.
        // What has come since the last turn may not have been read yet.
        let (read, within) = (self.polled, |waited: Duration| OTHERS_HEARD_WITHIN.max(waited / 4 * 3));
        let alone = |waited| !crowd.heard_others(read, index, within(waited));
        let as_of = as_of.filter(|_| !report.behind);
        let stalled =
            as_of.and_then(|as_of| link.stalled(as_of)).filter(|(_, waited)| link.up && alone(*waited));
        if !report.up {
            return self.leave_link(now, index, port, Signal::Report);
        }
        if let Some((owed, waited)) = stalled {
            link.patience.doubt(link.heard()..link.heard() + owed);
            return self.leave_link(now, index, port, Signal::BurstSkew { owed, waited });
        }
        if !link.up && self.ports[usize::from(port)].carries() && now >= link.obey_reports_from {
            link.rise(now);
            if link.up {
                self.log(Event::LinkUp { peer: node, link: port, direction: Direction::Sending });
            }
        } else if link.up && link.loss.handle_report(now, link.heard(), report.count) {
            self.judge_loss(now, index, port);
        }
        0
    }

    /// A link's loss has been measured anew.
    fn judge_loss(&mut self, now: Instant, index: u16, port: u8) {
        let repair = self.settings.repair;
        let Some(peer) = self.peers.get_mut(index) else { return };
        let others = peer.outbound.iter().zip(0..).filter(|(link, number)| link.up && *number != port);
        let best = others.map(|(link, _)| link.loss.share()).min();
        let (node, link) = (peer.node, &mut peer.outbound[usize::from(port)]);
        if !link.loss.judge(now, best, repair) {
            return;
        }
        let (suspect, share) = (link.loss.is_suspect(), link.loss.share());
        self.log(if suspect {
            Event::LinkSuspect { peer: node, link: port, lost: share }
        } else {
            Event::LinkTrusted { peer: node, link: port, lost: share }
        });
    }

    /// Judges the links of the peers whose time has come.
    pub(crate) fn judge(&mut self, now: Instant, overdue: &[u16]) {
        let rested = now.since(self.polled) > NOT_SCHEDULED;
        for index in overdue.iter().copied() {
            let Some(peer) = self.peers.get_mut(index).filter(|peer| now >= peer.judge_at) else { continue };
            if rested {
                peer.judge_at = now + HEARTBEAT_QUIET / 4;
                continue;
            }
            self.judge_peer(now, index);
        }
    }

    fn judge_peer(&mut self, now: Instant, index: u16) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let (heard, fastest) = (peer.heard(), peer.fastest());
        // Each heartbeat that comes is a reason to judge; without any, this is.
        peer.judge_at = now + 2 * HEARTBEAT_QUIET;
        for link in 0..LINKS {
            let Some(peer) = self.peers.get_mut(index) else { return };
            let port = peer.paired.iter().position(|paired| paired.map(usize::from) == Some(link));
            let port = port.map(|port| &self.ports[port]);
            let others_heard = |port: &Port| port.crowd.heard_others(now, index, OTHERS_HEARD_WITHIN);
            let crowded = port.is_some_and(others_heard);
            let read_until = port.map_or(now, |port| port.read_until(now));
            let state = &mut peer.inbound[link];
            let skew = state.skew(fastest);
            let change = state.health.poll(read_until, state.next_seq(), skew, crowded, heard);
            let due = state
                .health
                .deadline(now, state.next_seq(), skew, crowded)
                .unwrap_or(peer.judge_at)
                .max(now + HEARTBEAT_QUIET / 20);
            peer.judge_at = peer.judge_at.min(due);
            if let Some(change) = change {
                #[expect(clippy::cast_possible_truncation, reason = "below LINKS")]
                self.judged(now, index, link as u8, change);
            }
        }
    }

    /// The judgement of a peer's link has changed: the peer has to know at once.
    pub(crate) fn judged(&mut self, now: Instant, index: u16, link: u8, change: Change) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.beat_at_once(now);
        let (peer, direction) = (peer.node, Direction::Receiving);
        self.log(match change {
            Change::Up => Event::LinkUp { peer, link, direction },
            Change::Down(signal) => Event::LinkDown { peer, link, direction, signal },
        });
    }
}

/// How long our heartbeat and the peer's answer to it travelled, without the time that the peer had it; at most
/// [`ESTIMATE_MAX`], for the peer says both.
fn round_trip(now: Instant, heartbeat: &Heartbeat) -> Option<Duration> {
    let micros = now.as_wire_micros().wrapping_sub(heartbeat.echo).wrapping_sub(heartbeat.echo_age);
    let echoes = heartbeat.echo_age != u32::MAX && micros.cast_signed() >= 0;
    echoes.then(|| Duration::from_micros(u64::from(micros)).min(ESTIMATE_MAX))
}

/// Whether one heartbeat was written after another: by the speaker's clock, then by its serial number.
fn is_later(one: (u32, u16), other: (u32, u16)) -> bool {
    match one.0.wrapping_sub(other.0).cast_signed() {
        0 => one.1.wrapping_sub(other.1).cast_signed() > 0,
        micros => micros > 0,
    }
}

/// The header of a cell that belongs to no lane.
fn header(kind: Kind, link: u8, seq: u64) -> Header {
    let link_seq = wire_seq(seq);
    Header { kind, epoch: 0, link, lane: 0, link_seq, lane_seq: 0, block_offset: NO_RECORD, session: 0 }
}

#[cfg(test)]
mod tests;
