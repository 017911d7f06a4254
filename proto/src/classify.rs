//! Which flow a frame belongs to: the first step of sending.
//!
//! A flow is hashed onto a lane, so that a gap in one flow does not hold another. Reads the Ethernet, VLAN and IP
//! headers and the ports behind them; nothing of TCP.

use crate::wire::cell::LANES;
use crate::wire::record::ETHERNET;

const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A MAC address.
pub(crate) type Mac = [u8; 6];

/// The destination of a frame, whose first bytes are given.
#[must_use]
pub(crate) fn destination(frame: &[u8]) -> Option<Mac> {
    frame.first_chunk().copied()
}

/// The source of a frame, whose first bytes are given.
#[must_use]
pub(crate) fn source(frame: &[u8]) -> Option<Mac> {
    frame.get(6..)?.first_chunk().copied()
}

/// The lane of a frame, whose first bytes are given (enough for all headers, or what there is).
#[must_use]
pub(crate) fn lane(frame: &[u8]) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "below LANES")]
    let lane = (flow_hash(frame) % LANES as u64) as u8;
    lane
}

/// A hash of what makes a flow: addresses, protocol and ports; else the MAC addresses and the type.
fn flow_hash(frame: &[u8]) -> u64 {
    let Some(ethernet) = frame.first_chunk::<ETHERNET>() else { return 0 };
    let (ethertype, packet) = skip_vlan_tags(frame);
    match ethertype {
        IPV4 => ipv4(packet),
        IPV6 => ipv6(packet),
        _ => None,
    }
    .unwrap_or_else(|| mix(ethernet))
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

fn ipv4(packet: &[u8]) -> Option<u64> {
    let header = packet.first_chunk::<20>()?;
    let protocol = header[9];
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let behind = packet.get(usize::from(header[0] & 0x0f) * 4..).unwrap_or_default();
    Some(mix(&header[12..20]) ^ ports(protocol, fragment, behind))
}

fn ipv6(packet: &[u8]) -> Option<u64> {
    let header = packet.first_chunk::<40>()?;
    Some(mix(&header[8..40]) ^ ports(header[6], false, &packet[40..]))
}

/// The fragments of a packet have no ports, and must share a lane with each other, so none of them counts.
fn ports(protocol: u8, fragment: bool, behind: &[u8]) -> u64 {
    match behind.first_chunk::<4>() {
        Some(ports) if !fragment && matches!(protocol, TCP | UDP) => mix(ports).rotate_left(32),
        _ => u64::from(protocol),
    }
}

/// A multiply-and-fold hash (the step of wyhash); it need not withstand an adversary, who could at most put his own
/// flows onto one lane.
fn mix(bytes: &[u8]) -> u64 {
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
    use alloc::vec::Vec;

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
        (0..1_600).for_each(|port| used[usize::from(lane(&ipv4_udp(port, &[])))] += 1);
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
}
