//! Heartbeats: what nodes say to each other of their links.
//!
//! Beside the path. Heartbeats go over every link of a peer as [`crate::link::heartbeat_pacing`] says, and at once when a
//! judgement has changed.

use crate::link::black_hole::{JITTER_PARTS, OVERDUE_AFTER};
use crate::link::congestion::Arrived;
use crate::link::health::{ALL_SILENT_FOR, HEARTBEAT_BUSY, HEARTBEAT_QUIET};
use crate::link::incast::OTHERS_WITHIN;
use crate::link::nic::Link;
use crate::link::outbound::{ESTIMATE_MAX, Standing};
use crate::link::path_mtu::Finding;
use crate::link::paths::Reach;
use crate::link::{Links, by_number};
use crate::outputs::event::{Direction, Event, Signal};
use crate::outputs::{Control, Outbox, Outputs, Written};
use crate::security::Number;
use crate::session::Sessions;
use crate::time::{Instant, wire_micros};
use crate::wire::cell::{HEADER, Header, Kind, LINKS, unwrap_seq, wire_seq};
use crate::wire::heartbeat::{HEARTBEATS, Heartbeat, Report, Sent};
use core::time::Duration;

/// A worker that was not woken for this long has cells waiting in its sockets: it judges nobody before it read them.
const NOT_SCHEDULED: Duration = Duration::from_millis(20);

/// What a peer reports of one of our paths.
#[derive(Clone, Copy, Debug)]
struct PathReport {
    now: Instant,
    /// When what had come was read last.
    read: Instant,
    /// When the peer wrote it, by its clock, in microseconds modulo 2^32.
    written: u32,
    /// It was so then or later, if it came over a link that is about as fast as any.
    as_of: Option<Instant>,
    index: u16,
    link: u8,
    report: Report,
    /// The latest probe that has arrived there.
    probed: Option<u32>,
}

impl Links {
    /// Queues heartbeats for the peers whose time has come.
    pub(crate) fn send_heartbeats(&mut self, now: Instant, overdue: &[u16], out: &mut Outputs) {
        for index in overdue.iter().copied() {
            let Some(paths) = self.paths_mut(index).filter(|paths| now >= paths.heartbeat_at) else {
                continue;
            };
            let (is_rising, all) = (paths.is_rising(now), paths.earned());
            paths.heartbeat_at = now + if is_rising { HEARTBEAT_BUSY } else { HEARTBEAT_QUIET };
            if !paths.is_joined() {
                continue;
            }
            // As [`Self::paths_mut`], which touched it already: `own` is read meanwhile.
            let Some(paths) = self.peers.get_mut(index) else { continue };
            let turn = paths.turn;
            for ((path, state), link) in paths.outbound.iter_mut().zip(by_number(&self.own)).zip(0..) {
                if path.end.endpoint.is_none() || !state.carries() {
                    continue;
                }
                self.resized |= paths.names_probes && path.fit_mtu(now, &state.settings);
                let probes = paths.names_probes && path.path_mtu.poll(now);
                if probes {
                    out.outbox.push(Control::Probe { link, peer: index });
                }
                // A short one follows a probe: when it arrives and the probe does not, that is lost.
                let hastens = is_rising && !path.is_new();
                if probes || hastens || path.heartbeat_due(now, all) <= now {
                    path.handle_heartbeat(now, all, turn);
                    paths.turn = turn.wrapping_add(1);
                    out.outbox.push(Control::Heartbeat { link, peer: index });
                }
                let due = path.heartbeat_due(now, all);
                paths.heartbeat_at =
                    paths.heartbeat_at.min(path.path_mtu.due().map_or(due, |probe| probe.min(due)));
            }
        }
    }

