//! NICs and the device by `NETLINK_ROUTE`: their state, settings and changes.
//!
//! Requests block for the kernel's answer, which is immediate, and open a socket each: they belong
//! to set-up and stop. [`Watch`] is non-blocking and belongs to a worker's poll.
//!
//! Source: `rtnetlink(7)`, Linux `net/core/rtnetlink.c`, `net/sched/sch_api.c`.

mod detail;
mod device;
#[cfg(feature = "watch")]
mod diag;
#[cfg(feature = "lab")]
mod lay;
mod nic;
mod watch;

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use thiserror::Error;

pub use detail::{NicDetail, NicStatistics, Parent, nic_details, nic_statistics};
pub use device::{
    DeviceSettings, add_address, add_pair, delete_device, remove_address, set_device, set_qdisc,
    set_qdisc_noqueue,
};
#[cfg(feature = "watch")]
pub use diag::{SocketState, TcpState, route_to, tcp_sockets, udp_sockets};
#[cfg(feature = "lab")]
pub use lay::{add_bridge, add_cable, plug, set_port};
pub use nic::{Nic, NicAddress, nic, nic_at, nic_names};
pub use watch::{NicEvent, Watch};

/// Why a request failed. Each reads as one sentence for the user.
#[derive(Debug, Error)]
pub enum NetlinkError {
    #[error("NIC {name} does not exist; there are: {}", names.join(", "))]
    UnknownNic { name: String, names: Vec<String> },
    #[error("no permission to {action}: run as root or with CAP_NET_ADMIN")]
    NoPermission { action: &'static str },
    #[error("netlink could not {action}: {source}")]
    Failed { action: &'static str, source: io::Error },
}

impl NetlinkError {
    /// Whether what was asked for is so already: an address is there, or it or the device is not there any more.
    pub fn is_so_already(&self) -> bool {
        let Self::Failed { source, .. } = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EEXIST | libc::EADDRNOTAVAIL | libc::ENODEV))
    }

    pub(crate) fn new(action: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM) => Self::NoPermission { action },
            _ => Self::Failed { action, source },
        }
    }
}

/// Room for one receive call. The kernel fills at most 32 KB per part of a dump.
const RECEIVE_ROOM: usize = 64 * 1024;

/// Asks for a list and gives of its entries what `pick` takes.
fn list<T>(
    action: &'static str,
    request: RouteNetlinkMessage,
    pick: impl FnMut(&RouteNetlinkMessage) -> Option<T>,
) -> Result<Vec<T>, NetlinkError> {
    let answers = exchange(NETLINK_ROUTE, request, NLM_F_DUMP);
    let answers = answers.map_err(|error| NetlinkError::new(action, error))?;
    Ok(answers.iter().filter_map(pick).collect())
}

/// Asks for a change and waits until it is made. `flags` beside those of any request.
fn change(action: &'static str, request: RouteNetlinkMessage, flags: u16) -> Result<(), NetlinkError> {
    exchange(NETLINK_ROUTE, request, NLM_F_ACK | flags)
        .map(drop)
        .map_err(|error| NetlinkError::new(action, error))
}

/// Sends one request and collects the answers up to the acknowledgement or the end of the list.
fn exchange<M>(protocol: isize, request: M, flags: u16) -> io::Result<Vec<M>>
where
    M: NetlinkSerializable + NetlinkDeserializable,
{
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;

    let mut header = NetlinkHeader::default();
    (header.flags, header.sequence_number) = (NLM_F_REQUEST | flags, 1);
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;

    let (mut answers, mut room) = (Vec::new(), vec![0; RECEIVE_ROOM]);
    loop {
        let length = socket.recv(&mut room.as_mut_slice(), 0)?;
        // A message that cannot be parsed is skipped; the others are used.
        for payload in parse(&room[..length]).into_iter().flatten() {
            match payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                _ => {}
            }
        }
    }
}

/// The messages of one received datagram, in order; `None` for one that cannot be parsed, as of a kernel that is newer
/// than this program. After a truncated one there are none.
fn parse<M: NetlinkDeserializable>(mut bytes: &[u8]) -> Vec<Option<NetlinkPayload<M>>> {
    let mut payloads = Vec::new();
    while let Some(length) = bytes.first_chunk().map(|length| u32::from_ne_bytes(*length) as usize) {
        payloads.push(NetlinkMessage::deserialize(bytes).ok().map(|message| message.payload));
        let next = length.max(1).checked_next_multiple_of(4);
        bytes = next.and_then(|next| bytes.get(next..)).unwrap_or(&[]);
    }
    payloads
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What would be parsed of answers about NICs.
    fn parse(bytes: &[u8]) -> Vec<Option<NetlinkPayload<RouteNetlinkMessage>>> {
        super::parse(bytes)
    }

    fn done() -> Vec<u8> {
        let mut message =
            NetlinkMessage::<RouteNetlinkMessage>::new(NetlinkHeader::default(), NetlinkPayload::Noop);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    #[test]
    fn rubbish_is_skipped_and_no_panic() {
        assert!(parse(&[]).is_empty());
        for rubbish in [&[0; 16][..], &[0xff; 40], &[1; 3], &[20, 0, 0, 0]] {
            assert!(parse(rubbish).iter().all(Option::is_none), "{rubbish:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_hides_nothing_behind_it() {
        // RTM_NEWLINK of 20 bytes, whose header is cut off.
        let mut bytes = vec![20, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(done());
        let parsed = parse(&bytes);
        assert!(matches!(parsed[..], [None, Some(NetlinkPayload::Noop)]), "{parsed:?}");
    }
}
