//! The bytes of an Ethernet frame: all of them follow from its flow and its number, so that the receiver can check each.
//!
//! ```text
//!   virtio header (10) | Ethernet, VLAN | IPv4 or IPv6 | UDP | noise ... | flow (2) | number (4)
//!   virtio header (10) | Ethernet | IPv4 | TCP, flow as port, number as sequence number | noise ...
//! ```
//!
//! A superframe of TCP may arrive without its last segment; then its bytes must be those of a superframe that was that short
//! from the beginning. All its checksums are computed here, from scratch.
//!
//! The noise of a frame is a piece of one block that the seed fills; its place there depends on flow and number, so that the
//! check finds a byte that was moved, or taken from another frame.

use crate::random::{Random, mix};
use core::fmt;
use tabane_proto::wire::record::{FRAME_MAX, VNET};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    pub flow: u16,
    /// Counts the flow's frames, from 0.
    pub number: u32,
}

impl fmt::Display for FrameId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "frame {} of flow {}", self.number, self.flow)
    }
}

/// The headers in front of the noise, which a classifier reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// Ethernet, IPv4, UDP.
    Ipv4,
    /// Ethernet, IPv6, UDP.
    Ipv6,
    /// Ethernet, a VLAN tag, IPv4, UDP.
    Vlan,
    /// Ethernet, IPv4, TCP.
    Tcp,
    /// Ethernet with a type that nobody knows.
    Bare,
    /// The same from hosts behind the node's bridge: each frame has a source address that no other has.
    Bridged,
}

const ID: usize = 6;
/// The shortest frame: Ethernet's, without its checksum.
pub const SHORTEST: usize = 60;
/// An Ethertype for experiments (IEEE 802, local experimental 1).
const EXPERIMENTAL: u16 = 0x88b5;
const UDP: u8 = 17;
const TCP: u8 = 6;
const TCP_HEADERS: usize = 54;
const SEGMENT: u16 = 1_400;

/// The sender, the receiver and the headers of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) from: u8,
    /// `None`: everyone.
    pub(crate) to: Option<u8>,
    pub(crate) heading: Heading,
}

/// The block from which all noise is taken.
#[derive(Debug)]
pub(crate) struct Noise(Box<[u8]>);

impl Noise {
    /// Pieces of the longest frame's length begin at 2^16 places.
    pub(crate) fn new(mut random: Random) -> Self {
        let mut block = vec![0; (1 << 16) + FRAME_MAX];
        random.fill(&mut block);
        Self(block.into_boxed_slice())
    }

    /// Writes the frame, virtio header included, to `bytes`, whose old content is dropped. `length` counts from the
    /// Ethernet header on; where heading and number alone take more, the frame is longer.
    pub(crate) fn write(&self, envelope: Envelope, id: FrameId, length: usize, bytes: &mut Vec<u8>) {
        bytes.clear();
        let place = mix(u64::from(id.flow) << 32 | u64::from(id.number)) & 0xffff;
        let start = usize::try_from(place).unwrap_or_default();
        if envelope.heading == Heading::Tcp {
            tcp(envelope, id, length, bytes);
            return bytes.extend_from_slice(&self.0[start..start + length - TCP_HEADERS]);
        }
        bytes.extend(virtio(length));
        heading(envelope, id, bytes);
        let end = (VNET + length).max(bytes.len() + ID) - ID;
        bytes.extend_from_slice(&self.0[start..start + end - bytes.len()]);
        bytes.extend(id.flow.to_be_bytes());
        bytes.extend(id.number.to_be_bytes());
    }
}

/// The flow and the number that these bytes name.
pub(crate) fn identify(bytes: &[u8]) -> Option<FrameId> {
    let is_tcp = bytes.get(VNET + 12..VNET + 14) == Some(&[8, 0]) && bytes.get(VNET + 23) == Some(&TCP);
    let [a, b, c, d, e, f] = if is_tcp {
        let ports = bytes.get(VNET + 34..)?.first_chunk::<8>()?;
        [ports[0], ports[1], ports[4], ports[5], ports[6], ports[7]]
    } else {
        *bytes.last_chunk::<ID>()?
    };
    Some(FrameId { flow: u16::from_be_bytes([a, b]), number: u32::from_be_bytes([c, d, e, f]) })
}

pub(crate) fn without_last_segment(length: usize) -> Option<usize> {
    let payload = length.checked_sub(TCP_HEADERS + 1)?;
    let whole = payload / usize::from(SEGMENT) * usize::from(SEGMENT);
    (whole > 0).then_some(TCP_HEADERS + whole)
}

