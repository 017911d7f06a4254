//! The cells of each deed of the hostile member.
//!
//! Part of [`super`]. Numbers and lengths are drawn from the ends of a field's range and of the rules' range, and from between.

use super::way::{Lanes, Way};
use super::{Deed, HOSTILE_HOSTS};
use crate::random::Random;
use tabane_proto::wire::cell::{HEADER, Header, Kind, LANES, LINKS, NO_RECORD, wire_seq};
use tabane_proto::wire::heartbeat::{HEARTBEAT_MAX, Heartbeat, Report, Sent};
use tabane_proto::wire::hello::{HELLO_MAX, Hello};
use tabane_proto::wire::record::{self, ETHERNET, FRAME_MAX, RECORD_START_MIN, VNET};
use tabane_proto::wire::repair::{GAPS_MAX, Gap, REQUEST_MAX, Request};

/// The longest payload of its cells, which fit every link.
const PAYLOAD_MAX: usize = 500;
/// Cells of one byte that it sends at once.
const CRUMBS_AT_ONCE: usize = 64;
/// How far numbers jump: around the replay window, a lane's window, a heartbeat's 16 bits, and what is another session.
const JUMPS: [u64; 10] = [2, 100, 2_047, 2_048, 4_095, 4_096, 65_536, 1 << 20, (1 << 26) - 2, 1 << 31];

pub fn cells(deed: Deed, way: &mut Way, lanes: &mut Lanes, random: &mut Random) -> Vec<Vec<u8>> {
    match deed {
        Deed::Crumbs => crumbs(way, lanes, random),
        Deed::Records => vec![records(way, lanes, random)],
        Deed::Lanes => vec![lane_jump(way, lanes, random)],
        Deed::Numbers => vec![number_jump(way, lanes, random)],
        Deed::Gaps => vec![gaps(way, random, |random| random.pick(&[1, 2, 64, 500]))],
        Deed::AllGaps => vec![gaps(way, random, |_| u16::MAX)],
        Deed::Reports => vec![report(way, random)],
        Deed::Hellos => hello(way, random, any_hello),
        Deed::Farewells => hello(way, random, |hello, _| Hello { leaves: true, ..hello }),
        Deed::Pauses => hello(way, random, |hello, _| Hello { pauses: true, ..hello }),
        Deed::Sessions if way.is_sealed() => vec![other_session(way, random)],
        Deed::Sessions => vec![records(way, lanes, random)],
        Deed::Noise => vec![noise(way, random)],
        Deed::Claims => Vec::new(), // takes what other nodes say: `claims.rs`
    }
}

/// The beginning of a record, then a byte in each cell; or the next cells of it.
fn crumbs(way: &mut Way, lanes: &mut Lanes, random: &mut Random) -> Vec<Vec<u8>> {
    let mut cells = Vec::new();
    let (lane, mut lacks) = lanes.crumbs.unwrap_or_else(|| {
        let lane = lane(random);
        let begin = frame(random, VNET + FRAME_MAX, RECORD_START_MIN);
        cells.push(way.data(lanes, lane, 0, &begin));
        (lane, record::PREFIX + VNET + FRAME_MAX - RECORD_START_MIN)
    });
    for _ in 0..CRUMBS_AT_ONCE.min(lacks) {
        cells.push(way.data(lanes, lane, NO_RECORD, &[0]));
        lacks -= 1;
    }
    lanes.crumbs = (lacks > 0).then_some((lane, lacks));
    cells
}

