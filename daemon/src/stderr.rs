//! Stderr, for the log and for sentences about failure.
//!
//! A running bundle does not wait for it. From [`detach`] on lines go to a thread of their own by way of a bounded queue:
//! when stderr is a pipe that nobody reads, lines are lost and counted; when it refuses them, as on a full disk, they are
//! lost. [`flush`] gives the last ones a moment at the end.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Lines that wait for stderr.
const WAITING_MAX: usize = 1024;
/// Time that the last lines have to get out.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Lines on their way to stderr, once it is detached.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// From now on nobody waits for stderr. To be called once all rights are given up: the thread inherits what is left.
///
/// # Errors
/// No thread.
pub(crate) fn detach() -> io::Result<()> {
    let queue = QUEUE.get_or_init(Queue::default);
    std::thread::Builder::new().name("log".to_owned()).spawn(|| queue.run(&mut io::stderr()))?;
    Ok(())
}

/// Waits until the lines that were written are out, but not for long.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(LAST_WORDS);
    }
}

/// Stderr, directly until it is detached. Writing never fails.
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => queue.push(line),
            // Nobody is left to tell.
            None => drop(io::stderr().write_all(line)),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines between those who write and the one who waits for stderr.
#[derive(Default)]
struct Queue {
    lines: Mutex<Lines>,
    /// There are new lines, or all are written.
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    /// Lines that found no room since one was written.
    missed: u64,
    /// A line is being written.
    busy: bool,
}

impl Queue {
    fn push(&self, line: &[u8]) {
        let mut lines = self.lock();
        if lines.waiting.len() < WAITING_MAX {
            lines.waiting.push_back(line.to_vec());
            self.changed.notify_all();
        } else {
            lines.missed += 1;
        }
    }

    /// Writes lines for ever. What `to` refuses is lost.
    fn run(&self, to: &mut impl Write) {
        loop {
            let line = self.next();
            let _ = to.write_all(&line);
        }
    }

    /// The next line; the one before is written.
    fn next(&self) -> Vec<u8> {
        let mut lines = self.lock();
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
        // Lines that are not out by then are lost.
        let _ = self.changed.wait_timeout_while(self.lock(), at_most, unwritten);
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Takes a line each time that it is allowed to.
    struct Slow(Receiver<()>, Arc<Mutex<Vec<String>>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Once the test is over there is nothing to wait for.
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
