//! UDP links: cells as datagrams over one NIC.
//!
//! Sends a run of cells by one `sendmsg` with `UDP_SEGMENT` (GSO) and receives as many by `UDP_GRO`
//! and `recvmmsg`. The socket is bound to its NIC, so that routes and addresses of other NICs do
//! not matter, and never fragments (DF set): a cell that is too long for the link is refused.
//!
//! - [`UdpLink::send`] takes a run as a whole or not at all, with GSO and without.
//! - No call allocates once the socket is bound, except for a notice that GSO was refused.
//!
//! Source: Linux `net/ipv4/udp.c`, `net/ipv4/udp_offload.c`, `net/ipv6/udp.c`.

mod receive;
mod send;

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::c_int;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use crate::link::{Failure, Link, ReceiveBuffer, Sent};
use crate::netlink::{self, NetlinkError, Nic};
use crate::{Notice, sockets};
use send::Gso;

/// The largest number of messages that one [`UdpLink::receive`] takes.
pub const RECEIVE_MAX: usize = 16;

/// The socket that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpSpec {
    pub nic: String,
    /// The address to send from and receive at; `None`: IPv6, any address of the NIC.
    pub local: Option<IpAddr>,
    /// Whether a socket without a local address also takes IPv4.
    pub both_families: bool,
    /// The UDP port; 0 lets the kernel choose.
    pub port: u16,
    /// Whether to try `UDP_SEGMENT`.
    pub gso: bool,
    /// Whether to try `UDP_GRO`.
    pub gro: bool,
    /// Receive buffer wanted, bytes as accounted by the kernel, which doubles the value it is given.
    pub receive_buffer: usize,
    /// Send buffer wanted, see [`UdpLink::set_send_buffer`].
    pub send_buffer: usize,
    /// An IPv6 multicast group to join on the NIC.
    pub multicast: Option<Ipv6Addr>,
}

/// Why there is no link. Each reads as one sentence for the user.
#[derive(Debug, Error)]
pub enum LinkError {
    #[error(transparent)]
    Nic(#[from] NetlinkError),
    #[error("NIC {0} is down: bring it up with `ip link set {0} up`")]
    NicDown(String),
    #[error("no permission to {0}: run as root or with CAP_NET_RAW and CAP_NET_BIND_SERVICE")]
    NoPermission(String),
    #[error(
        "UDP port {port} on NIC {nic} is taken: choose another port, or stop what uses it (`ss -ulpn sport = {port}`)"
    )]
    PortTaken { port: u16, nic: String },
    #[error("{address} is not an address of NIC {nic} yet or at all: see `ip address show dev {nic}`")]
    NoSuchAddress { address: IpAddr, nic: String },
    #[error("NIC {nic}: multicast discovery needs IPv6, and the local address {address} is IPv4")]
    MulticastNeedsIpv6 { nic: String, address: IpAddr },
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A UDP socket bound to one NIC, non-blocking.
#[derive(Debug)]
pub struct UdpLink {
    socket: Socket,
    nic: Nic,
    local: SocketAddr,
    /// Whether it is an IPv6 socket that also takes IPv4, for which the kernel maps IPv4 addresses into IPv6 (RFC 4291, 2.5.5.2).
    both_families: bool,
    gso: Gso,
    gro: bool,
    /// Notices that the caller has not taken yet, at most [`UdpLink::NOTICES_MAX`].
    notices: Vec<Notice>,
}

impl UdpLink {
    const NOTICES_MAX: usize = 8;

