//! Frames put together header by header. Each begins with the virtio header that a packet socket wants, and has a number in
//! its payload by which frames of one kind differ.

use tabane_io::packet::HEADER as VIRTIO;
use tabane_kit::emulator::frame::folded_sum as folded;

pub(super) const TO: [u8; 6] = [0x02, 0, 0, 0, 0, 0x22];
pub(super) const FROM: [u8; 6] = [0x02, 0, 0, 0, 0, 0x11];
pub(super) const EVERYONE: [u8; 6] = [0xff; 6];
/// Bytes of an Ethernet header, and where its packet begins behind the virtio header.
pub(super) const ETHERNET: usize = 14;
pub(super) const PACKET: usize = VIRTIO + ETHERNET;
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(crate) const EXPERIMENT: u16 = 0x88b6;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const PORTS: [u16; 2] = [5000, 5001];
/// Kinds of superframes (linux/virtio_net.h), and the flag of a checksum that is owed.
pub(super) const GSO_TCP4: u8 = 1;
pub(super) const GSO_TCP6: u8 = 4;
pub(super) const GSO_UDP: u8 = 5;
const CHECKSUM_OWED: u8 = 1;

const ADDRESSES_V4: [u8; 8] = [10, 9, 0, 1, 10, 9, 0, 2];
const ADDRESSES_V6: [u8; 32] = {
    let mut both = [0; 32];
    (both[0], both[1], both[15]) = (0xfd, 9, 1);
    (both[16], both[17], both[31]) = (0xfd, 9, 2);
    both
};

/// `length` bytes that begin with `number`.
pub(super) fn text(number: u8, length: usize) -> Vec<u8> {
    let bytes = (0_u8..=250).cycle().take(length);
    bytes.enumerate().map(|(place, byte)| if place == 0 { number } else { byte }).collect()
}

/// An Ethernet frame; below 0x600 `kind` is a length.
pub(crate) fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[0; VIRTIO][..], &TO, &FROM, &kind.to_be_bytes(), payload].concat()
}

pub(super) fn counted(payload: &[u8]) -> Vec<u8> {
    ethernet(short(payload.len()), payload)
}

pub(crate) fn to(address: [u8; 6], mut frame: Vec<u8>) -> Vec<u8> {
    frame[VIRTIO..VIRTIO + 6].copy_from_slice(&address);
    frame
}

pub(crate) fn from(address: [u8; 6], mut frame: Vec<u8>) -> Vec<u8> {
    frame[VIRTIO + 6..VIRTIO + 12].copy_from_slice(&address);
    frame
}

pub(super) fn tagged(tags: &[[u8; 4]], mut frame: Vec<u8>) -> Vec<u8> {
    let place = VIRTIO + 12;
    frame.splice(place..place, tags.concat());
    frame
}

/// The frame with other bytes from `place` of its packet on; its checksums stay.
pub(super) fn changed(place: usize, bytes: &[u8], mut frame: Vec<u8>) -> Vec<u8> {
    frame[PACKET + place..PACKET + place + bytes.len()].copy_from_slice(bytes);
    frame
}

pub(super) fn cut(length: usize, mut frame: Vec<u8>) -> Vec<u8> {
    frame.truncate(VIRTIO + length);
    frame
}

pub(super) fn trailed(trailer: &[u8], mut frame: Vec<u8>) -> Vec<u8> {
    frame.extend(trailer);
    frame
}

/// An IPv4 packet; `fragment` is the flags and offset.
pub(super) fn ipv4_full(tos: u8, fragment: u16, options: &[u8], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header_length = 20 + options.len();
    let words = u8::try_from(header_length / 4).expect("options are of at most 40 bytes");
    let length = short(header_length + payload.len()).to_be_bytes();
    let begin = [&[0x40 | words, tos][..], &length, &[0x12, 0x34], &fragment.to_be_bytes()].concat();
    let mut header = [&begin[..], &[64, protocol, 0, 0], &ADDRESSES_V4, options].concat();
    let sum = (!folded(&header)).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    ethernet(IPV4, &[&header, payload].concat())
}

pub(super) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_full(0, 0x4000, &[], protocol, payload)
}

/// An IPv6 packet; `class` is its traffic class.
pub(super) fn ipv6_full(class: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let length = short(payload.len()).to_be_bytes();
    let header = [0x60 | class >> 4, class << 4, 0, 0, length[0], length[1], next, 64];
    ethernet(IPV6, &[&header, &ADDRESSES_V6[..], payload].concat())
}

