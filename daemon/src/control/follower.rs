//! A client that follows the event log: a line per event, from the oldest that is kept, until either side ends.
//!
//! The bundle does not wait for it. Events that it does not take stay in the log for as long as the log keeps them;
//! then the follower gets the number of events that it missed.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;

use super::outgoing::{Outgoing, not_now};
use crate::events::EventLog;

/// Events that are read from the log at once.
const CHUNK: usize = 64;
/// Chunks per turn: together more than the log keeps.
const CHUNKS_PER_TURN: usize = 16;

pub(super) struct Follower {
    stream: UnixStream,
    /// Number of the next event to be read from the log.
    next: u64,
    output: Outgoing,
}

impl Follower {
    /// Follows `log` over a non-blocking connection.
    pub(super) fn new(stream: UnixStream, log: &EventLog) -> Follower {
        Follower { stream, next: log.oldest(), output: Outgoing::default() }
    }

    pub(super) fn waits_for(&self) -> PollFlags {
        self.output.waits_for()
    }

    /// Sends the new events as far as possible without waiting; `false` when the follower is gone.
    pub(super) fn turn(&mut self, log: &EventLog) -> bool {
        self.try_turn(log).is_ok()
    }

    fn try_turn(&mut self, log: &EventLog) -> io::Result<()> {
        self.notice_end()?;
        for _ in 0..CHUNKS_PER_TURN {
            if !self.output.flush(&mut self.stream)? {
                break;
            }
            let entries = log.since(self.next, CHUNK);
            let Some(last) = entries.last() else { break };
            self.next = last.number + 1;
            for entry in &entries {
                self.output.push(&serde_json::to_string(&**entry)?);
            }
        }
        Ok(())
    }

    /// Reads and ignores what the follower sends; `false` when it has closed.
    fn notice_end(&mut self) -> io::Result<()> {
        match self.stream.read(&mut [0; 256]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) => not_now(error).map(drop),
        }
    }
}

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