fn records(way: &mut Way, lanes: &mut Lanes, random: &mut Random) -> Vec<u8> {
    let length = random.index(PAYLOAD_MAX + 1);
    let mut payload = match random.below(3) {
        0 => frame(random, VNET + ETHERNET + random.clone().index(FRAME_MAX), length.max(RECORD_START_MIN)),
        1 => frame(
            random,
            length.saturating_sub(record::PREFIX).max(VNET + ETHERNET),
            length.max(RECORD_START_MIN),
        ),
        _ => noise_of(random, length),
    };
    if random.chance(200_000) && payload.len() >= 4 {
        // A kind that there is, and any length.
        payload[0] = random.pick(&[0, 1, 1, 2]);
        random.fill(&mut payload[1..4]);
    }
    let end = u16::try_from(payload.len()).unwrap_or_default();
    let any = u16::try_from(random.below(u64::from(end) + 2)).unwrap_or_default();
    let first_record = random.pick(&[0, 0, NO_RECORD, end, any, NO_RECORD - 1]);
    let lane = lane(random);
    way.data(lanes, lane, first_record, &payload)
}

fn lane_jump(way: &mut Way, lanes: &mut Lanes, random: &mut Random) -> Vec<u8> {
    let lane = lane(random);
    let next = &mut lanes.next[usize::from(lane)];
    let jump = wire_seq(random.pick(&JUMPS));
    let lane_seq = if random.chance(300_000) { next.wrapping_sub(jump) } else { next.wrapping_add(jump) };
    if random.chance(300_000) {
        *next = lane_seq.wrapping_add(1);
    }
    let frame = whole_frame(random);
    way.cell(Kind::Data, lane, lane_seq, 0, &frame)
}

fn number_jump(way: &mut Way, lanes: &mut Lanes, random: &mut Random) -> Vec<u8> {
    let jump = random.pick(&JUMPS);
    let (lane, frame) = (lane(random), whole_frame(random));
    if random.chance(300_000) {
        let header =
            Header { lane_seq: lanes.next[usize::from(lane)], block_offset: 0, lane, ..way.header() };
        return way.cell_as((header.session, way.next().saturating_sub(jump)), header, &frame);
    }
    if jump < 1 << 26 && random.chance(300_000) {
        way.skip(jump);
        return way.data(lanes, lane, 0, &frame);
    }
    let header = Header { lane_seq: lanes.next[usize::from(lane)], block_offset: 0, lane, ..way.header() };
    way.cell_as((header.session, way.next() + jump), header, &frame)
}

fn gaps(way: &mut Way, random: &mut Random, count: impl Fn(&mut Random) -> u16) -> Vec<u8> {
    let mut request = Request::default();
    let gaps = random.pick(&[1, 8, GAPS_MAX]);
    let links = way.received.iter().filter(|received| **received != 0).count().max(1) as u64;
    for _ in 0..gaps {
        let link = if random.chance(900_000) { random.below(links) } else { random.below(LINKS as u64) };
        let link = u8::try_from(link).unwrap_or_default();
        let count = count(random);
        let first = way.received[usize::from(link)].wrapping_sub(u32::from(count)).wrapping_add(1);
        request.push(Gap { link, count, first });
    }
    let mut payload = [0; REQUEST_MAX];
    let length = request.emit(&mut payload);
    way.control(Kind::Repair, &payload[..length])
}

fn report(way: &mut Way, random: &mut Random) -> Vec<u8> {
    let links = |random: &mut Random| random.pick(&[0, 1, 2, 4, 15, 16]);
    let mut heartbeat = Heartbeat {
        sent_at: extreme(random, 0),
        echo: extreme(random, 0),
        echo_age: extreme(random, 0),
        serial: u16::try_from(extreme(random, 0) >> 16).unwrap_or_default(),
        sent_links: links(random),
        reported_links: links(random),
        ..Heartbeat::default()
    };
    let next = wire_seq(way.next());
    for sent in &mut heartbeat.sent {
        *sent = Sent { departed: extreme(random, next), queued: extreme(random, 0) };
    }
    for (received, last) in heartbeat.reports.iter_mut().zip(way.received) {
        *received = Report {
            next: extreme(random, last),
            count: extreme(random, last),
            skew_micros: extreme(random, 1_000),
            up: random.chance(700_000),
            behind: random.chance(200_000),
            heartbeats: (extreme(random, 64) % 64) as u8,
            delay_micros: extreme(random, 1_000) & 0xff_ffff,
        };
    }
    heartbeat.names_probes = random.chance(500_000);
    for (probed, last) in heartbeat.probed.iter_mut().zip(way.received) {
        *probed = random.chance(500_000).then(|| extreme(random, last));
    }
    heartbeat.carried_links = links(random);
    heartbeat.carried.iter_mut().for_each(|carried| *carried = extreme(random, 0));
    let mut payload = [0; HEARTBEAT_MAX];
    let length = heartbeat.emit(&mut payload);
    if random.chance(50_000) {
        payload[12] = 17;
    }
    way.control(Kind::Heartbeat, &payload[..length])
}

