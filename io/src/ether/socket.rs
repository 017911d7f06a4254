//! The packet socket of an `ether` link: bound to a NIC and the EtherType, without Ethernet headers (`SOCK_DGRAM`).
//!
//! The kernel writes and strips those. It queues frames as it does for UDP: through the NIC's queueing discipline,
//! and counts them until they have left.
//!
//! Source: packet(7), `net/packet/af_packet.c` of Linux 6.18.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{c_int, sockaddr_ll};
use socket2::{Domain, SockFilter, Socket, Type};

use super::frame::ETHER_TYPE;
use super::frame::{GROUP, Mac};
use crate::sockets::{link_layer, set_option};

/// A packet socket, non-blocking.
#[derive(Debug)]
pub(super) struct CellSocket(Socket);

impl CellSocket {
    /// Opens a socket for the cells of `port` on the NIC of this index. Wants CAP_NET_RAW.
    pub(super) fn open(index: u32, port: u16) -> Result<Self, (&'static str, io::Error)> {
        let failed = |step| move |source| (step, source);
        // Of protocol 0 it receives nothing until it is bound: else frames of other NICs would come first.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None).map_err(failed("opening a socket"))?;
        socket.set_nonblocking(true).map_err(failed("O_NONBLOCK"))?;
        let opened = Self(socket);
        let on: c_int = 1;
        let ignored = set_option(&opened.0, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on);
        ignored.map_err(failed("PACKET_IGNORE_OUTGOING"))?;
        opened.0.attach_filter(&cells_of(port)).map_err(failed("SO_ATTACH_FILTER"))?;
        let index = c_int::try_from(index).map_err(|_| ("bind", io::ErrorKind::InvalidInput.into()))?;
        opened.0.bind(&link_layer(index, ETHER_TYPE, [0; 6])).map_err(failed("bind"))?;
        opened.join(index).map_err(failed("joining the multicast group"))?;
        Ok(opened)
    }

    /// A socket that another process has opened.
    pub(super) fn adopt(socket: OwnedFd) -> Self {
        Self(socket.into())
    }

    /// The address of the NIC, as it is now.
    pub(super) fn mac(&self) -> io::Result<Mac> {
        let mut address = self.0.local_addr()?.as_storage();
        // SAFETY: the kernel has written an address of a packet socket; any bytes are one.
        Ok(mac_in(unsafe { address.view_as::<sockaddr_ll>() }))
    }

    /// Lets the NIC receive for the group; that ends with the socket.
    fn join(&self, index: c_int) -> io::Result<()> {
        let mut mr_address = [0; 8];
        mr_address[..GROUP.len()].copy_from_slice(&GROUP);
        let request = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: u16::try_from(libc::PACKET_MR_MULTICAST).unwrap_or_default(),
            mr_alen: 6,
            mr_address,
        };
        set_option(&self.0, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }
}

impl AsFd for CellSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The Ethernet address in an address that the kernel wrote.
pub(super) fn mac_in(address: &sockaddr_ll) -> Mac {
    let [a, b, c, d, e, f, ..] = address.sll_addr;
    [a, b, c, d, e, f]
}

/// A filter for frames that begin with this port: all sockets of a NIC see all frames of the EtherType.
fn cells_of(port: u16) -> [SockFilter; 4] {
    let code =
        |parts: &[u32]| u16::try_from(parts.iter().fold(0, |all, part| all | part)).unwrap_or_default();
    [
        SockFilter::new(code(&[libc::BPF_LD, libc::BPF_H, libc::BPF_ABS]), 0, 0, 0),
        SockFilter::new(code(&[libc::BPF_JMP, libc::BPF_JEQ, libc::BPF_K]), 0, 1, port.into()),
        SockFilter::new(code(&[libc::BPF_RET, libc::BPF_K]), 0, 0, u32::MAX),
        SockFilter::new(code(&[libc::BPF_RET, libc::BPF_K]), 0, 0, 0),
    ]
}
