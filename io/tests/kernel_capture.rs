//! Captures on a veth pair.

use std::net::UdpSocket;
use std::time::{Duration, SystemTime};

use tabane_io::capture::{Capture, CaptureSpec, Cast, Seen, Wanted};
use tabane_io::packet::HEADER;
use tabane_io::{PacketSocket, ether};

use tabane_netns::{Cable, Namespace};

use crate::{Need, Test, sockets};

pub(crate) const TESTS: &[Test] = tests!("capture";
    Namespaces:
        both_directions_are_told_apart, of_all_packets_the_cells, a_long_packet_is_kept_in_part,
        a_vlan_tag_comes_beside, what_is_lost_is_counted, one_packet_in_so_many;
);

const PORT: u16 = 7420;
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;

/// What the tests keep of a packet.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    cast: Cast,
    length: usize,
    bytes: Vec<u8>,
    tag: Option<[u8; 4]>,
    at: Duration,
}

/// With room for a block each time that the delay is over between two packets.
fn spec(wanted: Wanted) -> CaptureSpec {
    CaptureSpec { snap: 65_600, blocks: 64, block_bytes: 1 << 17, delay: Duration::from_millis(5), wanted }
}

fn open(cable: &Cable, spec: CaptureSpec) -> Capture {
    cable.right.run(|| Capture::open("right", spec).unwrap())
}

/// All that the capture has seen until it is finished.
fn finish(capture: &mut Capture) -> Vec<Kept> {
    let mut kept = Vec::new();
    capture
        .finish(|packet| {
            let (length, bytes) = (usize::try_from(packet.length).unwrap(), packet.bytes.to_vec());
            kept.push(Kept { cast: packet.cast, length, bytes, tag: packet.tag, at: packet.at });
            Ok(())
        })
        .unwrap();
    kept
}

/// The packets that end with one of these words, in their order.
fn ending<'a>(kept: &'a [Kept], words: &'a [&[u8]]) -> impl Iterator<Item = (&'a [u8], &'a Kept)> {
    kept.iter().filter_map(|packet| {
        let word = words.iter().find(|word| packet.bytes.ends_with(word))?;
        Some((*word, packet))
    })
}

/// A datagram from the left to the right, or back, and its way through both sockets.
fn send(cable: &Cable, ports: [u16; 2], to_the_right: bool, word: &[u8]) {
    let [near, far] = sockets(cable, ports);
    let (from, to) = if to_the_right { (near, far) } else { (far, near) };
    from.send_to(word, to.local_addr().unwrap()).unwrap();
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    to.recv(&mut [0; 2_000]).unwrap();
}

fn both_directions_are_told_apart() {
    let cable = Cable::new().unwrap();
    let mut capture = open(&cable, spec(Wanted::Everything));
    let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    send(&cable, [5001, 5002], true, b"there");
    send(&cable, [5001, 5002], false, b"back");
    let kept = finish(&mut capture);
    let found: Vec<_> = ending(&kept, &[b"there", b"back"]).collect();
    let casts: Vec<_> = found.iter().map(|(word, packet)| (*word, packet.cast, packet.length)).collect();
    assert_eq!(casts, [(&b"there"[..], Cast::Host, HEADERS + 5), (&b"back"[..], Cast::Sent, HEADERS + 4)]);
    let (there, back) = (found[0].1.at, found[1].1.at);
    assert!(
        before <= there && there <= back && back < before + Duration::from_secs(5),
        "{before:?} {kept:?}"
    );
    assert_eq!(capture.seen().unwrap(), Seen { packets: kept.len() as u64, lost: 0 });
}

