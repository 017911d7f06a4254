//! The properties of a NIC.

use std::net::{IpAddr, Ipv6Addr};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, State};

use super::{NetlinkError, list};

/// A network device, as it was when it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    pub name: String,
    pub index: u32,
    /// Its MTU, bytes.
    pub mtu: u32,
    pub admin_up: bool,
    /// Whether it sees a signal on the wire.
    pub carrier: bool,
    /// How often it has lost that signal since it was made.
    pub carrier_losses: u32,
    /// Whether it can carry packets now (RFC 2863 `ifOperStatus`; devices that do not report it count as able).
    pub operational: bool,
    /// Its Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Its IPv6 link-local address, once duplicate address detection has passed it.
    pub link_local: Option<Ipv6Addr>,
    /// Length of its transmit queue, packets.
    pub tx_queue_len: u32,
    pub qdisc: String,
}

impl Nic {
    pub(super) fn from_message(message: &LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut nic = Self {
            index: message.header.index,
            admin_up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
            ..Self::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => nic.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => nic.mtu = *mtu,
                LinkAttribute::OperState(state) => {
                    nic.operational = matches!(state, State::Up | State::Unknown) && nic.admin_up;
                }
                LinkAttribute::CarrierDownCount(losses) => nic.carrier_losses = *losses,
                LinkAttribute::Address(address) => nic.mac = address.as_slice().try_into().ok(),
                LinkAttribute::TxQueueLen(packets) => nic.tx_queue_len = *packets,
                LinkAttribute::Qdisc(name) => nic.qdisc.clone_from(name),
                _ => {}
            }
        }
        nic
    }
}

/// The NIC of that name in this thread's network namespace.
/// Errors: [`NetlinkError::UnknownNic`], which names the NICs that there are.
pub fn nic(name: &str) -> Result<Nic, NetlinkError> {
    one(name, |nic| nic.name == name)
}

/// The same of an index, whatever the NIC's name is now.
pub fn nic_at(index: u32) -> Result<Nic, NetlinkError> {
    one(&format!("with index {index}"), |nic| nic.index == index)
}

fn one(what: &str, is_it: impl Fn(&Nic) -> bool) -> Result<Nic, NetlinkError> {
    let nics = nics(Nic::from_message)?;
    let Some(found) = nics.iter().find(|nic| is_it(nic)) else {
        let names = nics.into_iter().map(|nic| nic.name).collect();
        return Err(NetlinkError::UnknownNic { name: what.to_owned(), names });
    };
    let link_local = link_local(found.index)?;
    Ok(Nic { link_local, ..found.clone() })
}

/// The names of all NICs in this thread's network namespace.
pub fn nic_names() -> Result<Vec<String>, NetlinkError> {
    Ok(nics(Nic::from_message)?.into_iter().map(|nic| nic.name).collect())
}

/// What is understood `of` the message about each NIC.
pub(super) fn nics<T>(of: fn(&LinkMessage) -> T) -> Result<Vec<T>, NetlinkError> {
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    list("list the NICs", request, |answer| match answer {
        RouteNetlinkMessage::NewLink(message) => Some(of(message)),
        _ => None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicAddress {
    pub address: IpAddr,
    /// Whether it is of the scope of one link.
    pub is_link_local: bool,
    /// Whether the kernel still looks whether another machine has it (DAD), and does not let it be used meanwhile.
    pub is_tentative: bool,
    pub is_duplicate: bool,
}

impl NicAddress {
    /// `IFA_LOCAL` is the NIC's own address; without it, as for IPv6, `IFA_ADDRESS` is.
    pub(super) fn from_message(message: &AddressMessage) -> Option<Self> {
        let (mut local, mut own, mut optimistic) = (None, None, false);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(address) => local = Some(*address),
                AddressAttribute::Address(address) => own = Some(*address),
                AddressAttribute::Flags(flags) => optimistic = flags.contains(AddressFlags::Optimistic),
                _ => {}
            }
        }
        let flags = message.header.flags;
        Some(Self {
            address: local.or(own)?,
            is_link_local: message.header.scope == AddressScope::Link,
            is_tentative: flags.contains(AddressHeaderFlags::Tentative) && !optimistic,
            is_duplicate: flags.contains(AddressHeaderFlags::Dadfailed),
        })
    }
}

/// The addresses of all NICs, each with the index of its NIC.
pub(super) fn addresses() -> Result<Vec<(u32, NicAddress)>, NetlinkError> {
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    list("list the addresses", request, |answer| match answer {
        RouteNetlinkMessage::NewAddress(message) => {
            Some((message.header.index, NicAddress::from_message(message)?))
        }
        _ => None,
    })
}

/// The link-local address of a NIC that is neither being checked nor another machine's.
fn link_local(index: u32) -> Result<Option<Ipv6Addr>, NetlinkError> {
    let own = addresses()?.into_iter().filter(|(nic, _)| *nic == index).map(|(_, address)| address);
    let mut usable = own.filter(|own| own.is_link_local && !own.is_tentative && !own.is_duplicate);
    Ok(usable.find_map(|own| match own.address {
        IpAddr::V6(address) if address.is_unicast_link_local() => Some(address),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_nic_is_answered_with_those_that_exist() {
        let message = nic("no-such-nic").unwrap_err().to_string();
        assert!(message.starts_with("NIC no-such-nic does not exist; there are: "), "{message}");
        assert!(message.contains("lo"), "{message}");
    }
}