    /// Writes a heartbeat to a peer, which may be a probe; `None` when there is nobody to send it to, or the link takes none now.
    pub(crate) fn write_heartbeat(
        &mut self,
        now: Instant,
        (link, index): (u8, u16),
        is_probe: bool,
        sessions: &mut Sessions,
        outbox: &mut Outbox,
    ) -> Option<Written> {
        let is_full = self[link].full;
        let paths = self.paths_mut(index)?;
        if is_full {
            let path = &mut paths.outbound[link];
            path.pacing.is_owed = true;
            if is_probe {
                path.path_mtu.take_back();
            }
            return None;
        }
        paths.serial = paths.serial.wrapping_add(1);
        let mut heartbeat = self.heartbeat(now, link, index)?;
        let path = &mut self.paths_mut(index)?.outbound[link];
        let to = path.end.endpoint?;
        let seq = if is_probe {
            let length = path.path_mtu.length()?;
            let others = HEADER + heartbeat.length() + sessions.tag();
            heartbeat.padding = length.saturating_sub(u16::try_from(others).unwrap_or(u16::MAX)).max(1);
            outbox.make_room(length.into());
            let seq = path.numbers.take(None);
            path.path_mtu.handle_sent(seq);
            seq
        } else {
            path.take_heartbeat_number(now)
        };
        let peer = sessions.table().get(index)?;
        let (session, epoch) = (peer.session_out, peer.epoch());
        let space = outbox.space();
        Header { epoch, ..Header::new(Kind::Heartbeat, link, session, seq) }.emit(space);
        let length = HEADER + heartbeat.emit(&mut space[HEADER..]);
        let length = sessions.seal_control(index, Number { link, seq }, space, length);
        Some(Written { link, to: Some(to), length, numbered: Some(index) })
    }

    /// What is to be said to a peer over a link.
    fn heartbeat(&mut self, now: Instant, link: u8, index: u16) -> Option<Heartbeat> {
        let Self { own, peers, .. } = self;
        let paths = peers.get_mut(index)?;
        let echo = paths.paired[link].and_then(|theirs| paths.inbound[theirs].echo(now));
        let mut heartbeat = Heartbeat {
            serial: paths.serial,
            sent_at: now.as_wire_micros(),
            echo: echo.map_or(0, |(sent_at, _)| sent_at),
            echo_age: echo.map_or(u32::MAX, |(_, age)| wire_micros(age)),
            names_probes: true,
            ..Heartbeat::default()
        };
        for ((sent, path), link) in heartbeat.sent.iter_mut().zip(&mut *paths.outbound).zip(&**own) {
            let queued = u32::try_from(link.queue.queued()).unwrap_or(u32::MAX);
            *sent = Sent { departed: wire_seq(path.numbers.departed(link.queue.departed())), queued };
            heartbeat.sent_links += 1;
        }
        if paths.outbound.iter().any(|path| path.programs.sent() > 0) {
            heartbeat.carried_links = heartbeat.sent_links;
            for (carried, path) in heartbeat.carried.iter_mut().zip(&*paths.outbound) {
                *carried = wire_seq(path.programs.sent());
            }
        }
        let fastest = paths.fastest();
        for (theirs, (received, path)) in (0..).zip(heartbeat.reports.iter_mut().zip(&*paths.inbound)) {
            if path.received == 0 {
                continue;
            }
            let link = paths.paired_with(theirs);
            heartbeat.reported_links = theirs + 1;
            heartbeat.probed[usize::from(theirs)] = path.probed();
            *received = Report {
                next: wire_seq(path.next_seq()),
                count: wire_seq(path.received),
                skew_micros: wire_micros(path.skew(fastest)),
                up: path.health.is_up(),
                behind: link.is_some_and(|link| own[link].is_behind),
                heartbeats: path.heartbeats() % HEARTBEATS,
                delay_micros: path.last_delay() & 0xff_ffff,
            };
        }
        Some(heartbeat)
    }

    /// A heartbeat came over the peer's link `theirs` to our `link`. `read`: when what had come was read last. Returns how much later than
    /// on the fastest link cells come on this one.
    pub(crate) fn handle_heartbeat(
        &mut self,
        (now, read): (Instant, Instant),
        (link, theirs): (u8, u8),
        index: u16,
        heartbeat: &Heartbeat,
        out: &mut Outputs,
    ) -> Option<Duration> {
        let links = self.own.len();
        let paths = self.paths_mut(index)?;
        paths.names_probes |= heartbeat.names_probes;
        if heartbeat.padding == 0 {
            paths.inbound[theirs].handle_heartbeat(now, heartbeat.sent_at);
        }
        let skew = paths.inbound[theirs].skew(paths.fastest());
        let round_trip = round_trip(now, heartbeat);
        if let Some(sample) = round_trip {
            paths.outbound[link].handle_round_trip(sample);
        }
        // Cells have come since, and have paid for reports of them.
        paths.handle_earned(now);
        let carried = &heartbeat.carried[..usize::from(heartbeat.carried_links)];
        if let Some(sent) = carried.get(usize::from(theirs)) {
            paths.inbound[theirs].health.told.note_before(*sent);
        }
        let order = (heartbeat.sent_at, heartbeat.serial);
        if paths.latest_report.is_some_and(|latest| !is_later(order, latest)) {
            return Some(skew);
        }
        paths.latest_report = Some(order);
        for (sent, path) in
            heartbeat.sent.iter().zip(&mut *paths.inbound).take(usize::from(heartbeat.sent_links))
        {
            path.handle_departed(now, *sent);
        }
        for (sent, path) in carried.iter().zip(&mut *paths.inbound) {
            path.health.told.note(*sent);
        }
        paths.judge_at = now;
        // What the peer says now was true when it had just received what it echoes, or later.
        let as_of = round_trip.filter(|_| skew < OVERDUE_AFTER).map(|round_trip| now - round_trip);
        let received = &heartbeat.reports[..usize::from(heartbeat.reported_links).min(links)];
        let written = heartbeat.sent_at;
        for ((report, probed), link) in received.iter().zip(heartbeat.probed).zip(0..) {
            let said = PathReport { now, read, written, as_of, index, link, report: *report, probed };
            self.handle_report(&said, out);
        }
        Some(skew)
    }

