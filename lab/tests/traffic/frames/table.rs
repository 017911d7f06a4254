//! The kinds of frames, one a line: a name, and the frame with a number in it.

use tabane_io::ether::ETHER_TYPE;

use super::build::*;

pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) build: fn(u8) -> Vec<u8>,
    /// Whether a cable carries it from packet socket to packet socket.
    pub(super) arrives: bool,
}

const fn kind(name: &'static str, build: fn(u8) -> Vec<u8>) -> Kind {
    Kind { name, build, arrives: true }
}

/// A kind that the kernel refuses, or drops where it arrives, because headers are not whole.
const fn broken(name: &'static str, build: fn(u8) -> Vec<u8>) -> Kind {
    Kind { name, build, arrives: false }
}

/// TCP: flags, and options filled up to words.
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PSH_ACK: u8 = 0x18;
const TIMESTAMPS: &[u8] = &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8];
const SACK: &[u8] = &[1, 1, 5, 10, 0, 0, 9, 0, 0, 0, 10, 0];
const SYN_OPTIONS: &[u8] = &[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];
/// Of an IPv6 header that only goes on to UDP: no options but padding.
const TO_UDP: &[u8] = &[UDP, 0, 1, 4, 0, 0, 0, 0];
/// Groups of IEEE 802.1 that a bridge keeps to itself.
const BRIDGES: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
const SLOW: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 2];
const NEAREST: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
const MULTICAST_V4: [u8; 6] = [0x01, 0, 0x5e, 0, 0, 0xfb];
const MULTICAST_V6: [u8; 6] = [0x33, 0x33, 0, 0, 0, 0xfb];
/// Tags: VLAN 7, VLAN 0 with priority 5, service VLAN 100.
pub(super) const VLAN: [u8; 4] = [0x81, 0, 0, 7];
const PRIORITY: [u8; 4] = [0x81, 0, 0xa0, 0];
pub(super) const SERVICE: [u8; 4] = [0x88, 0xa8, 0, 100];

fn arp(operation: u8, n: u8) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    ethernet(0x0806, &[&head[..], &FROM, &[10, 9, 0, 1], &[0; 6], &[10, 9, 0, n]].concat())
}

fn fragment6(offset: u16, n: u8) -> Vec<u8> {
    let place = offset.to_be_bytes();
    ipv6(44, &[&[UDP, 0, place[0], place[1], 0, 0, 0, 9], &text(n, 64)[..]].concat())
}

fn extended(next: u8, header: &[u8], n: u8) -> Vec<u8> {
    ipv6(next, &[header, &udp(&[], [5000, 5001], &text(n, 40))].concat())
}

fn echo4(n: u8) -> Vec<u8> {
    ipv4(1, &summed([&[8, 0, 0, 0, 0, 9, 0, n], &text(n, 56)[..]].concat()))
}

