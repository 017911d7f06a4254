//! The specification `docs/wire.md` and the dissector `docs/tabane.lua` against the codec of `tabane_proto`.
//!
//! The golden bytes of the document are what the codec writes; the unit tests of `proto` say so of messages, and these trials of whole
//! cells. Cells with these bytes go through tshark in a capture that is written here, and its fields are compared with the values. Where
//! there is no tshark, these trials are reported as ignored.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use tabane_io::ether;
use tabane_kit::prerequisites::TSHARK;
use tabane_proto::security::{Key, Number, TAG};
use tabane_proto::wire::cell::{HEADER, Header, Kind, NO_RECORD};
use tabane_proto::wire::record::{self, PREFIX};
use tabane_seal::Cipher;

use crate::case::{Case, NOTHING, Need};
use crate::repository::{root, text};

/// A frame without a payload: to everyone, of the EtherType for local experiments.
const FRAME: [u8; 14] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
/// A virtio header: a superframe of TCP over IPv4 with ECN, its checksum to be completed.
const VNET: [u8; 10] = [1, 0x81, 54, 0, 0xa8, 0x05, 34, 0, 16, 0];

/// A block of the document, and what the codec writes for it.
type Golden = (&'static str, fn() -> Vec<u8>);

const GOLDEN: [Golden; 3] = [
    ("cell", || smallest_cell(7)),
    ("sealed", sealed_cell),
    ("ether", || [&ether::ethernet(ether::GROUP, [2, 0, 0, 0, 0, 1])[..], &ether::head(7_420, 50)].concat()),
];
/// Blocks that the unit tests of `proto` compare with the codec.
const OF_UNIT_TESTS: [&str; 6] = ["handshake", "header", "heartbeat", "hello", "record", "repair"];

/// What a packet carries, and what tshark shows of it: `FIELD=VALUE`, and `.FIELD` for one of ours.
type Shown = (&'static str, fn() -> Vec<u8>, &'static str);

/// Values as above. A record's end, a whole one, and one that goes on in the next cell. Frames that lie whole in the cell go on to the
/// dissector of Ethernet; padding ends the cell. A train is cells of one length but for the last, as a capture on an end point shows them.
/// Of what is sealed nothing behind the header is read.
const SHOWN: [Shown; 9] = [
    (
        "hello",
        || cell(&header(Kind::Hello), &golden("hello")),
        ".kind=1 .session=0xbeef .hello.node=02:00:00:00:00:01 .hello.port=7420 \
         .hello.incarnation=0x1122334455667788 .hello.group=0x0000000000000099 \
         .hello.session=0x0102 .hello.your_session=0x0000 .hello.cell_max=1452 .hello.link=1 \
         .hello.workers=1 .hello.takes_uso=1 .hello.leaves=0 .hello.seals=0 .hello.asks=0 \
         .hello.pauses=0 .hello.ends=0 .hello.drains=0 .hello.states=1 .hello.name=h1 \
         .hello.receives=50000 .hello.further=0x03 .hello.kernel_mac=02:00:00:00:00:03 \
         .hello.kernel_port=7421 .hello.kernel_address=fe80::3",
    ),
    (
        "heartbeat",
        || {
            let mut two_links = golden("heartbeat");
            two_links[12] = 2;
            two_links.splice(24..24, [0; 8]);
            cell(&header(Kind::Heartbeat), &two_links)
        },
        ".kind=2 .heartbeat.sent_at=1 .heartbeat.echo=2 .heartbeat.echo_age=3 .heartbeat.serial=9 \
         .heartbeat.departed=4,0 .heartbeat.queued=5,0 .heartbeat.next=6 .heartbeat.count=7 \
         .heartbeat.skew=8 .heartbeat.up=1 .heartbeat.delay=16702650 .heartbeat.probed_link=0 \
         .heartbeat.probed=10 .heartbeat.carried_links=1 .heartbeat.carried=11 .heartbeat.padding=0000",
    ),
    (
        "repair",
        || {
            let mut two_gaps = golden("repair");
            two_gaps[0] = 2;
            cell(&header(Kind::Repair), &[&two_gaps[..], &[0, 0, 0, 1, 0, 0, 0, 9]].concat())
        },
        ".kind=3 .repair.gaps=2 .repair.link=1,0 .repair.count=23,1 .repair.first=4294967280,9",
    ),
    (
        "handshake",
        || [golden("handshake"), vec![0xcc; 16], vec![0; 16]].concat(),
        ".kind=4 .handshake.step=1 .handshake.epoch=2 .handshake.serial=7 \
         .handshake.node=02:00:00:00:00:01 .handshake.incarnation=0x1122334455667788 \
         .handshake.addressee=02:00:00:00:00:02 .handshake.body=aabb \
         .group_tag=cccccccccccccccccccccccccccccccc \
         .handshake.stamp=00000000000000000000000000000000",
    ),
    (
        "records",
        || {
            data(
                20,
                &[&[0xaa; 20], &record_of(FRAME.len(), [0; 10], &FRAME), &record_of(3_000, VNET, &FRAME)],
            )
        },
        ".version=1 .kind=0 .epoch=0 .link=1 .lane=10 .link_seq=66051 .lane_seq=4294967294 \
         .block_offset=20 .record.kind=1,1 .record.length=24,3010 .vnet.flags=0x00,0x01 \
         .vnet.gso_type=0,1 .vnet.ecn=0,1 .vnet.hdr_len=0,54 .vnet.gso_size=0,1448 \
         .vnet.csum_start=0,34 .vnet.csum_offset=0,16",
    ),
    (
        "frames",
        || {
            let whole = record_of(FRAME.len(), [0; 10], &FRAME);
            data(0, &[&whole, &whole, &[0; 27]])
        },
        ".record.kind=1,1,0 eth.type=0x86dd,0x88b5,0x88b5",
    ),
    ("no_record", || data(NO_RECORD, &[&[1; 100]]), ".record.kind= eth.type=0x86dd"),
    (
        "train",
        || {
            let last = Header { link: 0, link_seq: 9, session: 0x0401, ..header(Kind::Repair) };
            let last = cell(&last, &golden("repair"));
            [smallest_cell(7), smallest_cell(8), last].concat()
        },
        ".kind=0,0,3 .link_seq=7,8,9 .record.length=24,24 _ws.expert.message=",
    ),
    (
        "sealed",
        sealed_cell,
        ".kind=0 .epoch=1 .link_seq=7 .session=0x0401 \
         .sealed=0aa7c4a907c78eff39c671abc9cedae978b9ccc40dbf3c54d4c15a3f \
         .tag=c2a5aef2784fed2157276917e6f8fdcd",
    ),
];

pub(crate) fn cases() -> Vec<Case> {
    let golden = GOLDEN.map(|(name, written)| {
        Case::new(format!("golden::{name}"), NOTHING, move || {
            assert_eq!(written(), golden(name));
            Ok(())
        })
    });
    let tshark = [Need::Tool(TSHARK)];
    let shown = SHOWN.map(|(name, packet, fields)| {
        Case::new(format!("dissected::{name}"), tshark, move || shows(&packet(), fields))
    });
    let others = [
        Case::new("golden::every_block_is_compared", NOTHING, every_block_is_compared),
        Case::new("dissected::refused", tshark, dissected_refused),
        Case::new("dissected::ether", tshark, dissected_ether),
    ];
    golden.into_iter().chain(shown).chain(others).collect()
}

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

fn cell(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    header.emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

fn data(block_offset: u16, payload: &[&[u8]]) -> Vec<u8> {
    cell(&Header { block_offset, ..header(Kind::Data) }, &payload.concat())
}

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

fn key() -> Box<dyn Key> {
    Cipher::Aes256Gcm.key(&std::array::from_fn(|at| u8::try_from(at).unwrap_or_default()))
}

/// The number under which the smallest cell is sealed.
const SEALED_AS: Number = Number { link: 0, seq: 0x1_0000_0007 };

/// The smallest cell, of the first epoch.
fn sealed_cell() -> Vec<u8> {
    let mut clear = smallest_cell(7);
    clear[1] = 1;
    let (header, payload) = clear.split_at(HEADER);
    let mut sealed = vec![0; payload.len() + TAG];
    key().seal(SEALED_AS, header, payload, &mut sealed);
    [header, &sealed].concat()
}

fn every_block_is_compared() -> Result<()> {
    let text = text("docs/wire.md")?;
    let mut blocks: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("```golden ")).collect();
    blocks.sort_unstable();
    let mut compared = [&GOLDEN.map(|(name, _)| name)[..], &OF_UNIT_TESTS].concat();
    compared.sort_unstable();
    assert_eq!(blocks, compared);
    Ok(())
}

/// The bytes in the block `golden NAME` of the document: hexadecimal, up to the `;` of each line.
fn golden(name: &str) -> Vec<u8> {
    let text = text("docs/wire.md").expect("the page is there");
    let opening = format!("```golden {name}");
    let block = text.lines().skip_while(|line| *line != opening).skip(1).take_while(|line| *line != "```");
    let digits = block.flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace());
    digits.map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect()
}

