//! Which flow a frame belongs to: the first step of sending.
//!
//! Reads the Ethernet, VLAN and IP headers and the ports behind them; nothing else of TCP. `send::lane` gives a flow its lane,
//! by its hash. What a policy takes for a flow: [`HashLayers`].

use crate::policy::gate::gate_of;
use crate::wire::record::ETHERNET;

const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The headers that make a flow are within so many bytes: Ethernet, two tags, IPv6, ports.
pub(crate) const HEADERS_MAX: usize = ETHERNET + 2 * 4 + 40 + 4;

pub(crate) type Mac = [u8; 6];

/// The destination of a frame, whose first bytes are given.
pub(crate) fn destination(frame: &[u8]) -> Option<Mac> {
    frame.first_chunk().copied()
}

/// The source of a frame, whose first bytes are given.
pub(crate) fn source(frame: &[u8]) -> Option<Mac> {
    frame.get(6..)?.first_chunk().copied()
}

crate::choices! {
    /// The headers that make a flow, named as bonding's `xmit_hash_policy`. For a frame without some of them those count
    /// that it has.
    pub HashLayers {
        /// MAC addresses and type.
        Layer2 = "layer2",
        /// Those and IP addresses.
        Layer23 = "layer2+3",
        /// IP addresses, protocol and ports.
        #[default]
        Layer34 = "layer3+4",
    }
}

/// The headers of a frame, as far as it has them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers<'a> {
    /// MAC addresses and type.
    ethernet: &'a [u8],
    /// What follows, if it is IP.
    pub(crate) packet: Option<Packet<'a>>,
}

/// The headers of an IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// Source and destination.
    addresses: &'a [u8],
    /// Differentiated services code point, below 64.
    pub(crate) dscp: u8,
    /// The protocol above IP.
    pub(crate) protocol: u8,
    /// Source and destination port. The fragments of a packet have none: they must share a lane with each other.
    ports: Option<&'a [u8; 4]>,
}

impl<'a> Headers<'a> {
    /// Reads the headers of a frame, whose first bytes are given (enough for all headers, or what there is).
    pub(crate) fn parse(frame: &'a [u8]) -> Self {
        let Some(ethernet) = frame.get(..ETHERNET) else { return Self::default() };
        let (ethertype, packet) = skip_vlan_tags(frame);
        let packet = match ethertype {
            IPV4 => ipv4(packet),
            IPV6 => ipv6(packet),
            _ => None,
        };
        Self { ethernet, packet }
    }

    /// A hash of what these layers take for a flow.
    pub(crate) fn hash(&self, layers: HashLayers) -> u32 {
        let hash = match (layers, &self.packet) {
            (HashLayers::Layer34, _) => self.flow(),
            (HashLayers::Layer23, Some(packet)) => mix(self.ethernet) ^ mix(packet.addresses).rotate_left(32),
            (HashLayers::Layer2 | HashLayers::Layer23, _) => mix(self.ethernet),
        };
        #[expect(clippy::cast_possible_truncation, reason = "folding takes both halves")]
        let folded = (hash >> 32) as u32 ^ hash as u32;
        folded
    }

    /// The same for frames that answer this one.
    pub(crate) fn hash_of_answer(&self, layers: HashLayers) -> u32 {
        let (mut ethernet, mut addresses) = ([0; ETHERNET], [0; 32]);
        let ports = self.packet.and_then(|packet| packet.ports).map(|[a, b, c, d]| [*c, *d, *a, *b]);
        let packet = self.packet.map(|packet| Packet {
            addresses: swap(packet.addresses, packet.addresses.len() / 2, &mut addresses),
            ports: ports.as_ref(),
            ..packet
        });
        Headers { ethernet: swap(self.ethernet, size_of::<Mac>(), &mut ethernet), packet }.hash(layers)
    }

    /// A hash of addresses, protocol and ports; else of the MAC addresses and the type.
    pub(crate) fn flow(&self) -> u64 {
        let Some(packet) = &self.packet else { return mix(self.ethernet) };
        let ports = packet.ports.map(|ports| mix(ports).rotate_left(32));
        mix(packet.addresses) ^ ports.unwrap_or(u64::from(packet.protocol))
    }
}

impl Packet<'_> {
    /// The gate of its flow at the device, if it is of TCP.
    pub(crate) fn gate(&self) -> Option<u16> {
        let ports = self.ports.filter(|_| self.protocol == TCP)?;
        Some(gate_of(self.addresses, *ports))
    }

    /// Whether it comes from or goes to this port.
    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.ports.is_some_and(|[a, b, c, d]| {
            u16::from_be_bytes([*a, *b]) == port || u16::from_be_bytes([*c, *d]) == port
        })
    }
}

/// The bytes of `from` in `room`, where the first two parts of so many bytes have each other's place.
fn swap<'a>(from: &[u8], part: usize, room: &'a mut [u8]) -> &'a [u8] {
    let room = &mut room[..from.len()];
    room.copy_from_slice(from);
    if let Some(parts) = room.get_mut(..2 * part) {
        parts.rotate_left(part);
    }
    room
}

/// The type of what an Ethernet frame carries, and that itself. The frame has at least its header.
pub(crate) fn skip_vlan_tags(frame: &[u8]) -> (u16, &[u8]) {
    let mut rest = &frame[12..];
    for _ in 0..2 {
        match rest {
            [a, b, _, _, tail @ ..] if matches!(u16::from_be_bytes([*a, *b]), VLAN | QINQ) => rest = tail,
            _ => break,
        }
    }
    match rest {
        [a, b, packet @ ..] => (u16::from_be_bytes([*a, *b]), packet),
        _ => (0, &[]),
    }
}

