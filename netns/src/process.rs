//! A running program that ends with its value: SIGTERM first, SIGKILL when that is not heeded.
//!
//! What the program prints is collected, bounded, so that an error can quote the program's own words.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{joined, wait_for};

const HEED: Duration = Duration::from_secs(3);
/// Most bytes kept of each output stream; an iperf3 report of a minute takes 1 MB.
const KEPT_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub struct Process {
    child: Child,
    line: String,
    output: Option<Printed>,
    complaint: Option<Printed>,
}

#[derive(Debug)]
pub struct Ending {
    pub status: ExitStatus,
    pub output: String,
    pub complaint: String,
}

impl Process {
    pub fn start(mut command: Command) -> Result<Process> {
        let line = command_line(&command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("`{line}` cannot be started"))?;
        let output = child.stdout.take().map(Printed::collect);
        let complaint = child.stderr.take().map(Printed::collect);
        Ok(Process { child, line, output, complaint })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    pub fn has_printed(&self, words: &str) -> bool {
        self.output.as_ref().is_some_and(|printed| text(&printed.kept).contains(words))
    }

    pub fn has_complained(&self, words: &str) -> bool {
        self.complaint.as_ref().is_some_and(|printed| text(&printed.kept).contains(words))
    }

    /// Waits at most `limit` until `ready` yields a value while the program runs, which then goes on; the error has its last words.
    pub fn until<T>(
        mut self,
        what: &str,
        limit: Duration,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<(Process, T)> {
        let found = wait_for(what, limit, || {
            ensure!(self.is_running()?, "`{}` has ended", self.line);
            ready()
        });
        match found {
            Ok(value) => Ok((self, value)),
            Err(error) => Err(error.context(self.stop()?.last_words())),
        }
    }

    /// Waits at most `limit` for the program to end by itself.
    pub fn wait(mut self, limit: Duration) -> Result<Ending> {
        let status = wait_for(&format!("end of `{}`", self.line), limit, || Ok(self.child.try_wait()?))?;
        self.ending(status)
    }

    /// Asks the program to end, and ends it when it does not.
    pub fn stop(mut self) -> Result<Ending> {
        let status = self.end()?;
        self.ending(status)
    }

    pub fn kill(mut self) -> Result<Ending> {
        self.child.kill()?;
        let status = self.child.wait()?;
        self.ending(status)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?)
    }

    fn ending(&mut self, status: ExitStatus) -> Result<Ending> {
        let output = self.output.take().map_or(Ok(String::new()), Printed::whole)?;
        let complaint = self.complaint.take().map_or(Ok(String::new()), Printed::whole)?;
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
    pub fn success(self, what: &str) -> Result<String> {
        if !self.status.success() {
            bail!("{what} failed ({}): {}", self.status, self.last_words());
        }
        Ok(self.output)
    }

    /// The last lines that the program wrote, of standard error when there are any.
    pub fn last_words(&self) -> String {
        let source = if self.complaint.trim().is_empty() { &self.output } else { &self.complaint };
        let lines: Vec<&str> = source.trim().lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }
}

/// What a program has printed so far, and the thread that reads it, so that the program never waits for a reader.
#[derive(Debug)]
struct Printed {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<Result<()>>,
}

impl Printed {
    fn collect(mut stream: impl Read + Send + 'static) -> Printed {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&kept);
        let reader = thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            loop {
                let read = stream.read(&mut piece)?;
                if read == 0 {
                    return Ok(());
                }
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let room = KEPT_BYTES - kept.len();
                kept.extend_from_slice(&piece[..read.min(room)]);
            }
        });
        Printed { kept, reader }
    }

    fn whole(self) -> Result<String> {
        joined(self.reader)?;
        Ok(text(&self.kept))
    }
}

fn text(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// Resident memory of the process `pid`, in MiB; 0 of one that is about to end.
pub fn resident_mib(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).context(path)?;
    Ok(resident_kilobytes(&status).unwrap_or(0) as f64 / 1024.0)
}

fn resident_kilobytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

pub fn run(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("`{line}` cannot be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed ({}): {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `command` as one would type it.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// `program` with the blank-separated words of `arguments`, none of which may hold a blank.
pub fn words(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_hands_over_its_output_and_a_failure_its_last_words() {
        let ended = |program, words_of| Process::start(words(program, words_of)).unwrap().wait(HEED).unwrap();
        assert_eq!(ended("echo", "ready").success("echo").unwrap(), "ready\n");
        assert_eq!(run(&mut words("echo", "two words")).unwrap(), "two words\n");
        let error = ended("ls", "/no/such/place").success("ls").unwrap_err().to_string();
        assert!(error.starts_with("ls failed") && error.contains("No such file"), "{error}");
        let error = run(&mut words("ls", "/no/such/place")).unwrap_err().to_string();
        assert!(error.starts_with("`ls /no/such/place` failed") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn what_a_program_prints_is_there_while_it_runs_and_sigterm_stops_it() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready >&2; exec sleep 60"]);
        let mut process = Process::start(shell).unwrap();
        let printed = wait_for("a word", HEED, || Ok(process.has_complained("ready").then_some(())));
        assert!(printed.is_ok() && !process.has_complained("other") && process.is_running().unwrap());
        let ending = process.stop().unwrap();
        assert_eq!((ending.complaint.as_str(), ending.status.success()), ("ready\n", false));
    }

    #[test]
    fn memory_is_read_from_the_status() {
        assert_eq!(resident_kilobytes("Name:\tx\nVmRSS:\t    5120 kB\nVmData:\t1 kB\n"), Some(5120));
        assert_eq!(resident_kilobytes("Name:\tx\n"), None);
        assert!(resident_mib(std::process::id()).unwrap() > 0.1);
    }
}
