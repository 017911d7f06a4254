//! The specification `docs/wire.md` and the dissector `docs/tabane.lua` against the codec of `tabane_proto`.
//!
//! The golden bytes of the document are what the codec writes, and reads back, for the values below. Cells with these
//! values go through tshark in a capture that is written here, and its fields are compared with the values. Where
//! there is no tshark, these trials are reported as ignored.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tabane_io::ether;
use tabane_kit::prerequisites::TSHARK;
use tabane_proto::security::{Number, TAG};
use tabane_proto::wire::cell::{HEADER, Header, Kind, NO_RECORD};
use tabane_proto::wire::handshake::{Message, Step};
use tabane_proto::wire::heartbeat::{Heartbeat, Report, Sent};
use tabane_proto::wire::hello::{Hello, KernelEnd};
use tabane_proto::wire::record::{self, PREFIX, RECORD_START_MIN, Start};
use tabane_proto::wire::repair::{Gap, Request};
use tabane_proto::{Name, NodeId};
use tabane_seal::Cipher;

use crate::case::{Case, NOTHING, Need};

/// The longest message that is written here, in bytes.
const ROOM: usize = 1_024;
/// A frame without a payload: to everyone, of the EtherType for local experiments.
const FRAME: [u8; 14] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
/// A virtio header: a superframe of TCP over IPv4 with ECN, its checksum to be completed.
const VNET: [u8; 10] = [1, 0x81, 54, 0, 0xa8, 0x05, 34, 0, 16, 0];

/// A trial's name and what it does.
type Named = (&'static str, fn() -> Result<()>);

/// Blocks of the document, by name.
const GOLDEN: [Named; 9] = [
    ("header", golden_header),
    ("record", golden_record),
    ("cell", golden_cell),
    ("hello", golden_hello),
    ("heartbeat", golden_heartbeat),
    ("repair", golden_repair),
    ("handshake", golden_handshake),
    ("sealed", golden_sealed),
    ("ether", golden_ether),
];

const DISSECTED: [Named; 10] = [
    ("hello", dissected_hello),
    ("heartbeat", dissected_heartbeat),
    ("repair", dissected_repair),
    ("handshake", dissected_handshake),
    ("records", dissected_records),
    ("frames", dissected_frames),
    ("train", dissected_train),
    ("sealed", dissected_sealed),
    ("refused", dissected_refused),
    ("ether", dissected_ether),
];

pub(crate) fn cases() -> Vec<Case> {
    let golden = GOLDEN.iter().map(|(name, run)| Case::new(format!("golden::{name}"), NOTHING, run));
    let tshark = [Need::Tool(TSHARK)];
    let dissected = DISSECTED.iter().map(|(name, run)| Case::new(format!("dissected::{name}"), tshark, run));
    let complete = Case::new("golden::every_block_is_compared", NOTHING, every_block_is_compared);
    golden.chain(dissected).chain([complete]).collect()
}

// The values, those of the unit tests in `proto`.

fn header(kind: Kind) -> Header {
    Header {
        kind,
        epoch: 0,
        link: 1,
        lane: if kind == Kind::Data { 10 } else { 0 },
        link_seq: 0x0001_0203,
        lane_seq: 0xffff_fffe,
        block_offset: if kind == Kind::Data { 1_436 } else { NO_RECORD },
        session: 0xbeef,
    }
}

fn hello() -> Hello {
    Hello {
        node: NodeId::new([2, 0, 0, 0, 0, 1], 7_420),
        incarnation: 0x1122_3344_5566_7788,
        group: 0x99,
        session: 0x0102,
        your_session: 0,
        cell_max: 1_452,
        receives: Some(50_000),
        link: 1,
        workers: 1,
        takes_uso: true,
        leaves: false,
        seals: false,
        asks: false,
        pauses: false,
        ends: false,
        drains: false,
        name: Name::new("h1"),
        kernel: Some(KernelEnd {
            mac: [2, 0, 0, 0, 0, 3],
            address: "fe80::3".parse().expect("an address"),
            port: 7_421,
            orders: true,
        }),
    }
}

fn heartbeat() -> Heartbeat {
    let mut heartbeat = Heartbeat {
        sent_at: 1,
        echo: 2,
        echo_age: 3,
        serial: 9,
        sent_links: 1,
        reported_links: 1,
        names_probes: true,
        carried_links: 1,
        padding: 2,
        ..Heartbeat::default()
    };
    heartbeat.sent[0] = Sent { departed: 4, queued: 5 };
    heartbeat.reports[0] = Report {
        next: 6,
        count: 7,
        skew_micros: 8,
        up: true,
        behind: true,
        heartbeats: 9,
        delay_micros: 0xfe_dcba,
    };
    heartbeat.probed[0] = Some(10);
    heartbeat.carried[0] = 11;
    heartbeat
}

fn request() -> Request {
    let mut request = Request::default();
    assert!(request.push(Gap { link: 1, count: 23, first: 0xffff_fff0 }));
    request
}

fn initiation() -> Message<'static> {
    Message {
        step: Step::Initiation,
        epoch: 2,
        serial: 7,
        node: hello().node,
        incarnation: hello().incarnation,
        addressee: NodeId::new([2, 0, 0, 0, 0, 2], 7_420),
        body: &[0xaa, 0xbb],
    }
}

