//! A frame as a packet socket gives it: the virtio header, then Ethernet.
//!
//! The header has the legacy layout of linux/virtio_net.h in native byte order; [`tabane_io::packet`] describes it.

use std::ops::Range;

use rand::RngExt;
use rand::rngs::StdRng;
use tabane_io::packet::HEADER;

const FLAGS: usize = 0;
const NEEDS_CHECKSUM: u8 = 1;
const KIND: usize = 1;
/// VIRTIO_NET_HDR_GSO_UDP_L4; all other kinds of superframes are TCP.
const KIND_UDP: u8 = 5;
const HEADER_LENGTH: Range<usize> = 2..4;
const SEGMENT: Range<usize> = 4..6;
const CHECKSUM_START: Range<usize> = 6..8;
const CHECKSUM_OFFSET: Range<usize> = 8..10;
/// Ethernet addresses and type, of which no checksum of a packet would tell.
const ETHERNET: usize = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) frames: u64,
    /// Their bytes, headers counted as often as they are sent.
    pub(super) bytes: u64,
}

pub(super) fn size(frame: &[u8]) -> Size {
    let bytes = frame.len().saturating_sub(HEADER);
    match superframe_headers(frame) {
        Some(headers) => {
            let frames = (bytes - headers).div_ceil(field(frame, SEGMENT)).max(1);
            Size { frames: frames as u64, bytes: (bytes + (frames - 1) * headers) as u64 }
        }
        None => Size { frames: 1, bytes: bytes as u64 },
    }
}

/// Makes `frame` ready to be sent as it was received: of a superframe, only the headers have to lie in one piece of
/// the kernel's memory, while the receiving kernel names all that lay in one.
pub(super) fn settle(frame: &mut [u8]) {
    if let Some(headers) = superframe_headers(frame).and_then(|headers| u16::try_from(headers).ok()) {
        frame[HEADER_LENGTH].copy_from_slice(&headers.to_ne_bytes());
    }
}

/// Flips one bit behind the Ethernet header and says whether it did. The checksum is finished before, so that the
/// receiver can notice. A superframe, which has many checksums, is spared.
pub(super) fn corrupt(frame: &mut [u8], random: &mut StdRng) -> bool {
    let first = HEADER + ETHERNET;
    if frame.len() <= first || superframe_headers(frame).is_some() {
        return false;
    }
    finish_checksum(frame);
    let place = random.random_range(first..frame.len());
    frame[place] ^= 1 << random.random_range(0..8_u8);
    true
}

/// Length of the headers that every frame of a superframe begins with; `None`: it is a single frame.
fn superframe_headers(frame: &[u8]) -> Option<usize> {
    if *frame.get(KIND)? == 0 || field(frame, SEGMENT) == 0 {
        return None;
    }
    let transport = field(frame, CHECKSUM_START);
    let length =
        if frame[KIND] == KIND_UDP { 8 } else { usize::from(*frame.get(HEADER + transport + 12)? >> 4) * 4 };
    Some(transport + length).filter(|headers| HEADER + headers <= frame.len())
}

/// Does what a NIC would do for a frame whose checksum field holds the sum of the pseudo header only.
fn finish_checksum(frame: &mut [u8]) {
    let start = HEADER + field(frame, CHECKSUM_START);
    let place = start + field(frame, CHECKSUM_OFFSET);
    if frame[FLAGS] & NEEDS_CHECKSUM == 0 || place + 2 > frame.len() {
        return;
    }
    let sum = match !folded_sum(&frame[start..]) {
        0 => 0xffff, // in UDP, 0 means: no checksum
        sum => sum,
    };
    frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    frame[FLAGS] &= !NEEDS_CHECKSUM;
}

/// The Internet checksum (RFC 1071), not complemented.
pub fn folded_sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    let mut sum = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>() + last;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("the loop ends with 16 bits")
}

fn field(frame: &[u8], place: Range<usize>) -> usize {
    let bytes = frame.get(place).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, |bytes| u16::from_ne_bytes(bytes).into())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// A frame with this virtio header and `payload` bytes behind Ethernet, IPv4 and a transport header.
    fn frame(kind: u8, segment: u16, transport_header: usize, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; HEADER + 34 + transport_header + payload];
        frame[FLAGS] = NEEDS_CHECKSUM;
        frame[KIND] = kind;
        frame[HEADER_LENGTH].copy_from_slice(&9000_u16.to_ne_bytes());
        frame[SEGMENT].copy_from_slice(&segment.to_ne_bytes());
        frame[CHECKSUM_START].copy_from_slice(&34_u16.to_ne_bytes());
        frame[CHECKSUM_OFFSET].copy_from_slice(&6_u16.to_ne_bytes());
        if kind != KIND_UDP && kind != 0 {
            frame[HEADER + 34 + 12] = u8::try_from(transport_header / 4).unwrap() << 4;
        }
        frame
    }

    #[test]
    fn headers_count_once_per_frame_on_the_wire() {
        assert_eq!(size(&frame(0, 0, 8, 1000)), Size { frames: 1, bytes: 1042 });
        assert_eq!(size(&frame(KIND_UDP, 1400, 8, 2900)), Size { frames: 3, bytes: 2900 + 3 * 42 });
        assert_eq!(size(&frame(1, 1448, 32, 2896)), Size { frames: 2, bytes: 2896 + 2 * 66 });
        assert_eq!(size(&[]), Size { frames: 1, bytes: 0 });
    }

    #[test]
    fn the_headers_of_a_superframe_are_named() {
        let mut superframe = frame(KIND_UDP, 1400, 8, 2900);
        settle(&mut superframe);
        assert_eq!(field(&superframe, HEADER_LENGTH), 42);
    }

    #[test]
    fn a_flipped_bit_breaks_the_finished_checksum() {
        let mut random = StdRng::seed_from_u64(1);
        let mut frame = frame(0, 0, 8, 101);
        frame[HEADER + 60] = 0xab;
        finish_checksum(&mut frame);
        assert_eq!(folded_sum(&frame[HEADER + 34..]), 0xffff, "a right checksum");
        let before = frame.clone();
        assert!(corrupt(&mut frame, &mut random));
        let bits = before.iter().zip(&frame).map(|(before, after)| (before ^ after).count_ones());
        assert_eq!(bits.sum::<u32>(), 1);
    }

    #[test]
    fn superframes_and_scraps_are_spared() {
        let mut random = StdRng::seed_from_u64(1);
        assert!(!corrupt(&mut frame(KIND_UDP, 1400, 8, 2900), &mut random));
        assert!(!corrupt(&mut [0; HEADER + ETHERNET], &mut random));
    }
}
