//! Heartbeats: what nodes say to each other of their links.
//!
//! Beside the path. Heartbeats go over every link of a peer as [`crate::link::heartbeat_pacing`] says, and at once when a
//! judgement has changed.

use crate::event::{Direction, Event, Signal};
use crate::link::Links;
use crate::link::black_hole::OWED_FOR;
use crate::link::health::{HEARTBEAT_BUSY, HEARTBEAT_QUIET};
use crate::link::heartbeat_pacing::earned;
use crate::link::incast::OTHERS_HEARD_WITHIN;
use crate::link::nic::Port;
use crate::link::outbound::ESTIMATE_MAX;
use crate::outbox::{Control, Outbox, Outputs, Written, header};
use crate::security::Number;
use crate::session::Sessions;
use crate::time::{Instant, wire_micros};
use crate::wire::cell::{HEADER, Header, Kind, LINKS, unwrap_seq, wire_seq};
use crate::wire::heartbeat::{Heard, Heartbeat, Sent};
use core::time::Duration;

/// A worker that was not woken for this long has cells waiting in its sockets: it judges nobody before it read them.
const NOT_SCHEDULED: Duration = Duration::from_millis(20);

impl Links {
    /// Queues heartbeats for the peers whose time has come.
    pub(crate) fn beat(&mut self, now: Instant, overdue: &[u16], out: &mut Outputs) {
        for index in overdue.iter().copied() {
            let Some(paths) = self.get_mut(index).filter(|paths| now >= paths.heartbeat_at) else {
                continue;
            };
            let (is_rising, heard) = (paths.is_rising(now), paths.cells_heard());
            paths.heartbeat_at = now + if is_rising { HEARTBEAT_BUSY } else { HEARTBEAT_QUIET };
            if !paths.is_joined() {
                continue;
            }
            // As [`Self::get_mut`], which touched it already: the ports are looked at meanwhile.
            let Some(paths) = self.peers[usize::from(index)].as_deref_mut() else { continue };
            for ((link, state), port) in paths.outbound.iter_mut().zip(&self.ports).zip(0..) {
                if link.endpoint.is_none() || !state.carries() {
                    continue;
                }
                let earned = earned(link.sent(), heard);
                let suspect = link.loss.is_suspect();
                if is_rising || link.beat.due(now, earned, suspect) <= now {
                    link.beat.handle_beat(now, earned);
                    out.outbox.push(Control::Heartbeat { port, peer: index });
                }
                paths.heartbeat_at = paths.heartbeat_at.min(link.beat.due(now, earned, suspect));
            }
        }
    }

    /// Writes a heartbeat to a peer; `None` when there is nobody to send it to, or the port takes none now.
    pub(crate) fn write_heartbeat(
        &mut self,
        now: Instant,
        port: u8,
        index: u16,
        sessions: &mut Sessions,
        outbox: &mut Outbox,
    ) -> Option<Written> {
        let is_full = self.port(port).full;
        let paths = self.get_mut(index)?;
        if is_full {
            paths.outbound[usize::from(port)].owes_heartbeat = true;
            return None;
        }
        paths.serial = paths.serial.wrapping_add(1);
        let heartbeat = self.heartbeat(now, port, index)?;
        let link = &mut self.get_mut(index)?.outbound[usize::from(port)];
        let to = link.endpoint?;
        let seq = link.take_seq(None);
        let peer = sessions.table().get(index)?;
        let (session, epoch) = (peer.session_out, peer.epoch());
        let space = outbox.space();
        Header { session, epoch, ..header(Kind::Heartbeat, port, seq) }.emit(space);
        let length = HEADER + heartbeat.emit(&mut space[HEADER..]);
        let length = sessions.seal_control(index, Number { link: port, seq }, space, length);
        Some(Written { port, to: Some(to), length, numbered: Some(index) })
    }