    /// The peer says what it has received on one of our paths.
    fn handle_report(&mut self, said: &PathReport, out: &mut Outputs) {
        self.note_received(said);
        self.handle_probed(said, out);
        self.handle_way(said);
        let PathReport { now, index, link, report, .. } = *said;
        let overdue = self.overdue(said);
        let carries = self[link].carries();
        let Some(paths) = self.paths_mut(index) else { return };
        let node = paths.node;
        let learns = paths.outbound.iter().any(|path| path.is_learning(now));
        let Some(path) = paths.outbound.get_mut(usize::from(link)) else { return };
        if !report.up {
            self.leave(now, index, link, Signal::Report, out);
        } else if let Some((overdue, waited)) = overdue {
            path.receipts.watch.doubt(path.receipts.next()..path.receipts.next() + overdue);
            self.leave(now, index, link, Signal::BurstSkew { overdue, waited }, out);
        } else if !path.is_up() && carries && now >= path.obey_reports_from && !learns && !path.is_new() {
            path.rise(now);
            if path.is_up() {
                self.resized |= paths.has_small();
                out.events.log(Event::LinkUp { peer: node, link, direction: Direction::Sending });
            }
        } else if path.is_up()
            && path.loss.handle_report(now, path.receipts.next(), path.arrived(report.count))
            && (path.loss.persists(now) || !path.congestion.explains_loss(now))
        {
            self.judge_loss(now, index, link, out);
        }
    }

    /// Which cells have come.
    fn note_received(&mut self, &PathReport { now, index, link, report, .. }: &PathReport) {
        let departed = self[link].queue.departed();
        let Some(path) = self.outbound_mut(index, link) else { return };
        let mut is_ahead = false;
        if let Some(received) = unwrap_seq(report.next, path.receipts.next()) {
            path.handle_received(now, received, report.count, departed);
            is_ahead = report.count > 0 && received > path.numbers.next();
        }
        path.receipts.reports += 1;
        path.receipts.behind += u64::from(report.behind);
        self.rolled_back |= is_ahead;
    }

    /// How long they took, and how much may be on the way.
    fn handle_way(&mut self, &PathReport { now, written, index, link, report, .. }: &PathReport) {
        let nic = self[link].queue.wait();
        let Some(path) = self.outbound_mut(index, link) else { return };
        let (heartbeats, delay) = (report.heartbeats, report.delay_micros);
        let arrived = Arrived {
            next: path.receipts.next(),
            count: path.arrived(report.count),
            heartbeats,
            delay,
            nic,
            written,
            gathers: path.receipts.watch.gaps.recurs(),
        };
        path.programs.handle_report(now, arrived.next, (heartbeats, delay));
        let opened = path.congestion.handle_report(now, path.numbers.next(), arrived);
        self.opened |= opened;
        if let Some(paths) = self.paths_mut(index) {
            paths.handle_skew(link, Duration::from_micros(u64::from(report.skew_micros)));
        }
    }

    /// How many cells are overdue there, and for how long, if that tells of a black hole.
    fn overdue(&self, said: &PathReport) -> Option<(u64, Duration)> {
        let as_of = said.as_of.filter(|_| !said.report.behind)?;
        let paths = self.paths(said.index)?;
        let path = paths.outbound.get(usize::from(said.link)).filter(|path| path.is_up())?;
        let (cells, waited) = path.overdue(as_of)?;
        // While cells of others come here, link and switch live: whether this peer's cells only wait there, it knows better.
        // What has come since the last turn may not have been read yet.
        let within = OTHERS_WITHIN.max(waited / 4 * 3);
        let others_came = self[said.link].incast.received_others(said.read, said.index, within);
        // When the others lack cells, too, the peer may just not have been scheduled.
        let is_peers = waited < ALL_SILENT_FOR && paths.others_lack(said.link, as_of);
        (!others_came && !is_peers).then_some((cells, waited))
    }