    /// Opens the socket. [`Link::take_notice`] gives the features that the kernel lacks.
    pub fn bind(spec: &UdpSpec) -> Result<Self, LinkError> {
        let nic = netlink::nic(&spec.nic)?;
        if !nic.admin_up {
            return Err(LinkError::NicDown(nic.name));
        }
        let failed = |step| Failure::new(describe(&nic.name), step);
        let wanted = socket_address(spec, &nic);
        let both_families = takes_both(spec);
        let socket = Socket::new(Domain::for_address(wanted), Type::DGRAM, Some(Protocol::UDP))
            .map_err(failed("opening a socket"))?;
        socket.set_nonblocking(true).map_err(failed("O_NONBLOCK"))?;
        bind_to_nic(&socket, &nic.name)?;
        forbid_fragments(&socket, wanted, both_families).map_err(failed("IP_MTU_DISCOVER"))?;
        bind_to_port(&socket, wanted, both_families, &nic.name)?;
        join(&socket, spec, &nic)?;

        let local = socket.local_addr().map_err(failed("getsockname"))?.as_socket().unwrap_or(wanted);
        let mut link = Self::over(socket, nic, local, both_families);
        link.probe_offloads(spec);
        let device = &link.nic.name;
        let sizes = (spec.receive_buffer, spec.send_buffer);
        link.notices.extend(sockets::size_buffers(&link.socket, device, sizes.0, sizes.1));
        Ok(link)
    }

    /// The link over a socket that another process has bound to `spec`'s NIC, address and port. Its buffers keep their
    /// sizes: the other process may still use it.
    /// Errors: the NIC may be down.
    pub fn adopt(socket: OwnedFd, spec: &UdpSpec) -> Result<Self, LinkError> {
        let nic = netlink::nic(&spec.nic)?;
        let socket = Socket::from(socket);
        let bound = socket.local_addr().map(|local| local.as_socket());
        let failed = Failure::new(describe(&nic.name), "getsockname");
        let local = bound.map_err(failed)?.unwrap_or_else(|| socket_address(spec, &nic));
        let mut link = Self::over(socket, nic, local, takes_both(spec));
        link.probe_offloads(spec);
        Ok(link)
    }

    /// Without offloads.
    fn over(socket: Socket, nic: Nic, local: SocketAddr, both_families: bool) -> Self {
        Self { socket, nic, local, both_families, gso: Gso::off(), gro: false, notices: Vec::new() }
    }

    /// The NIC as it was when the socket was bound.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// Whether runs leave by `UDP_SEGMENT` now.
    pub fn gso(&self) -> bool {
        self.gso.is_on()
    }

    /// Whether the kernel may coalesce datagrams by `UDP_GRO`.
    pub fn gro(&self) -> bool {
        self.gro
    }

    /// The send buffer in force, bytes, counted as by [`Link::set_send_buffer`].
    pub fn send_buffer(&self) -> io::Result<usize> {
        Ok(sockopt::socket_send_buffer_size(&self.socket)?)
    }

    fn probe_offloads(&mut self, spec: &UdpSpec) {
        const OFF: c_int = 0;
        const ON: c_int = 1;
        if spec.gso {
            match sockets::set_option(&self.socket, libc::SOL_UDP, libc::UDP_SEGMENT, &OFF) {
                Ok(()) => self.gso = Gso::on(),
                Err(error) => self.note("UDP_SEGMENT", &error, "datagrams are sent one by one"),
            }
        }
        if spec.gro {
            match sockets::set_option(&self.socket, libc::SOL_UDP, libc::UDP_GRO, &ON) {
                Ok(()) => self.gro = true,
                Err(error) => self.note("UDP_GRO", &error, "datagrams are received one by one"),
            }
        }
    }

    fn note(&mut self, feature: &'static str, reason: &io::Error, instead: &'static str) {
        if self.notices.len() < Self::NOTICES_MAX {
            let (device, reason) = (self.nic.name.clone(), reason.to_string());
            self.notices.push(Notice { device, feature, reason, instead });
        }
    }
}