fn hello(way: &mut Way, random: &mut Random, change: impl Fn(Hello, &mut Random) -> Hello) -> Vec<Vec<u8>> {
    let Some(hello) = way.hello else { return Vec::new() };
    let mut payload = [0; HELLO_MAX];
    let length = change(hello, random).emit(&mut payload);
    vec![way.hello(&payload[..length])]
}

fn any_hello(hello: Hello, random: &mut Random) -> Hello {
    let (session, your_session) = (any_session(random), any_session(random));
    Hello {
        incarnation: if random.chance(200_000) { random.number() } else { hello.incarnation },
        session: random.pick(&[hello.session, hello.session, 0, session]),
        your_session: random.pick(&[hello.your_session, hello.your_session, 0, your_session]),
        cell_max: random.pick(&[hello.cell_max, hello.cell_max, 0, 17, 548, 1_452, u16::MAX]),
        link: random.pick(&[hello.link, hello.link, hello.link, 0, 15]),
        workers: random.pick(&[hello.workers, hello.workers, hello.workers, 2, u8::MAX]),
        takes_uso: random.chance(500_000),
        asks: random.chance(500_000),
        ..hello
    }
}

fn other_session(way: &Way, random: &mut Random) -> Vec<u8> {
    let session = any_session(random);
    let header = Header { kind: random.pick(&[Kind::Data, Kind::Heartbeat, Kind::Hello]), ..way.header() };
    let payload = noise_of(random, 100);
    way.cell_as((session, way.next()), header, &payload)
}

fn noise(way: &mut Way, random: &mut Random) -> Vec<u8> {
    let kind = random.pick(&[Kind::Heartbeat, Kind::Repair, Kind::Handshake, Kind::Hello]);
    let length = random.index(PAYLOAD_MAX - HEADER);
    let payload = noise_of(random, length);
    way.control(kind, &payload)
}

fn whole_frame(random: &mut Random) -> Vec<u8> {
    const LENGTH: usize = VNET + 60;
    frame(random, LENGTH, record::PREFIX + LENGTH)
}

/// The first bytes of a record of this length, from a host that no other node has.
fn frame(random: &mut Random, says: usize, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes.max(RECORD_START_MIN)];
    random.fill(&mut payload[RECORD_START_MIN..]);
    record::emit(says.min(VNET + FRAME_MAX), &mut payload);
    let addresses = record::PREFIX + VNET;
    payload[addresses..addresses + 6].copy_from_slice(&[0xff; 6]);
    let [high, low] = u16::try_from(random.below(1 << 16)).unwrap_or_default().to_be_bytes();
    payload[addresses + 6..addresses + 12].copy_from_slice(&[
        HOSTILE_HOSTS[0],
        HOSTILE_HOSTS[1],
        0,
        0,
        high,
        low,
    ]);
    payload
}

fn noise_of(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

fn any_session(random: &mut Random) -> u16 {
    u16::try_from(random.below(1 << 16)).unwrap_or_default()
}

fn lane(random: &mut Random) -> u8 {
    u8::try_from(random.below(LANES as u64)).unwrap_or_default()
}

/// A number near `around`, at an end of 32 bits, or anywhere.
fn extreme(random: &mut Random, around: u32) -> u32 {
    let near = around.wrapping_add(u32::try_from(random.below(200)).unwrap_or_default()).wrapping_sub(100);
    let any = wire_seq(random.number());
    random.pick(&[0, 1, u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) - 1, around, around, near, near, any])
}
