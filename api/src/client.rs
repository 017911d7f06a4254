//! A command's end of the control socket: one request, one answer, each within a bounded time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tabane_io::Signals;

use crate::answer::{Answer, InForce};
use crate::request::Request;
use crate::socket::{Peer, connect_now, peer_of};
use crate::status::Status;
use crate::trust::{self, USUAL_USER};

/// Time for the bundle to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Time for a bundle to take a connection; while it is handed over nobody does.
const CONNECT_WAIT: Duration = Duration::from_millis(500);
/// How often the command tries to connect, and checks the name when it cannot watch the process itself.
const RETRY: Duration = Duration::from_millis(20);

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody serves this name here.
    #[error("no bundle named {name} is up in this network namespace")]
    NotUp {
        /// Name of the bundle.
        name: String,
    },
    /// No name is given, and nobody serves any here.
    #[error("no bundle is up in this network namespace")]
    NoneUp,
    /// No name is given, and several are served here.
    #[error("several bundles are up; say which: {}", names.join(", "))]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// Another user serves this name; nothing was sent to it.
    #[error(
        "{name} is served by uid {uid} (pid {pid}), and gets no request; allowed: root, yourself, or user {USUAL_USER}"
    )]
    Stranger {
        /// Name of the bundle.
        name: String,
        /// Whose process it is.
        uid: u32,
        /// The process; 0 when that lives in a foreign pid namespace.
        pid: i32,
    },
    /// The bundle refused the request.
    #[error("{name} refuses: {reason}")]
    Refused {
        /// Name of the bundle.
        name: String,
        /// Its reason.
        reason: String,
    },
    /// The bundle tried and failed.
    #[error("{name}: {reason}")]
    Failed {
        /// Name of the bundle.
        name: String,
        /// Its reason.
        reason: String,
    },
    /// The bundle did not answer in time, or not in JSON.
    #[error("{name} (pid {pid}) does not answer: {error}; `kill -9 {pid}` ends it and leaves nothing behind")]
    NoAnswer {
        /// Name of the bundle.
        name: String,
        /// Its process; 0 when that lives in a foreign pid namespace.
        pid: i32,
        /// What happened instead.
        error: io::Error,
    },
    /// The bundle answers with something else than was asked for.
    #[error("the bundle answers with another {what} than this program knows")]
    Unknown {
        /// What was asked for.
        what: &'static str,
        /// What is another in it.
        source: Option<serde_json::Error>,
    },
    /// As many connections wait to be accepted as may.
    #[error("{name} takes no connection: as many wait as may")]
    Busy {
        /// Name of the bundle.
        name: String,
    },
    /// The bundle got the request to stop and is still there.
    #[error("{name} (pid {pid}) is still there after {} s; `kill -9 {pid}` ends it and leaves nothing behind", .waited.as_secs())]
    StillThere {
        /// Name of the bundle.
        name: String,
        /// Its process; 0 when that lives in a foreign pid namespace.
        pid: i32,
        /// How long it had.
        waited: Duration,
    },
    /// The socket failed.
    #[error("cannot use the control socket: {0}")]
    Io(#[from] io::Error),
}

/// Asks the bundle `name` and gives its answer, which is no refusal.
pub fn ask(name: &str, request: &Request) -> Result<Answer, AskError> {
    known("answer", ask_as_json(name, request)?)
}

/// The same as the bundle has written it, with what this program does not know.
pub fn ask_as_json(name: &str, request: &Request) -> Result<Value, AskError> {
    ask_over(name, &connect(name)?, request)
}

/// What the bundle `name` does.
pub fn status_of(name: &str) -> Result<Status, AskError> {
    known("status", ask_as_json(name, &Request::Status)?)
}

/// What is in force in the bundle `name`.
pub fn in_force(name: &str) -> Result<InForce, AskError> {
    known("configuration", ask_as_json(name, &Request::Configuration)?)
}

fn known<T: DeserializeOwned>(what: &'static str, answer: Value) -> Result<T, AskError> {
    serde_json::from_value(answer).map_err(|error| AskError::Unknown { what, source: Some(error) })
}

impl AskError {
    /// The answer is to another request.
    pub fn other_answer() -> AskError {
        AskError::Unknown { what: "answer", source: None }
    }
}