/// The bytes that a message writes, of which it tells the number.
fn emitted(emit: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut bytes = vec![0; ROOM];
    let length = emit(&mut bytes);
    bytes.truncate(length);
    bytes
}

fn cell(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    header.emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

/// The first bytes of a record; the whole of it, if `frame` is.
fn record_of(frame_length: usize, vnet: [u8; 10], frame: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PREFIX];
    record::emit(vnet.len() + frame_length, &mut bytes);
    bytes.extend(vnet.iter().chain(frame));
    bytes
}

fn smallest_cell(link_seq: u32) -> Vec<u8> {
    let header = Header {
        link: 0,
        lane: 3,
        link_seq,
        lane_seq: 5,
        block_offset: 0,
        session: 0x0401,
        ..header(Kind::Data)
    };
    cell(&header, &record_of(FRAME.len(), [0; 10], &FRAME))
}

// The document against the codec.

fn golden_header() -> Result<()> {
    let bytes = golden("header")?;
    assert_eq!(cell(&header(Kind::Data), &[]), bytes);
    assert_eq!(Header::parse(&bytes), Ok(header(Kind::Data)));
    Ok(())
}

fn golden_record() -> Result<()> {
    let mut bytes = golden("record")?;
    assert_eq!(record_of(65_160, VNET, &[])[..PREFIX], bytes);
    bytes.resize(RECORD_START_MIN, 0);
    assert_eq!(record::parse(&bytes), Ok(Start::Frame(65_170)));
    Ok(())
}

fn golden_cell() -> Result<()> {
    assert_eq!(smallest_cell(7), golden("cell")?);
    Ok(())
}

fn golden_hello() -> Result<()> {
    let bytes = golden("hello")?;
    assert_eq!(emitted(|payload| hello().emit(payload)), bytes);
    assert_eq!(Hello::parse(&bytes), Ok(hello()));
    Ok(())
}

fn golden_heartbeat() -> Result<()> {
    let bytes = golden("heartbeat")?;
    assert_eq!(emitted(|payload| heartbeat().emit(payload)), bytes);
    assert_eq!(Heartbeat::parse(&bytes), Ok(heartbeat()));
    Ok(())
}

fn golden_repair() -> Result<()> {
    let bytes = golden("repair")?;
    assert_eq!(emitted(|payload| request().emit(payload)), bytes);
    assert_eq!(Request::parse(&bytes), Ok(request()));
    Ok(())
}

fn golden_handshake() -> Result<()> {
    let bytes = golden("handshake")?;
    assert_eq!(initiation().emit(), bytes);
    assert_eq!(Message::parse(&bytes), Ok(initiation()));
    Ok(())
}

fn golden_sealed() -> Result<()> {
    let key = Cipher::Aes256Gcm.key(&std::array::from_fn(|at| u8::try_from(at).unwrap_or_default()));
    let number = Number { link: 0, seq: 0x1_0000_0007 };
    let mut clear = smallest_cell(7);
    clear[1] = 1;
    let (header, payload) = clear.split_at(HEADER);
    let mut sealed = vec![0; payload.len() + TAG];
    key.seal(number, header, payload, &mut sealed);
    let golden = golden("sealed")?;
    assert_eq!([header, &sealed].concat(), golden);
    let (header, sealed) = golden.split_at(HEADER);
    let mut sealed = sealed.to_vec();
    assert!(key.open(number, header, &mut sealed));
    assert_eq!(sealed[..payload.len()], *payload);
    Ok(())
}

