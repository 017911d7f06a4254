//! Whether somebody listens at a UDP port, as far as ICMP tells.
//!
//! A datagram of one byte, which is no cell, goes to the port. Silence is the usual answer of a bundle, and of a firewall that
//! drops; a refusal shows that nobody listens there, or that a firewall rejects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::capture::wait_readable;

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knock {
    /// Nothing: whoever is there keeps silent.
    Silence,
    /// The other machine refuses: nobody listens at the port, or a firewall rejects.
    Refused,
    /// No machine answers at that address, or a router knows no way.
    Unreachable,
    /// This machine does not let the datagram leave.
    Forbidden,
}

/// Knocks at `to` over `nic` and waits for a refusal for at most `wait`.
pub fn knock(nic: &str, to: SocketAddr, wait: Duration) -> io::Result<Knock> {
    let any =
        if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(nic.as_bytes()))?;
    socket.bind(&SocketAddr::new(any, 0).into())?;
    let sent = socket.connect(&to.into()).and_then(|()| socket.send(&[0]));
    if let Err(error) = sent {
        return understood(&error);
    }
    let waited = wait_readable([&socket], wait);
    match socket.take_error()? {
        Some(error) => understood(&error),
        None => waited.map(|()| Knock::Silence),
    }
}

fn understood(error: &io::Error) -> io::Result<Knock> {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED | libc::EACCES) => Ok(Knock::Refused),
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => Ok(Knock::Unreachable),
        Some(libc::EPERM) => Ok(Knock::Forbidden),
        _ => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_port_without_a_listener_refuses_and_one_with_a_silent_listener_does_not() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let wait = Duration::from_millis(100);
        assert_eq!(knock("lo", to, wait).unwrap(), Knock::Silence);
        drop(socket);
        assert_eq!(knock("lo", to, wait).unwrap(), Knock::Refused);
    }
}
