//! Tells on standard error what is being done, so that no wait is silent.
//!
//! On a terminal the current step and its seconds stand on one line that is rewritten; elsewhere each step is a line.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Clears the current line of a terminal.
const CLEAR: &str = "\r\x1b[K";

/// A step being done; dropping it ends the line.
#[derive(Debug)]
pub struct Step {
    end: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

/// Says that `what` is being done now, until the value is dropped.
#[must_use = "the step ends when the value is dropped"]
pub fn step(what: &str) -> Step {
    if !stderr().is_terminal() {
        eprintln!("  {what}");
        return Step { end: None, ticker: None };
    }
    let (end, ended) = channel();
    let what = what.to_string();
    let ticker = thread::spawn(move || {
        let started = Instant::now();
        loop {
            write_now(&format!("{CLEAR}  {what} … {} s", started.elapsed().as_secs()));
            if ended.recv_timeout(Duration::from_millis(500)) != Err(RecvTimeoutError::Timeout) {
                break write_now(CLEAR);
            }
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
