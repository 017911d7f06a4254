//! A running bundle passes from one process to another: `tabane upgrade`.
//!
//! ```text
//!   new process (take.rs)                          old process
//!   {"do":"upgrade"}                         ──>   stops serving its name, still carries frames
//!                                            <──   open files, then the BundleState: one JSON line
//!   prepares cores, workers, threads
//!   "ready"                                  ──>   its workers drain, then pause
//!                                            <──   "yours"
//!   "taken"                                  ──>   tells the service manager, and ends
//!   its workers go on
//!   answers requests                         <──   end of the connection
//! ```
//!
//! The files are the control socket, the queue of the device and the sockets of the links of each worker, and the
//! socket to the service manager, if there is one. Both processes hold the same open files, so the device, its
//! addresses and the frames in it stay. Until "taken" has come, the old process has everything, and goes on if the
//! conversation ends; from then on the new one can no longer fail.
//!
//! Sessions are not handed over: peers see a new incarnation, so versions need to share no state.

mod take;

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tabane_api::{Entry, Origin, Told};
use tabane_io::{receive_files, send_files};

use crate::worker::Command;
use crate::worker::workers::Workers;

pub(crate) use take::Takeover;
#[cfg(feature = "fuzzing")]
pub(crate) use take::understood;

/// The version of this conversation.
pub(crate) const VERSION: u32 = 1;
/// The longest line, in bytes: 256 events, and two configurations of 1 MiB.
const LINE_BYTES_MAX: usize = 8 << 20;

/// What the new process needs besides the open files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BundleState {
    /// [`VERSION`] of the old process.
    pub(crate) handover: u32,
    #[serde(flatten)]
    pub(crate) told: Told,
    /// What the file says, and which it is; `None`: an older version did not know.
    #[serde(default)]
    pub(crate) filed: Option<(Told, Origin)>,
    /// The address that names the node.
    pub(crate) mac: [u8; 6],
    /// Interface index of each link's NIC.
    pub(crate) nics: Vec<u32>,
    pub(crate) peers: usize,
    /// Offloads in force on the device: checksum, TSO, USO.
    pub(crate) offload: [bool; 3],
    pub(crate) takes_uso: bool,
    pub(crate) carrier: bool,
    pub(crate) events: Vec<Entry>,
    /// Microseconds within which the service manager wants a sign of life, if it wants any.
    #[serde(default)]
    pub(crate) watched: Option<u64>,
    /// The name of the devices by which this process puts frames in order, if it has such.
    #[serde(default)]
    pub(crate) reorder: Option<String>,
}

pub(crate) fn refuse(stream: UnixStream, reason: &str) -> io::Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(1);
    Talk::new(stream)?.say(&json!({ "error": reason }), TIMEOUT)
}

/// A message of the conversation that is only a word.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Ready,
    Yours,
    Taken,
}

/// One end of the conversation: JSON lines, and files beside them.
struct Talk {
    stream: UnixStream,
    input: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Talk {
    fn new(stream: UnixStream) -> io::Result<Talk> {
        stream.set_nonblocking(false)?;
        Ok(Talk { stream, input: Vec::new(), files: Vec::new() })
    }

    fn say(&self, what: &impl Serialize, within: Duration) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.stream.set_write_timeout(Some(within))?;
        (&self.stream).write_all(&line)
    }

    /// The next line. Files that come with it are appended to [`Talk::files`].
    fn receive<T: DeserializeOwned>(&mut self, within: Duration) -> io::Result<T> {
        let deadline = Instant::now() + within;
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.input.len() > LINE_BYTES_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match receive_files(&self.stream, &mut chunk, &mut self.files) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn expect(&mut self, word: &Word, within: Duration) -> io::Result<()> {
        let received: Word = self.receive(within)?;
        let other =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{received:?} in place of {word:?}"));
        if received == *word { Ok(()) } else { Err(other()) }
    }
}

/// Time for the new process to prepare everything. A slow machine takes seconds to verify the programs of the kernel path. Nobody sends the
/// service manager a sign of life meanwhile: it waits for 30 s, and the last sign is up to a quarter of that old.
const PREPARE: Duration = Duration::from_secs(20);
/// Time for the new process to take it: two system calls.
const TAKE: Duration = Duration::from_secs(1);

/// Hands `state` and `files` to the process at the other end of `stream`. On success the workers are paused
/// and the other process runs the bundle; on failure they go on here. The other process answers requests after `handed_over`.
pub(crate) fn give(
    stream: UnixStream,
    state: &BundleState,
    files: &[BorrowedFd<'_>],
    workers: &Workers,
    handed_over: impl FnOnce(),
) -> io::Result<()> {
    let mut talk = Talk::new(stream)?;
    talk.stream.set_write_timeout(Some(PREPARE))?;
    // A blank before the line carries the files: JSON allows it.
    send_files(&talk.stream, files, b' ')?;
    talk.say(state, PREPARE)?;
    talk.expect(&Word::Ready, PREPARE)?;
    let given = if workers.ask_all(Command::Drain).is_some() {
        commit(&mut talk)
    } else {
        Err(io::Error::other("not all workers drained"))
    };
    match &given {
        Ok(()) => handed_over(),
        Err(_) => workers.send(|| Command::Resume),
    }
    given
}

/// Commits the handover, for both processes or for neither: a new process that is too late finds the
/// connection shut before it has used anything.
fn commit(talk: &mut Talk) -> io::Result<()> {
    talk.say(&Word::Yours, TAKE)?;
    talk.expect(&Word::Taken, TAKE).or_else(|error| {
        talk.stream.shutdown(Shutdown::Both)?;
        talk.expect(&Word::Taken, TAKE).map_err(|_| error)
    })
}

#[cfg(test)]
mod tests;
