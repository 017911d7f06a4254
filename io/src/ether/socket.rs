//! The packet socket of an `ether` link: bound to a NIC and the EtherType, without Ethernet headers (`SOCK_DGRAM`).
//!
//! The kernel writes and strips those, and queues what leaves as it does for UDP: through the NIC's queueing discipline,
//! and counted until it has left.
//!
//! Source: packet(7), `net/packet/af_packet.c` of Linux 6.18.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, socklen_t};
use rustix::net::sockopt;
use socket2::{Domain, SockFilter, Socket, Type};

use super::address::{GROUP, Mac};
use super::frame::ETHER_TYPE;

/// A packet socket, non-blocking.
#[derive(Debug)]
pub(super) struct CellSocket(Socket);

impl CellSocket {
    /// Opens a socket for the cells of `port` on the NIC of this index. Wants CAP_NET_RAW.
    ///
    /// # Errors
    /// The kernel's, and what was being done.
    pub(super) fn open(index: u32, port: u16) -> Result<Self, (&'static str, io::Error)> {
        let failed = |step| move |source| (step, source);
        // Of protocol 0 it receives nothing until it is bound: else frames of other NICs would come first.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None).map_err(failed("opening a socket"))?;
        socket.set_nonblocking(true).map_err(failed("O_NONBLOCK"))?;
        let opened = Self(socket);
        let on: c_int = 1;
        opened.set(libc::PACKET_IGNORE_OUTGOING, &on).map_err(failed("PACKET_IGNORE_OUTGOING"))?;
        opened.0.attach_filter(&cells_of(port)).map_err(failed("SO_ATTACH_FILTER"))?;
        let index = c_int::try_from(index).map_err(|_| ("bind", io::ErrorKind::InvalidInput.into()))?;
        opened.bind(index).map_err(failed("bind"))?;
        opened.join(index).map_err(failed("joining the multicast group"))?;
        Ok(opened)
    }

    /// A socket that another process has opened.
    pub(super) fn adopt(socket: OwnedFd) -> Self {
        Self(socket.into())
    }

    /// The address of the NIC, as it is now.
    ///
    /// # Errors
    /// The kernel's; none is expected.
    pub(super) fn mac(&self) -> io::Result<Mac> {
        let mut address = link_layer(0, [0; 6]);
        let mut length = length_of::<libc::sockaddr_ll>();
        // SAFETY: the kernel writes at most `length` bytes into a struct of that length, whose fields are integers.
        let result =
            unsafe { libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(mac_in(&address)) }
    }

    /// See [`crate::UdpLink::set_send_buffer`].
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        sockopt::set_socket_send_buffer_size_force(&self.0, bytes / 2)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&self.0, bytes / 2))?;
        Ok(())
    }

    /// The send buffer in force, bytes.
    ///
    /// # Errors
    /// The kernel's; none is expected.
    pub(super) fn send_buffer(&self) -> io::Result<usize> {
        Ok(sockopt::socket_send_buffer_size(&self.0)?)
    }

    /// Sets the receive buffer; returns what the kernel grants, bytes.
    pub(super) fn set_receive_buffer(&self, bytes: usize) -> usize {
        let set = sockopt::set_socket_recv_buffer_size_force(&self.0, bytes / 2)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&self.0, bytes / 2));
        set.and_then(|()| sockopt::socket_recv_buffer_size(&self.0)).unwrap_or(0)
    }

    /// Bytes of kernel memory that hold what has not left.
    pub(super) fn queued_bytes(&self) -> usize {
        let mut bytes: c_int = 0;
        // SAFETY: SIOCOUTQ (TIOCOUTQ by its older name) writes one int, which lives until the call returns.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result < 0 { 0 } else { usize::try_from(bytes).unwrap_or(0) }
    }

    fn bind(&self, index: c_int) -> io::Result<()> {
        let address = link_layer(index, [0; 6]);
        let length = length_of::<libc::sockaddr_ll>();
        // SAFETY: the address is a whole sockaddr_ll of that length and lives until the call returns.
        let result = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Lets the NIC hear the group; that ends with the socket.
    fn join(&self, index: c_int) -> io::Result<()> {
        let mut mr_address = [0; 8];
        mr_address[..GROUP.len()].copy_from_slice(&GROUP);
        let request = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: u16::try_from(libc::PACKET_MR_MULTICAST).unwrap_or_default(),
            mr_alen: 6,
            mr_address,
        };
        self.set(libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Sets an option of packet sockets that the kernel reads as a `T`.
    fn set<T>(&self, option: c_int, value: &T) -> io::Result<()> {
        let (value, length) = (std::ptr::from_ref(value).cast(), length_of::<T>());
        // SAFETY: the kernel reads `length` bytes, which are the value's and live until the call returns.
        let result = unsafe { libc::setsockopt(self.0.as_raw_fd(), libc::SOL_PACKET, option, value, length) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for CellSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An address of the EtherType: where to bind to, or whom to send to.
pub(super) fn link_layer(index: c_int, mac: Mac) -> libc::sockaddr_ll {
    let mut sll_addr = [0; 8];
    sll_addr[..mac.len()].copy_from_slice(&mac);
    libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET).unwrap_or_default(),
        sll_protocol: ETHER_TYPE.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr,
    }
}

/// The Ethernet address in an address that the kernel wrote.
pub(super) fn mac_in(address: &libc::sockaddr_ll) -> Mac {
    let [a, b, c, d, e, f, ..] = address.sll_addr;
    [a, b, c, d, e, f]
}

/// Length of an option or address, as the kernel wants it.
pub(super) fn length_of<T>() -> socklen_t {
    socklen_t::try_from(mem::size_of::<T>()).unwrap_or_default()
}

/// Takes what begins with this port, and nothing else: all sockets of a NIC see all frames of the EtherType.
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
