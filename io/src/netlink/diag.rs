//! The sockets of this network namespace, as the kernel describes them (`NETLINK_SOCK_DIAG`): whose buffers are how
//! full, and what TCP waits for.
//!
//! Source: `sock_diag(7)`, `struct tcp_info` in `include/uapi/linux/tcp.h` of Linux 6.18. An older kernel knows less of
//! it: what it does not tell counts as zero.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use super::exchange;

/// A socket of UDP or TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketState {
    /// Its own end.
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
    /// Whether the latest measured rate was limited by the program that sends.
    pub is_application_limited: bool,
    /// Bytes that were acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes that the program has written and that were not sent yet.
    pub not_sent: u32,
    /// How long something was on its way or waited.
    pub busy: Duration,
    /// For how much of that the receiver's window let nothing leave.
    pub window_limited: Duration,
    /// For how much of that the send buffer had no room for more.
    pub buffer_limited: Duration,
    /// Segments sent a second time.
    pub retransmitted: u32,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Length of a segment, in bytes.
    pub segment: u32,
    /// Round trip, smoothed.
    pub round_trip: Duration,
    /// What the other end lets this one send, in bytes (since Linux 6.2).
    pub send_window: u32,
    /// What this end lets the other one send, in bytes (since Linux 6.2).
    pub receive_window: u32,
}

/// The established connections of TCP.
pub fn tcp_sockets() -> io::Result<Vec<SocketState>> {
    sockets(IPPROTO_TCP, &StateFlags::ESTABLISHED)
}

/// The sockets of UDP.
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
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let word = |at: usize| {
            bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        let long = |at: usize| {
            bytes.get(at..at + 8).and_then(|long| long.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        let micros = |at: usize| Duration::from_micros(long(at));
        // A bit field: the first bit of the byte as the machine orders them.
        let first_bit = if cfg!(target_endian = "big") { 0x80 } else { 1 };
        Self {
            is_application_limited: byte(7) & first_bit != 0,
            segment: word(16),
            round_trip: Duration::from_micros(word(68).into()),
            congestion_window: word(80),
            retransmitted: word(100),
            bytes_acked: long(120),
            bytes_received: long(128),
            not_sent: word(144),
            busy: micros(168),
            window_limited: micros(176),
            buffer_limited: micros(184),
            send_window: word(228),
            receive_window: word(232),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

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
        assert!(tcp.segment > 500 && described.receive_buffer > 0, "{described:?}");
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
        let mut bytes = vec![0; 20];
        (bytes[7], bytes[16]) = (1, 200);
        let state = TcpState::parse(&bytes);
        assert_eq!((state.segment.to_ne_bytes()[0], state.busy), (200, Duration::ZERO));
    }
}