/// Follows the event log of the bundle `name`: hands each line to `take` as it comes, until the bundle ends, SIGINT or
/// SIGTERM comes, `take` says `false`, or nobody reads stdout any more.
pub fn follow(name: &str, mut take: impl FnMut(&str) -> io::Result<bool>) -> Result<(), AskError> {
    let mut stream = open_request(name, &Request::Follow)?;
    let signals = Signals::block()?;
    let stdout = io::stdout();
    let mut input = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        let mut fds = [
            PollFd::new(&stream, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
            PollFd::new(&stdout, PollFlags::empty()),
        ];
        match poll(&mut fds, None) {
            Ok(_) if !fds[1].revents().is_empty() || !fds[2].revents().is_empty() => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(AskError::Io(error.into())),
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => input.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            refusal(name, serde_json::from_str(&line).unwrap_or_default())?;
            if !take(&line)? {
                return Ok(());
            }
        }
    }
}

/// Stops the bundle `name` and waits until its process is gone, at most for `wait`.
pub fn stop(name: &str, wait: Duration) -> Result<(), AskError> {
    let stream = connect(name)?;
    let pid = peer_of(&stream)?.pid;
    // Opened before the request, while the connection still shows that the pid is the bundle's.
    let process = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let deadline = Instant::now() + wait;
    ask_over(name, &stream, &Request::Stop)?;
    let gone = match process {
        Some(process) => wait_for_exit(&PollFd::new(&process, PollFlags::IN), deadline)?,
        None => wait_for_name(name, deadline)?,
    };
    if gone { Ok(()) } else { Err(AskError::StillThere { name: name.to_owned(), pid, waited: wait }) }
}

/// Sends a request whose answer is more than one line, and gives the connection over which the lines come.
pub fn open_request(name: &str, request: &Request) -> Result<UnixStream, AskError> {
    let mut stream = connect(name)?;
    stream.write_all(request_line(request)?.as_bytes())?;
    Ok(stream)
}

/// A connection to whoever serves the name, if that is to be trusted.
pub(super) fn connect(name: &str) -> Result<UnixStream, AskError> {
    let deadline = Instant::now() + CONNECT_WAIT;
    loop {
        match connect_at_once(name) {
            Err(AskError::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(RETRY),
            connected => return connected,
        }
    }
}

/// The same, without waiting for one that is busy.
pub(super) fn connect_at_once(name: &str) -> Result<UnixStream, AskError> {
    let stream = connect_now(name).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            AskError::NotUp { name: name.to_owned() }
        }
        io::ErrorKind::WouldBlock => AskError::Busy { name: name.to_owned() },
        _ => AskError::Io(error),
    })?;
    match trust::stranger(&stream)? {
        Some(Peer { pid, uid, .. }) => Err(AskError::Stranger { name: name.to_owned(), uid, pid }),
        None => Ok(stream),
    }
}

fn ask_over(name: &str, stream: &UnixStream, request: &Request) -> Result<Value, AskError> {
    let pid = peer_of(stream)?.pid;
    let no_answer = |error| AskError::NoAnswer { name: name.to_owned(), pid, error };
    let answer = exchange(stream, request).map_err(no_answer)?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| no_answer(error.into()))?;
    refusal(name, answer)
}

/// The answer, unless it is a refusal.
pub fn refusal(name: &str, answer: Value) -> Result<Value, AskError> {
    let (name, reason) = (name.to_owned(), |key: &str| answer[key].as_str().map(str::to_owned));
    match (reason("error"), reason("failed")) {
        (Some(reason), _) => Err(AskError::Refused { name, reason }),
        (None, Some(reason)) => Err(AskError::Failed { name, reason }),
        (None, None) => Ok(answer),
    }
}

fn request_line(request: &Request) -> io::Result<String> {
    Ok(format!("{}\n", serde_json::to_string(request)?))
}

/// Sends the request and gives the answering line.
fn exchange(mut stream: &UnixStream, request: &Request) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + ANSWER_WAIT;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    match stream.write_all(request_line(request)?.as_bytes()) {
        // A server that refuses this user says so and closes before it reads.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    let mut answer = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    while answer.last() != Some(&b'\n') && answer.len() < ANSWER_BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => answer.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Waits for a pidfd, which becomes readable when its process ends (pidfd_open(2)).
pub fn wait_for_exit(process: &PollFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [process.clone()], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until nobody serves the name: for a process in a foreign pid namespace, and kernels before 5.3.
fn wait_for_name(name: &str, deadline: Instant) -> Result<bool, AskError> {
    while Instant::now() < deadline {
        match connect(name) {
            Ok(_) => std::thread::sleep(RETRY),
            Err(AskError::NotUp { .. } | AskError::Stranger { .. }) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