fn ipv4(packet: &[u8]) -> Option<Packet<'_>> {
    let header = packet.first_chunk::<20>()?;
    let protocol = header[9];
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let behind = packet.get(usize::from(header[0] & 0x0f) * 4..).unwrap_or_default();
    let ports = if fragment { None } else { ports(protocol, behind) };
    Some(Packet { addresses: &packet[12..20], dscp: header[1] >> 2, protocol, ports })
}

fn ipv6(packet: &[u8]) -> Option<Packet<'_>> {
    let header = packet.first_chunk::<40>()?;
    let traffic_class = header[0] << 4 | header[1] >> 4;
    let protocol = header[6];
    let ports = ports(protocol, &packet[40..]);
    Some(Packet { addresses: &packet[8..40], dscp: traffic_class >> 2, protocol, ports })
}

fn ports(protocol: u8, behind: &[u8]) -> Option<&[u8; 4]> {
    behind.first_chunk().filter(|_| matches!(protocol, TCP | UDP))
}

/// A multiply-and-fold hash (the step of wyhash). It need not withstand an adversary, who could at most put their own
/// flows onto one lane.
pub(crate) fn mix(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0x9e37_79b9_7f4a_7c15, |state, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let product = u128::from(state ^ u64::from_le_bytes(word)) * 0xa076_1d64_78bd_642f;
        #[expect(clippy::cast_possible_truncation, reason = "folding takes both halves")]
        let folded = (product >> 64) as u64 ^ product as u64;
        folded
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::cell::LANES;
    use alloc::vec::Vec;

    fn lane(frame: &[u8]) -> usize {
        usize::try_from(Headers::parse(frame).flow() % LANES as u64).unwrap()
    }

    fn ipv4_udp(port: u16, tags: &[u8]) -> Vec<u8> {
        let mut frame = [2; 12].to_vec();
        frame.extend(tags);
        frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 53]);
        frame
    }

    #[test]
    fn flows_spread_over_all_lanes() {
        let mut used = [0; LANES];
        (0..1_600).for_each(|port| used[lane(&ipv4_udp(port, &[]))] += 1);
        assert!(used.iter().all(|count| (50..200).contains(count)), "{used:?}");
    }

    #[test]
    fn fragments_of_a_flow_share_a_lane_whatever_stands_where_ports_would() {
        let lanes: Vec<_> = (0..100)
            .map(|port| {
                let mut frame = ipv4_udp(port, &[]);
                frame[20] = 0x20;
                lane(&frame)
            })
            .collect();
        assert!(lanes.iter().all(|other| *other == lanes[0]));
    }

    #[test]
    fn tags_are_looked_through() {
        let differ = (0..100).any(|port| {
            lane(&ipv4_udp(port, &[0x81, 0, 0, 5])) != lane(&ipv4_udp(port + 1, &[0x81, 0, 0, 5]))
        });
        assert!(differ);
    }

    #[test]
    fn any_prefix_is_classified_without_panic() {
        let frame = ipv4_udp(7, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]);
        (0..frame.len()).for_each(|end| _ = lane(&frame[..end]));
        assert_eq!(destination(&frame[..5]), None);
        assert_eq!(source(&frame), Some([2; 6]));
    }

    #[test]
    fn layers_tell_apart_what_they_read() {
        let base = ipv4_udp(7, &[]);
        let changed = |at: usize| {
            let mut frame = base.clone();
            frame[at] ^= 1;
            HashLayers::ALL
                .map(|layers| Headers::parse(&frame).hash(layers) != Headers::parse(&base).hash(layers))
        };
        assert_eq!(changed(0), [true, true, false], "MAC address");
        assert_eq!(changed(ETHERNET + 12), [false, true, true], "IP address");
        assert_eq!(changed(ETHERNET + 20), [false, false, true], "port");
        assert_eq!(changed(ETHERNET + 8), [false; 3], "time to live");
    }

    #[test]
    fn an_answer_has_the_hash_that_its_question_expects() {
        let question = ipv4_udp(7, &[0x81, 0, 0, 5]);
        let mut answer = question.clone();
        answer[..12].rotate_left(6);
        answer[30..38].rotate_left(4);
        answer[38..42].rotate_left(2);
        for layers in HashLayers::ALL {
            let [question, answer] = [&question, &answer].map(|frame| Headers::parse(frame));
            assert_eq!(question.hash_of_answer(layers), answer.hash(layers), "{layers:?}");
            assert_eq!(answer.hash_of_answer(layers), question.hash(layers), "{layers:?}");
        }
        assert_eq!(
            Headers::default().hash_of_answer(HashLayers::Layer34),
            Headers::default().hash(HashLayers::Layer34)
        );
    }

    #[test]
    fn code_points_are_read_from_both_versions_of_ip() {
        let mut frame = ipv4_udp(7, &[]);
        frame[ETHERNET + 1] = 46 << 2;
        assert_eq!(Headers::parse(&frame).packet.map(|packet| packet.dscp), Some(46));
        let mut frame = [2; 12].to_vec();
        frame.extend([0x86, 0xdd, 0x6b, 0x80]);
        frame.resize(ETHERNET + 40, 0);
        assert_eq!(Headers::parse(&frame).packet.map(|packet| packet.dscp), Some(46));
    }
}
