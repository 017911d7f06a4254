//! A capture file: blocks of pcapng, as far as a trace needs them.
//!
//! Numbers are little-endian; times are nanoseconds. Blocks are written one behind the other and never changed, so that the
//! file may be a pipe, and what is there is complete after each block.
//!
//! Source: draft-ietf-opsawg-pcapng, sections 4.1 (section), 4.2 (interface), 4.3 (packet), 4.6 (statistics).

use std::io::{self, Write};
use std::time::Duration;

use tabane_io::capture::{Cast, Packet, Seen};

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Tells readers the order of bytes.
const ORDER: u32 = 0x1a2b_3c4d;
/// `LINKTYPE_ETHERNET`.
const ETHERNET: u16 = 1;

/// Codes of options: of each block, then of the one that is named.
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;

/// The resolution of times: 10 to the power of minus 9 seconds.
const NANOSECONDS: u8 = 9;
/// Where a VLAN tag stands in a frame.
const ADDRESSES: usize = 12;

/// Writes a capture file.
pub(super) struct Writer<W> {
    out: W,
    interfaces: u32,
}

impl<W: Write> Writer<W> {
    /// Begins a file; `comment` says what it is.
    pub(super) fn begin(mut out: W, comment: &str) -> io::Result<Self> {
        let mut body = ORDER.to_le_bytes().to_vec();
        // Version 1.0, and a section of a length that nobody knows yet.
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
        option(&mut body, COMMENT, comment.as_bytes());
        option(&mut body, SECTION_APPLICATION, concat!("tabane ", env!("CARGO_PKG_VERSION")).as_bytes());
        block(&mut out, SECTION, body)?;
        Ok(Self { out, interfaces: 0 })
    }

