//! Ethernet addresses as socket addresses: `[100::6574:AABB:CCDD:EEFF]:PORT`, in the range that routers discard (RFC
//! 6666).
//!
//! The core knows where a peer is by a socket address, which it compares and hands back. Slots of memory have addresses
//! in the same range ([`crate::mem`]) with another word before them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Where greetings to everyone go: a group address of local administration ("taban" behind its flags).
pub const GROUP: Mac = [0x03, 0x74, 0x61, 0x62, 0x61, 0x6e];

/// The range's prefix, and "et".
const PREFIX: [u8; 10] = [0x01, 0, 0, 0, 0, 0, 0, 0, 0x65, 0x74];

/// The socket address of a NIC.
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
