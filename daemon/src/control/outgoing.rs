//! The lines for a client, sent as far as possible without waiting.

use std::io::{self, Write};

use rustix::event::PollFlags;

/// The bytes that are not yet sent to one client.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// How many of them are sent.
    sent: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What to poll the client's socket for: room while there is something to send, else input.
    pub(super) fn waits_for(&self) -> PollFlags {
        if self.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    pub(super) fn push(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
    }

    /// Sends the rest; `false` when the client has to take some of it first.
    pub(super) fn flush(&mut self, stream: &mut impl Write) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            match stream.write(&self.bytes[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) => return not_now(error),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(true)
    }
}

/// `false` for an error that means "later".
pub(super) fn not_now(error: io::Error) -> io::Result<bool> {
    let later = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    if later { Ok(false) } else { Err(error) }
}
