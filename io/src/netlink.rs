//! NICs and the device by `NETLINK_ROUTE`: what there is, what to set, what changes.
//!
//! Requests block for the kernel's answer, which is immediate, and open a socket each: they belong
//! to set-up and stop. [`Watch`] is non-blocking and belongs to a worker's poll.
//!
//! Source: `rtnetlink(7)`, Linux `net/core/rtnetlink.c`, `net/sched/sch_api.c`.

mod device;
mod nic;
mod watch;

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use thiserror::Error;

pub use device::{DeviceSettings, add_address, set_device, set_qdisc_noqueue};
pub use nic::{Nic, nic, nic_names};
pub use watch::{NicEvent, Watch};

/// Why netlink did not do it. Each reads as one sentence for the user.
#[derive(Debug, Error)]
pub enum NetlinkError {
    /// There is no NIC of that name.
    #[error("NIC {name} does not exist; there are: {}", names.join(", "))]
    UnknownNic {
        /// The name as given.
        name: String,
        /// The NICs of this network namespace.
        names: Vec<String>,
    },
    /// Neither root nor `CAP_NET_ADMIN`.
    #[error("no permission to {action}: run as root or with CAP_NET_ADMIN")]
    NoPermission {
        /// What was refused.
        action: &'static str,
    },
    /// The kernel refused for another reason.
    #[error("netlink could not {action}: {source}")]
    Failed {
        /// What was being done.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl NetlinkError {
    fn new(action: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM) => Self::NoPermission { action },
            _ => Self::Failed { action, source },
        }
    }
}

/// Room for one receive call. The kernel fills at most 32 KB per part of a dump.
const RECEIVE_ROOM: usize = 64 * 1024;

/// Asks for a list and gives its entries.
fn dump(request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    exchange(request, NLM_F_DUMP)
}

/// Asks for a change and waits until it is made. `flags` beside those of any request.
fn change(request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    exchange(request, NLM_F_ACK | flags).map(drop)
}

/// Sends one request and collects the answers up to the acknowledgement or the end of the list.
fn exchange(request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;

    let mut header = NetlinkHeader::default();
    (header.flags, header.sequence_number) = (NLM_F_REQUEST | flags, 1);
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;

    let (mut answers, mut room) = (Vec::new(), vec![0; RECEIVE_ROOM]);
    loop {
        let length = socket.recv(&mut room.as_mut_slice(), 0)?;
        for payload in parse(&room[..length])? {
            match payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                _ => {}
            }
        }
    }
}

/// The messages of one received datagram, in order.
fn parse(mut bytes: &[u8]) -> io::Result<Vec<NetlinkPayload<RouteNetlinkMessage>>> {
    let mut payloads = Vec::new();
    while !bytes.is_empty() {
        let message = NetlinkMessage::deserialize(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let length = (message.header.length as usize).next_multiple_of(4);
        payloads.push(message.payload);
        bytes = bytes.get(length..).unwrap_or(&[]);
    }
    Ok(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rubbish_is_an_error_and_no_panic() {
        assert!(parse(&[0; 16]).is_err());
        assert!(parse(&[0xff; 40]).is_err());
        assert!(parse(&[]).unwrap().is_empty());
    }
}
