//! The protocol of a probe and its server before they measure: one JSON line each way, on the connection that
//! is then measured.
//!
//! ```text
//!     probe   {"probe":2,"ask":{"echo":{"sizes":[1,1024]}}}\n
//!     server  {"ready":{}}\n                              or {"refused":"…"}\n, and the end
//!     probe   a message    server  the same bytes         and so on, until the probe closes; the first byte is the
//!                                                           place of the message's size among `sizes`, from 0 on
//!
//!     probe   {"probe":2,"ask":{"stamped-echo":{"sizes":[1,1024]}}}\n
//!     server  {"ready":{}}\n
//!     probe   messages, each echoed as before; then closes its direction of the connection
//!     server  [900,2100,3400,250]\n                        for each message, or null where stamps are missing
//!
//!     probe   {"probe":2,"ask":"sink"}\n
//!     server  {"ready":{}}\n
//!     probe   bytes until it closes its direction
//!     server  {"received":{"messages":…,"bytes":…,"elapsed_ns":…}}\n
//!
//!     probe   {"probe":2,"ask":{"answer":{"size":1024}}}\n
//!     server  {"ready":{}}\n
//!     probe   a message of that size   server  one byte     and so on, until the probe closes its direction
//!     server  {"received":…}\n
//!
//!     probe   {"probe":2,"ask":{"datagrams":{"port":…}}}\n      the port from which they will come
//!     server  {"ready":{"port":…}}\n                           the port to which they may go
//!     probe   datagrams, then closes its direction of the connection
//!     server  {"received":…}\n
//! ```
//!
//! Nothing is sent before the answer has come, so a line never has bytes behind it. Both sides bound the length of a
//! line and the time until it is there.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of what is described here.
pub const VERSION: u32 = 2;
/// UDP and TCP port of a server, unless another is named.
pub const PORT: u16 = 7430;
/// Longest line, in bytes.
pub const LINE_MAX: usize = 512;
/// Largest message that is echoed, in bytes.
pub const ECHO_MAX: u32 = 1 << 20;
/// Most messages that a server stamps in one session.
pub const STAMPED_MAX: usize = 20_000;
/// Most sizes of one connection: a request is a line.
pub const SIZES_MAX: usize = 32;

/// The first line of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub probe: u32,
    /// What the connection is for.
    pub ask: Ask,
}

/// What a probe wants of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// To return each message.
    Echo {
        /// Bytes of the messages that will come, 1 to [`ECHO_MAX`]; [`SIZES_MAX`] at most.
        sizes: Vec<u32>,
    },
    /// The same, and to say for each message, at the end, how long it was there: [`STAMPED_MAX`] at most.
    StampedEcho {
        /// As for an echo.
        sizes: Vec<u32>,
    },
    /// To take all that comes, and to say how much it was.
    Sink,
    /// The same, and to answer each message by a byte.
    Answer {
        /// Bytes of a message, 1 to [`ECHO_MAX`].
        size: u32,
    },
    /// To take all datagrams that come, and to say how many they were.
    Datagrams {
        /// Port of the probe, at the address from which it has connected.
        port: u16,
    },
}

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Go on.
    Ready {
        /// Where datagrams may go.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// No, and why, in one sentence.
    Refused(String),
    /// What the server has received.
    Received(Received),
}

/// How long a message was at the server, in nanoseconds: until `recv()` returned, `send()` was called, the answer entered
/// the queueing discipline, the driver took it.
pub type Passage = [u64; 4];

/// What a server has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Datagrams, or reads of a stream.
    pub messages: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// From the first to the last of them, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Received {
    /// A message of `length` bytes came, `after` the first one.
    pub(crate) fn note(&mut self, length: usize, after: Duration) {
        self.messages += 1;
        self.bytes += length as u64;
        self.elapsed_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Mbit/s of payload, from the first to the last byte; 0 when there is no time between them.
    pub(crate) fn mbit(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.bytes as f64 * 8e3 / self.elapsed_ns as f64 }
    }
}

/// Sends `message` as a line.
pub fn write_line(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads a line that is there within `timeout`; the stream's read timeout is `timeout` at most afterwards.
pub fn read_line<T: DeserializeOwned>(stream: &mut TcpStream, timeout: Duration) -> io::Result<T> {
    let deadline = Instant::now() + timeout;
    let mut line = [0; LINE_MAX];
    let mut length = 0;
    while length == 0 || line[length - 1] != b'\n' {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut line[length..]) {
            Ok(0) if length == LINE_MAX => return Err(ErrorKind::InvalidData.into()),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    serde_json::from_slice(&line[..length]).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_documented() {
        let line = |request: &Request| serde_json::to_string(request).unwrap();
        let echo = Request { probe: VERSION, ask: Ask::Echo { sizes: vec![1, 1024] } };
        assert_eq!(line(&echo), r#"{"probe":2,"ask":{"echo":{"sizes":[1,1024]}}}"#);
        let most = Request { probe: VERSION, ask: Ask::Echo { sizes: vec![ECHO_MAX; SIZES_MAX] } };
        assert!(line(&most).len() < LINE_MAX);
        assert_eq!(line(&Request { probe: VERSION, ask: Ask::Sink }), r#"{"probe":2,"ask":"sink"}"#);
        let answer = Request { probe: VERSION, ask: Ask::Answer { size: 1024 } };
        assert_eq!(line(&answer), r#"{"probe":2,"ask":{"answer":{"size":1024}}}"#);
        assert_eq!(serde_json::to_string(&Answer::Ready { port: None }).unwrap(), r#"{"ready":{}}"#);
        let received = Answer::Received(Received { messages: 1, bytes: 5, elapsed_ns: 7 });
        assert_eq!(
            serde_json::to_string(&received).unwrap(),
            r#"{"received":{"messages":1,"bytes":5,"elapsed_ns":7}}"#
        );
    }
}
