//! Frames that are marked, trimmed or left alone, against checksums computed from scratch.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Made {
    is_tcp: bool,
    is_ipv6: bool,
    has_tag: bool,
    /// The two ECN bits.
    ecn: u8,
    /// Bytes of IPv4 options, or of TCP options, in units of 4.
    options: (usize, usize),
    tcp_flags: u8,
    payload: usize,
    size: u16,
    noise: u8,
}

fn made() -> impl Strategy<Value = Made> {
    let shape = (any::<bool>(), any::<bool>(), any::<bool>(), 0u8..4, (0usize..11, 0usize..11));
    let load = (any::<u8>(), 1usize..65_000, 1u16..9_000, any::<u8>());
    (shape, load).prop_map(|((is_tcp, is_ipv6, has_tag, ecn, options), (flags, payload, size, noise))| Made {
        is_tcp,
        is_ipv6,
        has_tag,
        ecn,
        options,
        tcp_flags: flags & !URG,
        payload,
        size,
        noise,
    })
}

impl Made {
    fn headers(&self) -> (usize, usize, usize) {
        let network = ETHERNET + if self.has_tag { 4 } else { 0 };
        let ip = if self.is_ipv6 { IPV6_HEADER } else { IPV4_HEADER + 4 * self.options.0.min(10) };
        let transport = if self.is_tcp { TCP_HEADER + 4 * self.options.1.min(10) } else { UDP_HEADER };
        (network, network + ip, network + ip + transport)
    }

    /// The frame with its virtio header, every checksum computed from scratch.
    fn bytes(&self) -> Vec<u8> {
        let (network, transport, payload_at) = self.headers();
        let total = payload_at + self.payload;
        let mut frame = alloc::vec![self.noise; total];
        if self.has_tag {
            put_word(&mut frame, 12, 0x8100);
        }
        put_word(&mut frame, network - 2, if self.is_ipv6 { IPV6 } else { IPV4 });
        self.ip(&mut frame[network..], transport - network);
        let header = &mut frame[transport..];
        if self.is_tcp {
            header[12] = u8::try_from((payload_at - transport) / 4).unwrap() << 4;
            header[13] = self.tcp_flags;
        } else {
            put_word(header, 4, u16::try_from(total - transport).unwrap());
        }
        let check_at = if self.is_tcp { 16 } else { 6 };
        let pseudo = self.pseudo_header(&frame[network..transport], total - transport);
        put_word(&mut frame[transport..], check_at, pseudo);

        let kind = match (self.is_tcp, self.is_ipv6) {
            _ if self.payload <= usize::from(self.size) => GSO_NONE,
            (true, false) => GSO_TCPV4,
            (true, true) => GSO_TCPV6,
            (false, _) => GSO_UDP_L4,
        };
        let mut record = alloc::vec![NEEDS_CHECKSUM, kind];
        record.extend(u16::try_from(payload_at).unwrap().to_le_bytes());
        record.extend(if kind == GSO_NONE { 0 } else { self.size }.to_le_bytes());
        record.extend(u16::try_from(transport).unwrap().to_le_bytes());
        record.extend(u16::try_from(check_at).unwrap().to_le_bytes());
        record.extend(frame);
        record
    }

    fn ip(&self, packet: &mut [u8], header: usize) {
        let total = packet.len();
        if self.is_ipv6 {
            packet[0] = 0x60 | self.noise & 0x0f;
            packet[1] = self.noise & 0xcf | self.ecn << 4;
            put_word(packet, 4, u16::try_from(total - IPV6_HEADER).unwrap());
        } else {
            packet[0] = 0x40 | u8::try_from(header / 4).unwrap();
            packet[1] = self.noise & 0xfc | self.ecn;
            put_word(packet, 2, u16::try_from(total).unwrap());
            put_word(packet, 10, 0);
            let sum = naive_sum(&packet[..header]);
            put_word(packet, 10, !sum);
        }
    }

    fn pseudo_header(&self, ip: &[u8], length: usize) -> u16 {
        let addresses = if self.is_ipv6 { &ip[8..40] } else { &ip[12..20] };
        let mut pseudo = addresses.to_vec();
        pseudo.extend(u32::try_from(length).unwrap().to_be_bytes());
        pseudo.extend([0, if self.is_tcp { 6 } else { 17 }]);
        naive_sum(&pseudo)
    }
}

/// The ones' complement sum of all 16-bit words (RFC 1071).
fn naive_sum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    let sum: u64 = words.sum();
    u16::try_from((sum - 1) % 0xffff + 1).unwrap()
}

proptest! {
    #[test]
    fn what_speaks_ecn_is_marked_and_nothing_else_changes(made in made(), ecn in 1u8..4) {
        let made = Made { ecn, ..made };
        let mut record = made.bytes();
        let length = record.len();
        prop_assert_eq!(tell(&mut record, length), Signalled::Marked);
        prop_assert_eq!(record, Made { ecn: 3, ..made }.bytes());
    }

    #[test]
    fn a_superframe_loses_its_last_segment(made in made()) {
        let made = Made { ecn: 0, ..made };
        let size = usize::from(made.size);
        let mut record = made.bytes();
        let length = record.len();
        let told = tell(&mut record, length);
        if made.payload <= size {
            prop_assert_eq!(told, Signalled::Not);
            prop_assert_eq!(record, made.bytes());
            return Ok(());
        }
        let payload = (made.payload - 1) / size * size;
        prop_assert_eq!(told, Signalled::Trimmed(made.payload - payload));
        record.truncate(length - (made.payload - payload));
        let tcp_flags = made.tcp_flags & !FIN_PSH;
        let expected = Made { payload, tcp_flags, ..made };
        prop_assert_eq!(record, expected.bytes());
    }

    #[test]
    fn headers_alone_are_enough_and_less_is_left_as_it_was(made in made(), held in 0usize..200) {
        let whole = made.bytes();
        let held = held.min(whole.len());
        let mut record = whole[..held].to_vec();
        match tell(&mut record, whole.len()) {
            Signalled::Not => prop_assert_eq!(&record[..], &whole[..held]),
            Signalled::Marked => prop_assert!(made.ecn != 0),
            Signalled::Trimmed(_) => prop_assert!(held >= VNET + made.headers().1 + UDP_HEADER),
        }
    }

    #[test]
    fn any_bytes_are_signalled_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), more in 0usize..70_000) {
        let mut record = bytes.clone();
        let length = (bytes.len() + more).max(VNET + ETHERNET);
        if let Signalled::Trimmed(cut) = tell(&mut record, length) {
            prop_assert!(cut < length);
        }
    }
}