    /// What is to be said to a peer over a port.
    fn heartbeat(&mut self, now: Instant, port: u8, index: u16) -> Option<Heartbeat> {
        let Self { ports, peers, .. } = self;
        let paths = peers.get_mut(usize::from(index))?.as_deref_mut()?;
        let paired = paths.paired[usize::from(port)].map(usize::from);
        let echo = paired.and_then(|link| paths.inbound[link].echo(now));
        let mut heartbeat = Heartbeat {
            serial: paths.serial,
            sent_at: now.as_wire_micros(),
            echo: echo.map_or(0, |(sent_at, _)| sent_at),
            echo_age: echo.map_or(u32::MAX, |(_, age)| wire_micros(age)),
            ..Heartbeat::default()
        };
        for ((sent, link), port) in heartbeat.sent.iter_mut().zip(&mut paths.outbound).zip(&*ports) {
            let queued = u32::try_from(port.queued()).unwrap_or(u32::MAX);
            *sent = Sent { departed: wire_seq(link.departed(port.departed())), queued };
            heartbeat.sent_links += 1;
        }
        let fastest = paths.fastest();
        for (number, (heard, link)) in (0..).zip(heartbeat.heard.iter_mut().zip(&paths.inbound)) {
            if link.heard == 0 {
                continue;
            }
            let port = paths.paired.iter().position(|paired| *paired == Some(number));
            heartbeat.heard_links = number + 1;
            *heard = Heard {
                next: wire_seq(link.next_seq()),
                count: wire_seq(link.heard),
                skew_micros: wire_micros(link.skew(fastest)),
                up: link.health.is_up(),
                behind: port.is_some_and(|port| ports[port].is_behind),
            };
        }
        Some(heartbeat)
    }

    /// A heartbeat came over the peer's `link` to `port`. `read`: when what had come was read last. Returns how much later than
    /// on the fastest link cells come on this one.
    pub(crate) fn handle_heartbeat(
        &mut self,
        (now, read): (Instant, Instant),
        (port, link): (u8, u8),
        index: u16,
        heartbeat: &Heartbeat,
        out: &mut Outputs,
    ) -> Option<Duration> {
        let ports = self.ports.len();
        let paths = self.get_mut(index)?;
        paths.inbound[usize::from(link)].handle_heartbeat(now, heartbeat.sent_at);
        let skew = paths.inbound[usize::from(link)].skew(paths.fastest());
        let round_trip = round_trip(now, heartbeat);
        if let Some(sample) = round_trip {
            paths.outbound[usize::from(port)].handle_round_trip(sample);
        }
        let order = (heartbeat.sent_at, heartbeat.serial);
        if paths.latest_report.is_some_and(|latest| !is_later(order, latest)) {
            return Some(skew);
        }
        paths.latest_report = Some(order);
        for (sent, link) in
            heartbeat.sent.iter().zip(&mut paths.inbound).take(usize::from(heartbeat.sent_links))
        {
            link.handle_departed(now, *sent);
        }
        paths.judge_at = now;
        // What the peer says now was true when it had just heard what it echoes, or later.
        let as_of = round_trip.filter(|_| skew < OWED_FOR).map(|round_trip| now - round_trip);
        let heard = &heartbeat.heard[..usize::from(heartbeat.heard_links).min(ports)];
        for (report, port) in heard.iter().zip(0..) {
            self.handle_report((now, read), index, port, *report, as_of, out);
        }
        Some(skew)
    }