fn golden_ether() -> Result<()> {
    let header = ether::ethernet(ether::GROUP, [2, 0, 0, 0, 0, 1]);
    assert_eq!([&header[..], &ether::head(7_420, 50)].concat(), golden("ether")?);
    Ok(())
}

fn every_block_is_compared() -> Result<()> {
    let text = specification()?;
    let mut blocks: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("```golden ")).collect();
    blocks.sort_unstable();
    let mut compared = GOLDEN.map(|(name, _)| name);
    compared.sort_unstable();
    assert_eq!(blocks, compared);
    Ok(())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn specification() -> Result<String> {
    let path = docs().join("wire.md");
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The bytes in the block `golden NAME` of the document: hexadecimal, up to the `;` of each line.
fn golden(name: &str) -> Result<Vec<u8>> {
    let text = specification()?;
    let opening = format!("```golden {name}");
    let block = text.lines().skip_while(|line| *line != opening).skip(1).take_while(|line| *line != "```");
    let digits = block.flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace());
    digits.map(|byte| u8::from_str_radix(byte, 16).with_context(|| format!("{name}: `{byte}`"))).collect()
}

// The dissector against the codec.

fn dissected_hello() -> Result<()> {
    let cell = cell(&header(Kind::Hello), &emitted(|payload| hello().emit(payload)));
    shows(
        &cell,
        &[
            ("tabane.kind", "1"),
            ("tabane.session", "0xbeef"),
            ("tabane.hello.node", "02:00:00:00:00:01"),
            ("tabane.hello.port", "7420"),
            ("tabane.hello.incarnation", "0x1122334455667788"),
            ("tabane.hello.group", "0x0000000000000099"),
            ("tabane.hello.session", "0x0102"),
            ("tabane.hello.your_session", "0x0000"),
            ("tabane.hello.cell_max", "1452"),
            ("tabane.hello.link", "1"),
            ("tabane.hello.workers", "1"),
            ("tabane.hello.takes_uso", "1"),
            ("tabane.hello.leaves", "0"),
            ("tabane.hello.seals", "0"),
            ("tabane.hello.asks", "0"),
            ("tabane.hello.pauses", "0"),
            ("tabane.hello.ends", "0"),
            ("tabane.hello.drains", "0"),
            ("tabane.hello.states", "1"),
            ("tabane.hello.name", "h1"),
            ("tabane.hello.receives", "50000"),
            ("tabane.hello.further", "0x03"),
            ("tabane.hello.kernel_mac", "02:00:00:00:00:03"),
            ("tabane.hello.kernel_port", "7421"),
            ("tabane.hello.kernel_address", "fe80::3"),
        ],
    )
}

fn dissected_heartbeat() -> Result<()> {
    let two_links = Heartbeat { sent_links: 2, ..heartbeat() };
    let cell = cell(&header(Kind::Heartbeat), &emitted(|payload| two_links.emit(payload)));
    shows(
        &cell,
        &[
            ("tabane.kind", "2"),
            ("tabane.heartbeat.sent_at", "1"),
            ("tabane.heartbeat.echo", "2"),
            ("tabane.heartbeat.echo_age", "3"),
            ("tabane.heartbeat.serial", "9"),
            ("tabane.heartbeat.departed", "4,0"),
            ("tabane.heartbeat.queued", "5,0"),
            ("tabane.heartbeat.next", "6"),
            ("tabane.heartbeat.count", "7"),
            ("tabane.heartbeat.skew", "8"),
            ("tabane.heartbeat.up", "1"),
            ("tabane.heartbeat.delay", "16702650"),
            ("tabane.heartbeat.probed_link", "0"),
            ("tabane.heartbeat.probed", "10"),
            ("tabane.heartbeat.carried_links", "1"),
            ("tabane.heartbeat.carried", "11"),
            ("tabane.heartbeat.padding", "0000"),
        ],
    )
}

fn dissected_repair() -> Result<()> {
    let mut two_gaps = request();
    assert!(two_gaps.push(Gap { link: 0, count: 1, first: 9 }));
    let cell = cell(&header(Kind::Repair), &emitted(|payload| two_gaps.emit(payload)));
    shows(
        &cell,
        &[
            ("tabane.kind", "3"),
            ("tabane.repair.gaps", "2"),
            ("tabane.repair.link", "1,0"),
            ("tabane.repair.count", "23,1"),
            ("tabane.repair.first", "4294967280,9"),
        ],
    )
}