// The dissector against the codec.

/// The shortest frame that Ethernet carries: what is behind the cell is padding, and no part of it.
fn dissected_ether() -> Result<()> {
    const SHORTEST: usize = 60;
    let cell = cell(&header(Kind::Repair), &golden("repair"));
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

/// What a receiver must refuse is named, and nothing behind it is read.
fn dissected_refused() -> Result<()> {
    let hello = cell(&header(Kind::Hello), &golden("hello"));
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

/// Checks that tshark shows these values for a packet that carries `datagram`: `FIELD=VALUE`, and `.FIELD` for one of ours.
fn shows(datagram: &[u8], expected: &str) -> Result<()> {
    let expected: Vec<(&str, &str)> = expected.split(' ').filter_map(|word| word.split_once('=')).collect();
    let whole = |name: &str| if name.starts_with('.') { format!("tabane{name}") } else { name.to_owned() };
    let fields: Vec<String> = expected.iter().map(|(name, _)| whole(name)).collect();
    let values = shown(&[datagram.to_vec()], &fields)?.concat();
    let shown: Vec<(&str, &str)> =
        expected.iter().zip(&values).map(|((name, _), value)| (*name, value.as_str())).collect();
    assert_eq!(shown, expected);
    Ok(())
}

/// What tshark shows in `fields` of the packets that carry `datagrams`: a line for each packet.
fn shown(datagrams: &[Vec<u8>], fields: &[impl AsRef<str>]) -> Result<Vec<Vec<String>>> {
    let frames: Vec<_> = datagrams.iter().map(|datagram| frame(datagram)).collect();
    shown_of(&frames, fields)
}

fn shown_of(frames: &[Vec<u8>], fields: &[impl AsRef<str>]) -> Result<Vec<Vec<String>>> {
    let directory = tempfile::tempdir()?;
    let capture = directory.path().join("cells.pcap");
    fs::write(&capture, pcap(frames))?;
    let script = format!("lua_script:{}", root().join("docs/tabane.lua").display());
    let output = Command::new(TSHARK.program)
        .env("WIRESHARK_CONFIG_DIR", directory.path())
        .args(["-n", "-X", &script, "-r"])
        .arg(&capture)
        .args(["-T", "fields", "-E", "aggregator=,"])
        .args(fields.iter().flat_map(|field| ["-e", field.as_ref()]))
        .output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    let lines = String::from_utf8(output.stdout)?;
    Ok(lines.lines().map(|line| line.split('\t').map(as_number).collect()).collect())
}

fn as_number(value: &str) -> String {
    value.replace("True", "1").replace("False", "0")
}

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
