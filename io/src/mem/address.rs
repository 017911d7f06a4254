//! Slots as socket addresses: `[100::7461:6261:0:SLOT]:PORT`, in the range that routers discard (RFC 6666).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// "taba" in the lower half, below the range's prefix.
const PREFIX: [u16; 7] = [0x100, 0, 0, 0, 0x7461, 0x6261, 0];

/// The address of a slot.
pub(super) fn address_of(slot: u16, port: u16) -> SocketAddr {
    let [a, b, c, d, e, f, g] = PREFIX;
    SocketAddr::new(Ipv6Addr::new(a, b, c, d, e, f, g, slot).into(), port)
}

/// The slot of this address; `None`: it is no slot's.
pub(super) fn slot_of(address: &SocketAddr) -> Option<u16> {
    let IpAddr::V6(ip) = address.ip() else { return None };
    let [prefix @ .., slot] = ip.segments();
    (prefix == PREFIX).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_slots_belong_together() {
        let address = address_of(255, 7420);
        assert_eq!(address.to_string(), "[100::7461:6261:0:ff]:7420");
        assert_eq!(slot_of(&address), Some(255));
        for other in ["[100::1]:7420", "192.0.2.1:1", "[fe80::7461:6261:0:1]:7420"] {
            assert_eq!(slot_of(&other.parse().expect("an address")), None);
        }
    }
}
