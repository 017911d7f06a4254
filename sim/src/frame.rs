//! The bytes of an Ethernet frame: all of them follow from its flow and its number, so that the receiver can check each.
//!
//! ```text
//!   virtio header (10) | Ethernet, VLAN | IPv4 or IPv6 | UDP | noise ... | flow (2) | number (4)
//! ```
//!
//! The noise of a frame is a piece of one block that the seed fills; where it is cut out depends on flow and number, so
//! that a byte that was moved, or taken from another frame, shows.

use crate::random::{Random, mix};
use core::fmt;
use tabane_proto::wire::record::{FRAME_MAX, VNET};

/// Which frame it is: the flow, and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    /// The flow.
    pub flow: u16,
    /// Counts the flow's frames, from 0.
    pub number: u32,
}

impl fmt::Display for FrameId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "frame {} of flow {}", self.number, self.flow)
    }
}

/// What stands in front of the noise: what a classifier meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// Ethernet, IPv4, UDP.
    Ipv4,
    /// Ethernet, IPv6, UDP.
    Ipv6,
    /// Ethernet, a VLAN tag, IPv4, UDP.
    Vlan,
    /// Ethernet with a type that nobody knows.
    Bare,
}

/// Bytes of flow and number.
const ID: usize = 6;
/// The shortest frame: Ethernet's, without its checksum.
pub const SHORTEST: usize = 60;
/// An Ethertype for experiments (IEEE 802, local experimental 1).
const EXPERIMENTAL: u16 = 0x88b5;
const UDP: u8 = 17;

/// Who sends a frame to whom, and in what form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) from: u8,
    /// `None`: everyone.
    pub(crate) to: Option<u8>,
    pub(crate) heading: Heading,
}

/// The block that all noise is cut from.
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
        bytes.extend(virtio(length));
        heading(envelope, id.flow, bytes);
        let place = mix(u64::from(id.flow) << 32 | u64::from(id.number)) & 0xffff;
        let start = usize::try_from(place).unwrap_or_default();
        let end = (VNET + length).max(bytes.len() + ID) - ID;
        bytes.extend_from_slice(&self.0[start..start + end - bytes.len()]);
        bytes.extend(id.flow.to_be_bytes());
        bytes.extend(id.number.to_be_bytes());
    }
}

/// Which frame these bytes say they are.
pub(crate) fn identify(bytes: &[u8]) -> Option<FrameId> {
    let [a, b, c, d, e, f] = *bytes.last_chunk::<ID>()?;
    Some(FrameId { flow: u16::from_be_bytes([a, b]), number: u32::from_be_bytes([c, d, e, f]) })
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

fn heading(envelope: Envelope, flow: u16, bytes: &mut Vec<u8>) {
    let [high, low] = flow.to_be_bytes();
    bytes.extend(envelope.to.map_or([0xff; 6], mac));
    bytes.extend(mac(envelope.from));
    if envelope.heading == Heading::Vlan {
        bytes.extend([0x81, 0x00, 0x00, 0x05]);
    }
    let to = envelope.to.unwrap_or(0xff);
    match envelope.heading {
        Heading::Bare => bytes.extend(EXPERIMENTAL.to_be_bytes()),
        Heading::Ipv4 | Heading::Vlan => {
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
    if envelope.heading != Heading::Bare {
        bytes.extend([0x40, 0x00, high, low, 0, 0, 0, 0]);
    }
}

/// The MAC address of a node's device.
fn mac(node: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, node]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn a_frame_follows_from_its_flow_and_number() {
        let noise = Noise::new(Random::new(1, Stream::Traffic));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for heading in [Heading::Ipv4, Heading::Ipv6, Heading::Vlan, Heading::Bare] {
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
