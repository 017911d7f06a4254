//! The way by which packets would leave.

use std::io;
use std::net::IpAddr;

use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::exchange;

/// Index of the NIC by which a packet from `source` to `destination` would leave; `None`: there is no route.
pub fn route_to(destination: IpAddr, source: IpAddr) -> io::Result<Option<u32>> {
    let mut message = RouteMessage::default();
    let (family, bits) =
        if destination.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
    message.header.address_family = family;
    (message.header.destination_prefix_length, message.header.source_prefix_length) = (bits, bits);
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::from(destination)),
        RouteAttribute::Source(RouteAddress::from(source)),
    ];
    // Without the flag of a dump there is one answer, and an acknowledgement ends it.
    let answers =
        exchange(NETLINK_ROUTE, RouteNetlinkMessage::GetRoute(message), netlink_packet_core::NLM_F_ACK);
    let answers = match answers {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => {
            return Ok(None);
        }
        answers => answers?,
    };
    Ok(answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewRoute(route) => {
            route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Oif(index) => Some(*index),
                _ => None,
            })
        }
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_way_to_this_machine_is_loopback() {
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let lo = crate::netlink::nic("lo").unwrap().index;
        assert_eq!(route_to(own, own).unwrap(), Some(lo));
    }
}
