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

impl AskError {
    /// The answer is to another request.
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
