//! Signals congestion to a flow through one of its frames: by the ECN mark, or by taking away its last segment.
//!
//! Called by [`crate::send::queue`] for the frame that `CoDel` picks. A flow that speaks ECN is marked and loses nothing. A
//! superframe that would be dropped whole costs its flow up to 45 retransmissions; without its last segment it says the
//! same, at the price of one. Any other frame can only be dropped.
//!
//! Invariant: what was a valid frame stays one; every checksum is adjusted by what changed (RFC 1624), never computed.
//! Source: ECN in IP: RFC 3168, 5; superframes: Virtual I/O Device 1.2, 5.1.6, and Linux `tcp_gso_segment`, which expects
//! the sum of the pseudo-header, with the length of the whole superframe, in the checksum field.

use crate::policy::classify::{IPV4, IPV6, skip_vlan_tags};
use crate::wire::record::{ETHERNET, VNET};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signalled {
    Marked,
    /// The frame has become so many bytes shorter, which are to be cut off its end.
    Trimmed(usize),
    /// Neither is possible: dropping the frame would tell it.
    Not,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Set beside the type when the first segment carries CWR.
const GSO_ECN: u8 = 0x80;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// Flags that belong to the last segment only.
const FIN_PSH: u8 = 0x09;
const URG: u8 = 0x20;

/// Whether a superframe of TCP begins here: its sender slows down when the device takes no more.
pub(crate) fn is_tcp_superframe(record: &[u8]) -> bool {
    record.get(1).is_some_and(|kind| matches!(kind & !GSO_ECN, GSO_TCPV4 | GSO_TCPV6))
}

/// Marks or shortens a frame of `length` bytes, virtio header included, of which `record` holds at least the beginning.
pub(crate) fn tell(record: &mut [u8], length: usize) -> Signalled {
    if record.len() < VNET + ETHERNET {
        return Signalled::Not;
    }
    if mark(&mut record[VNET..]) {
        return Signalled::Marked;
    }
    trim(record, length).map_or(Signalled::Not, Signalled::Trimmed)
}

/// Sets "congestion experienced" if the transport is able to obey it.
fn mark(frame: &mut [u8]) -> bool {
    let (ethertype, network) = network(frame);
    let packet = &mut frame[network..];
    match (ethertype, packet.len()) {
        (IPV4, IPV4_HEADER..) if packet[1] & 3 != 0 => {
            let before = word(packet, 0);
            packet[1] |= 3;
            let sum = adjusted(!word(packet, 10), before, word(packet, 0));
            put_word(packet, 10, !sum);
            true
        }
        (IPV6, IPV6_HEADER..) if packet[1] & 0x30 != 0 => {
            packet[1] |= 0x30;
            true
        }
        _ => false,
    }
}

/// Shortens a superframe's headers by its last segment; returns how long that is.
fn trim(record: &mut [u8], length: usize) -> Option<usize> {
    let (virtio, frame) = record.split_first_chunk_mut::<VNET>()?;
    let segments = Segments::of(virtio, frame, length - VNET)?;
    let cut = segments.last();
    shorten_network(frame, segments.frame, cut)?;
    shorten_transport(frame, &segments, cut);
    if segments.payload - cut <= segments.size {
        virtio[1] = GSO_NONE;
        virtio[4..6].fill(0);
    }
    Some(cut)
}

/// How a superframe is to be cut into segments.
struct Segments {
    /// Bytes of the whole frame.
    frame: usize,
    is_tcp: bool,
    /// Where the transport's header begins in the frame.
    transport: usize,
    /// Bytes behind the transport's header.
    payload: usize,
    /// Of these, bytes of each segment but the last.
    size: usize,
}

impl Segments {
    /// Reads the headers; `None` when they are not those of a superframe of at least two segments, all in one piece.
    fn of(virtio: &[u8; VNET], frame: &[u8], length: usize) -> Option<Self> {
        let [flags, kind, _, _, size0, size1, start0, start1, check0, check1] = *virtio;
        let transport = usize::from(u16::from_le_bytes([start0, start1]));
        let (is_tcp, check_at, least) = match kind & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => (true, 16, TCP_HEADER),
            GSO_UDP_L4 => (false, 6, UDP_HEADER),
            _ => return None,
        };
        let is_partial = flags & NEEDS_CHECKSUM != 0 && u16::from_le_bytes([check0, check1]) == check_at;
        let behind = frame.get(transport..)?;
        if !is_partial || behind.len() < least {
            return None;
        }
        let header = if is_tcp { usize::from(behind[12] >> 4) * 4 } else { UDP_HEADER };
        let payload = length.checked_sub(transport + header)?;
        let size = usize::from(u16::from_le_bytes([size0, size1]));
        let is_urgent = is_tcp && behind[13] & URG != 0;
        let is_whole = is_tcp || usize::from(word(behind, 4)) == length - transport;
        let fits = header >= least && size > 0 && payload > size && is_whole && !is_urgent;
        fits.then_some(Self { frame: length, is_tcp, transport, payload, size })
    }

    /// Bytes of the last segment.
    fn last(&self) -> usize {
        (self.payload - 1) % self.size + 1
    }
}

/// Takes `cut` bytes off the length in the IP header of a frame of `length` bytes, if that is what it says.
fn shorten_network(frame: &mut [u8], length: usize, cut: usize) -> Option<()> {
    let (ethertype, network) = network(frame);
    let packet = &mut frame[network..];
    let (field, header) = match ethertype {
        IPV4 => (2, 0),
        IPV6 => (4, IPV6_HEADER),
        _ => return None,
    };
    let before = u16::try_from(length.checked_sub(network + header)?).ok()?;
    if packet.len() < IPV4_HEADER || word(packet, field) != before {
        return None;
    }
    let after = before - u16::try_from(cut).ok()?;
    put_word(packet, field, after);
    if ethertype == IPV4 {
        let sum = adjusted(!word(packet, 10), before, after);
        put_word(packet, 10, !sum);
    }
    Some(())
}

/// Takes `cut` bytes off the length that the partial checksum holds, and what belonged to the last segment.
fn shorten_transport(frame: &mut [u8], segments: &Segments, cut: usize) {
    let header = &mut frame[segments.transport..];
    let lengths = [0, cut].map(|cut| u16::try_from(segments.frame - segments.transport - cut));
    let [Ok(before), Ok(after)] = lengths else { return };
    let check_at = if segments.is_tcp { 16 } else { 6 };
    let sum = adjusted(word(header, check_at), before, after);
    put_word(header, check_at, sum);
    if segments.is_tcp {
        header[13] &= !FIN_PSH;
    } else {
        put_word(header, 4, after);
    }
}

/// The type of the packet in a frame, and where it begins.
fn network(frame: &[u8]) -> (u16, usize) {
    let (ethertype, packet) = skip_vlan_tags(frame);
    (ethertype, frame.len() - packet.len())
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put_word(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// A ones' complement sum in which one word has changed (RFC 1624, equation 3).
fn adjusted(sum: u16, before: u16, after: u16) -> u16 {
    let wide = u32::from(sum) + u32::from(!before) + u32::from(after);
    let folded = (wide & 0xffff) + (wide >> 16);
    #[expect(clippy::cast_possible_truncation, reason = "three 16-bit words fold to 16 bits in two steps")]
    let sum = ((folded & 0xffff) + (folded >> 16)) as u16;
    sum
}

#[cfg(test)]
mod tests;
