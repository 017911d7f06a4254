//! A connection to a bundle's control socket, and why there is none.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::request::Request;
use crate::socket::{Peer, USUAL_USER, connect_now, stranger};

/// Time for a bundle to take a connection; while it is handed over nobody does.
const CONNECT_WAIT: Duration = Duration::from_millis(500);
/// How often the command tries to connect, and checks the name when it cannot watch the process itself.
pub(crate) const RETRY: Duration = Duration::from_millis(20);

/// Why a request got no answer. A pid is 0 where the process lives in a foreign pid namespace.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no bundle named {name} is up in this network namespace")]
    NotUp { name: String },
    #[error("no bundle is up in this network namespace")]
    NoneUp,
    #[error("several bundles are up; say which: {}", names.join(", "))]
    Several { names: Vec<String> },
    #[error(
        "{name} is served by uid {uid} (pid {pid}), and gets no request; allowed: root, yourself, or user {USUAL_USER}"
    )]
    Stranger { name: String, uid: u32, pid: i32 },
    #[error("{name} refuses: {reason}")]
    Refused { name: String, reason: String },
    #[error("{name}: {reason}")]
    Failed { name: String, reason: String },
    #[error("{name} (pid {pid}) does not answer: {error}; `kill -9 {pid}` ends it and leaves nothing behind")]
    NoAnswer { name: String, pid: i32, error: io::Error },
    #[error("the bundle answers with another {what} than this program knows")]
    Unknown { what: &'static str, source: Option<serde_json::Error> },
    #[error("{name} takes no connection: as many wait as may")]
    Busy { name: String },
    #[error("{name} (pid {pid}) is still there after {} s; `kill -9 {pid}` ends it and leaves nothing behind", .waited.as_secs())]
    StillThere { name: String, pid: i32, waited: Duration },
    #[error("cannot use the control socket: {0}")]
    Io(#[from] io::Error),
}

impl AskError {
    pub fn other_answer() -> AskError {
        AskError::Unknown { what: "answer", source: None }
    }
}

/// Sends a request whose answer is more than one line, and gives the connection over which the lines come.
pub fn open_request(name: &str, request: &Request) -> Result<UnixStream, AskError> {
    let mut stream = connect(name)?;
    stream.write_all(request_line(request)?.as_bytes())?;
    Ok(stream)
}

/// A connection to whoever serves the name, if that is to be trusted.
pub(crate) fn connect(name: &str) -> Result<UnixStream, AskError> {
    let deadline = Instant::now() + CONNECT_WAIT;
    loop {
        match connect_at_once(name) {
            Err(AskError::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(RETRY),
            connected => return connected,
        }
    }
}

/// The same, without waiting for one that is busy.
pub(crate) fn connect_at_once(name: &str) -> Result<UnixStream, AskError> {
    let stream = connect_now(name).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            AskError::NotUp { name: name.to_owned() }
        }
        io::ErrorKind::WouldBlock => AskError::Busy { name: name.to_owned() },
        _ => AskError::Io(error),
    })?;
    match stranger(&stream)? {
        Some(Peer { pid, uid, .. }) => Err(AskError::Stranger { name: name.to_owned(), uid, pid }),
        None => Ok(stream),
    }
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

pub(crate) fn request_line(request: &Request) -> io::Result<String> {
    Ok(format!("{}\n", serde_json::to_string(request)?))
}
