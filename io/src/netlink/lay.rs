//! Cables and bridges of tests and the lab.

use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{
    BridgePortState, BridgeStpState, InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage, LinkProtoInfoBridge,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::device::named;
use super::{NetlinkError, change};

/// linux/if_link.h.
const IFLA_BRPORT_STATE: u16 = 1;

/// Makes a veth pair, both ends down: `near` here and `far` in `namespace`.
/// Errors: `EEXIST` when there is a device of one of the names.
pub fn add_cable(near: &str, far: &str, namespace: impl AsFd) -> Result<(), NetlinkError> {
    let mut peer = named(far);
    peer.attributes.push(LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd()));
    add("lay a cable", named(near), InfoKind::Veth, InfoData::Veth(InfoVeth::Peer(peer)))
}

/// Makes a bridge, up, whose ports forward at once, and all that is sent to groups.
/// Errors: `EEXIST` when there is a device of that name.
pub fn add_bridge(name: &str) -> Result<(), NetlinkError> {
    let mut bridge = named(name);
    (bridge.header.flags, bridge.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
    let settings = vec![
        InfoBridge::StpState(BridgeStpState::Disabled),
        InfoBridge::ForwardDelay(0),
        InfoBridge::MulticastSnooping(false),
    ];
    add("make a bridge", bridge, InfoKind::Bridge, InfoData::Bridge(settings))
}

/// Makes the device a port of the bridge of this index.
pub fn plug(index: u32, bridge: u32) -> Result<(), NetlinkError> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(LinkAttribute::Controller(bridge));
    change("plug a device into a bridge", RouteNetlinkMessage::SetLink(message), 0)
}

/// Has the bridge's port of this index pass frames, or swallow all in both directions; carrier stays. It takes a message of the
/// bridge's own family: where the state stands in the link's information, the kernel (6.18) leaves it as it is.
pub fn set_port(index: u32, passes: bool) -> Result<(), NetlinkError> {
    let state = if passes { BridgePortState::Forwarding } else { BridgePortState::Disabled };
    let state = LinkProtoInfoBridge::Other(DefaultNla::new(IFLA_BRPORT_STATE, vec![state.into()]));
    let mut message = LinkMessage::default();
    (message.header.interface_family, message.header.index) = (AddressFamily::Bridge, index);
    message.attributes.push(LinkAttribute::ProtoInfoBridge(vec![state]));
    change("set the state of a bridge's port", RouteNetlinkMessage::SetLink(message), 0)
}

fn add(
    action: &'static str,
    mut message: LinkMessage,
    kind: InfoKind,
    data: InfoData,
) -> Result<(), NetlinkError> {
    message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind), LinkInfo::Data(data)]));
    change(action, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
}