    /// The peer says what it has heard on our link over `port`. `as_of`: it said so then or later, and over a link about as
    /// fast as any.
    fn handle_report(
        &mut self,
        (now, read): (Instant, Instant),
        index: u16,
        port: u8,
        report: Heard,
        as_of: Option<Instant>,
        out: &mut Outputs,
    ) {
        let state = self.port(port);
        let (crowd, departed, carries) = (state.crowd, state.departed(), state.carries());
        let Some(paths) = self.get_mut(index) else { return };
        let node = paths.node;
        let link = &mut paths.outbound[usize::from(port)];
        if let Some(heard) = unwrap_seq(report.next, link.heard()) {
            link.handle_heard(now, heard, report.count, departed);
        }
        link.handle_skew(Duration::from_micros(u64::from(report.skew_micros)));
        // While others are heard here, port and switch live: whether this peer's cells only wait there, it knows better.
        // What has come since the last turn may not have been read yet.
        let within = |waited: Duration| OTHERS_HEARD_WITHIN.max(waited / 4 * 3);
        let alone = |waited| !crowd.heard_others(read, index, within(waited));
        let as_of = as_of.filter(|_| !report.behind);
        let stalled =
            as_of.and_then(|as_of| link.stalled(as_of)).filter(|(_, waited)| link.up && alone(*waited));
        if !report.up {
            return self.leave(now, index, port, Signal::Report, out);
        }
        if let Some((owed, waited)) = stalled {
            link.patience.doubt(link.heard()..link.heard() + owed);
            return self.leave(now, index, port, Signal::BurstSkew { owed, waited }, out);
        }
        if !link.up && carries && now >= link.obey_reports_from {
            link.rise(now);
            if link.up {
                out.events.log(Event::LinkUp { peer: node, link: port, direction: Direction::Sending });
            }
        } else if link.up && link.loss.handle_report(now, link.heard(), report.count) {
            self.judge_loss(now, index, port, out);
        }
    }

    /// A link's loss has been measured anew.
    fn judge_loss(&mut self, now: Instant, index: u16, port: u8, out: &mut Outputs) {
        let repair = self.repair;
        let Some(paths) = self.get_mut(index) else { return };
        let others = paths.outbound.iter().zip(0..).filter(|(link, number)| link.up && *number != port);
        let best = others.map(|(link, _)| link.loss.share()).min();
        let (node, link) = (paths.node, &mut paths.outbound[usize::from(port)]);
        if !link.loss.judge(now, best, repair) {
            return;
        }
        let (suspect, share) = (link.loss.is_suspect(), link.loss.share());
        out.events.log(if suspect {
            Event::LinkSuspect { peer: node, link: port, lost: share }
        } else {
            Event::LinkTrusted { peer: node, link: port, lost: share }
        });
    }

    /// Judges the links of the peers whose time has come. `read`: when what had come was read last.
    pub(crate) fn judge(&mut self, now: Instant, read: Instant, overdue: &[u16], out: &mut Outputs) {
        let rested = now.since(read) > NOT_SCHEDULED;
        for index in overdue.iter().copied() {
            let Some(paths) = self.get_mut(index).filter(|paths| now >= paths.judge_at) else { continue };
            if rested {
                paths.judge_at = now + HEARTBEAT_QUIET / 4;
                continue;
            }
            self.judge_peer(now, index, out);
        }
    }

    fn judge_peer(&mut self, now: Instant, index: u16, out: &mut Outputs) {
        let Some(paths) = self.get_mut(index) else { return };
        let (heard, fastest) = (paths.heard(), paths.fastest());
        // Each heartbeat that comes is a reason to judge; without any, this is.
        paths.judge_at = now + 2 * HEARTBEAT_QUIET;
        for link in 0..LINKS {
            let Self { ports, peers, .. } = &mut *self;
            let Some(Some(paths)) = peers.get_mut(usize::from(index)) else { return };
            let port = paths.paired.iter().position(|paired| paired.map(usize::from) == Some(link));
            let port = port.map(|port| &ports[port]);
            let others_heard = |port: &Port| port.crowd.heard_others(now, index, OTHERS_HEARD_WITHIN);
            let crowded = port.is_some_and(others_heard);
            let read_until = port.map_or(now, |port| port.read_until(now));
            let state = &mut paths.inbound[link];
            let skew = state.skew(fastest);
            let change = state.health.poll(read_until, state.next_seq(), skew, crowded, heard);
            let due = state
                .health
                .deadline(now, state.next_seq(), skew, crowded)
                .unwrap_or(paths.judge_at)
                .max(now + HEARTBEAT_QUIET / 20);
            paths.judge_at = paths.judge_at.min(due);
            if let Some(change) = change {
                #[expect(clippy::cast_possible_truncation, reason = "below LINKS")]
                self.judged(now, index, link as u8, change, out);
            }
        }
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
