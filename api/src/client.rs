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
use crate::connection::{AskError, RETRY, connect, open_request, refusal, request_line};
use crate::request::Request;
use crate::socket::peer_of;
use crate::status::Status;

const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

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

fn ask_over(name: &str, stream: &UnixStream, request: &Request) -> Result<Value, AskError> {
    let pid = peer_of(stream)?.pid;
    let no_answer = |error| AskError::NoAnswer { name: name.to_owned(), pid, error };
    let answer = exchange(stream, request).map_err(no_answer)?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| no_answer(error.into()))?;
    refusal(name, answer)
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