/// A virtio header as a TAP device gives it: small frames are whole, larger ones are to be segmented.
fn virtio(length: usize) -> [u8; VNET] {
    const NEEDS_CHECKSUM: u8 = 1;
    const GSO_UDP_L4: u8 = 5;
    if length <= 1_518 {
        return [0; VNET];
    }
    let [size, larger] = 1_400u16.to_le_bytes();
    [NEEDS_CHECKSUM, GSO_UDP_L4, 42, 0, size, larger, 34, 0, 6, 0]
}

/// Virtio, Ethernet, IPv4 and TCP headers as the kernel gives them to a device that sums checksums and segments.
fn tcp(envelope: Envelope, id: FrameId, length: usize, bytes: &mut Vec<u8>) {
    const NEEDS_CHECKSUM: u8 = 1;
    const GSO_TCPV4: u8 = 1;
    let is_superframe = length - TCP_HEADERS > usize::from(SEGMENT);
    let (kind, [size, larger]) = if is_superframe { (GSO_TCPV4, SEGMENT.to_le_bytes()) } else { (0, [0, 0]) };
    bytes.extend([NEEDS_CHECKSUM, kind, 54, 0, size, larger, 34, 0, 16, 0]);
    bytes.extend(envelope.to.map_or([0xff; 6], mac));
    bytes.extend(mac(envelope.from));
    let packet = u16::try_from(length - 14).unwrap_or(u16::MAX);
    let [high, low] = packet.to_be_bytes();
    let addresses = [10, 0, 0, envelope.from, 10, 0, 0, envelope.to.unwrap_or(0xff)];
    let mut ip = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, TCP, 0, 0].to_vec();
    ip.extend(addresses);
    let [high, low] = (!sum(&ip)).to_be_bytes();
    ip[10..12].copy_from_slice(&[high, low]);
    bytes.extend([8, 0]);
    bytes.extend(ip);
    bytes.extend(id.flow.to_be_bytes());
    bytes.extend([0x40, 0]);
    bytes.extend(id.number.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0]);
    let [high, low] = (packet - 20).to_be_bytes();
    bytes.extend(sum(&[&addresses[..], &[0, TCP, high, low]].concat()).to_be_bytes());
    bytes.extend([0, 0]);
}

/// The ones' complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let wide = bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    u16::try_from((wide & 0xffff) + (wide >> 16)).unwrap_or_default()
}

fn heading(envelope: Envelope, id: FrameId, bytes: &mut Vec<u8>) {
    let [high, low] = id.flow.to_be_bytes();
    bytes.extend(envelope.to.map_or([0xff; 6], mac));
    let is_bridged = envelope.heading == Heading::Bridged;
    bytes.extend(if is_bridged { host(id) } else { mac(envelope.from) });
    if envelope.heading == Heading::Vlan {
        bytes.extend([0x81, 0x00, 0x00, 0x05]);
    }
    let to = envelope.to.unwrap_or(0xff);
    match envelope.heading {
        Heading::Bare | Heading::Bridged => bytes.extend(EXPERIMENTAL.to_be_bytes()),
        Heading::Ipv4 | Heading::Vlan | Heading::Tcp => {
            bytes.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0]);
            bytes.extend([10, 0, 0, envelope.from, 10, 0, 0, to]);
        }
        Heading::Ipv6 => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, UDP, 64]);
            for node in [envelope.from, to] {
                bytes.extend([0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, node]);
            }
        }
    }
    if !matches!(envelope.heading, Heading::Bare | Heading::Bridged) {
        bytes.extend([0x40, 0x00, high, low, 0, 0, 0, 0]);
    }
}

pub(crate) fn mac(node: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, node]
}

/// The MAC address of a host that sends one frame.
fn host(id: FrameId) -> [u8; 6] {
    let ([flow, _], [_, high, middle, low]) = (id.flow.to_le_bytes(), id.number.to_be_bytes());
    [6, 0, flow, high, middle, low]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    const HEADINGS: [Heading; 6] =
        [Heading::Ipv4, Heading::Ipv6, Heading::Vlan, Heading::Tcp, Heading::Bare, Heading::Bridged];

    #[test]
    fn a_frame_follows_from_its_flow_and_number() {
        let noise = Noise::new(Random::new(1, Stream::Traffic));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for heading in HEADINGS {
            let envelope = Envelope { from: 0, to: Some(1), heading };
            let id = FrameId { flow: 3, number: 70_000 };
            for length in [SHORTEST, 1_514, FRAME_MAX] {
                noise.write(envelope, id, length, &mut one);
                let least = if heading == Heading::Ipv6 { 68 } else { SHORTEST };
                assert_eq!(one.len(), VNET + length.max(least));
                assert_eq!(identify(&one), Some(id));
                noise.write(envelope, FrameId { number: 70_001, ..id }, length, &mut other);
                assert_eq!(one.len(), other.len());
                assert_ne!(one, other);
            }
        }
    }
}