    /// A report names the latest probe that has arrived on a path.
    fn handle_probed(
        &mut self,
        &PathReport { now, index, link, report, probed, .. }: &PathReport,
        out: &mut Outputs,
    ) {
        let Some(paths) = self.paths_mut(index) else { return };
        let (peer, path) = (paths.node, &mut paths.outbound[link]);
        let finding = path.path_mtu.handle_report(now, path.receipts.next(), report.count, probed);
        if finding == Finding::Fell {
            // What was lost was too long: it says nothing about the path's loss and rate.
            let next = path.numbers.next();
            path.loss.restart(next);
            path.congestion.restart(next);
        }
        if finding == (Finding::Found { is_new: true })
            && let Some((packet, nic)) = path.path_mtu.packets()
        {
            out.events.log(Event::PathMtu { peer, link, packet, nic });
        }
        if path.path_mtu.due().is_some_and(|due| due <= now) {
            paths.heartbeat_at = now;
        }
        self.opened |= finding != Finding::Nothing;
        self.resized |= matches!(finding, Finding::Fell | Finding::Found { .. });
    }

    /// A link's loss has been measured anew.
    fn judge_loss(&mut self, now: Instant, index: u16, link: u8, out: &mut Outputs) {
        let repair = self.repair;
        let Some(paths) = self.paths_mut(index) else { return };
        let others = paths.outbound.iter().zip(0..).filter(|(path, number)| path.is_up() && *number != link);
        let best = others.map(|(path, _)| path.loss.share()).min();
        let (node, path) = (paths.node, &mut paths.outbound[link]);
        if path.loss.is_heavy(repair)
            && paths.names_probes
            && !path.path_mtu.has_passed_since(path.loss.since())
        {
            // Perhaps only what is long is lost.
            path.path_mtu.doubt(now);
            paths.heartbeat_at = now;
            return;
        }
        if !path.loss.judge(now, best, repair) {
            return;
        }
        let (suspect, share) = (path.loss.is_suspect(), path.loss.share());
        out.events.log(if suspect {
            Event::LinkSuspect { peer: node, link, lost: share }
        } else {
            Event::LinkTrusted { peer: node, link, lost: share }
        });
    }

    /// Judges the links of the peers whose time has come. `read`: when what had come was read last.
    pub(crate) fn judge(&mut self, now: Instant, read: Instant, overdue: &[u16], out: &mut Outputs) {
        let rested = now.since(read) > NOT_SCHEDULED;
        for index in overdue.iter().copied() {
            let Some(paths) = self.paths_mut(index).filter(|paths| now >= paths.judge_at) else { continue };
            if rested {
                paths.judge_at = now + HEARTBEAT_QUIET / 4;
                continue;
            }
            self.judge_peer(now, index, out);
        }
    }

    fn judge_peer(&mut self, now: Instant, index: u16, out: &mut Outputs) {
        let Some(paths) = self.paths_mut(index) else { return };
        let (received, fastest) = (paths.last_received(), paths.fastest());
        let jitter = paths.round_trip(Reach::Near) / JITTER_PARTS;
        // Each heartbeat that comes is a reason to judge; without any, this is.
        paths.judge_at = now + 2 * HEARTBEAT_QUIET;
        for theirs in (0..).take(LINKS) {
            let Self { own, peers, .. } = &mut *self;
            let Some(paths) = peers.get_mut(index) else { return };
            let link = paths.paired_with(theirs);
            let given_up = link.is_some_and(|link| paths.outbound[link].standing == Standing::Doubted);
            let link = link.map(|link| &own[link]);
            let others_received = |link: &Link| link.incast.received_others(now, index, OTHERS_WITHIN);
            let incast = link.is_some_and(others_received);
            let read_until = link.map_or(now, |link| link.read_until(now));
            let state = &mut paths.inbound[theirs];
            let skew = state.skew(fastest) + jitter;
            state.health.handle_other_direction(given_up);
            let change = state.health.poll(read_until, state.next_seq(), skew, incast, received);
            let due = state
                .health
                .deadline(now, state.next_seq(), skew, incast)
                .unwrap_or(paths.judge_at)
                .max(now + HEARTBEAT_QUIET / 20);
            paths.judge_at = paths.judge_at.min(due);
            if let Some(change) = change {
                self.judged(now, index, theirs, change, out);
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