fn dissected_handshake() -> Result<()> {
    let cell = [initiation().emit(), vec![0xcc; 16], vec![0; 16]].concat();
    shows(
        &cell,
        &[
            ("tabane.kind", "4"),
            ("tabane.handshake.step", "1"),
            ("tabane.handshake.epoch", "2"),
            ("tabane.handshake.serial", "7"),
            ("tabane.handshake.node", "02:00:00:00:00:01"),
            ("tabane.handshake.incarnation", "0x1122334455667788"),
            ("tabane.handshake.addressee", "02:00:00:00:00:02"),
            ("tabane.handshake.body", "aabb"),
            ("tabane.group_tag", "cccccccccccccccccccccccccccccccc"),
            ("tabane.handshake.stamp", "00000000000000000000000000000000"),
        ],
    )
}

/// The end of a record, a whole one, and one that goes on in the next cell.
fn dissected_records() -> Result<()> {
    let payload =
        [vec![0xaa; 20], record_of(FRAME.len(), [0; 10], &FRAME), record_of(3_000, VNET, &FRAME)].concat();
    let header = Header { block_offset: 20, ..header(Kind::Data) };
    shows(
        &cell(&header, &payload),
        &[
            ("tabane.version", "1"),
            ("tabane.kind", "0"),
            ("tabane.epoch", "0"),
            ("tabane.link", "1"),
            ("tabane.lane", "10"),
            ("tabane.link_seq", "66051"),
            ("tabane.lane_seq", "4294967294"),
            ("tabane.block_offset", "20"),
            ("tabane.record.kind", "1,1"),
            ("tabane.record.length", "24,3010"),
            ("tabane.vnet.flags", "0x00,0x01"),
            ("tabane.vnet.gso_type", "0,1"),
            ("tabane.vnet.ecn", "0,1"),
            ("tabane.vnet.hdr_len", "0,54"),
            ("tabane.vnet.gso_size", "0,1448"),
            ("tabane.vnet.csum_start", "0,34"),
            ("tabane.vnet.csum_offset", "0,16"),
        ],
    )
}

/// Frames that lie whole in the cell go on to the dissector of Ethernet; padding ends the cell.
fn dissected_frames() -> Result<()> {
    let whole = record_of(FRAME.len(), [0; 10], &FRAME);
    let header = Header { block_offset: 0, ..header(Kind::Data) };
    let padded = cell(&header, &[&whole[..], &whole, &[0; 27]].concat());
    let continued = cell(&Header { block_offset: NO_RECORD, ..header }, &[1; 100]);
    shows(&padded, &[("tabane.record.kind", "1,1,0"), ("eth.type", "0x86dd,0x88b5,0x88b5")])?;
    shows(&continued, &[("tabane.record.kind", ""), ("eth.type", "0x86dd")])
}

/// Cells of one length but for the last, as a capture on an end point shows them.
fn dissected_train() -> Result<()> {
    let last = Header { link: 0, link_seq: 9, session: 0x0401, ..header(Kind::Heartbeat) };
    let last = cell(&last, &emitted(|payload| Heartbeat::default().emit(payload)));
    let train = [smallest_cell(7), smallest_cell(8), last].concat();
    shows(
        &train,
        &[
            ("tabane.kind", "0,0,2"),
            ("tabane.link_seq", "7,8,9"),
            ("tabane.record.length", "24,24"),
            ("_ws.expert.message", ""),
        ],
    )
}

/// What a receiver must refuse is named, and nothing behind it is read.
fn dissected_sealed() -> Result<()> {
    shows(
        &golden("sealed")?,
        &[
            ("tabane.kind", "0"),
            ("tabane.epoch", "1"),
            ("tabane.link_seq", "7"),
            ("tabane.session", "0x0401"),
            ("tabane.sealed", "0aa7c4a907c78eff39c671abc9cedae978b9ccc40dbf3c54d4c15a3f"),
            ("tabane.tag", "c2a5aef2784fed2157276917e6f8fdcd"),
        ],
    )
}

