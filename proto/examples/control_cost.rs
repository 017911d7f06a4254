//! What a cell of each kind costs its receiver, at worst: `cargo run --release -p tabane-proto --example control_cost`.
//!
//! A peer sends the worst contents that pass, each cell in a turn of its own, so that no cells share work: the bundle copies the
//! cell in and receives it, delivers frames, runs timers, and writes control messages (which are not sent). Cells are not
//! sealed: `cell_cost` of `tabane_seal` says what opening costs. A bundle with a key receives the strangers' cells.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant as Clock};
use tabane_proto::security::{Rekey, TAG};
use tabane_proto::wire::cell::{HEADER, Header, Kind, NO_RECORD, session_start, wire_seq};
use tabane_proto::wire::heartbeat::{HEARTBEAT_MAX, Heartbeat, Report, Sent};
use tabane_proto::wire::hello::{HELLO_MAX, Hello, NodeId};
use tabane_proto::wire::record::{self, ETHERNET, VNET};
use tabane_proto::wire::repair::{GAPS_MAX, Gap, REQUEST_MAX, Request};
use tabane_proto::{Bundle, Instant, LinkSettings, Outcome, Settings};
use tabane_seal::{Cipher, Group, Random};

/// Cells of each kind that are timed.
const CELLS: usize = 4_000;
/// Peers of a bundle that has as many as may be.
const PEERS: u16 = 1_023;
/// Numbers that a request can have looked up.
const LOG: u16 = 8_192;

fn main() {
    println!("kind                                bytes  ns/cell  ns/byte  % of a processor at 1 Mbit/s");
    report("a data cell, one byte", 0, |scene, _| scene.data(&[0]));
    report("a data cell, 38 frames", 0, |scene, _| scene.data(&frames(38)));
    report("heartbeat, 16 links", 0, |scene, turn| scene.heartbeat(turn));
    report("repair, 64 gaps, 8,192 numbers", 0, |scene, _| scene.request());
    report("hello", 0, |scene, _| scene.hello(|hello| hello));
    report("hello, other size each time", 0, |scene, turn| {
        scene.hello(|hello| Hello { cell_max: if turn.is_multiple_of(2) { 1_000 } else { 1_400 }, ..hello })
    });
    report("farewell", 0, |scene, _| scene.hello(|hello| Hello { leaves: true, ..hello }));
    report("pause", 0, |scene, _| scene.hello(|hello| Hello { pauses: true, ..hello }));
    report("hello, 1,024 peers", PEERS, |scene, _| scene.hello(|hello| hello));
    report("heartbeat, 1,024 peers", PEERS, |scene, turn| scene.heartbeat(turn));
    report("a stranger's cell, no session", PEERS, |scene, _| scene.cell(Kind::Data, 0x3ff, &[0]));
    let tagged = |kind: u8| [&[kind], &[0; HEADER + 2 * TAG + 80][..]].concat();
    report_sealed("a stranger's greeting, false tag", || tagged(0x11));
    report_sealed("a stranger's initiation, false tag", || tagged(0x14));
    initiations();
}

fn report(kind: &str, others: u16, make: impl Fn(&mut Scene, usize) -> Vec<u8>) {
    let mut scene = Scene::new(others);
    let mut bytes = 0;
    let spent = (0..CELLS).map(|turn| {
        let cell = make(&mut scene, turn);
        bytes = cell.len();
        scene.receive(&cell)
    });
    line(kind, spent.collect(), bytes);
}

fn report_sealed(kind: &str, make: impl Fn() -> Vec<u8>) {
    let mut scene = Scene::new(0);
    scene.bundle.set_security(group(1), Rekey::default());
    let cell = make();
    let spent = (0..CELLS).map(|_| scene.receive(&cell)).collect();
    line(kind, spent, cell.len());
}

