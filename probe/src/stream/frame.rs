//! Which sender a frame is from that leaves a NIC: reads the TCP source port from its headers.
//!
//! Sources: RFC 791, RFC 8200, RFC 9293, IEEE 802.1Q.

const ETHERNET: usize = 12;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Tags of a VLAN, and of a service VLAN around it; each takes 4 bytes.
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const TCP: u8 = 6;
/// Length of an IPv6 header.
const IPV6_HEADER: usize = 40;

/// Bytes of a frame that hold all these headers.
pub(super) const SNAP: usize = 128;

/// The TCP source port, and the length of the IP packet; `None` for all that is not TCP right over IP.
pub(super) fn sender(frame: &[u8]) -> Option<(u16, u64)> {
    let mut place = ETHERNET;
    while TAGS.contains(&pair(frame, place)?) {
        place += 4;
    }
    let packet = frame.get(place + 2..)?;
    match pair(frame, place)? {
        IPV4 => {
            let header = usize::from(packet.first()? & 0x0f) * 4;
            let is_first = u16::from_be_bytes(pair(packet, 6)?) & 0x1fff == 0;
            (packet.get(9)? == &TCP && is_first).then_some(())?;
            Some((port(packet, header)?, length(packet, 2, 0)?))
        }
        IPV6 => {
            (packet.get(6)? == &TCP).then_some(())?;
            Some((port(packet, IPV6_HEADER)?, length(packet, 4, IPV6_HEADER as u64)?))
        }
        _ => None,
    }
}

fn port(packet: &[u8], place: usize) -> Option<u16> {
    pair(packet, place).map(u16::from_be_bytes)
}

/// A length field; 0 stands for superframes of more than 64 KB.
fn length(packet: &[u8], place: usize, more: u64) -> Option<u64> {
    let length = u64::from(u16::from_be_bytes(pair(packet, place)?));
    Some(if length == 0 { 1 << 16 } else { length + more })
}

fn pair(bytes: &[u8], place: usize) -> Option<[u8; 2]> {
    bytes.get(place..place + 2)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of zeros with these bytes at these places.
    fn frame(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut frame = vec![0; 90];
        for (place, bytes) in parts {
            frame[*place..place + bytes.len()].copy_from_slice(bytes);
        }
        frame
    }

    #[test]
    fn ports_are_found_behind_any_headers() {
        let plain = frame(&[(12, &IPV4), (14, &[0x45, 0, 0x05, 0xdc]), (23, &[TCP]), (34, &[0x9c, 0x40])]);
        assert_eq!(sender(&plain), Some((40_000, 1_500)));
        let tagged = frame(&[
            (12, &[0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x08, 0x00]),
            (22, &[0x46, 0, 0, 64]),
            (31, &[TCP]),
            (46, &[0, 80]),
        ]);
        assert_eq!(sender(&tagged), Some((80, 64)));
        let six = frame(&[(12, &IPV6), (18, &[0x10, 0x00, TCP]), (54, &[0, 80])]);
        assert_eq!(sender(&six), Some((80, 4_136)));
    }

    #[test]
    fn what_is_not_tcp_has_no_sender() {
        let udp = frame(&[(12, &IPV4), (14, &[0x45, 0, 0, 99]), (23, &[17])]);
        let later_fragment = frame(&[(12, &IPV4), (14, &[0x45, 0, 0, 99]), (20, &[0, 1]), (23, &[TCP])]);
        for other in [udp, later_fragment, frame(&[(12, &[0x88, 0xb5])]), vec![]] {
            assert_eq!(sender(&other), None);
        }
    }

    proptest! {
        #[test]
        fn no_frame_panics(frame in prop::collection::vec(any::<u8>(), 0..SNAP)) {
            let _ = sender(&frame);
        }
    }
}
