//! Which short datagrams, and which refusals of them, arrive at a NIC, whether or not a firewall lets them pass.
//!
//! A packet socket sees what comes in before any filter of IP does. So it tells a firewall of this machine from a silent wire.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::{RecvFlags, recv};
use socket2::{Socket, Type};

use crate::netlink::{self, NetlinkError};
use crate::sockets::{filter, link_layer, packet_socket};

const UDP: u8 = 17;
/// ICMP of IPv4 and IPv6, and its type "destination unreachable".
const ICMP: [(u8, u8); 2] = [(1, 3), (58, 1)];
/// Bytes of ICMP before the packet that it is about.
const ICMP_HEAD: usize = 8;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Datagrams that are heard are shorter than this with their headers: greetings and heartbeats, and no data.
const LONGEST: u32 = 512;
/// Bytes of a packet that are looked at: a refusal repeats the headers of what is refused.
const HEAD: usize = IPV6 + ICMP_HEAD + IPV6 + 8;
/// Packets that one call takes.
const AT_ONCE: usize = 4_096;

/// A kind of datagram that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Heard {
    pub from: IpAddr,
    pub to: IpAddr,
    /// The port there; of a refusal, the port that is refused.
    pub port: u16,
    /// Whether it says by ICMP that a datagram was not taken.
    pub is_refusal: bool,
}

/// An ear at one NIC.
#[derive(Debug)]
pub struct Ear(Socket);

impl Ear {
    /// Listens at `nic` from now on. Wants CAP_NET_RAW.
    /// Errors: there is no such NIC, or the kernel's.
    pub fn open(nic: &str) -> Result<Self, NetlinkError> {
        let index = netlink::nic(nic)?.index;
        Self::open_at(index).map_err(|error| NetlinkError::new("open a packet socket", error))
    }

    fn open_at(index: u32) -> io::Result<Self> {
        let socket = packet_socket(Type::DGRAM)?;
        // Packets that are short; this kind of socket has taken the Ethernet header off.
        let head = u32::try_from(HEAD).unwrap_or_default();
        socket.attach_filter(&filter(libc::BPF_W | libc::BPF_LEN, (libc::BPF_JGE, LONGEST), false, head))?;
        let all = u16::try_from(libc::ETH_P_ALL).unwrap_or_default();
        socket.bind(&link_layer(index, all, [0; 6]))?;
        Ok(Self(socket))
    }

    /// What was heard since the ear was opened, and how often.
    pub fn heard(&self) -> BTreeMap<Heard, u32> {
        let mut heard = BTreeMap::new();
        let mut packet = [0; HEAD];
        for _ in 0..AT_ONCE {
            let Ok((length, _)) = recv(&self.0, &mut packet[..], RecvFlags::DONTWAIT) else { break };
            if let Some(datagram) = parse(&packet[..length]) {
                *heard.entry(datagram).or_default() += 1;
            }
        }
        heard
    }
}

/// Addresses and port of a datagram, or of one that is refused; `None`: the packet is neither, or cut off.
pub fn parse(packet: &[u8]) -> Option<Heard> {
    let Headers { protocol, from, to, rest } = Headers::parse(packet)?;
    let port = |udp: &[u8]| Some(u16::from_be_bytes(*udp.get(2..)?.first_chunk()?));
    if protocol == UDP {
        return Some(Heard { from, to, port: port(rest)?, is_refusal: false });
    }
    let kind = *rest.first()?;
    if !ICMP.contains(&(protocol, kind)) {
        return None;
    }
    let refused = Headers::parse(rest.get(ICMP_HEAD..)?).filter(|refused| refused.protocol == UDP)?;
    Some(Heard { from, to, port: port(refused.rest)?, is_refusal: true })
}

/// What the headers of IP say.
struct Headers<'a> {
    protocol: u8,
    from: IpAddr,
    to: IpAddr,
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    fn parse(packet: &'a [u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => {
                let header = packet.first_chunk::<IPV4>()?;
                let address =
                    |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
                let rest = packet.get(usize::from(header[0] & 0x0f) * 4..)?;
                Some(Self { protocol: header[9], from: address(12).into(), to: address(16).into(), rest })
            }
            6 => {
                let (header, rest) = packet.split_first_chunk::<IPV6>()?;
                let address = |at: usize| {
                    let bytes: [u8; 16] = header[at..at + 16].try_into().unwrap_or_default();
                    Ipv6Addr::from(bytes)
                };
                Some(Self { protocol: header[6], from: address(8).into(), to: address(24).into(), rest })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_of_either_family_is_understood() {
        let mut packet = [0; HEAD];
        packet[0] = 0x60;
        packet[6] = UDP;
        (packet[8], packet[23], packet[24], packet[39]) = (0xfe, 1, 0xff, 2);
        packet[42..44].copy_from_slice(&7420_u16.to_be_bytes());
        let heard = parse(&packet).unwrap();
        assert_eq!((heard.from.to_string(), heard.to.to_string()), ("fe00::1".into(), "ff00::2".into()));
        assert_eq!(heard.port, 7420);

        let mut packet = [0; 28];
        (packet[0], packet[9]) = (0x45, UDP);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[22..24].copy_from_slice(&7421_u16.to_be_bytes());
        let heard = parse(&packet).unwrap();
        assert_eq!((heard.to.to_string(), heard.port), ("10.0.0.2".to_owned(), 7421));
        assert!(!heard.is_refusal);
    }

    #[test]
    fn a_refusal_names_the_port_that_was_refused() {
        let mut packet = [0; HEAD];
        (packet[0], packet[6], packet[23]) = (0x60, 58, 9);
        (packet[IPV6], packet[IPV6 + 1]) = (1, 4);
        let refused = IPV6 + ICMP_HEAD;
        (packet[refused], packet[refused + 6]) = (0x60, UDP);
        packet[refused + IPV6 + 2..][..2].copy_from_slice(&7420_u16.to_be_bytes());
        let heard = parse(&packet).unwrap();
        assert_eq!((heard.port, heard.is_refusal, heard.from.to_string()), (7420, true, "::9".to_owned()));
        packet[IPV6] = 128;
        assert_eq!(parse(&packet), None, "an echo refuses nothing");
    }

    #[test]
    fn what_is_cut_off_or_no_datagram_is_left_out() {
        let mut packet = [0; HEAD];
        (packet[0], packet[6]) = (0x60, 6);
        assert_eq!(parse(&packet), None);
        packet[6] = UDP;
        for length in 0..44 {
            assert_eq!(parse(&packet[..length]), None, "{length}");
        }
    }
}