/// Nodes with the key begin handshakes: each initiation is answered, within the bounds of a second.
fn initiations() {
    let mut spent = Vec::new();
    let mut bytes = 0;
    for round in 0..8 {
        let mut scene = Scene::new(0);
        scene.bundle = bundle(1, 1);
        scene.bundle.set_security(group(1), Rekey::default());
        let greeting = said(&mut scene.bundle, scene.now).into_iter().next().unwrap_or_default();
        for number in 2..50 {
            let mut other = bundle(number, 100 * round + u64::from(number));
            other.set_security(group(u64::from(number)), Rekey::default());
            receive(&mut other, scene.now, &greeting);
            for cell in
                said(&mut other, scene.now).iter().filter(|cell| cell[0] & 15 == Kind::Handshake as u8)
            {
                bytes = cell.len();
                spent.push(scene.receive(cell));
            }
        }
    }
    line("initiation, true tag, answered", spent, bytes);
}

/// Prints the median, which repeats; a turn in which the kernel interrupts does not.
fn line(kind: &str, mut spent: Vec<Duration>, bytes: usize) {
    spent.sort_unstable();
    let nanos = spent[spent.len() / 2].as_nanos();
    let tenths = nanos * 10 / bytes as u128;
    // A Mbit/s is 125,000 bytes.
    let share = nanos * 125_000 / bytes as u128;
    let (whole, part) = (share / 10_000_000, share / 100_000 % 100);
    println!("{kind:36} {bytes:4} {nanos:8} {:6}.{} {whole:8}.{part:02}", tenths / 10, tenths % 10);
}

/// A bundle that receives, and the state of the peer that sends to it.
struct Scene {
    bundle: Bundle,
    now: Instant,
    hello: Hello,
    session: u16,
    /// The number of the next cell, of the link and of the lane.
    seq: u64,
    lane_seq: u64,
}

impl Scene {
    /// The peer and so many others have joined; the ring's worth of cells was sent.
    fn new(others: u16) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let (mut receiver, mut session) = (bundle(1, 1), 0);
        let greeting =
            said(&mut bundle(2, 5), now).into_iter().find_map(|cell| Hello::parse(&cell[HEADER..]).ok());
        let greeting = greeting.expect("a new bundle greets");
        let hello = |number: u16| Hello { node: node(number + 2), session: 7, asks: true, ..greeting };
        for number in (0..=others).rev() {
            receive(&mut receiver, now, &hello_cell(&hello(number)));
            let answers =
                said(&mut receiver, now).into_iter().filter_map(|cell| Hello::parse(&cell[HEADER..]).ok());
            session = answers.map(|answer| answer.session).find(|given| *given != 0).unwrap_or(session);
        }
        let first = session_start(5, 1, session);
        let hello = Hello { your_session: session, ..hello(0) };
        let mut scene = Self { bundle: receiver, now, hello, session, seq: first, lane_seq: first };
        if others == 0 {
            scene.fill_log();
        }
        scene
    }

    /// The bundle sends as many cells as its log remembers.
    fn fill_log(&mut self) {
        for _ in 0..LOG {
            let frame = [&[0; VNET][..], &[0xff; 6], &[2; 6], &[0x88, 0xb5], &[0; 1_300]].concat();
            let mut rest = &frame[..];
            for space in self.bundle.read_space() {
                let here = space.len().min(rest.len());
                space[..here].copy_from_slice(&rest[..here]);
                rest = &rest[here..];
            }
            self.bundle.handle_frame(self.now, frame.len());
            said(&mut self.bundle, self.now);
        }
    }

    /// What a turn with a cell takes.
    fn receive(&mut self, cell: &[u8]) -> Duration {
        self.now = self.now + Duration::from_micros(100);
        let began = Clock::now();
        receive(&mut self.bundle, self.now, cell);
        black_box(said(&mut self.bundle, self.now));
        began.elapsed()
    }

    fn cell(&mut self, kind: Kind, session: u16, payload: &[u8]) -> Vec<u8> {
        let (lane_seq, block_offset) = if kind == Kind::Data { (self.lane_seq, 0) } else { (0, NO_RECORD) };
        let header = Header::new(kind, 0, session, self.seq);
        let mut bytes = vec![0; HEADER];
        Header { lane_seq: wire_seq(lane_seq), block_offset, ..header }.emit(&mut bytes);
        bytes.extend_from_slice(payload);
        self.seq += 1;
        bytes
    }

    fn data(&mut self, payload: &[u8]) -> Vec<u8> {
        let cell = self.cell(Kind::Data, self.session, payload);
        self.lane_seq += 1;
        cell
    }

    fn heartbeat(&mut self, turn: usize) -> Vec<u8> {
        let now = self.now.as_wire_micros();
        let mut heartbeat = Heartbeat {
            sent_at: now.wrapping_add(1),
            echo: now,
            echo_age: u32::MAX,
            serial: u16::try_from(turn).unwrap_or_default(),
            sent_links: 16,
            reported_links: 16,
            ..Heartbeat::default()
        };
        heartbeat.sent.fill(Sent { departed: wire_seq(self.seq), queued: 1 });
        let up = turn.is_multiple_of(2);
        heartbeat.reports.fill(Report { up, ..Report::default() });
        let mut payload = [0; HEARTBEAT_MAX];
        let length = heartbeat.emit(&mut payload);
        self.cell(Kind::Heartbeat, self.session, &payload[..length])
    }

    fn request(&mut self) -> Vec<u8> {
        let last = self.bundle.peers().flat_map(|(_, links)| links).map(|path| path.cells_sent).next();
        let last = session_start(1, 5, 7) + last.unwrap_or_default();
        let count = LOG / u16::try_from(GAPS_MAX).unwrap_or(1);
        let mut request = Request::default();
        let mut first = last - u64::from(LOG);
        while request.push(Gap { link: 0, count, first: wire_seq(first) }) {
            first += u64::from(count);
        }
        let mut payload = [0; REQUEST_MAX];
        let length = request.emit(&mut payload);
        self.cell(Kind::Repair, self.session, &payload[..length])
    }

    fn hello(&mut self, change: impl Fn(Hello) -> Hello) -> Vec<u8> {
        hello_cell(&change(Hello { your_session: 0, ..self.hello }))
    }
}

