//! The header between the Ethernet header and a cell: port and length (`docs/wire.md`, section 2); and the addresses of NICs.
//!
//! Ethernet pads short frames, and a cell does not say how long it is. The port distinguishes workers and bundles on
//! one NIC, as UDP's does.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The first EtherType for local experiments (IEEE 802, 9.2.4): it needs no registration, and no switch acts upon it.
pub const ETHER_TYPE: u16 = 0x88b5;
/// Bytes between the Ethernet header and the cell.
pub const HEAD: usize = 4;
/// Bytes of an Ethernet header without VLAN tag.
pub const ETHERNET: usize = 14;

/// The header before a cell of `length` bytes.
pub fn head(port: u16, length: u16) -> [u8; HEAD] {
    let ([a, b], [c, d]) = (port.to_be_bytes(), length.to_be_bytes());
    [a, b, c, d]
}

/// The length of the cell behind `head`, when it is for `port` and within the `room` bytes that came.
pub(super) fn cell_length(head: [u8; HEAD], port: u16, room: usize) -> Option<usize> {
    let [a, b, c, d] = head;
    let length = usize::from(u16::from_be_bytes([c, d]));
    (u16::from_be_bytes([a, b]) == port && (1..=room).contains(&length)).then_some(length)
}

pub fn ethernet(to: Mac, from: Mac) -> [u8; ETHERNET] {
    let mut header = [0; ETHERNET];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    header
}

// Ethernet addresses as socket addresses: `[100::6574:AABB:CCDD:EEFF]:PORT`, in the range that routers discard (RFC
// 6666).
//
// The core knows where a peer is by a socket address, which it compares and hands back. Slots of memory have addresses
// in the same range ([`crate::mem`]) with another word before them.

pub type Mac = [u8; 6];

/// Where greetings to everyone go: a group address of local administration ("taban" behind its flags).
pub const GROUP: Mac = [0x03, 0x74, 0x61, 0x62, 0x61, 0x6e];

/// The range's prefix, and "et".
const PREFIX: [u8; 10] = [0x01, 0, 0, 0, 0, 0, 0, 0, 0x65, 0x74];

pub(super) fn address_of(mac: Mac, port: u16) -> SocketAddr {
    let mut octets = [0; 16];
    octets[..PREFIX.len()].copy_from_slice(&PREFIX);
    octets[PREFIX.len()..].copy_from_slice(&mac);
    SocketAddr::new(Ipv6Addr::from(octets).into(), port)
}

/// The NIC of this socket address, or the group for a multicast one; `None`: there is none.
pub(super) fn mac_of(address: &SocketAddr) -> Option<Mac> {
    if address.ip().is_multicast() {
        return Some(GROUP);
    }
    let IpAddr::V6(ip) = address.ip() else { return None };
    ip.octets().strip_prefix(&PREFIX).and_then(|mac| mac.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_holds_port_and_length() {
        let head = head(7420, 30);
        assert_eq!(head, [0x1c, 0xfc, 0, 30]);
        assert_eq!(cell_length(head, 7420, 46), Some(30), "the rest is padding");
        assert_eq!(cell_length(head, 7420, 30), Some(30));
        assert_eq!(cell_length(head, 7420, 29), None, "cut on the way");
        assert_eq!(cell_length(head, 7421, 46), None, "for another worker");
        assert_eq!(cell_length(super::head(7420, 0), 7420, 46), None, "no cell is empty");
    }

    #[test]
    fn an_ethernet_header_names_both_ends_and_the_type() {
        assert_eq!(ethernet([1; 6], [2; 6]), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x88, 0xb5]);
    }

    #[test]
    fn addresses_and_nics_belong_together() {
        let mac = [0x02, 0, 0, 0x01, 0x02, 0x03];
        let address = address_of(mac, 7420);
        assert_eq!(address.to_string(), "[100::6574:200:1:203]:7420");
        assert_eq!(mac_of(&address), Some(mac));
        assert_eq!(mac_of(&"[ff12::7461:6261]:7420".parse().unwrap()), Some(GROUP));
        for other in ["[100::7461:6261:0:1]:7420", "192.0.2.1:1", "[fe80::6574:200:1:203]:7420"] {
            assert_eq!(mac_of(&other.parse().unwrap()), None, "{other}");
        }
    }

    #[test]
    fn the_group_is_one_of_local_administration() {
        assert_eq!(GROUP[0] & 3, 3);
    }
}
