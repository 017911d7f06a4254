//! Who talks to whom, from the headers of a frame.
//!
//! A flow is named from here: the address of this side first, whoever sent the frame. What is no IP is named by its type.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where Ethernet's type stands, and VLAN tags before it.
const TYPE: usize = 12;
const VLAN: [u16; 2] = [0x8100, 0x88a8];
const TAGS_MAX: usize = 2;
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
/// Protocols with ports.
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Frames that belong together by their headers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Flow {
    /// Between two addresses, by a protocol of IP.
    Ip {
        /// On this side of the device, then on the other.
        ends: [End; 2],
        protocol: u8,
    },
    /// All that is no IP, by Ethernet's type.
    Type(u16),
    /// Flows beyond those that are counted one by one.
    Others,
}

/// An address, and a port where the protocol has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct End {
    address: IpAddr,
    port: Option<u16>,
}

impl Flow {
    /// Both ends as text, this side's first; of what is no IP, its name alone.
    pub(in crate::top) fn ends(&self) -> [String; 2] {
        match self {
            Flow::Ip { ends, .. } => ends.map(|end| end.to_string()),
            Flow::Type(_) | Flow::Others => [self.protocol(), String::new()],
        }
    }

    /// The protocol's name, or its number.
    pub(in crate::top) fn protocol(&self) -> String {
        match self {
            Flow::Ip { protocol, .. } => match *protocol {
                TCP => "tcp".to_owned(),
                UDP => "udp".to_owned(),
                SCTP => "sctp".to_owned(),
                1 | 58 => "icmp".to_owned(),
                other => format!("ip {other}"),
            },
            Flow::Type(ARP) => "arp".to_owned(),
            Flow::Type(kind) => format!("type {kind:04x}"),
            Flow::Others => "others".to_owned(),
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flow::Ip { ends: [here, there], .. } => write!(out, "{here} > {there} {}", self.protocol()),
            Flow::Type(_) | Flow::Others => out.write_str(&self.protocol()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (address, None) => write!(out, "{address}"),
            (IpAddr::V4(address), Some(port)) => write!(out, "{address}:{port}"),
            (IpAddr::V6(address), Some(port)) => write!(out, "[{address}]:{port}"),
        }
    }
}

pub(crate) struct Head {
    pub(crate) flow: Flow,
    /// The data of TCP in it, if it has any.
    pub(super) data: Option<Data>,
}

/// Data of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// The sequence number behind them.
    pub(super) end: u32,
}

/// A packet of IP.
struct Packet<'a> {
    /// Source and destination.
    addresses: [IpAddr; 2],
    protocol: u8,
    /// What stands behind the headers of IP; `None`: it is a fragment, and not the first.
    body: Option<&'a [u8]>,
}

/// What the beginning of a frame says that has so many bytes, and that this side has sent, or received.
pub(crate) fn head(frame: &[u8], length: u32, sent: bool) -> Head {
    let (kind, packet) = behind_tags(frame);
    let packet = match kind {
        IPV4 => ipv4(packet),
        IPV6 => ipv6(packet),
        _ => None,
    };
    let Some(packet) = packet else { return Head { flow: Flow::Type(kind), data: None } };
    let mut ends = packet.ends();
    if !sent {
        ends.reverse();
    }
    Head { flow: Flow::Ip { ends, protocol: packet.protocol }, data: packet.data(frame.len(), length) }
}

impl Packet<'_> {
    /// Where it comes from, and where it goes.
    fn ends(&self) -> [End; 2] {
        let body = self.body.filter(|_| matches!(self.protocol, TCP | UDP | SCTP));
        [0, 1]
            .map(|end| End { address: self.addresses[end], port: body.and_then(|body| half(body, 2 * end)) })
    }

    /// The data of TCP in it, in a frame of `length` bytes of which `kept` are known.
    fn data(&self, kept: usize, length: u32) -> Option<Data> {
        let segment = self.body.filter(|_| self.protocol == TCP)?;
        let begin = u32::from_be_bytes(*segment.get(4..)?.first_chunk()?);
        let own = usize::from(segment.get(12)? >> 4) * 4;
        let before = kept - segment.len() + own;
        let bytes = length.checked_sub(u32::try_from(before).ok()?)?;
        (bytes > 0).then_some(Data { end: begin.wrapping_add(bytes) })
    }
}

/// Ethernet's type and what follows it.
fn behind_tags(frame: &[u8]) -> (u16, &[u8]) {
    let mut at = TYPE;
    for _ in 0..TAGS_MAX {
        match half(frame, at) {
            Some(kind) if VLAN.contains(&kind) => at += 4,
            _ => break,
        }
    }
    (half(frame, at).unwrap_or(0), frame.get(at + 2..).unwrap_or_default())
}

