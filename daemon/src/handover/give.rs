//! The old process's part: it gives the bundle away, or goes on as if nothing had been asked.

use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tabane_io::send_files;

use super::{BundleState, Talk, Word};
use crate::worker::Command;
use crate::workers::Workers;

/// Time for the new process to prepare everything.
const PREPARE: Duration = Duration::from_secs(5);
/// Time for it to take what is its own; nothing but two system calls is to be done.
const TAKE: Duration = Duration::from_secs(1);

/// Gives `state` and `files` to the process at the other end of `stream`. When this succeeds, the workers stand still
/// and the other process goes on; when it fails, they go on here.
///
/// # Errors
/// Why the bundle stays: what the other process did not do.
pub(crate) fn give(
    stream: UnixStream,
    state: &BundleState,
    files: &[BorrowedFd<'_>],
    workers: &Workers,
) -> io::Result<()> {
    let mut talk = Talk::new(stream)?;
    talk.stream.set_write_timeout(Some(PREPARE))?;
    // A blank before the line carries the files: JSON allows it.
    send_files(&talk.stream, files, b' ')?;
    talk.say(state, PREPARE)?;
    talk.expect(&Word::Ready, PREPARE)?;
    let drained = workers.ask(Command::Drain).len() == workers.count();
    let given = if drained { part_with(&mut talk) } else { Err(io::Error::other("not all workers drained")) };
    if given.is_err() {
        workers.tell(|| Command::Resume);
    }
    given
}

/// The last words. Either both processes know that the bundle has passed, or neither: who comes too late finds the
/// connection shut before it has touched anything.
fn part_with(talk: &mut Talk) -> io::Result<()> {
    talk.say(&Word::Yours, TAKE)?;
    talk.expect(&Word::Taken, TAKE).or_else(|error| {
        talk.stream.shutdown(Shutdown::Both)?;
        talk.expect(&Word::Taken, TAKE).map_err(|_| error)
    })
}