impl Link for UdpLink {
    fn send(&mut self, to: &SocketAddr, slices: &[io::IoSlice<'_>], segment: usize) -> Sent {
        self.send_run(to, slices, segment)
    }

    fn receive(&mut self, buffers: &mut [ReceiveBuffer<'_>]) -> io::Result<usize> {
        let received = receive::receive(self.socket.as_fd(), buffers)?;
        if self.both_families {
            for buffer in &mut buffers[..received] {
                buffer.from = unmapped(buffer.from);
            }
        }
        Ok(received)
    }

    fn queued_bytes(&mut self) -> usize {
        sockets::queued_bytes(&self.socket)
    }

    /// The kernel allots twice the value it is given and counts `sk_buff`s with their overhead; this takes the allotted value, and halves
    /// it for the kernel. Linux 6.18 on veth counts a run of 44 cells of 1,452 bytes as 64,720 bytes with GSO, and as 2,304 bytes per cell
    /// without.
    fn set_send_buffer(&mut self, bytes: usize) -> io::Result<()> {
        sockets::set_send_buffer(&self.socket, bytes)
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn distrust_runs(&mut self) {
        self.gso.refuse();
    }

    fn take_notice(&mut self) -> Option<Notice> {
        (!self.notices.is_empty()).then(|| self.notices.remove(0))
    }
}

impl AsFd for UdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The address to bind to. Only link-local addresses need the NIC as their scope.
fn socket_address(spec: &UdpSpec, nic: &Nic) -> SocketAddr {
    match spec.local {
        Some(IpAddr::V4(address)) => SocketAddr::new(address.into(), spec.port),
        Some(IpAddr::V6(address)) => {
            let scope = if address.is_unicast_link_local() { nic.index } else { 0 };
            SocketAddrV6::new(address, spec.port, 0, scope).into()
        }
        None => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), spec.port),
    }
}

fn takes_both(spec: &UdpSpec) -> bool {
    spec.both_families && spec.local.is_none()
}

/// An IPv4 endpoint as an IPv6 socket knows it.
fn mapped(endpoint: SocketAddr) -> SocketAddr {
    match endpoint {
        SocketAddr::V4(endpoint) => SocketAddr::new(endpoint.ip().to_ipv6_mapped().into(), endpoint.port()),
        SocketAddr::V6(_) => endpoint,
    }
}

fn unmapped(endpoint: SocketAddr) -> SocketAddr {
    match endpoint.ip().to_canonical() {
        address @ IpAddr::V4(_) => SocketAddr::new(address, endpoint.port()),
        IpAddr::V6(_) => endpoint,
    }
}

fn describe(nic: &str) -> String {
    format!("UDP link on NIC {nic}")
}

fn bind_to_nic(socket: &Socket, nic: &str) -> Result<(), LinkError> {
    socket.bind_device(Some(nic.as_bytes())).map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM) => LinkError::NoPermission(format!("bind a socket to NIC {nic}")),
        _ => Failure::new(describe(nic), "SO_BINDTODEVICE")(source).into(),
    })
}

/// Sets DF and ignores what ICMP says about the path's MTU: proto probes it itself.
fn forbid_fragments(socket: &Socket, local: SocketAddr, both_families: bool) -> io::Result<()> {
    if local.is_ipv4() || both_families {
        sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
    }
    if local.is_ipv6() {
        sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(())
}

fn bind_to_port(socket: &Socket, local: SocketAddr, both_families: bool, nic: &str) -> Result<(), LinkError> {
    let only_v6 = if local.is_ipv6() { socket.set_only_v6(!both_families) } else { Ok(()) };
    only_v6.and_then(|()| socket.bind(&local.into())).map_err(|source| {
        let (port, nic) = (local.port(), nic.to_owned());
        match source.raw_os_error() {
            Some(libc::EADDRINUSE) => LinkError::PortTaken { port, nic },
            Some(libc::EADDRNOTAVAIL) => LinkError::NoSuchAddress { address: local.ip(), nic },
            Some(libc::EACCES) => LinkError::NoPermission(format!("use UDP port {port} on NIC {nic}")),
            _ => Failure::new(describe(&nic), "bind")(source).into(),
        }
    })
}

/// Joins the multicast group on the NIC and sends multicast there only; the node's own hellos do not come back.
fn join(socket: &Socket, spec: &UdpSpec, nic: &Nic) -> Result<(), LinkError> {
    let Some(group) = spec.multicast else { return Ok(()) };
    if let Some(address @ IpAddr::V4(_)) = spec.local {
        return Err(LinkError::MulticastNeedsIpv6 { nic: nic.name.clone(), address });
    }
    socket
        .join_multicast_v6(&group, nic.index)
        .and_then(|()| socket.set_multicast_if_v6(nic.index))
        .and_then(|()| socket.set_multicast_loop_v6(false))
        .map_err(|error| Failure::new(describe(&nic.name), "joining the multicast group")(error).into())
}

#[cfg(test)]
mod tests;
