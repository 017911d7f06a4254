//! Datagrams at the server: counted, never answered.
//!
//! They come to a port of their own, from the address and port that the probe named on its connection; the kernel keeps
//! all others out. The probe ends them by closing its direction of the connection.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::{Limits, in_time};
use crate::wire::{self, Answer, Received};

/// Longest datagram, in bytes.
const DATAGRAM_MAX: usize = 65_536;
/// Wanted buffer of the socket; the kernel grants what its limits allow.
const BUFFER_BYTES: usize = 8 << 20;
/// Silence after which no datagram is on its way any more, and the pause between two checks of the connection.
const QUIET: Duration = Duration::from_millis(100);
/// Datagrams between two checks of the connection.
const CHECK_EVERY: u64 = 4_096;

/// Counts datagrams from `port` of the one at the other end of `stream` until that one has no more.
pub(super) fn count(stream: &mut TcpStream, port: u16, limits: &Limits) -> io::Result<Received> {
    let socket = socket(stream, port)?;
    wire::write_line(stream, &Answer::Ready { port: Some(socket.local_addr()?.port()) })?;
    stream.set_nonblocking(true)?;
    let end = Instant::now() + limits.session;
    let mut last = Instant::now();
    let mut buffer = vec![0; DATAGRAM_MAX];
    let (mut received, mut first, mut ended) = (Received::default(), None, false);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                last = Instant::now();
                received.note(length, last.duration_since(*first.get_or_insert(last)));
            }
            Err(error) if is_pause(&error) && ended => break,
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if received.messages.is_multiple_of(CHECK_EVERY) || last.elapsed() >= QUIET {
            ended |= has_ended(stream)?;
            in_time(end)?;
            if last.elapsed() > limits.silence {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
    stream.set_nonblocking(false)?;
    wire::write_line(stream, &Answer::Received(received))?;
    Ok(received)
}

/// A socket at the address that the probe reached, for the probe alone.
fn socket(stream: &TcpStream, port: u16) -> io::Result<UdpSocket> {
    let (here, there) = (stream.local_addr()?, stream.peer_addr()?);
    let socket = UdpSocket::bind(with_port(here, 0))?;
    socket.connect(with_port(there, port))?;
    SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES)?;
    socket.set_read_timeout(Some(QUIET))?;
    Ok(socket)
}

/// `address` with another port. IPv4 that came to an IPv6 socket is IPv4 again; the scope of a link-local address
/// stays.
pub(crate) fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(_) => address,
    }
}

/// Whether nothing came for a while, or the probe's host reports that no socket listens there, as after the probe has
/// closed it.
fn is_pause(error: &io::Error) -> bool {
    let pauses = [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionRefused];
    pauses.contains(&error.kind())
}

/// Whether the probe has closed its direction of the connection, on which it sends nothing.
fn has_ended(stream: &mut TcpStream) -> io::Result<bool> {
    match stream.read(&mut [0]) {
        Ok(0) => Ok(true),
        Ok(_) => Err(ErrorKind::InvalidData.into()),
        Err(error) if is_pause(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
