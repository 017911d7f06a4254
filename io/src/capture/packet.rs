//! Packets as they lie in a block of the ring.
//!
//! The kernel writes them; all that is read here is checked against the block's length, so that a mistake there or here
//! ends a block early and nothing else.
//!
//! Source: `linux/if_packet.h` of Linux 6.18.

use std::mem::offset_of;
use std::time::Duration;

use libc::{sockaddr_ll, tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1, tpacket3_hdr};

/// Where the status of a block stands in it.
pub(super) const STATUS: usize = HEAD + offset_of!(tpacket_hdr_v1, block_status);

const HEAD: usize = offset_of!(tpacket_block_desc, hdr);
const COUNT: usize = HEAD + offset_of!(tpacket_hdr_v1, num_pkts);
const FIRST: usize = HEAD + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);
const TAG: usize = offset_of!(tpacket3_hdr, hv1) + offset_of!(tpacket_hdr_variant1, tp_vlan_tci);
const TAG_KIND: usize = offset_of!(tpacket3_hdr, hv1) + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid);
/// The address stands behind the header, aligned to 16 bytes, as the header is.
const CAST: usize = size_of::<tpacket3_hdr>() + offset_of!(sockaddr_ll, sll_pkttype);

/// Whom a packet was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    Host,
    Broadcast,
    Multicast,
    /// Another host, while the NIC takes packets for all.
    Other,
    Sent,
}

/// A packet that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When, since the beginning of 1970, by the wall clock.
    pub at: Duration,
    pub cast: Cast,
    /// Its length on the way, in bytes, without [`Self::tag`].
    pub length: u32,
    /// Its beginning, from the Ethernet header on.
    pub bytes: &'a [u8],
    /// The VLAN tag that the kernel keeps beside it: type and control information. It stands behind the addresses.
    pub tag: Option<[u8; 4]>,
}

pub(super) fn in_block(block: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    let count = word(block, COUNT).unwrap_or(0);
    let mut at = word(block, FIRST).map(offset);
    (0..count).map_while(move |_| {
        let here = at?;
        let rest = block.get(here..)?;
        // The last one has no next: its offset is 0.
        let next = word(rest, offset_of!(tpacket3_hdr, tp_next_offset)).filter(|step| *step > 0);
        at = next.and_then(|step| here.checked_add(offset(step)));
        packet(rest)
    })
}

/// The packet whose header `from` begins with.
fn packet(from: &[u8]) -> Option<Packet<'_>> {
    let begins = usize::from(half(from, offset_of!(tpacket3_hdr, tp_mac))?);
    let kept = offset(word(from, offset_of!(tpacket3_hdr, tp_snaplen))?);
    let seconds = word(from, offset_of!(tpacket3_hdr, tp_sec))?;
    let nanos = word(from, offset_of!(tpacket3_hdr, tp_nsec))?;
    let status = word(from, offset_of!(tpacket3_hdr, tp_status))?;
    Some(Packet {
        at: Duration::new(seconds.into(), nanos),
        cast: cast(*from.get(CAST)?),
        length: word(from, offset_of!(tpacket3_hdr, tp_len))?,
        bytes: from.get(begins..begins.checked_add(kept)?)?,
        // The control information stands in the lower half of a word.
        tag: vlan_tag(status, half(from, TAG_KIND)?, u16::try_from(word(from, TAG)? & 0xffff).ok()?),
    })
}

fn cast(kind: u8) -> Cast {
    match kind {
        libc::PACKET_HOST => Cast::Host,
        libc::PACKET_BROADCAST => Cast::Broadcast,
        libc::PACKET_MULTICAST => Cast::Multicast,
        libc::PACKET_OUTGOING => Cast::Sent,
        _ => Cast::Other,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn offset(word: u32) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

/// The VLAN tag that the kernel took off a frame: its type and its control information, as they stood there.
pub(crate) fn vlan_tag(status: u32, kind: u16, control: u16) -> Option<[u8; 4]> {
    let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    let ([a, b], [c, d]) = (kind.to_be_bytes(), control.to_be_bytes());
    (status & valid == valid).then_some([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with one packet of four bytes.
    fn block() -> Vec<u8> {
        let mut block = vec![0; 256];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        let at = 48;
        put(COUNT, &1_u32.to_ne_bytes());
        put(FIRST, &48_u32.to_ne_bytes());
        put(at + offset_of!(tpacket3_hdr, tp_sec), &7_u32.to_ne_bytes());
        put(at + offset_of!(tpacket3_hdr, tp_nsec), &9_u32.to_ne_bytes());
        put(at + offset_of!(tpacket3_hdr, tp_snaplen), &4_u32.to_ne_bytes());
        put(at + offset_of!(tpacket3_hdr, tp_len), &60_u32.to_ne_bytes());
        put(at + offset_of!(tpacket3_hdr, tp_status), &(1_u32 << 4 | 1 << 6).to_ne_bytes());
        put(at + offset_of!(tpacket3_hdr, tp_mac), &82_u16.to_ne_bytes());
        put(at + TAG_KIND, &0x8100_u16.to_ne_bytes());
        put(at + TAG, &0x6007_u32.to_ne_bytes());
        put(at + CAST, &[libc::PACKET_OUTGOING]);
        put(at + 82, &[1, 2, 3, 4]);
        block
    }

    #[test]
    fn a_packet_is_read() {
        let want = Packet {
            at: Duration::new(7, 9),
            cast: Cast::Sent,
            length: 60,
            bytes: &[1, 2, 3, 4],
            tag: Some([0x81, 0, 0x60, 7]),
        };
        assert_eq!(in_block(&block()).collect::<Vec<_>>(), [want]);
    }

    #[test]
    fn no_number_leads_out_of_a_block() {
        for at in [
            COUNT,
            FIRST,
            48,
            48 + offset_of!(tpacket3_hdr, tp_snaplen),
            48 + offset_of!(tpacket3_hdr, tp_mac),
        ] {
            let mut block = block();
            block[at..at + 4].fill(0xff);
            assert!(in_block(&block).count() <= 1, "at {at}");
        }
        assert_eq!(in_block(&[]).count(), 0);
    }
}