fn ipv4(packet: &[u8]) -> Option<Packet<'_>> {
    let header = packet.first_chunk::<20>()?;
    let address = |at: usize| Some(Ipv4Addr::from(*header[at..].first_chunk::<4>()?).into());
    let is_first = half(header, 6)? & 0x1fff == 0;
    let body = packet.get(usize::from(header[0] & 0x0f) * 4..).filter(|_| is_first);
    Some(Packet { addresses: [address(12)?, address(16)?], protocol: header[9], body })
}

fn ipv6(packet: &[u8]) -> Option<Packet<'_>> {
    let (header, mut body) = packet.split_first_chunk::<40>()?;
    let address = |at: usize| Some(Ipv6Addr::from(*header[at..].first_chunk::<16>()?).into());
    let mut protocol = header[6];
    // What groups say to each other (MLD) stands behind options for each hop.
    if let (0, [next, length, ..]) = (protocol, body) {
        (protocol, body) = (*next, body.get(8 * (usize::from(*length) + 1)..).unwrap_or_default());
    }
    Some(Packet { addresses: [address(8)?, address(24)?], protocol, body: Some(body) })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame of UDP over IPv4.
    pub(in crate::top::flows) fn udp(from: [u8; 4], from_port: u16, to: [u8; 4], to_port: u16) -> Vec<u8> {
        let mut frame = vec![0; TYPE];
        frame.extend(IPV4.to_be_bytes());
        frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, UDP, 0, 0]);
        frame.extend([from, to].concat());
        frame.extend([from_port.to_be_bytes(), to_port.to_be_bytes()].concat());
        frame
    }

    /// A frame of TCP over IPv4 with so many bytes of data.
    pub(in crate::top::flows) fn tcp(
        from: [u8; 4],
        from_port: u16,
        to: [u8; 4],
        to_port: u16,
        seq: u32,
        data: usize,
    ) -> Vec<u8> {
        let mut frame = udp(from, from_port, to, to_port);
        frame[23] = TCP;
        frame.extend(seq.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        frame.resize(frame.len() + data, 0);
        frame
    }

    fn flow(frame: &[u8], sent: bool) -> Flow {
        head(frame, 0, sent).flow
    }

    #[test]
    fn flows_are_named_from_this_side() {
        let frame = tcp([10, 0, 0, 1], 5000, [10, 0, 0, 2], 443, 0, 0);
        assert_eq!(flow(&frame, true).to_string(), "10.0.0.1:5000 > 10.0.0.2:443 tcp");
        assert_eq!(flow(&frame, false).to_string(), "10.0.0.2:443 > 10.0.0.1:5000 tcp");
        let mut tagged = frame.clone();
        tagged.splice(TYPE..TYPE, [0x81, 0, 0, 7]);
        assert_eq!(flow(&tagged, true), flow(&frame, true));
    }

    #[test]
    fn data_of_tcp_are_found() {
        let frame = tcp([10, 0, 0, 1], 5000, [10, 0, 0, 2], 443, u32::MAX, 100);
        let data = |frame: &[u8], length| head(frame, length, true).data;
        assert_eq!(data(&frame[..60], 154), Some(Data { end: 99 }), "of a frame that is not kept whole");
        assert_eq!(data(&frame, 54), None, "an acknowledgement");
        assert_eq!(data(&udp([10, 0, 0, 1], 5000, [10, 0, 0, 2], 443), 154), None);
    }

    #[test]
    fn other_kinds_have_names_too() {
        let mut six = vec![0; TYPE];
        six.extend(IPV6.to_be_bytes());
        six.extend([0x60, 0, 0, 0, 0, 8, UDP, 64]);
        six.extend(
            [Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::LOCALHOST].map(|ip| ip.octets()).concat(),
        );
        six.extend([0, 53, 0, 54]);
        assert_eq!(flow(&six, true).to_string(), "[fd77::1]:53 > [::1]:54 udp");
        let mut ping = udp([10, 0, 0, 1], 0, [10, 0, 0, 2], 0);
        ping[23] = 1;
        assert_eq!(flow(&ping, true).to_string(), "10.0.0.1 > 10.0.0.2 icmp");
        let mut arp = vec![0; TYPE];
        arp.extend(ARP.to_be_bytes());
        assert_eq!(flow(&arp, true).to_string(), "arp");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_some_flow(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100), kind in 0..3_usize) {
            let mut frame = bytes;
            if frame.len() > TYPE + 2 {
                frame[TYPE..TYPE + 2].copy_from_slice(&[IPV4, IPV6, VLAN[0]][kind].to_be_bytes());
            }
            let (sent, received) = (flow(&frame, true), flow(&frame, false));
            if let (Flow::Ip { ends: [here, there], .. }, Flow::Ip { ends, .. }) = (sent, received) {
                assert_eq!([there, here], ends);
            }
        }
    }

    #[test]
    fn no_frame_is_too_short() {
        let frame = tcp([10, 0, 0, 1], 5000, [10, 0, 0, 2], 443, 0, 9);
        for length in 0..frame.len() {
            let _ = head(&frame[..length], 63, true);
        }
        assert_eq!(flow(&[], true), Flow::Type(0));
    }
}