#[rustfmt::skip]
pub(super) const KINDS: &[Kind] = &[
    // ARP
    kind("ARP request to everyone", |n| to(EVERYONE, arp(1, n))),
    kind("ARP reply", |n| arp(2, n)),
    kind("ARP with padding to 60 bytes", |n| trailed(&[0; 18], arp(1, n))),
    kind("ARP cut short", |n| cut(30, arp(n, 1))),
    kind("RARP", |n| to(EVERYONE, ethernet(0x8035, &text(n, 46)))),
    // UDP
    kind("UDP over IPv4", |n| udp4(&text(n, 100))),
    kind("UDP over IPv6", |n| udp6(&text(n, 100))),
    kind("UDP over IPv4, odd length", |n| udp4(&text(n, 101))),
    kind("UDP over IPv6, odd length", |n| udp6(&text(n, 33))),
    kind("UDP over IPv4, one byte", |n| udp4(&[n])),
    kind("UDP over IPv4, padded to 60 bytes", |n| trailed(&[0; 17], udp4(&[n]))),
    kind("UDP over IPv4, padding that is not zero", |n| trailed(&[0xee; 17], udp4(&[n]))),
    kind("UDP over IPv4, ports 0", |n| udp4_ports([0, 0], &text(n, 60))),
    kind("UDP over IPv4, ports 65535", |n| udp4_ports([65535, 65535], &text(n, 60))),
    kind("UDP over IPv4, checksum 0", |n| changed(26, &[0, 0], udp4(&text(n, 60)))),
    kind("UDP over IPv4, checksum wrong", |n| changed(26, &[0xde, 0xad], udp4(&text(n, 60)))),
    kind("UDP over IPv4, checksum ffff", |n| changed(26, &[0xff, 0xff], udp4(&text(n, 60)))),
    kind("UDP over IPv6, checksum 0", |n| changed(46, &[0, 0], udp6(&text(n, 60)))),
    kind("UDP over IPv6, checksum wrong", |n| changed(46, &[0xde, 0xad], udp6(&text(n, 60)))),
    kind("UDP over IPv4, UDP length too large", |n| changed(24, &[0x7f, 0xff], udp4(&text(n, 60)))),
    kind("UDP over IPv4, UDP length 0", |n| changed(24, &[0, 0], udp4(&text(n, 60)))),
    kind("UDP over IPv4, UDP length too small", |n| changed(24, &[0, 20], udp4(&text(n, 60)))),
    kind("UDP over IPv4, header cut", |n| changed(4, &[0x12, n], cut(14 + 20 + 5, udp4(&text(n, 60))))),
    kind("UDP over IPv4, multicast", |n| to(MULTICAST_V4, udp4(&text(n, 60)))),
    kind("UDP over IPv6, multicast", |n| to(MULTICAST_V6, udp6(&text(n, 60)))),
    kind("UDP over IPv4, to everyone", |n| to(EVERYONE, udp4(&text(n, 60)))),
    kind("VXLAN", |n| udp4_ports([40000, 4789], &[&[8, 0, 0, 0, 0, 0, 7, 0], &udp4(&text(n, 60))[10..]].concat())),
    // TCP
    kind("TCP over IPv4, SYN with all options", |n| changed(4, &[0, n], tcp4(SYN, SYN_OPTIONS, &[]))),
    kind("TCP over IPv6, SYN with all options", |n| trailed(&[n], tcp6(SYN, SYN_OPTIONS, &[]))),
    kind("TCP over IPv4, data", |n| tcp4(PSH_ACK, &[], &text(n, 500))),
    kind("TCP over IPv6, data", |n| tcp6(PSH_ACK, &[], &text(n, 500))),
    kind("TCP over IPv4, timestamps", |n| tcp4(PSH_ACK, TIMESTAMPS, &text(n, 300))),
    kind("TCP over IPv6, timestamps", |n| tcp6(PSH_ACK, TIMESTAMPS, &text(n, 300))),
    kind("TCP over IPv4, SACK", |n| changed(4, &[0, n], tcp4(ACK, SACK, &[]))),
    kind("TCP over IPv4, bare ACK", |n| changed(4, &[0, n], tcp4(ACK, &[], &[]))),
    kind("TCP over IPv4, FIN with data", |n| tcp4(0x11, &[], &text(n, 9))),
    kind("TCP over IPv4, RST", |n| tcp4(0x04, &[], &[n])),
    kind("TCP over IPv4, URG", |n| tcp4(0x38, &[], &text(n, 20))),
    kind("TCP over IPv4, ECE and CWR", |n| tcp4(0xd0, &[], &text(n, 100))),
    kind("TCP over IPv4, no flags", |n| tcp4(0, &[], &text(n, 100))),
    kind("TCP over IPv4, all flags", |n| tcp4(0xff, &[], &text(n, 100))),
    kind("TCP over IPv4, checksum wrong", |n| changed(36, &[0xde, 0xad], tcp4(ACK, &[], &text(n, 100)))),
    kind("TCP over IPv6, checksum 0", |n| changed(56, &[0, 0], tcp6(ACK, &[], &text(n, 100)))),
    kind("TCP over IPv4, header length 0", |n| changed(32, &[0x00], tcp4(ACK, &[], &text(n, 100)))),
    kind("TCP over IPv4, header longer than the packet", |n| changed(32, &[0xf0], tcp4(ACK, &[], &[n]))),
    // ICMP, IGMP and others over IP
    kind("ICMP echo", echo4),
    kind("ICMP echo, checksum wrong", |n| changed(22, &[0xde, 0xad], echo4(n))),
    kind("ICMP unreachable", |n| ipv4(1, &summed([&[3, 4, 0, 0, 0, 0, 5, 0], &udp4(&text(n, 8))[24..]].concat()))),
    kind("ICMPv6 echo", |n| icmpv6([&[128, 0, 0, 0, 0, 9, 0, n], &text(n, 56)[..]].concat())),
    kind("ICMPv6 neighbour solicitation", |n| to(MULTICAST_V6, icmpv6([&[135, 0, 0, 0, 0, 0, 0, 0], &text(n, 24)[..]].concat()))),
    kind("ICMPv6 router advertisement", |n| to(MULTICAST_V6, icmpv6([&[134, 0, 0, 0, 64, 0, 0, 0], &text(n, 40)[..]].concat()))),
    kind("IGMP report with router alert", |n| to(MULTICAST_V4, ipv4_full(0xc0, 0, &[0x94, 4, 0, 0], 2, &summed(vec![0x16, 0, 0, 0, 224, 0, 0, n])))),
    kind("MLD report behind hop-by-hop options", |n| to(MULTICAST_V6, ipv6(0, &[&[58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 1], &text(n, 20)[..]].concat()))),
    kind("SCTP over IPv4", |n| ipv4(132, &[&[0x0b, 0x59, 0x0b, 0x59, 0, 0, 0, 1, 0, 0, 0, 0], &text(n, 80)[..]].concat())),
    kind("SCTP over IPv6", |n| ipv6(132, &[&[0x0b, 0x59, 0x0b, 0x59, 0, 0, 0, 1, 0, 0, 0, 0], &text(n, 80)[..]].concat())),
    kind("GRE", |n| ipv4(47, &[&[0, 0, 8, 0], &udp4(&text(n, 60))[24..]].concat())),
    kind("GRE with key and sequence", |n| ipv4(47, &[&[0x30, 0, 0x65, 0x58, 0, 0, 0, 7, 0, 0, 0, n], &text(n, 60)[..]].concat())),
    kind("ESP over IPv4", |n| ipv4(50, &[&[0, 0, 1, 1, 0, 0, 0, n], &text(n, 80)[..]].concat())),
    kind("ESP over IPv6", |n| ipv6(50, &[&[0, 0, 1, 1, 0, 0, 0, n], &text(n, 80)[..]].concat())),
    kind("AH", |n| ipv4(51, &[&[UDP, 4, 0, 0, 0, 0, 1, 1, 0, 0, 0, n], &text(n, 80)[..]].concat())),
    kind("IPv4 in IPv4", |n| ipv4(4, &udp4(&text(n, 60))[24..])),
    kind("IPv6 in IPv4", |n| ipv4(41, &udp6(&text(n, 60))[24..])),
    kind("OSPF", |n| to([1, 0, 0x5e, 0, 0, 5], ipv4(89, &text(n, 44)))),
    kind("VRRP", |n| to([1, 0, 0x5e, 0, 0, 18], ipv4(112, &text(n, 20)))),
    kind("IPv4, protocol 255", |n| ipv4(255, &text(n, 60))),
    // IP headers
    kind("IPv4, ECT(0)", |n| ipv4_full(2, 0x4000, &[], UDP, &datagram4(n))),
    kind("IPv4, CE", |n| ipv4_full(3, 0x4000, &[], UDP, &datagram4(n))),
    kind("IPv4, DSCP EF", |n| ipv4_full(0xb8, 0x4000, &[], UDP, &datagram4(n))),
    kind("IPv6, ECT(1) and DSCP CS6", |n| ipv6_full(0xc1, UDP, &datagram6(n))),
    kind("IPv4, full options", |n| ipv4_full(0, 0, &[1; 40], UDP, &datagram4(n))),
    kind("IPv4, first fragment", |n| ipv4_full(0, 0x2000, &[], UDP, &text(n, 64))),
    kind("IPv4, middle fragment", |n| ipv4_full(0, 0x2008, &[], UDP, &text(n, 64))),
    kind("IPv4, last fragment", |n| ipv4_full(0, 0x0010, &[], UDP, &text(n, 13))),
    kind("IPv6, first fragment", |n| fragment6(1, n)),
    kind("IPv6, last fragment", |n| fragment6(64, n)),
    kind("IPv6, hop-by-hop options", |n| extended(0, TO_UDP, n)),
    kind("IPv6, routing header", |n| extended(43, &[UDP, 0, 4, 0, 0, 0, 0, 0], n)),
    kind("IPv6, destination options", |n| extended(60, TO_UDP, n)),
    kind("IPv6, no next header", |n| ipv6(59, &text(n, 20))),
    kind("IPv6, extension header longer than the packet", |n| extended(0, &[UDP, 255, 1, 4, 0, 0, 0, 0], n)),
    kind("IPv6, payload length 0", |n| changed(4, &[0, 0], udp6(&text(n, 60)))),
    kind("IPv6, payload length too large", |n| changed(4, &[0x7f, 0xff], udp6(&text(n, 60)))),
    kind("IPv6, version 7", |n| changed(0, &[0x70], udp6(&text(n, 60)))),
    kind("IPv6, header cut", |n| cut(14 + 39, changed(7, &[n], udp6(&text(n, 60))))),
    kind("IPv6, no byte of the header but one", |n| cut(15, changed(0, &[0x60 | n], udp6(&text(n, 60))))),
    kind("IPv4, header length 0", |n| changed(0, &[0x40], udp4(&text(n, 60)))),
    kind("IPv4, header length 60 of 48", |n| changed(0, &[0x4f], udp4(&text(n, 20)))),
    kind("IPv4, version 7", |n| changed(0, &[0x75], udp4(&text(n, 60)))),
    kind("IPv4, total length larger than the frame", |n| changed(2, &[0xff, 0xff], udp4(&text(n, 60)))),
    kind("IPv4, total length smaller than the frame", |n| changed(2, &[0, 40], udp4(&text(n, 60)))),
    kind("IPv4, total length 0", |n| changed(2, &[0, 0], udp4(&text(n, 60)))),
    kind("IPv4, header checksum wrong", |n| changed(10, &[0xde, 0xad], udp4(&text(n, 60)))),
    kind("IPv4, TTL 0", |n| changed(8, &[0], udp4(&text(n, 60)))),
    kind("IPv4, source is 255.255.255.255", |n| changed(12, &[0xff; 4], udp4(&text(n, 60)))),
    kind("IPv4, header cut", |n| cut(14 + 19, changed(1, &[n], udp4(&text(n, 60))))),
    // Tags
    kind("802.1Q", |n| tagged(&[VLAN], udp4(&text(n, 60)))),
    kind("802.1Q over IPv6", |n| tagged(&[VLAN], tcp6(ACK, &[], &text(n, 60)))),
    kind("802.1Q, VLAN 0 with priority", |n| tagged(&[PRIORITY], udp4(&text(n, 60)))),
    kind("802.1Q, VLAN 4095 with DEI", |n| tagged(&[[0x81, 0, 0x1f, 0xff]], udp4(&text(n, 60)))),
    kind("802.1Q, all zero", |n| tagged(&[[0x81, 0, 0, 0]], udp4(&text(n, 60)))),
    kind("802.1ad", |n| tagged(&[SERVICE], udp4(&text(n, 60)))),
    kind("QinQ", |n| tagged(&[SERVICE, VLAN], udp4(&text(n, 60)))),
    kind("802.1Q twice", |n| tagged(&[VLAN, VLAN], udp4(&text(n, 60)))),
    kind("QinQ, type 0x9100", |n| tagged(&[[0x91, 0, 0, 9], VLAN], udp4(&text(n, 60)))),
    kind("802.1Q, ARP", |n| tagged(&[VLAN], to(EVERYONE, arp(1, n)))),
    broken("802.1Q, nothing behind", |n| cut(18, tagged(&[[0x81, 0, 0, n]], udp4(&[])))),
    broken("802.1Q, tag cut", |n| cut(16, tagged(&[[0x81, 0, 0, n]], udp4(&[])))),
    // Other protocols
    kind("MPLS unicast", |n| ethernet(0x8847, &[&[0, 1, 0x61, 64], &udp4(&text(n, 60))[24..]].concat())),
    kind("MPLS multicast", |n| to(MULTICAST_V4, ethernet(0x8848, &[&[0, 1, 0x61, 64], &text(n, 60)[..]].concat()))),
    kind("PPPoE discovery", |n| to(EVERYONE, ethernet(0x8863, &[&[0x11, 9, 0, 0, 0, 40], &text(n, 40)[..]].concat()))),
    kind("PPPoE session", |n| ethernet(0x8864, &[&[0x11, 0, 0, 1, 0, 62, 0, 0x21], &text(n, 60)[..]].concat())),
    kind("PTP", |n| to([1, 0x1b, 0x19, 0, 0, 0], ethernet(0x88f7, &text(n, 44)))),
    kind("PTP, peer delay", |n| to(NEAREST, ethernet(0x88f7, &text(n, 54)))),
    kind("EAPOL", |n| to([1, 0x80, 0xc2, 0, 0, 3], ethernet(0x888e, &text(n, 46)))),
    kind("MACsec", |n| ethernet(0x88e5, &text(n, 90))),
    kind("TRILL", |n| to([1, 0x80, 0xc2, 0, 0, 0x40], ethernet(0x22f3, &text(n, 90)))),
    kind("LLDP", |n| to(NEAREST, ethernet(0x88cc, &text(n, 60)))),
    kind("LACP", |n| to(SLOW, ethernet(0x8809, &text(n, 110)))),
    kind("PAUSE", |n| to([1, 0x80, 0xc2, 0, 0, 1], ethernet(0x8808, &[0, 1, 0, n]))),
    kind("Wake-on-LAN", |n| to(EVERYONE, ethernet(0x0842, &[&[0xff; 6][..], &[n; 96]].concat()))),
    kind("RoCE", |n| ethernet(0x8915, &text(n, 128))),
    kind("FCoE", |n| ethernet(0x8906, &text(n, 1000))),
    kind("ATA over Ethernet", |n| ethernet(0x88a2, &text(n, 512))),
    kind("STP, over LLC", |n| to(BRIDGES, counted(&[&[0x42, 0x42, 3], &text(n, 35)[..]].concat()))),
    kind("CDP, over SNAP", |n| to([1, 0, 0x0c, 0xcc, 0xcc, 0xcc], counted(&[&[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0], &text(n, 90)[..]].concat()))),
    kind("IPX, raw 802.3", |n| counted(&[&[0xff, 0xff], &text(n, 60)[..]].concat())),
    kind("802.3, length larger than the frame", |n| ethernet(0x05dc, &text(n, 60))),
    kind("802.3, length smaller than the frame", |n| ethernet(3, &text(n, 60))),
    kind("802.3, length 0", |n| ethernet(0, &text(n, 46))),
    kind("type between length and type, 0x05ff", |n| ethernet(0x05ff, &text(n, 60))),
    kind("type 0xffff", |n| ethernet(0xffff, &text(n, 60))),
    kind("type for jumbo frames 0x8870", |n| ethernet(0x8870, &text(n, 1500))),
    kind("type for experiments", |n| ethernet(EXPERIMENT, &text(n, 46))),
    kind("type of cells of Ethernet links", |n| ethernet(ETHER_TYPE, &text(n, 1400))),
    // Lengths and addresses
    kind("14 bytes: no payload", |n| from([2, 0, 0, 0, 1, n], ethernet(EXPERIMENT, &[]))),
    kind("15 bytes", |n| ethernet(EXPERIMENT, &[n])),
    kind("20 bytes", |n| ethernet(EXPERIMENT, &text(n, 6))),
    kind("59 bytes", |n| ethernet(EXPERIMENT, &text(n, 45))),
    kind("60 bytes", |n| ethernet(EXPERIMENT, &text(n, 46))),
    kind("61 bytes", |n| ethernet(EXPERIMENT, &text(n, 47))),
    broken("13 bytes: no whole header", |_| cut(13, ethernet(EXPERIMENT, &[]))),
    kind("from no address", |n| from([0; 6], ethernet(EXPERIMENT, &text(n, 60)))),
    kind("from a group", |n| from(MULTICAST_V4, ethernet(EXPERIMENT, &text(n, 60)))),
    kind("to no address", |n| to([0; 6], ethernet(EXPERIMENT, &text(n, 60)))),
    kind("to an unknown address", |n| to([2, 0, 0, 0, 9, 9], ethernet(EXPERIMENT, &text(n, 60)))),
    // What the kernel still owes
    kind("UDP over IPv4, checksum owed", |n| owed(udp4(&text(n, 200)), None)),
    kind("UDP over IPv6, checksum owed", |n| owed(udp6(&text(n, 201)), None)),
    kind("TCP over IPv4, checksum owed", |n| owed(tcp4(ACK, TIMESTAMPS, &text(n, 200)), None)),
    kind("TCP over IPv6, checksum owed", |n| owed(tcp6(ACK, &[], &text(n, 201)), None)),
    kind("TCP superframe over IPv4", |n| owed(tcp4(PSH_ACK, &[], &text(n, 9000)), Some((GSO_TCP4, 1460)))),
    kind("TCP superframe over IPv4, timestamps", |n| owed(tcp4(ACK, TIMESTAMPS, &text(n, 4001)), Some((GSO_TCP4, 1448)))),
    kind("TCP superframe over IPv4, CWR", |n| owed(tcp4(0x98, &[], &text(n, 4000)), Some((GSO_TCP4 | 0x80, 1000)))),
    kind("TCP superframe over IPv6", |n| owed(tcp6(PSH_ACK, &[], &text(n, 9000)), Some((GSO_TCP6, 1440)))),
    kind("UDP superframe over IPv4", |n| owed(udp4(&text(n, 9000)), Some((GSO_UDP, 1400)))),
    kind("UDP superframe over IPv6", |n| owed(udp6(&text(n, 5001)), Some((GSO_UDP, 1000)))),
];
