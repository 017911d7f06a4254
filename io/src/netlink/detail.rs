//! What else is known of the NICs: what they stand on, what they belong to, what went wrong at them, their addresses.
//!
//! For people who look for faults; a running bundle asks for what its NICs have counted.

use netlink_packet_core::NLM_F_ACK;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkInfo, LinkMessage, Stats64};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::nic::{addresses, nics};
use super::{NetlinkError, Nic, NicAddress, exchange};

/// A network device and what is known of it besides [`Nic`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NicDetail {
    /// What the data path knows of it; `link_local` is left out.
    pub nic: Nic,
    /// The kind of a device that software makes, such as `veth` or `vlan`; `None`: hardware.
    pub kind: Option<String>,
    /// The device that it stands on, as a VLAN does.
    pub parent: Option<Parent>,
    /// Index of the bridge, bond or the like to which it belongs.
    pub master: Option<u32>,
    /// Where its hardware is on its bus, such as `0000:01:00.0` (since Linux 5.14).
    pub bus_name: Option<String>,
    pub statistics: NicStatistics,
    pub addresses: Vec<NicAddress>,
}

/// A device that another stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    pub index: u32,
    /// Its network namespace, when that is another one: the number that this one gives it.
    pub namespace: Option<i32>,
}

/// What a NIC has counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NicStatistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that were received damaged: checksum, length, alignment.
    pub rx_errors: u64,
    /// Packets that could not be sent: carrier, aborts, late collisions.
    pub tx_errors: u64,
    /// Packets for which the receive ring had no room.
    pub rx_missed: u64,
    /// Packets that the driver dropped on their way out.
    pub tx_dropped: u64,
    /// Collisions, which only half duplex has.
    pub collisions: u64,
}

impl NicDetail {
    fn from_message(message: &LinkMessage) -> Self {
        let mut detail = Self { nic: Nic::from_message(message), ..Self::default() };
        let (mut parent, mut namespace) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::LinkInfo(infos) => detail.kind = infos.iter().find_map(kind),
                LinkAttribute::Link(index) => parent = Some(*index),
                LinkAttribute::LinkNetNsId(number) => namespace = Some(*number),
                LinkAttribute::Controller(index) => detail.master = Some(*index),
                LinkAttribute::ParentDevName(name) => detail.bus_name = Some(name.clone()),
                LinkAttribute::Stats64(counted) => detail.statistics = NicStatistics::from(counted),
                _ => {}
            }
        }
        // The other end of a cable is no parent, and a device without one may name itself.
        let is_pair = matches!(detail.kind.as_deref(), Some("veth" | "netkit" | "vxcan"));
        let is_itself = namespace.is_none() && parent == Some(detail.nic.index);
        let parent = parent.filter(|index| *index != 0 && !is_pair && !is_itself);
        detail.parent = parent.map(|index| Parent { index, namespace });
        detail
    }
}

impl From<&Stats64> for NicStatistics {
    fn from(counted: &Stats64) -> Self {
        Self {
            rx_packets: counted.rx_packets,
            tx_packets: counted.tx_packets,
            rx_bytes: counted.rx_bytes,
            tx_bytes: counted.tx_bytes,
            rx_errors: counted.rx_errors,
            tx_errors: counted.tx_errors,
            rx_missed: counted.rx_missed_errors.max(counted.rx_fifo_errors),
            tx_dropped: counted.tx_dropped,
            collisions: counted.collisions,
        }
    }
}

/// All NICs in this thread's network namespace.
pub fn nic_details() -> Result<Vec<NicDetail>, NetlinkError> {
    let mut details = nics(NicDetail::from_message)?;
    for (index, address) in addresses()? {
        let detail = details.iter_mut().find(|detail| detail.nic.index == index);
        detail.into_iter().for_each(|detail| detail.addresses.push(address));
    }
    Ok(details)
}

/// What the NIC with this index has counted.
/// Errors: there is no such NIC in this thread's network namespace.
pub fn nic_statistics(index: u32) -> Result<NicStatistics, NetlinkError> {
    let mut request = LinkMessage::default();
    request.header.index = index;
    let answers = exchange(NETLINK_ROUTE, RouteNetlinkMessage::GetLink(request), NLM_F_ACK);
    let answers = answers.map_err(|error| NetlinkError::new("ask for a NIC", error))?;
    let counted = answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewLink(message) => Some(NicDetail::from_message(message).statistics),
        _ => None,
    });
    Ok(counted.unwrap_or_default())
}

fn kind(info: &LinkInfo) -> Option<String> {
    let LinkInfo::Kind(kind) = info else { return None };
    Some(kind.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address_and_no_parent() {
        let details = nic_details().unwrap();
        let lo = details.iter().find(|detail| detail.nic.name == "lo").unwrap();
        assert_eq!((lo.parent, lo.master, &lo.bus_name), (None, None, &None));
        let own = lo.addresses.iter().find(|own| own.address.is_ipv4()).unwrap();
        assert!(own.address.is_loopback() && !own.is_tentative && !own.is_duplicate);
    }

    #[test]
    fn loopback_has_counted_what_it_has_sent() {
        let lo = crate::netlink::nic("lo").unwrap().index;
        let before = nic_statistics(lo).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 1_000], socket.local_addr().unwrap()).unwrap();
        let after = nic_statistics(lo).unwrap();
        assert!(after.tx_bytes >= before.tx_bytes + 1_000 && after.rx_bytes >= before.rx_bytes + 1_000);
        assert!(nic_statistics(u32::from(u16::MAX)).is_err());
    }
}
