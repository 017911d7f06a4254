//! What a cell of each kind costs its receiver, at worst: `cargo run --release -p tabane-proto --example control_cost`.
//!
//! A peer sends the worst contents that pass, each cell in a turn of its own, so that no cells share work: a bundle that is alone
//! at the simulator's table receives the cell, delivers frames, runs timers, and writes control messages. Cells are not sealed:
//! `cell_cost` of `tabane_seal` says what opening costs. A bundle with a key receives the strangers' cells.

use std::time::{Duration, Instant as Clock};
use tabane_proto::security::{Rekey, TAG};
use tabane_proto::wire::cell::{HEADER, Header, Kind, NO_RECORD, session_start, wire_seq};
use tabane_proto::wire::heartbeat::{self, HEARTBEAT_MAX, Heartbeat, Report};
use tabane_proto::wire::hello::{HELLO_MAX, Hello, NodeId};
use tabane_proto::wire::record::{self, ETHERNET, PREFIX, VNET};
use tabane_proto::wire::repair::{GAPS_MAX, Gap, REQUEST_MAX, Request};
use tabane_proto::{Bundle, LinkSettings, Settings};
use tabane_seal::{Cipher, Group, Random};
use tabane_sim::cable::Place;
use tabane_sim::table::{self, Sent, Table};

/// Cells of each kind that are timed.
const CELLS: usize = 4_000;
/// Peers of a bundle that has as many as may be.
const PEERS: u16 = 1_023;
/// Numbers that a request can have looked up.
const LOG: u16 = 8_192;
const HERE: Place = Place { node: 0, nic: 0 };
const THERE: Place = Place { node: 1, nic: 0 };

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
        receive(&mut scene.table, &cell)
    });
    line(kind, spent.collect(), bytes);
}

fn report_sealed(kind: &str, make: impl Fn() -> Vec<u8>) {
    let (mut table, cell) = (alone(1, 1, Some(1)), make());
    let spent = (0..CELLS).map(|_| receive(&mut table, &cell)).collect();
    line(kind, spent, cell.len());
}

/// Nodes with the key begin handshakes: each initiation is answered, within the bounds of a second.
fn initiations() {
    let mut spent = Vec::new();
    let mut bytes = 0;
    for round in 0..8 {
        let mut table = alone(1, 1, Some(1));
        let greeting = said(&mut table).remove(0).bytes;
        for number in 2..50 {
            let mut other = alone(number, 100 * round + u64::from(number), Some(number.into()));
            other.receive(HERE, THERE.endpoint(), &greeting, greeting.len());
            for cell in said(&mut other).iter().filter(|cell| cell.is(Kind::Handshake)) {
                bytes = cell.bytes.len();
                spent.push(receive(&mut table, &cell.bytes));
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
    table: Table,
    hello: Hello,
    session: u16,
    /// The number of the next cell, of the link and of the lane.
    seq: u64,
    lane_seq: u64,
}

impl Scene {
    /// The peer and so many others have joined; the ring's worth of cells was sent.
    fn new(others: u16) -> Self {
        let (mut table, mut session) = (alone(1, 1, None), 0);
        let greeting = hellos(&mut alone(2, 5, None)).next().expect("a new bundle greets");
        let hello = |number: u16| Hello { node: node(number + 2), session: 7, asks: true, ..greeting };
        for number in (0..=others).rev() {
            table.receive(HERE, THERE.endpoint(), &hello_cell(&hello(number)), usize::MAX);
            let given = hellos(&mut table).map(|answer| answer.session).find(|given| *given != 0);
            session = given.unwrap_or(session);
        }
        let first = session_start(5, 1, session);
        if others == 0 {
            // It sends as many cells as its log remembers.
            let frame = table::frame([0xff; 6], [2; 6], &[0; 1_300]);
            for _ in 0..LOG {
                table.send(0, &frame);
                said(&mut table);
            }
        }
        let hello = Hello { your_session: session, ..hello(0) };
        Self { table, hello, session, seq: first, lane_seq: first }
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
        let now = self.table.now.as_wire_micros();
        let mut heartbeat = Heartbeat {
            sent_at: now.wrapping_add(1),
            echo: now,
            echo_age: u32::MAX,
            serial: u16::try_from(turn).unwrap_or_default(),
            sent_links: 16,
            reported_links: 16,
            ..Heartbeat::default()
        };
        heartbeat.sent.fill(heartbeat::Sent { departed: wire_seq(self.seq), queued: 1 });
        let up = turn.is_multiple_of(2);
        heartbeat.reports.fill(Report { up, ..Report::default() });
        let mut payload = [0; HEARTBEAT_MAX];
        let length = heartbeat.emit(&mut payload);
        self.cell(Kind::Heartbeat, self.session, &payload[..length])
    }

    fn request(&mut self) -> Vec<u8> {
        let last =
            self.table[0].bundle.peers().flat_map(|(_, links)| links).map(|path| path.cells_sent).next();
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

/// A bundle that has just started, with a key that the seed makes, or without.
fn alone(number: u16, incarnation: u64, key: Option<u64>) -> Table {
    let mut table = Table::new(false);
    let settings = Settings::new(node(number), incarnation, vec![LinkSettings::new(1_452)]);
    let mut bundle = Bundle::new(table.now, Settings { slots: 8_192, ..settings });
    if let Some(seed) = key {
        let group = Group::new(&[[7; 32]], Cipher::Aes256Gcm, Random::seeded(seed));
        bundle.set_security(Box::new(group), Rekey::default());
    }
    table.add(bundle);
    table
}

/// What a turn with a cell takes.
fn receive(table: &mut Table, cell: &[u8]) -> Duration {
    let began = Clock::now();
    table.receive(HERE, THERE.endpoint(), cell, cell.len());
    table.turn(Duration::from_micros(100), |_, _| false);
    began.elapsed()
}

/// What a bundle says now.
fn said(table: &mut Table) -> Vec<Sent> {
    let mut said = Vec::new();
    table.turn(Duration::ZERO, |sent, _| {
        said.push(sent.clone());
        false
    });
    said
}

fn hellos(table: &mut Table) -> impl Iterator<Item = Hello> {
    said(table).into_iter().filter_map(|sent| Hello::parse(&sent.bytes[HEADER..]).ok())
}

/// The shortest frames, as many records.
fn frames(count: usize) -> Vec<u8> {
    let frame = table::frame([0xff; 6], [2, 0, 0, 0, 0, 7], &[0; 8]);
    let mut record = [&[0; PREFIX], &frame[..]].concat();
    record::emit(VNET + ETHERNET + 8, &mut record);
    record.repeat(count)
}

fn node(number: u16) -> NodeId {
    let [high, low] = number.to_be_bytes();
    NodeId::new([2, 0, 0, 0, high, low], 7420)
}
