//! A running bundle passes from one process to another: `tabane upgrade`.
//!
//! ```text
//!   new process (take.rs)                          old process (give.rs)
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

mod give;
mod take;

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tabane_api::{Entry, Origin, Told};
use tabane_config::Config;
use tabane_io::{Offload, receive_files};

use crate::machine::device::Device;
use crate::shell::in_force::Filed;

pub(crate) use give::give;
pub(crate) use take::Takeover;
#[cfg(feature = "fuzzing")]
pub(crate) use take::understood;

/// The version of this conversation.
const VERSION: u32 = 1;
/// The longest line, in bytes: 256 events, and two configurations of 1 MiB.
const LINE_BYTES_MAX: usize = 8 << 20;

/// What the new process needs besides the open files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BundleState {
    /// [`VERSION`] of the old process.
    pub(crate) handover: u32,
    /// The configuration in force.
    #[serde(flatten)]
    pub(crate) told: Told,
    /// What the file says, and which it is; `None`: an older version did not know.
    #[serde(default)]
    pub(crate) filed: Option<(Told, Origin)>,
    /// The address that names the node.
    pub(crate) mac: [u8; 6],
    /// Interface index of each link's NIC.
    pub(crate) nics: Vec<u32>,
    /// Number of peers.
    pub(crate) peers: usize,
    /// Offloads in force on the device: checksum, TSO, USO.
    pub(crate) offload: [bool; 3],
    /// Whether the kernel has UDP superframes.
    pub(crate) takes_uso: bool,
    /// Whether the device has a carrier.
    pub(crate) carrier: bool,
    /// The event log.
    pub(crate) events: Vec<Entry>,
    /// Microseconds within which the service manager wants a sign of life, if it wants any.
    #[serde(default)]
    pub(crate) watched: Option<u64>,
    /// The name of the devices by which this process puts frames in order, if it has such.
    #[serde(default)]
    pub(crate) reorder: Option<String>,
}

impl BundleState {
    /// The state of this process's bundle. `mac` names the node, `nics` are the indices of the links' NICs.
    pub(crate) fn of(
        config: &Config,
        filed: Filed,
        mac: [u8; 6],
        nics: Vec<u32>,
        peers: usize,
        device: &Device,
        events: Vec<Entry>,
    ) -> Self {
        let Offload { checksum, tso, uso } = device.offload();
        let (takes_uso, carrier) = (device.has_uso(), device.carrier());
        let offload = [checksum, tso, uso];
        Self {
            handover: VERSION,
            told: Told::of(config),
            filed: Some((Told::of(&filed.config), filed.origin)),
            mac,
            nics,
            peers,
            offload,
            takes_uso,
            carrier,
            events,
            watched: None,
            reorder: None,
        }
    }

    /// The same where the service manager wants a sign of life `within` this time.
    pub(crate) fn watched(self, within: Option<Duration>) -> Self {
        let watched = within.and_then(|within| u64::try_from(within.as_micros()).ok());
        Self { watched, ..self }
    }

    /// The same where the process has these devices that put frames in order.
    pub(crate) fn ordered(self, reorder: Option<String>) -> Self {
        Self { reorder, ..self }
    }
}

/// Refuses the handover for this reason.
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

#[cfg(test)]
mod tests;
