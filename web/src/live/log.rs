//! The event log of a bundle, read as it grows.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tabane_api::{AskError, Entry, Request, open_request};

/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// An open log.
pub(super) struct Log {
    stream: UnixStream,
    /// Bytes after the last whole line.
    rest: Vec<u8>,
    /// Whether nothing was read yet: what comes first are the events that the bundle has kept.
    pub(super) is_new: bool,
}

impl Log {
    /// Opens the log of the bundle `name`.
    pub(super) fn open(name: &str) -> Result<Self, AskError> {
        let stream = open_request(name, &Request::Follow)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, rest: Vec::new(), is_new: true })
    }

    /// The events that come within this time; none: the time has passed.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<Vec<Entry>> {
        let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut chunk = [0; 16 << 10];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => self.take(&chunk[..length]),
        }
    }

    /// The events of the lines that these bytes complete. A refusal is no event.
    fn take(&mut self, bytes: &[u8]) -> io::Result<Vec<Entry>> {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(io::Error::from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LINE: &str = r#"{"number":4,"time":"2026-11-21T03:05:28.000123Z","at_ns":7,"what":"link-up","detail":"sending over eth2"}"#;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let (mut bundle, stream) = UnixStream::pair().expect("a pair");
        stream.set_nonblocking(true).expect("allowed");
        let mut log = Log { stream, rest: Vec::new(), is_new: true };
        assert!(log.wait(Duration::ZERO).expect("silence").is_empty());
        let (begin, end) = LINE.split_at(40);
        write!(bundle, "{LINE}\n{begin}").expect("written");
        assert_eq!(log.wait(Duration::ZERO).expect("a line").len(), 1);
        writeln!(bundle, "{end}").expect("written");
        let events = log.wait(Duration::ZERO).expect("the other line");
        assert_eq!((events.len(), events[0].what.as_str()), (1, "link-up"));
        writeln!(bundle, r#"{{"error":"only root may ask"}}"#).expect("written");
        log.wait(Duration::ZERO).expect_err("a refusal is no event");
        drop(bundle);
        log.wait(Duration::ZERO).expect_err("the end");
    }
}
