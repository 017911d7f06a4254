//! Stderr, for the log and for sentences about failure.
//!
//! A running bundle does not wait for stderr. From [`detach`] on a thread writes the lines, which reach it through a
//! bounded queue: when stderr is a pipe that nobody reads, lines are lost and counted; when stderr refuses them, as on
//! a full disk, they are lost. [`flush`] waits for the last ones at the end, but not for long.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::locked;

const WAITING_MAX: usize = 1024;
/// How long [`flush`] waits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines on their way to stderr, once it is detached.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Starts the thread that writes to stderr. The caller has given up its rights before: the thread inherits what is
/// left.
pub fn detach() -> io::Result<()> {
    let queue = QUEUE.get_or_init(Queue::default);
    std::thread::Builder::new().name("log".to_owned()).spawn(|| queue.run(&mut io::stderr()))?;
    Ok(())
}

/// Waits until stderr has taken the lines, for [`FLUSH_TIMEOUT`] at most.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_TIMEOUT);
    }
}

/// Stderr, directly until it is detached. Writing never fails.
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => queue.push(line),
            None => drop(io::stderr().write_all(line)),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The queue between those who log and the thread that writes.
#[derive(Default)]
struct Queue {
    lines: Mutex<Lines>,
    /// Signalled when there are new lines, and when all are written.
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    /// Lines that were dropped because the queue was full, since the last one that was not.
    missed: u64,
    /// Whether the thread writes a line now.
    busy: bool,
}

impl Queue {
    fn push(&self, line: &[u8]) {
        let mut lines = locked(&self.lines);
        if lines.waiting.len() < WAITING_MAX {
            lines.waiting.push_back(line.to_vec());
            self.changed.notify_all();
        } else {
            lines.missed += 1;
        }
    }

    /// Writes the lines as they come, without end. A line that `to` refuses is lost.
    fn run(&self, to: &mut impl Write) {
        loop {
            let line = self.next();
            let _ = to.write_all(&line);
        }
    }

    /// Waits for the next line; the one before counts as written.
    fn next(&self) -> Vec<u8> {
        let mut lines = locked(&self.lines);
        loop {
            if let Some(line) = lines.waiting.pop_front() {
                lines.busy = true;
                return line;
            }
            if lines.missed > 0 {
                let missed = std::mem::take(&mut lines.missed);
                return format!("{missed} lines of the log are missing: stderr did not take them in time\n")
                    .into();
            }
            lines.busy = false;
            self.changed.notify_all();
            lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn flush(&self, at_most: Duration) {
        let unwritten = |lines: &mut Lines| lines.busy || !lines.waiting.is_empty();
        let _ = self.changed.wait_timeout_while(locked(&self.lines), at_most, unwritten);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A writer that takes one line per permit.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<String>>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // The test has ended when the sender is gone.
            let _ = self.0.recv();
            self.1.lock().expect("no panic").push(String::from_utf8_lossy(line).into_owned());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_reader_that_does_not_read() {
        let queue: &Queue = Box::leak(Box::default());
        let (allow, allowed) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut slow = Slow(allowed, Arc::clone(&written));
        std::thread::spawn(move || queue.run(&mut slow));
        let lines = WAITING_MAX + 10;
        (0..lines).for_each(|number| queue.push(format!("{number}\n").as_bytes()));
        queue.flush(Duration::from_millis(10));
        assert!(written.lock().expect("no panic").is_empty());
        drop(allow);
        queue.flush(Duration::from_secs(10));
        let written = written.lock().expect("no panic");
        let kept = written.len() - 1;
        assert_eq!(written[kept - 1], format!("{}\n", kept - 1));
        let missed =
            format!("{} lines of the log are missing: stderr did not take them in time\n", lines - kept);
        assert_eq!(written[kept], missed);
        assert!((WAITING_MAX..=WAITING_MAX + 1).contains(&kept), "{kept}");
    }
}
