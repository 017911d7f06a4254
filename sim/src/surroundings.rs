//! The surroundings of a node: the time, the links, the hosts behind the devices, and the log.
//!
//! Beside `node`; [`crate::world`] owns both. All lines of a replay are written here.

use crate::agenda::{Agenda, Event};
use crate::cable::{Arrival, Passage, Place};
use crate::frame::FrameId;
use crate::hostile::{Member, Said};
use crate::injector::{Injection, Injector};
use crate::network::Network;
use crate::random::{Random, Stream, mix};
use crate::topology::Topology;
use crate::traffic::Traffic;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use tabane_proto::wire::cell::{HEADER, Header, Kind};
use tabane_proto::wire::heartbeat::Heartbeat;
use tabane_proto::wire::hello::Hello;
use tabane_proto::{Instant, Outcome};

/// How long a bulk transfer pauses after a drop, as TCP does.
const GREEDY_PAUSE: Duration = Duration::from_millis(1);

/// Takes the lines of a replay, one per event.
pub type Trace<'t> = &'t mut dyn FnMut(fmt::Arguments<'_>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, on the world's clock.
    pub at: Instant,
    /// Where, if one node broke it.
    pub node: Option<u8>,
    /// The invariant, and what was found instead.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = millis(self.at.since(Instant::default()));
        match self.node {
            Some(node) => write!(out, "{} (node {node}, at {at} ms)", self.what),
            None => write!(out, "{} (at {at} ms)", self.what),
        }
    }
}

impl core::error::Error for Violation {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When, on the world's clock.
    pub at: Instant,
    pub node: u8,
    pub event: tabane_proto::Event,
}

pub(crate) struct Surroundings<'t> {
    pub(crate) agenda: Agenda,
    pub(crate) network: Network,
    pub(crate) traffic: Traffic,
    pub(crate) injector: Injector,
    pub(crate) member: Member,
    pub(crate) log: Vec<LogEntry>,
    /// The first invariant that did not hold.
    pub(crate) violation: Option<Violation>,
    trace: Option<Trace<'t>>,
    seed: u64,
    /// How often any node was started.
    pub(crate) starts: u64,
    /// Hellos that all nodes have sent.
    hellos: u64,
    /// Links from node to node, both ways.
    links: u64,
}

impl<'t> Surroundings<'t> {
    pub(crate) fn new(seed: u64, topology: &Topology, trace: Option<Trace<'t>>) -> Self {
        Self {
            agenda: Agenda::default(),
            network: Network::new(topology, Random::new(seed, Stream::Network)),
            traffic: Traffic::new(topology.nodes.len(), Random::new(seed, Stream::Traffic)),
            injector: Injector::new(topology, Random::new(seed, Stream::Injector)),
            member: Member::new(topology.nodes.len(), Random::new(seed, Stream::Hostile)),
            log: Vec::new(),
            violation: None,
            trace,
            seed,
            starts: 0,
            hellos: 0,
            links: links(topology),
        }
    }

    /// A number that differs after each start of any node.
    pub(crate) fn incarnation(&mut self) -> u64 {
        self.starts += 1;
        mix(self.seed ^ self.starts.rotate_left(32))
    }

    /// Writes a line of the replay, if somebody reads it.
    pub(crate) fn note(&mut self, line: fmt::Arguments<'_>) {
        if let Some(trace) = &mut self.trace {
            let at = millis(self.agenda.now.since(Instant::default()));
            trace(format_args!("{at:>12}  {line}"));
        }
    }

    /// An invariant does not hold; the first such finding ends the run.
    pub(crate) fn violated(&mut self, node: u8, what: &str) {
        self.note(format_args!("n{node} VIOLATION {what}"));
        let (at, node) = (self.agenda.now, Some(node));
        self.violation.get_or_insert_with(|| Violation { at, node, what: what.to_owned() });
    }

    pub(crate) fn log(&mut self, node: u8, event: tabane_proto::Event) {
        self.note(format_args!("n{node} {}", Words(&event)));
        self.log.push(LogEntry { at: self.agenda.now, node, event });
    }

