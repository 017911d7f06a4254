//! Changes of the NICs: carrier, MTU, addresses, removal.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::{NetlinkError, Nic, NicAddress, RECEIVE_ROOM, parse};

/// A change of a NIC in this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NicEvent {
    /// The NIC appeared or changed; this is its state now, `link_local` left out.
    Changed(Nic),
    /// The NIC was removed or moved to another namespace.
    Gone { index: u32, name: String },
    /// An address of the NIC appeared, became usable or went.
    Address {
        index: u32,
        address: IpAddr,
        /// Whether it went.
        gone: bool,
    },
    /// The kernel dropped events because they were not read in time, or one cannot be parsed: the caller reads the NICs
    /// again.
    Missed,
}

/// A subscription to link and address events. Non-blocking; add it to a [`crate::Poll`].
#[derive(Debug)]
pub struct Watch {
    socket: Socket,
    room: Box<[u8]>,
    /// Events of the last datagram that are not yet taken.
    ready: VecDeque<NicEvent>,
}

impl Watch {
    /// Subscribes to events from now on. The caller reads the NICs after this, not before.
    pub fn new() -> Result<Self, NetlinkError> {
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, groups.cast_unsigned()))?;
            Ok(socket)
        };
        let socket = open().map_err(|error| NetlinkError::new("watch the NICs", error))?;
        Ok(Self { socket, room: vec![0; RECEIVE_ROOM].into_boxed_slice(), ready: VecDeque::new() })
    }

    /// The next event; `None` when there is none now.
    pub fn next_event(&mut self) -> io::Result<Option<NicEvent>> {
        while self.ready.is_empty() {
            match self.socket.recv(&mut &mut self.room[..], 0) {
                Ok(length) => self.ready.extend(parse(&self.room[..length]).iter().filter_map(event)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    return Ok(Some(NicEvent::Missed));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.ready.pop_front())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An event that cannot be parsed may have been about a NIC of the bundle.
fn event(payload: &Option<NetlinkPayload<RouteNetlinkMessage>>) -> Option<NicEvent> {
    let Some(payload) = payload else { return Some(NicEvent::Missed) };
    let NetlinkPayload::InnerMessage(message) = payload else { return None };
    match message {
        // A bridge tells in such messages, too, which ports it has: one that it lets go is not gone.
        RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link)
            if link.header.interface_family == AddressFamily::Bridge =>
        {
            None
        }
        RouteNetlinkMessage::NewLink(link) => Some(NicEvent::Changed(Nic::from_message(link))),
        RouteNetlinkMessage::DelLink(link) => {
            let Nic { index, name, .. } = Nic::from_message(link);
            Some(NicEvent::Gone { index, name })
        }
        RouteNetlinkMessage::NewAddress(address) => address_event(address, false),
        RouteNetlinkMessage::DelAddress(address) => address_event(address, true),
        _ => None,
    }
}

fn address_event(message: &AddressMessage, gone: bool) -> Option<NicEvent> {
    let NicAddress { address, .. } = NicAddress::from_message(message)?;
    Some(NicEvent::Address { index: message.header.index, address, gone })
}