/// The shortest frame that Ethernet carries: what is behind the cell is padding, and no part of it.
fn dissected_ether() -> Result<()> {
    const SHORTEST: usize = 60;
    let cell = cell(&header(Kind::Repair), &emitted(|payload| request().emit(payload)));
    let length = u16::try_from(cell.len())?;
    let header = ether::ethernet(ether::GROUP, [2, 0, 0, 0, 0, 1]);
    let mut frame = [&header[..], &ether::head(7_421, length), &cell].concat();
    assert!(frame.len() < SHORTEST);
    frame.resize(SHORTEST, 0);
    let fields = ["eth.type", "tabane_ether.port", "tabane_ether.length", "tabane.repair.count"];
    let shown = shown_of(&[frame], &[&fields[..], &["_ws.expert.message"]].concat())?.concat();
    assert_eq!(shown, ["0x88b5", "7421", &length.to_string(), "23", ""]);
    Ok(())
}

fn dissected_refused() -> Result<()> {
    let hello = cell(&header(Kind::Hello), &emitted(|payload| hello().emit(payload)));
    let with = |index: usize, value: u8| {
        let mut bytes = hello.clone();
        bytes[index] = value;
        bytes
    };
    let cut = hello[..hello.len() - 1].to_vec();
    let refused = [
        (with(0, 0x21), "version 2 is not known"),
        (with(0, 0x15), "kind 5 is not known"),
        (with(2, 16), "the link or the lane is out of range"),
        (with(3, 1), "the link or the lane is out of range"),
        (cut, "80 bytes where 81 are needed"),
    ];
    let cells = refused.each_ref().map(|(cell, _)| cell.clone());
    let expected = refused.map(|(_, complaint)| vec![complaint.to_owned(), String::new()]);
    assert_eq!(shown(&cells, &["_ws.expert.message", "tabane.hello.name"])?, expected);
    Ok(())
}

/// Checks that tshark shows these values for a packet that carries `datagram`.
fn shows(datagram: &[u8], expected: &[(&str, &str)]) -> Result<()> {
    let fields: Vec<&str> = expected.iter().map(|(field, _)| *field).collect();
    let values = shown(&[datagram.to_vec()], &fields)?.concat();
    let shown: Vec<(&str, &str)> = fields.into_iter().zip(values.iter().map(String::as_str)).collect();
    assert_eq!(shown, expected);
    Ok(())
}

/// What tshark shows in `fields` of the packets that carry `datagrams`: a line for each packet.
fn shown(datagrams: &[Vec<u8>], fields: &[&str]) -> Result<Vec<Vec<String>>> {
    let frames: Vec<_> = datagrams.iter().map(|datagram| frame(datagram)).collect();
    shown_of(&frames, fields)
}

/// What tshark shows in `fields` of these Ethernet frames: a line for each.
fn shown_of(frames: &[Vec<u8>], fields: &[&str]) -> Result<Vec<Vec<String>>> {
    let directory = tempfile::tempdir()?;
    let capture = directory.path().join("cells.pcap");
    fs::write(&capture, pcap(frames))?;
    let script = format!("lua_script:{}", docs().join("tabane.lua").display());
    let output = Command::new(TSHARK.program)
        .env("WIRESHARK_CONFIG_DIR", directory.path())
        .args(["-n", "-X", &script, "-r"])
        .arg(&capture)
        .args(["-T", "fields", "-E", "aggregator=,"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    let lines = String::from_utf8(output.stdout)?;
    Ok(lines.lines().map(|line| line.split('\t').map(as_number).collect()).collect())
}

/// Truth values as tshark 4.0 prints them.
fn as_number(value: &str) -> String {
    value.replace("True", "1").replace("False", "0")
}

/// A capture file with these Ethernet frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    const ETHERNET: u32 = 1;
    const SNAPLEN: u32 = 262_144;
    let mut file = Vec::new();
    file.extend([0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, SNAPLEN, ETHERNET].map(u32::to_le_bytes).concat());
    for frame in frames {
        let length = u32::try_from(frame.len()).expect("a short frame");
        file.extend([0, 0, length, length].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

/// UDP over IPv6, port 7420 on both sides.
fn frame(datagram: &[u8]) -> Vec<u8> {
    const LINK_LOCAL: [u8; 15] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let length = u16::try_from(8 + datagram.len()).expect("a datagram is shorter than 64 KB").to_be_bytes();
    let port = 7_420_u16.to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, length[0], length[1], 17, 255]);
    frame.extend([&LINK_LOCAL[..], &[1], &LINK_LOCAL, &[2]].concat());
    // tshark does not check the checksum unless it is told to.
    frame.extend([port, port, length, [0xff, 0xff]].concat());
    frame.extend(datagram);
    frame
}