fn hello_cell(hello: &Hello) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + HELLO_MAX];
    bytes[..2].copy_from_slice(&[0x11, 0]);
    let length = hello.emit(&mut bytes[HEADER..]);
    bytes.truncate(HEADER + length);
    bytes
}

/// The shortest frames, as many records.
fn frames(count: usize) -> Vec<u8> {
    let mut record = vec![0; record::PREFIX + VNET + ETHERNET + 8];
    let length = record.len() - record::PREFIX;
    record::emit(length, &mut record);
    record[record::PREFIX + VNET..][..12]
        .copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7]);
    record.repeat(count)
}

fn node(number: u16) -> NodeId {
    let [high, low] = number.to_be_bytes();
    NodeId::new([2, 0, 0, 0, high, low], 7420)
}

fn bundle(number: u16, incarnation: u64) -> Bundle {
    let settings = Settings::new(node(number), incarnation, vec![LinkSettings::new(1_452)]);
    Bundle::new(Instant::from_nanos(1_000_000_000), Settings { slots: 8_192, ..settings })
}

fn group(seed: u64) -> Box<Group> {
    Box::new(Group::new(&[[7; 32]], Cipher::Aes256Gcm, Random::seeded(seed)))
}

fn receive(bundle: &mut Bundle, now: Instant, cell: &[u8]) {
    let Some(mut buffer) = bundle.lend() else { return };
    buffer[..cell.len()].copy_from_slice(cell);
    let from = SocketAddr::from(([192, 0, 2, 2], 7420));
    bundle.handle_datagrams(now, 0, from, buffer, cell.len(), cell.len());
    while bundle.poll_frame(now).is_some() {}
}

/// The end of a turn: timers, and the control messages.
fn said(bundle: &mut Bundle, now: Instant) -> Vec<Vec<u8>> {
    bundle.handle_queue(now, 0, 0);
    if now >= bundle.poll_timeout(now) {
        bundle.handle_timeout(now);
    }
    let mut cells = Vec::new();
    while let Some(message) = bundle.poll_control(now) {
        cells.push(message.bytes.to_vec());
    }
    while bundle.poll_batch(now).is_some() {
        bundle.handle_sent(now, Outcome::Sent);
    }
    while bundle.poll_event().is_some() {}
    cells
}
