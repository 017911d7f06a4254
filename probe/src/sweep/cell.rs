//! One combination of a sweep, measured.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, thread};

use clap::ValueEnum;
use serde::Serialize;

use crate::Error;
use crate::clock::{Clock, Pace};
use crate::connection::Server;
use crate::machine::{Shares, Ticks};
use crate::output::Interruption;
use crate::wire::{Ask, Received};

/// Bytes of an IPv4 and a TCP header, and what IPv6 has more.
const HEADERS: u32 = 40;
const HEADERS_IPV6: u32 = 60;
/// Segments that the kernel can be held to (`tcp_sock_set_maxseg`, Linux 6.18).
const SEGMENT_MIN: u32 = 88;
const SEGMENT_MAX: u32 = 32_767;

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mtu {
    Device,
    Bytes(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) protocol: Protocol,
    pub(crate) size: u32,
    pub(crate) mtu: Mtu,
    pub(crate) connections: usize,
    /// Whether each message waits until the one before was answered; over TCP.
    pub(crate) answered: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) duration: Duration,
    /// Of all connections together.
    pub(crate) mbit: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Messages that the sockets took.
    pub(crate) sent: u64,
    pub(crate) received: Received,
    pub(crate) cpu: Option<Shares>,
}

impl Cell {
    /// Sends over all connections at once and receives how much arrived.
    pub(crate) fn measure(
        &self,
        server: &Server,
        load: Load,
        interruption: &Interruption,
    ) -> Result<Outcome, Error> {
        let segment = self.mtu.segment(server.is_ipv6());
        let open = |_| Connection::open(server, self, segment);
        let connections = (0..self.connections).map(open).collect::<Result<Vec<Connection>, Error>>()?;
        let mbit = load.mbit.map(|mbit| mbit / self.connections as f64);
        let before = Ticks::now()?;
        let sent: Vec<Result<(Connection, u64), Error>> = thread::scope(|scope| {
            let start = |connection: Connection| {
                scope.spawn(move || connection.send(self.size, mbit, load.duration, interruption))
            };
            let senders: Vec<_> = connections.into_iter().map(start).collect();
            let ended = |sender: thread::ScopedJoinHandle<'_, _>| {
                sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            senders.into_iter().map(ended).collect()
        });
        let cpu = Ticks::now()?.since(before);
        let mut outcome = Outcome { sent: 0, received: Received::default(), cpu };
        for connection in sent {
            let (connection, sent) = connection?;
            outcome.add(sent, connection.settle(server)?);
        }
        Ok(outcome)
    }
}

impl Outcome {
    fn add(&mut self, sent: u64, received: Received) {
        self.sent += sent;
        self.received.messages += received.messages;
        self.received.bytes += received.bytes;
        self.received.elapsed_ns = self.received.elapsed_ns.max(received.elapsed_ns);
    }
}

/// The socket for messages, and the connection on which the server reports what arrived.
enum Connection {
    Tcp(TcpStream),
    /// The same, with an answer to each message.
    Answered(TcpStream),
    Udp(UdpSocket, TcpStream),
}

impl Connection {
    fn open(server: &Server, cell: &Cell, segment: Option<u32>) -> Result<Connection, Error> {
        Ok(match cell.protocol {
            Protocol::Tcp if cell.answered => {
                let stream = server.ask_with_segments(Ask::Answer { size: cell.size }, segment)?;
                stream.set_nodelay(true).map_err(Error::doing("sending without delay"))?;
                Connection::Answered(stream)
            }
            Protocol::Tcp => Connection::Tcp(server.ask_with_segments(Ask::Sink, segment)?),
            Protocol::Udp => {
                let (socket, control) = server.ask_for_datagrams()?;
                Connection::Udp(socket, control)
            }
        })
    }

    /// Sends messages of `size` bytes for the configured time; gives their number.
    fn send(
        mut self,
        size: u32,
        mbit: Option<f64>,
        duration: Duration,
        interruption: &Interruption,
    ) -> Result<(Connection, u64), Error> {
        let message = vec![0; size as usize];
        let clock = Clock::start();
        let end_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut pace = Pace::new(size, mbit, clock.now_ns());
        let mut sent = 0;
        while clock.now_ns() < end_ns && !interruption.came() {
            pace.wait(clock);
            self.write(&message).map_err(Error::doing(format!("sending {size} B")))?;
            sent += 1;
        }
        Ok((self, sent))
    }

    fn write(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Connection::Tcp(stream) => stream.write_all(message),
            Connection::Answered(stream) => {
                stream.write_all(message).and_then(|()| stream.read_exact(&mut [0]))
            }
            Connection::Udp(socket, _) => socket.send(message).map(drop),
        }
    }

    fn settle(self, server: &Server) -> Result<Received, Error> {
        match self {
            Connection::Tcp(stream) | Connection::Answered(stream) | Connection::Udp(_, stream) => {
                server.settle(stream)
            }
        }
    }
}

impl Mtu {
    fn segment(self, ipv6: bool) -> Option<u32> {
        let Mtu::Bytes(bytes) = self else { return None };
        Some((bytes - if ipv6 { HEADERS_IPV6 } else { HEADERS }).min(SEGMENT_MAX))
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mtu::Device => out.write_str("device"),
            Mtu::Bytes(bytes) => write!(out, "{bytes}"),
        }
    }
}

impl FromStr for Mtu {
    type Err = String;

    fn from_str(text: &str) -> Result<Mtu, String> {
        let (least, most) = (SEGMENT_MIN + HEADERS_IPV6, SEGMENT_MAX + HEADERS);
        let bytes = text.parse().ok().filter(|bytes| (least..=most).contains(bytes)).map(Mtu::Bytes);
        let device = (text == "device").then_some(Mtu::Device);
        bytes.or(device).ok_or_else(|| format!("allowed: {least} to {most} bytes, or `device`"))
    }
}
