//! Connections of a probe to its server.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Socket, Type};

use crate::Error;
use crate::serve::with_port;
use crate::wire::{self, Answer, Ask, PORT, Received, Request, VERSION};

const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call may block while measuring before the other side counts as gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long full send buffers may take over the slowest link.
const SETTLING_MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Server {
    name: String,
    address: SocketAddr,
}

impl Server {
    /// Finds the server `name`: a host name or address, with or without a port.
    pub(crate) fn find(name: &str) -> Result<Server, Error> {
        let with_port = name.to_socket_addrs();
        let found = with_port.or_else(|_| (name.trim_matches(['[', ']']), PORT).to_socket_addrs());
        let address = found.ok().and_then(|mut addresses| addresses.next());
        let unknown = || {
            Error::Refused(format!(
                "no host `{name}`; allowed: a host name or address, with or without `:PORT`"
            ))
        };
        Ok(Server { name: name.to_owned(), address: address.ok_or_else(unknown)? })
    }

    /// A connection on which the server does `ask`; its reads and writes are bounded in time.
    pub(crate) fn ask(&self, ask: Ask) -> Result<TcpStream, Error> {
        self.ask_with_segments(ask, None)
    }

    pub(crate) fn ask_with_segments(&self, ask: Ask, segment: Option<u32>) -> Result<TcpStream, Error> {
        let mut stream = self.connect(segment)?;
        self.greet(&mut stream, ask)?;
        Ok(stream)
    }

    /// A socket whose datagrams go to the server, and the connection on which the server reports what arrived.
    pub(crate) fn ask_for_datagrams(&self) -> Result<(UdpSocket, TcpStream), Error> {
        let opening = || Error::doing(format!("opening a UDP socket to {}", self.address));
        let mut stream = self.connect(None)?;
        let local = with_port(stream.local_addr().map_err(opening())?, 0);
        let socket = UdpSocket::bind(local).map_err(opening())?;
        let port = socket.local_addr().map_err(opening())?.port();
        let named = self.greet(&mut stream, Ask::Datagrams { port })?;
        let nameless = || Error::Confused(format!("{} names no port for datagrams", self.address));
        socket.connect(with_port(self.address, named.ok_or_else(nameless)?)).map_err(opening())?;
        socket.set_write_timeout(Some(SILENCE_MAX)).map_err(opening())?;
        Ok((socket, stream))
    }

    fn connect(&self, segment: Option<u32>) -> Result<TcpStream, Error> {
        let connected = || -> io::Result<TcpStream> {
            let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
            segment.map_or(Ok(()), |bytes| socket.set_tcp_mss(bytes))?;
            socket.connect_timeout(&self.address.into(), TIMEOUT)?;
            Ok(socket.into())
        };
        let what = format!("connecting to {}, where `tabane probe serve` should run", self.address);
        connected().map_err(Error::doing(what))
    }

    fn greet(&self, stream: &mut TcpStream, ask: Ask) -> Result<Option<u16>, Error> {
        let doing = || format!("asking the server at {}", self.address);
        let sent = wire::write_line(stream, &Request { probe: VERSION, ask });
        match sent.and_then(|()| wire::read_line(stream, TIMEOUT)).map_err(Error::doing(doing()))? {
            Answer::Ready { port } => bounded(stream).map(|()| port).map_err(Error::doing(doing())),
            Answer::Refused(why) => Err(Error::Refused(format!("{} refuses: {why}", self.address))),
            Answer::Received(_) => {
                Err(Error::Confused(format!("{} answers before it is asked", self.address)))
            }
        }
    }

    /// Ends a stream to a sink, and receives how much arrived; that takes as long as the queues on the path.
    pub(crate) fn settle(&self, mut stream: TcpStream) -> Result<Received, Error> {
        let done = stream.shutdown(std::net::Shutdown::Write);
        let answer = done.and_then(|()| wire::read_line(&mut stream, SETTLING_MAX));
        match answer.map_err(Error::doing(format!("waiting for what {} received", self.address)))? {
            Answer::Received(received) => Ok(received),
            _ => Err(Error::Confused(format!("{} does not say what it received", self.address))),
        }
    }

    pub(crate) fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    pub(crate) fn line(&self) -> String {
        format!("{} ({})", self.name, self.address)
    }
}

fn bounded(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_with_and_without_port() {
        for (name, address) in [
            ("127.0.0.1", "127.0.0.1:7430"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("::1", "[::1]:7430"),
            ("[::1]", "[::1]:7430"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(Server::find(name).unwrap().address.to_string(), address);
        }
        let sentence = Server::find("no host at all").unwrap_err().to_string();
        assert!(sentence.starts_with("no host `no host at all`; allowed:"), "{sentence}");
    }
}