    pub(crate) fn send(&mut self, from: Place, to: SocketAddr, bytes: &[u8], segment: usize) -> Outcome {
        self.member.watch_sent(from, Some(to), bytes, segment);
        let outcome = self.network.send(&mut self.agenda, from, to, bytes, segment);
        let (count, first) = (bytes.len().div_ceil(segment), Words(bytes));
        self.note(format_args!("{from} -> {to} {count} x {segment} bytes, {first}: {outcome:?}"));
        outcome
    }

    pub(crate) fn send_control(&mut self, from: Place, to: Option<SocketAddr>, bytes: &[u8]) -> Outcome {
        self.count_hello(from, bytes);
        self.member.watch_sent(from, to, bytes, bytes.len());
        let outcome = self.network.send_control(&mut self.agenda, from, to, bytes);
        let everyone: &dyn fmt::Display = &"everyone";
        let to = to.as_ref().map_or(everyone, |to| to);
        self.note(format_args!("{from} -> {to} {} bytes, {}: {outcome:?}", bytes.len(), Words(bytes)));
        outcome
    }

    /// Checks that greetings come to an end: nodes that take each other for strangers again and again would greet for ever.
    fn count_hello(&mut self, from: Place, bytes: &[u8]) {
        /// Hellos for each link after each start of a node, and in each 100 ms.
        const OFTEN: u64 = 8;
        if !Header::parse(bytes).is_ok_and(|header| header.kind == Kind::Hello) {
            return;
        }
        self.hellos += 1;
        let spans = self.agenda.now.as_nanos() / 100_000_000 + 1;
        let injected = self.injector.count(Injection::Again) + self.injector.count(Injection::Recorded);
        // Each cell of a hostile member may be answered on each of its links.
        let said = self.member.said * self.links;
        if self.hellos > OFTEN * self.links * (self.starts + spans) + 2 * injected + said {
            self.violated(from.node, "greetings come to an end");
        }
    }

    /// A node reads a datagram from a socket.
    pub(crate) fn received(&mut self, to: Place, arrival: Arrival) {
        let (from, bytes) = (arrival.from, &*arrival.bytes);
        self.note(format_args!("{to} <- {from} {} bytes, {}", bytes.len(), Words(bytes)));
        self.member.watch_received(to, from, bytes);
        self.injector.remember(to, arrival);
    }

    /// A bundle was offered a frame, and queued it for so many peers. `dropped`: it dropped this frame, or others to make room.
    pub(crate) fn offered(&mut self, node: u8, id: FrameId, bytes: usize, peers: u64, dropped: bool) {
        self.note(format_args!("n{node} takes {id}, {bytes} bytes, for {peers} peers"));
        if peers > 0 {
            self.traffic.taken(self.agenda.now, id);
        }
        if dropped && let Some(flow) = self.traffic.dropped(id) {
            self.agenda.push(self.agenda.now + GREEDY_PAUSE, Event::Flow(flow));
        }
    }

    pub(crate) fn delivered(&mut self, node: u8, bytes: &[u8]) {
        match self.traffic.deliver(self.agenda.now, node, bytes) {
            Ok(Some(id)) => self.note(format_args!("n{node} delivers {id}")),
            Ok(None) => self.note(format_args!("n{node} delivers {} bytes that nobody judges", bytes.len())),
            Err(what) => self.violated(node, &what),
        }
    }

    pub(crate) fn switch(&mut self, passage: &Passage) {
        let before = self.network.losses;
        self.network.switch(&mut self.agenda, passage);
        if self.network.losses != before {
            self.note(format_args!("{} lost on the link: {}", passage.from, Words(&*passage.bytes)));
        }
    }

    pub(crate) fn act(&mut self) {
        for said in self.member.draw() {
            let (Said { from, to, .. }, bytes) = (&said, &*said.bytes);
            self.note(format_args!("{from} -> {to} is hostile, {} bytes: {}", bytes.len(), Words(bytes)));
            self.network.put_anyway(&mut self.agenda, said);
        }
        if let Some(next) = self.member.next(self.agenda.now) {
            self.agenda.push(next, Event::Deed);
        }
    }