/// Only datagrams of the ports are cells, and frames of the EtherType with one of them.
fn of_all_packets_the_cells() {
    let cable = Cable::new().unwrap();
    let mut capture = open(&cable, spec(Wanted::Cells(PORT..=PORT + 1)));
    send(&cable, [PORT, 5002], true, b"from the first");
    send(&cable, [5001, PORT + 1], true, b"to the second");
    send(&cable, [PORT - 1, PORT + 2], true, b"beside them");
    send(&cable, [5001, PORT], false, b"sent from here");
    let near = cable.left.run(|| PacketSocket::open("left").unwrap());
    for (port, kind, word) in [
        (PORT, ether::ETHER_TYPE, "a cell"),
        (PORT + 9, ether::ETHER_TYPE, "another's"),
        (PORT, 0x88b6, "no cell"),
    ] {
        let frame =
            [&[0; HEADER][..], &[0xff; 6], &[2, 0, 0, 0, 0, 9], &kind.to_be_bytes(), &port.to_be_bytes()];
        near.send(&[&frame.concat()[..], &[0; 42], word.as_bytes()].concat()).unwrap();
    }
    let [one, two] = cable.link_local;
    let index = |host: &Namespace, nic: &str| host.run(|| tabane_io::netlink::nic(nic).unwrap().index);
    let (left, right) = (index(&cable.left, "left"), index(&cable.right, "right"));
    let near = cable.left.run(|| UdpSocket::bind(std::net::SocketAddrV6::new(one, PORT, 0, left)).unwrap());
    let far = cable.right.run(|| UdpSocket::bind(std::net::SocketAddrV6::new(two, 5002, 0, right)).unwrap());
    near.send_to(b"by IPv6", std::net::SocketAddrV6::new(two, 5002, 0, left)).unwrap();
    far.recv(&mut [0; 64]).unwrap();

    let kept = finish(&mut capture);
    let words: [&[u8]; 5] = [b"from the first", b"to the second", b"sent from here", b"a cell", b"by IPv6"];
    let found: Vec<_> = ending(&kept, &words).map(|(word, _)| word).collect();
    assert_eq!(found, words, "{kept:?}");
    assert_eq!(kept.len(), words.len(), "{kept:?}");
}

fn a_long_packet_is_kept_in_part() {
    const SNAP: usize = 96;
    let cable = Cable::new().unwrap();
    let snap = u32::try_from(SNAP).unwrap();
    let mut capture = open(&cable, CaptureSpec { snap, ..spec(Wanted::Cells(PORT..=PORT)) });
    send(&cable, [PORT, 5002], true, &[7; 1_000]);
    let kept = finish(&mut capture);
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].length, kept[0].bytes.len()), (HEADERS + 1_000, SNAP));
}

fn a_vlan_tag_comes_beside() {
    let cable = Cable::new().unwrap();
    let near = cable.left.run(|| PacketSocket::open("left").unwrap());
    let mut capture = open(&cable, spec(Wanted::Everything));
    let addresses = [[0xff; 6], [2, 0, 0, 0, 0, 0x99]].concat();
    let tag = [0x81, 0, 0x60, 7];
    let rest = [&[0x88, 0xb5][..], &[0x55; 50]].concat();
    near.send(&[&[0; HEADER][..], &addresses, &tag, &rest].concat()).unwrap();
    let kept = finish(&mut capture);
    let tagged = kept.iter().find(|packet| packet.tag.is_some()).expect("the tagged frame");
    assert_eq!((tagged.tag, &tagged.bytes), (Some(tag), &[addresses, rest].concat()));
}

/// Two small blocks hold only some of the packets, for nobody takes them.
fn what_is_lost_is_counted() {
    const PACKETS: u64 = 100;
    let cable = Cable::new().unwrap();
    let small = CaptureSpec { blocks: 2, block_bytes: 4096, ..spec(Wanted::Cells(PORT..=PORT)) };
    let mut capture = open(&cable, small);
    let [near, far] = sockets(&cable, [PORT, 5002]);
    for _ in 0..PACKETS {
        near.send_to(&[7; 400], far.local_addr().unwrap()).unwrap();
    }
    let kept = finish(&mut capture).len() as u64;
    let seen = capture.seen().unwrap();
    assert_eq!(seen.packets, PACKETS);
    assert!(seen.lost > 0 && seen.packets - seen.lost == kept, "{seen:?}, {kept} kept");
}

fn one_packet_in_so_many() {
    const PACKETS: usize = 4_000;
    const ONE_IN: usize = 16;
    let cable = Cable::new().unwrap();
    // Nobody takes blocks meanwhile, so that they have to last.
    let wanted = Wanted::OneIn(u32::try_from(ONE_IN).unwrap());
    let mut capture = open(&cable, CaptureSpec { delay: Duration::from_millis(300), ..spec(wanted) });
    let [near, far] = sockets(&cable, [5001, 5002]);
    for _ in 0..PACKETS {
        near.send_to(b"datagram", far.local_addr().unwrap()).unwrap();
        far.recv(&mut [0; 64]).unwrap();
    }
    let kept = ending(&finish(&mut capture), &[b"datagram"]).count();
    // A share of chance: four standard deviations to each side.
    let (mean, spread) = (PACKETS / ONE_IN, 62);
    assert!(kept.abs_diff(mean) <= spread, "{kept} of {PACKETS}");
}
