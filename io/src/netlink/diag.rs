//! The sockets of this network namespace, as the kernel describes them (`NETLINK_SOCK_DIAG`): whose buffers are how
//! full, and what TCP waits for. And the way by which packets would leave.
//!
//! Source: `sock_diag(7)`, `struct tcp_info` in `include/uapi/linux/tcp.h` of Linux 6.18. An older kernel knows less of
//! it: what it does not tell counts as zero.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::{NETLINK_ROUTE, NETLINK_SOCK_DIAG};

use super::exchange;

/// A socket of UDP or TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketState {
    pub local: SocketAddr,
    /// The other end; of no address: it has none.
    pub remote: SocketAddr,
    /// Index of the NIC to which it is bound; 0: to none.
    pub nic: u32,
    /// The socket's number, as `/proc/PID/fd` shows it.
    pub inode: u32,
    /// Bytes that wait to be read.
    pub unread: u32,
    /// Bytes that the other end has not acknowledged, or that have not left.
    pub unsent: u32,
    /// Bytes that the receive buffer may take, as the kernel counts them.
    pub receive_buffer: u32,
    /// Bytes that the send buffer may take.
    pub send_buffer: u32,
    /// Datagrams that found the receive buffer full.
    pub drops: u32,
    /// What TCP knows of a connection.
    pub tcp: Option<TcpState>,
}

/// What TCP knows of a connection. Times and bytes count since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Bytes that were acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes that the program has written and that were not sent yet.
    pub not_sent: u32,
    /// How long the receiver's window let nothing leave.
    pub window_limited: Duration,
    /// How long the send buffer had no room for more.
    pub buffer_limited: Duration,
    /// What the other end lets this one send, in bytes (since Linux 6.2).
    pub send_window: u32,
}

pub fn tcp_sockets() -> io::Result<Vec<SocketState>> {
    sockets(IPPROTO_TCP, &StateFlags::ESTABLISHED)
}

pub fn udp_sockets() -> io::Result<Vec<SocketState>> {
    sockets(IPPROTO_UDP, &StateFlags::all())
}

fn sockets(protocol: u8, states: &StateFlags) -> io::Result<Vec<SocketState>> {
    let mut found = Vec::new();
    for (family, socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        let extensions = ExtensionFlags::INFO | ExtensionFlags::SKMEMINFO;
        let states = states.clone();
        let request = InetRequest { family, protocol, extensions, states, socket_id };
        let answers = exchange(NETLINK_SOCK_DIAG, SockDiagMessage::InetRequest(request), NLM_F_DUMP)?;
        found.extend(answers.iter().filter_map(|answer| match answer {
            SockDiagMessage::InetResponse(socket) => Some(described(socket)),
            _ => None,
        }));
    }
    Ok(found)
}

fn described(socket: &InetResponse) -> SocketState {
    let (header, id) = (&socket.header, &socket.header.socket_id);
    let mut state = SocketState {
        local: SocketAddr::new(id.source_address, id.source_port),
        remote: SocketAddr::new(id.destination_address, id.destination_port),
        nic: id.interface_id,
        inode: header.inode,
        unread: header.recv_queue,
        unsent: header.send_queue,
        receive_buffer: 0,
        send_buffer: 0,
        drops: 0,
        tcp: None,
    };
    for attribute in &socket.nlas {
        match attribute {
            Nla::MemInfo(memory) => {
                (state.receive_buffer, state.send_buffer) = (memory.receive_queue_max, memory.send_queue_max);
                state.drops = memory.drops;
            }
            Nla::TcpInfo(bytes) => state.tcp = Some(TcpState::parse(bytes)),
            _ => {}
        }
    }
    state
}

impl TcpState {
    /// Reads `struct tcp_info`.
    fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        let long = |at: usize| {
            bytes.get(at..at + 8).and_then(|long| long.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        let micros = |at: usize| Duration::from_micros(long(at));
        Self {
            bytes_acked: long(120),
            bytes_received: long(128),
            not_sent: word(144),
            window_limited: micros(176),
            buffer_limited: micros(184),
            send_window: word(228),
        }
    }
}

/// Index of the NIC by which a packet from `source` to `destination` would leave; `None`: there is no route.
pub fn route_to(destination: IpAddr, source: IpAddr) -> io::Result<Option<u32>> {
    let mut message = RouteMessage::default();
    let (family, bits) =
        if destination.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
    message.header.address_family = family;
    (message.header.destination_prefix_length, message.header.source_prefix_length) = (bits, bits);
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::from(destination)),
        RouteAttribute::Source(RouteAddress::from(source)),
    ];
    // Without the flag of a dump there is one answer, and an acknowledgement ends it.
    let answers = exchange(NETLINK_ROUTE, RouteNetlinkMessage::GetRoute(message), NLM_F_ACK);
    let answers = match answers {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => {
            return Ok(None);
        }
        answers => answers?,
    };
    Ok(answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewRoute(route) => {
            route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Oif(index) => Some(*index),
                _ => None,
            })
        }
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_connection_is_described_with_what_it_has_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        let sockets = tcp_sockets().unwrap();
        let own = client.local_addr().unwrap();
        let described = sockets.iter().find(|socket| socket.local == own).unwrap();
        let tcp = described.tcp.unwrap();
        assert_eq!(described.remote, client.peer_addr().unwrap());
        assert!(tcp.send_window > 500 && described.receive_buffer > 0, "{described:?}");
        let far = sockets.iter().find(|socket| socket.remote == own).unwrap();
        assert_eq!(far.tcp.unwrap().bytes_received, 1000);
    }

    #[test]
    fn a_socket_of_udp_is_described_with_what_waits() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[1; 100], socket.local_addr().unwrap()).unwrap();
        let sockets = udp_sockets().unwrap();
        let own = socket.local_addr().unwrap();
        let described = sockets.iter().find(|socket| socket.local == own).unwrap();
        assert!(described.unread > 0 && described.receive_buffer > 0 && described.tcp.is_none());
    }

    #[test]
    fn an_older_kernel_tells_less() {
        assert_eq!(TcpState::parse(&[]), TcpState::default());
        let mut bytes = vec![0; 148];
        bytes[144] = 200;
        let state = TcpState::parse(&bytes);
        assert_eq!((state.not_sent.to_ne_bytes()[0], state.window_limited), (200, Duration::ZERO));
    }

    #[test]
    fn the_way_to_this_machine_is_loopback() {
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let lo = crate::netlink::nic("lo").unwrap().index;
        assert_eq!(route_to(own, own).unwrap(), Some(lo));
    }
}
