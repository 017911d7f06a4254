//! Tells on standard error what is being done, so that no wait is silent.
//!
//! On a terminal the current step and its seconds stand on one line that is rewritten; elsewhere each step is a line. A step that is
//! not over in its time ends the program, and with process 1 of a sandbox all that it has started: no run hangs for ever.

use std::io::{IsTerminal, Write, stderr};
use std::process;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use crate::usual::*;

const CLEAR: &str = "\r\x1b[K";
const TICK: Duration = Duration::from_millis(500);
/// How long a step may take beside what it was told to take: the longest, a table of simulations, takes minutes.
pub const STEP_MAX: Duration = Duration::from_secs(3_600);

/// A step being done; dropping it ends the line.
#[derive(Debug)]
pub struct Step {
    end: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

/// Says that `what` is being done now, until the value is dropped; no longer than an hour.
#[must_use = "the step ends when the value is dropped"]
pub fn step(what: &str) -> Step {
    step_within(what, STEP_MAX)
}

/// The same, no longer than `limit`.
#[must_use = "the step ends when the value is dropped"]
pub fn step_within(what: &str, limit: Duration) -> Step {
    let (is_rewritten, started) = (stderr().is_terminal(), Instant::now());
    if !is_rewritten {
        eprintln!("  {what}");
    }
    let (end, ended) = channel();
    let what = what.to_string();
    let ticker = thread::spawn(move || {
        loop {
            let seconds = started.elapsed().as_secs();
            if is_rewritten {
                write_now(&format!("{CLEAR}  {what} … {seconds} s"));
            }
            let left = limit.saturating_sub(started.elapsed());
            let wait = if is_rewritten { left.min(TICK) } else { left };
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if started.elapsed() >= limit {
                eprintln!("\n  {what}: not over after {limit:?}, which ends the run");
                process::exit(1);
            }
        }
        if is_rewritten {
            write_now(CLEAR);
        }
    });
    Step { end: Some(end), ticker: Some(ticker) }
}

/// Says at once that `what` has failed, and returns the reason for the report.
pub fn failed(what: impl std::fmt::Display, error: &anyhow::Error) -> String {
    let why = format!("{error:#}");
    eprintln!("  {what} failed: {why}");
    why
}

impl Drop for Step {
    fn drop(&mut self) {
        self.end.take();
        if let Some(ticker) = self.ticker.take()
            && ticker.join().is_err()
        {
            eprintln!();
        }
    }
}

/// Writes `text` to standard error at once; a closed standard error is nobody's loss.
fn write_now(text: &str) {
    let mut out = stderr().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    /// Tells the test that it is the program that a step ends.
    const INSIDE: &str = "TABANE_TEST_OF_A_STEP";

    #[test]
    fn a_step_that_is_not_over_in_time_ends_the_program() {
        if env::var_os(INSIDE).is_some() {
            drop(step_within("a short step", Duration::from_secs(60)));
            let _step = step_within("a step without end", Duration::from_millis(1));
            thread::sleep(Duration::from_secs(60));
            return;
        }
        let name = "progress::tests::a_step_that_is_not_over_in_time_ends_the_program";
        let mut again = Command::new(env::current_exe().unwrap());
        let ended = again.args(["--exact", name, "--nocapture"]).env(INSIDE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("a step without end: not over after 1ms"), "{said}");
    }
}