    /// Adds an interface of Ethernet, of whose packets `snap` bytes are kept at most; gives its number.
    pub(super) fn interface(&mut self, name: &str, description: &str, snap: u32) -> io::Result<u32> {
        let mut body = ETHERNET.to_le_bytes().to_vec();
        body.extend([0, 0]);
        body.extend(snap.to_le_bytes());
        option(&mut body, INTERFACE_NAME, name.as_bytes());
        option(&mut body, INTERFACE_DESCRIPTION, description.as_bytes());
        option(&mut body, INTERFACE_RESOLUTION, &[NANOSECONDS]);
        block(&mut self.out, INTERFACE, body)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a packet that passed an interface; a VLAN tag beside it stands in it again.
    pub(super) fn packet(&mut self, interface: u32, packet: &Packet<'_>) -> io::Result<()> {
        let tag = packet.tag.as_ref().filter(|_| packet.bytes.len() >= ADDRESSES).map_or(&[][..], |tag| tag);
        let (addresses, rest) = packet.bytes.split_at(packet.bytes.len().min(ADDRESSES));
        let kept = length(packet.bytes.len() + tag.len())?;
        let [high, low] = time(packet.at);
        let fill = kept.next_multiple_of(4) - kept;
        // The flags: code, length and value; and the end of the options.
        const OPTIONS: u32 = 8 + 4;
        let whole = 32 + kept + fill + OPTIONS;
        for word in [PACKET, whole, interface, high, low, kept, packet.length + length(tag.len())?] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        for bytes in [addresses, tag, rest, &[0; 3][..usize::try_from(fill).unwrap_or(0)]] {
            self.out.write_all(bytes)?;
        }
        let mut end = Vec::with_capacity(16);
        option(&mut end, PACKET_FLAGS, &flags(packet.cast).to_le_bytes());
        end.extend([0; 4]);
        end.extend(whole.to_le_bytes());
        self.out.write_all(&end)
    }

    /// Says at the end how many packets of an interface were wanted, and how many of them are missing.
    pub(super) fn statistics(&mut self, interface: u32, at: Duration, seen: Seen) -> io::Result<()> {
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(time(at).iter().flat_map(|word| word.to_le_bytes()));
        option(&mut body, STATISTICS_RECEIVED, &seen.packets.to_le_bytes());
        option(&mut body, STATISTICS_DROPPED, &seen.lost.to_le_bytes());
        block(&mut self.out, STATISTICS, body)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A block with this body, whose last option was written.
fn block(out: &mut impl Write, kind: u32, mut body: Vec<u8>) -> io::Result<()> {
    // The option that ends the options.
    body.extend([0; 4]);
    let whole = (length(body.len())? + 12).to_le_bytes();
    for part in [&kind.to_le_bytes()[..], &whole, &body, &whole] {
        out.write_all(part)?;
    }
    Ok(())
}

/// Appends an option; what is too long for one is cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX.into())];
    body.extend(code.to_le_bytes());
    body.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Direction and kind of address (section 4.3.1).
fn flags(cast: Cast) -> u32 {
    const RECEIVED: u32 = 0b01;
    const SENT: u32 = 0b10;
    let kind = |number: u32| RECEIVED | number << 2;
    match cast {
        Cast::Host => kind(1),
        Cast::Multicast => kind(2),
        Cast::Broadcast => kind(3),
        Cast::Other => kind(4),
        Cast::Sent => SENT,
    }
}

/// The upper and the lower half of a time.
fn time(at: Duration) -> [u32; 2] {
    let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).to_be_bytes();
    let [a, b, c, d, e, f, g, h] = nanos;
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks of a file: kind and body, each of which says its length at both ends.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().expect("four bytes"));
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let whole = usize::try_from(word(&file[4..])).expect("fits");
            assert_eq!((whole % 4, word(&file[whole - 4..])), (0, word(&file[4..])));
            blocks.push((word(file), file[8..whole - 4].to_vec()));
            file = &file[whole..];
        }
        blocks
    }

    #[test]
    fn a_file_with_one_packet() {
        let mut file = Vec::new();
        let mut writer = Writer::begin(&mut file, "cells").expect("a vector takes it");
        assert_eq!(writer.interface("eth1", "link 0", 96).expect("taken"), 0);
        let packet = Packet {
            at: Duration::from_nanos(0x0000_0001_0000_0002),
            cast: Cast::Sent,
            length: 60,
            bytes: &[7; 15],
            tag: None,
        };
        writer.packet(0, &packet).expect("taken");
        writer.statistics(0, packet.at, Seen { packets: 3, lost: 2 }).expect("taken");
        let blocks = blocks(&file);
        assert_eq!(
            blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
            [SECTION, INTERFACE, PACKET, STATISTICS]
        );
        let section =
            [&[0x4d, 0x3c, 0x2b, 0x1a][..], &[1, 0, 0, 0], &[0xff; 8], &[1, 0, 5, 0], b"cells\0\0\0"];
        assert!(blocks[0].1.starts_with(&section.concat()), "{:?}", blocks[0]);
        let name = [&[1, 0, 0, 0, 96, 0, 0, 0][..], &[2, 0, 4, 0], b"eth1", &[3, 0, 6, 0], b"link 0\0\0"];
        let resolution = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(blocks[1].1, [&name.concat()[..], &resolution].concat());
        let head = [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 15, 0, 0, 0, 60, 0, 0, 0];
        let options = [2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(blocks[2].1, [&head[..], &[7; 15], &[0], &options].concat());
        let counts = [4, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(blocks[3].1, [&head[..12], &counts].concat());
    }

    #[test]
    fn a_vlan_tag_stands_in_the_frame_again() {
        let bytes: Vec<u8> = (0..16).collect();
        let tag = Some([0x81, 0, 0, 7]);
        let packet = Packet { at: Duration::ZERO, cast: Cast::Host, length: 16, bytes: &bytes, tag };
        let mut writer = Writer { out: Vec::new(), interfaces: 1 };
        writer.packet(0, &packet).expect("taken");
        let frame = &blocks(&writer.out)[0].1[20..40];
        assert_eq!(frame, [&bytes[..12], &[0x81, 0, 0, 7], &bytes[12..]].concat());
        assert_eq!(writer.out[20..28], [20, 0, 0, 0, 20, 0, 0, 0]);
    }

    #[test]
    fn directions_and_kinds() {
        let casts = [Cast::Host, Cast::Multicast, Cast::Broadcast, Cast::Other, Cast::Sent];
        assert_eq!(casts.map(flags), [0b00101, 0b01001, 0b01101, 0b10001, 0b00010]);
    }
}