    pub(crate) fn inject(&mut self) {
        if let Some((to, arrival)) = self.injector.draw(self.agenda.now) {
            let bytes = &*arrival.bytes;
            let text = Words(bytes);
            self.note(format_args!("{to} is sent {} bytes by a stranger: {text}", bytes.len()));
            self.network.inject(&mut self.agenda, to, arrival);
        }
        if let Some(next) = self.injector.next(self.agenda.now) {
            self.agenda.push(next, Event::Injection);
        }
    }
}

fn links(topology: &Topology) -> u64 {
    let others = topology.nodes.len() - 1;
    topology.nodes.iter().map(|node| (node.cables.len() * others) as u64).sum()
}

/// A cell, or an event of a bundle, in a few words.
struct Words<'a, T: ?Sized>(&'a T);

impl fmt::Display for Words<'_, tabane_proto::Event> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use tabane_proto::Event;
        match self.0 {
            Event::PeerJoined { peer, name, sealed } => {
                let how = if *sealed { "sealed" } else { "open" };
                write!(out, "PEER {} ({peer}) joined, {how}", name.as_str())
            }
            Event::PeerLeft { peer } => write!(out, "PEER {peer} left"),
            Event::PeerExpired { peer, expiry } => write!(out, "PEER {peer} expired: {expiry:?}"),
            Event::PeerRefused { peer, refusal } => write!(out, "PEER {peer} refused: {refusal:?}"),
            Event::Stranger { link, from, mismatch } => {
                write!(out, "STRANGER {from} on {link}: {mismatch:?}")
            }
            Event::LinkUp { peer, link, direction } => write!(out, "LINK {link} to {peer} up, {direction:?}"),
            Event::LinkDown { peer, link, direction, signal } => {
                write!(out, "LINK {link} to {peer} down, {direction:?}: {signal:?}")
            }
            Event::LinkSuspect { peer, link, lost } => {
                write!(out, "LINK {link} to {peer} suspect, loses {lost}/10000")
            }
            Event::RunsLost { peer, link } => write!(out, "LINK {link} to {peer} loses what leaves together"),
            Event::LinkDrained { peer, link } => write!(out, "{peer} drains its end of link {link}"),
            Event::LinkResumed { peer, link } => {
                write!(out, "{peer} does not drain its end of link {link} any more")
            }
            Event::LinkTrusted { peer, link, lost } => {
                write!(out, "LINK {link} to {peer} trusted, loses {lost}/10000")
            }
            Event::PathMtu { peer, link, packet, nic } => {
                write!(out, "LINK {link} to {peer} carries packets of {packet} bytes of {nic}")
            }
        }
    }
}

impl fmt::Display for Words<'_, [u8]> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = match Header::parse(self.0) {
            Ok(header) => header,
            Err(reason) => return out.write_str(&format!("{reason:?}").to_lowercase()),
        };
        let Header { link, link_seq, lane, lane_seq, epoch, .. } = header;
        let kind = format!("{:?}", header.kind).to_lowercase();
        match header.kind {
            _ if epoch != 0 => write!(out, "{kind} sealed {epoch} link {link} #{link_seq} lane {lane}"),
            Kind::Data => write!(out, "data link {link} #{link_seq} lane {lane} #{lane_seq}"),
            Kind::Hello => {
                let Ok(hello) = Hello::parse(&self.0[HEADER..]) else {
                    return out.write_str("malformed hello");
                };
                let Hello { link, incarnation, session, your_session, .. } = hello;
                write!(
                    out,
                    "hello link {link} of {incarnation:x} session {session:x}, yours {your_session:x}"
                )
            }
            Kind::Heartbeat => {
                let Ok(heartbeat) = Heartbeat::parse(&self.0[HEADER..]) else {
                    return out.write_str("malformed heartbeat");
                };
                let departed = heartbeat.sent[..heartbeat.sent_links.into()].iter().map(|sent| sent.departed);
                let received =
                    heartbeat.reports[..heartbeat.reported_links.into()].iter().map(|report| report.next);
                let (departed, received) = (departed.collect::<Vec<_>>(), received.collect::<Vec<_>>());
                write!(out, "heartbeat link {link} #{link_seq} departed {departed:?} received {received:?}")
            }
            _ => write!(out, "{kind} link {link} #{link_seq}"),
        }
    }
}

/// A span in milliseconds, for people.
fn millis(span: Duration) -> String {
    format!("{:.6}", span.as_secs_f64() * 1_000.0)
}