pub(super) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    ipv6_full(0, next, payload)
}

pub(super) fn udp(addresses: &[u8], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut datagram: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    datagram.extend(short(8 + payload.len()).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    let sum = checksum(addresses, UDP, &datagram);
    datagram[6..8].copy_from_slice(&sum);
    datagram
}

pub(super) fn tcp(addresses: &[u8], flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).expect("options are of at most 40 bytes");
    let mut segment = vec![0x9c, 0x40, 0, 80, 0, 0, 1, 0, 0, 0, 2, 0, words << 4, flags, 0x20, 0, 0, 0, 0, 0];
    segment.extend(options);
    segment.extend(payload);
    let sum = checksum(addresses, TCP, &segment);
    segment[16..18].copy_from_slice(&sum);
    segment
}

pub(super) fn datagram4(number: u8) -> Vec<u8> {
    udp(&ADDRESSES_V4, PORTS, &text(number, 60))
}

pub(super) fn datagram6(number: u8) -> Vec<u8> {
    udp(&ADDRESSES_V6, PORTS, &text(number, 60))
}

pub(super) fn udp4(payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &udp(&ADDRESSES_V4, PORTS, payload))
}

pub(super) fn udp6(payload: &[u8]) -> Vec<u8> {
    ipv6(UDP, &udp(&ADDRESSES_V6, PORTS, payload))
}

pub(crate) fn udp4_ports(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &udp(&ADDRESSES_V4, ports, payload))
}

pub(super) fn tcp4(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    ipv4(TCP, &tcp(&ADDRESSES_V4, flags, options, payload))
}

pub(super) fn tcp6(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    ipv6(TCP, &tcp(&ADDRESSES_V6, flags, options, payload))
}

/// A message whose checksum covers itself alone, at byte 2: ICMP and IGMP.
pub(super) fn summed(mut message: Vec<u8>) -> Vec<u8> {
    let sum = (!folded(&message)).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    message
}

pub(super) fn icmpv6(mut message: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&ADDRESSES_V6, 58, &message);
    message[2..4].copy_from_slice(&sum);
    ipv6(58, &message)
}

/// The frame of TCP or UDP, of which the kernel still owes the checksum, and, with `segment`, the cutting into segments of so
/// many bytes.
pub(super) fn owed(mut frame: Vec<u8>, superframe: Option<(u8, u16)>) -> Vec<u8> {
    let is_v4 = frame[PACKET] >> 4 == 4;
    let (header, protocol) = if is_v4 { (20, frame[PACKET + 9]) } else { (40, frame[PACKET + 6]) };
    let transport = ETHERNET + header;
    let (place, of_header) =
        if protocol == TCP { (16, frame[VIRTIO + transport + 12] >> 4 << 2) } else { (6, 8) };
    let addresses = if is_v4 { &ADDRESSES_V4[..] } else { &ADDRESSES_V6[..] };
    let length = frame.len() - VIRTIO - transport;
    let sum = folded(&pseudo(addresses, protocol, length)).to_be_bytes();
    let at = VIRTIO + transport + place;
    frame[at..at + 2].copy_from_slice(&sum);
    let (kind, segment) = superframe.unwrap_or_default();
    let headers = if kind == 0 { 0 } else { short(transport) + u16::from(of_header) };
    (frame[0], frame[1]) = (CHECKSUM_OWED, kind);
    for (field, value) in [headers, segment, short(transport), short(place)].into_iter().enumerate() {
        frame[2 + 2 * field..4 + 2 * field].copy_from_slice(&value.to_ne_bytes());
    }
    frame
}

/// As RFC 1071, over the pseudo header and `message`, whose checksum is zero.
fn checksum(addresses: &[u8], protocol: u8, message: &[u8]) -> [u8; 2] {
    let sum = !folded(&[&pseudo(addresses, protocol, message.len()), message].concat());
    // In UDP, zero means that there is none.
    (if sum == 0 { 0xffff } else { sum }).to_be_bytes()
}

fn pseudo(addresses: &[u8], protocol: u8, length: usize) -> Vec<u8> {
    [addresses, &[0, protocol], &short(length).to_be_bytes()].concat()
}

fn short(length: usize) -> u16 {
    u16::try_from(length).expect("a packet is of at most 65,535 bytes")
}
