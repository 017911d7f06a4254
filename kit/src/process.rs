//! A running program that ends with its value: SIGTERM first, SIGKILL when that is not heeded.
//!
//! What the program prints is collected, bounded, so that an error can quote the program's own words.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::wait_for;
use crate::netns::joined;
use crate::tool::command_line;

/// How long a program may take to heed SIGTERM.
const HEED: Duration = Duration::from_secs(3);
/// Most bytes kept of each output stream; an iperf3 report of a minute takes 1 MB.
const KEPT_BYTES: u64 = 16 << 20;

/// A program at work.
#[derive(Debug)]
pub struct Process {
    child: Child,
    line: String,
    output: Option<JoinHandle<Result<String>>>,
    complaint: Option<JoinHandle<Result<String>>>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ending {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub complaint: String,
}

impl Process {
    /// Starts `command`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(mut command: Command) -> Result<Process> {
        let line = command_line(&command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("`{line}` cannot be started"))?;
        let output = child.stdout.take().map(collect);
        let complaint = child.stderr.take().map(collect);
        Ok(Process { child, line, output, complaint })
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the program still runs.
    ///
    /// # Errors
    /// The kernel cannot tell.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits at most `limit` for the program to end by itself.
    ///
    /// # Errors
    /// It runs longer; it is then stopped.
    pub fn wait(mut self, limit: Duration) -> Result<Ending> {
        let status = wait_for(&format!("end of `{}`", self.line), limit, || Ok(self.child.try_wait()?))?;
        self.ending(status)
    }

    /// Asks the program to end, and ends it when it does not.
    ///
    /// # Errors
    /// It cannot be ended.
    pub fn stop(mut self) -> Result<Ending> {
        let status = self.end()?;
        self.ending(status)
    }

    /// Ends the program at once: it cannot notice.
    ///
    /// # Errors
    /// It cannot be ended.
    pub fn kill(mut self) -> Result<Ending> {
        self.child.kill()?;
        let status = self.child.wait()?;
        self.ending(status)
    }

    /// Sends `signal` to the program.
    ///
    /// # Errors
    /// The program has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?)
    }

    fn ending(&mut self, status: ExitStatus) -> Result<Ending> {
        let output = self.output.take().map_or(Ok(String::new()), joined)?;
        let complaint = self.complaint.take().map_or(Ok(String::new()), joined)?;
        Ok(Ending { status, output, complaint })
    }

    fn end(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        self.signal(Signal::SIGTERM)?;
        let heeded = wait_for("end after SIGTERM", HEED, || Ok(self.child.try_wait()?));
        heeded.or_else(|_| {
            self.child.kill()?;
            Ok(self.child.wait()?)
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("`{}` (pid {}) could not be stopped: {error:#}", self.line, self.child.id());
        }
    }
}

impl Ending {
    /// Standard output of a program that ended well.
    ///
    /// # Errors
    /// It ended otherwise; its last words are quoted.
    pub fn success(self, what: &str) -> Result<String> {
        if !self.status.success() {
            bail!("{what} failed ({}): {}", self.status, self.last_words());
        }
        Ok(self.output)
    }

    /// The last lines that the program wrote, of standard error when there are any.
    #[must_use]
    pub fn last_words(&self) -> String {
        let source = if self.complaint.trim().is_empty() { &self.output } else { &self.complaint };
        let lines: Vec<&str> = source.trim().lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }
}

/// Reads `stream` to its end on a thread of its own, so that the program never waits for a reader.
fn collect(stream: impl Read + Send + 'static) -> JoinHandle<Result<String>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut stream = stream.take(KEPT_BYTES);
        stream.read_to_end(&mut kept)?;
        std::io::copy(&mut stream.into_inner(), &mut std::io::sink())?;
        Ok(String::from_utf8_lossy(&kept).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::words;

    #[test]
    fn a_program_that_ends_hands_over_its_output() {
        let process = Process::start(words("echo", "ready")).unwrap();
        let ending = process.wait(Duration::from_secs(5)).unwrap();
        assert_eq!(ending.success("echo").unwrap(), "ready\n");
    }

    #[test]
    fn a_program_is_stopped_by_sigterm() {
        let mut process = Process::start(words("sleep", "60")).unwrap();
        assert!(process.is_running().unwrap());
        assert!(!process.stop().unwrap().status.success());
    }

    #[test]
    fn a_failure_quotes_the_last_words() {
        let process = Process::start(words("ls", "/no/such/place")).unwrap();
        let error = process.wait(Duration::from_secs(5)).unwrap().success("ls").unwrap_err().to_string();
        assert!(error.starts_with("ls failed") && error.contains("No such file"), "{error}");
    }
}
