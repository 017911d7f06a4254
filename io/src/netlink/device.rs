//! What is set on the device: MTU, state, address, queue.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoNetkit, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage, NetkitMode, NetkitPolicy,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{NetlinkError, change};

/// What to change on a device; `None` leaves it as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceSettings {
    /// MTU, bytes.
    pub mtu: Option<u32>,
    pub up: Option<bool>,
    /// Length of the transmit queue, packets. For a TAP: of the ring of each queue.
    pub tx_queue_len: Option<u32>,
    pub mac: Option<[u8; 6]>,
}

/// Changes a device.
/// Errors: [`NetlinkError`]; some of the settings may be in force then.
pub fn set_device(index: u32, settings: &DeviceSettings) -> Result<(), NetlinkError> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    if let Some(up) = settings.up {
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    }
    message.attributes.extend(settings.mtu.map(LinkAttribute::Mtu));
    message.attributes.extend(settings.tx_queue_len.map(LinkAttribute::TxQueueLen));
    message.attributes.extend(settings.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
    change("set up the device", RouteNetlinkMessage::SetLink(message), 0)
}

/// Gives the device an address; `prefix` bits of it name its network.
/// Errors: `EEXIST` when the device has the address already.
pub fn add_address(index: u32, address: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
    let message = RouteNetlinkMessage::NewAddress(address_message(index, address, prefix));
    change("add an address to the device", message, NLM_F_CREATE | NLM_F_EXCL)
}

/// Takes an address from the device.
/// Errors: `EADDRNOTAVAIL` when the device does not have it.
pub fn remove_address(index: u32, address: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
    let message = RouteNetlinkMessage::DelAddress(address_message(index, address, prefix));
    change("take an address from the device", message, 0)
}

fn address_message(index: u32, address: IpAddr, prefix: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = prefix;
    message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

/// Takes the queueing discipline off a TAP. The kernel then reports a full ring to the sending socket as local
/// congestion (TCP slows down, nothing is lost in silence), while a discipline would hide it.
/// Test: `kernel_tap.rs`, `noqueue_reports_a_full_ring`.
/// Errors: [`NetlinkError`]; the device works on with the discipline it had.
pub fn set_qdisc_noqueue(index: u32) -> Result<(), NetlinkError> {
    set_qdisc(index, "noqueue")
}

/// Gives a device this queueing discipline, at its root.
/// Errors: [`NetlinkError`]; the device works on with the discipline it had.
pub fn set_qdisc(index: u32, kind: &str) -> Result<(), NetlinkError> {
    let mut message = TcMessage::with_index(index.cast_signed());
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![TcAttribute::Kind(kind.to_owned())];
    let message = RouteNetlinkMessage::NewQueueDiscipline(message);
    change("set the queueing discipline", message, NLM_F_CREATE | NLM_F_REPLACE)
}

/// Makes a pair of devices (netkit) of one queue each way, down, whose halves take no addresses by themselves: what one is given, a
/// program takes ([`crate::tcx::Direction::Across`]), and nobody else. Deleting one half deletes both.
/// Errors: `EEXIST` when there is a device of one of the names, `EOPNOTSUPP` where the kernel has no such devices
/// (Linux 6.7 with CONFIG_NETKIT).
pub fn add_pair(halves: [&str; 2]) -> Result<(), NetlinkError> {
    const MAKE: &str = "make a pair of devices";
    let queues = [LinkAttribute::NumTxQueues(1), LinkAttribute::NumRxQueues(1)];
    let [mut message, mut peer] = halves.map(named);
    peer.attributes.extend(queues.clone());
    let pair = vec![
        InfoNetkit::Mode(NetkitMode::L2),
        InfoNetkit::Policy(NetkitPolicy::Drop),
        InfoNetkit::PeerPolicy(NetkitPolicy::Drop),
        InfoNetkit::Peer(peer),
    ];
    let pair = vec![LinkInfo::Kind(InfoKind::Netkit), LinkInfo::Data(InfoData::Netkit(pair))];
    message.attributes.extend(queues);
    message.attributes.push(LinkAttribute::LinkInfo(pair));
    change(MAKE, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)?;
    // The kernel takes this of a device only that it knows already.
    let mute = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
    for half in halves {
        let mut message = named(half);
        message.attributes.push(LinkAttribute::AfSpecUnspec(vec![mute.clone()]));
        change(MAKE, RouteNetlinkMessage::SetLink(message), 0)?;
    }
    Ok(())
}

pub(super) fn named(name: &str) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    message
}

/// Deletes a device.
/// Errors: `ENODEV` when there is none of that name.
pub fn delete_device(name: &str) -> Result<(), NetlinkError> {
    change("delete a device", RouteNetlinkMessage::DelLink(named(name)), 0)
}
