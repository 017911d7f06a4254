//! The old process's part: it hands the bundle over, or goes on.

use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tabane_io::send_files;

use super::{BundleState, Talk, Word};
use crate::worker::Command;
use crate::worker::workers::Workers;

/// Time for the new process to prepare everything. A slow machine takes seconds to verify the programs of the kernel path. Nobody sends the
/// service manager a sign of life meanwhile: it waits for 30 s, and the last sign is up to a quarter of that old.
const PREPARE: Duration = Duration::from_secs(20);
/// Time for the new process to take it: two system calls.
const TAKE: Duration = Duration::from_secs(1);

/// Hands `state` and `files` to the process at the other end of `stream`. On success the workers are paused
/// and the other process runs the bundle; on failure they go on here. The other process answers requests after `handed_over`.
pub(crate) fn give(
    stream: UnixStream,
    state: &BundleState,
    files: &[BorrowedFd<'_>],
    workers: &Workers,
    handed_over: impl FnOnce(),
) -> io::Result<()> {
    let mut talk = Talk::new(stream)?;
    talk.stream.set_write_timeout(Some(PREPARE))?;
    // A blank before the line carries the files: JSON allows it.
    send_files(&talk.stream, files, b' ')?;
    talk.say(state, PREPARE)?;
    talk.expect(&Word::Ready, PREPARE)?;
    let given = if workers.ask_all(Command::Drain).is_some() {
        commit(&mut talk)
    } else {
        Err(io::Error::other("not all workers drained"))
    };
    match &given {
        Ok(()) => handed_over(),
        Err(_) => workers.send(|| Command::Resume),
    }
    given
}

/// Commits the handover, for both processes or for neither: a new process that is too late finds the
/// connection shut before it has used anything.
fn commit(talk: &mut Talk) -> io::Result<()> {
    talk.say(&Word::Yours, TAKE)?;
    talk.expect(&Word::Taken, TAKE).or_else(|error| {
        talk.stream.shutdown(Shutdown::Both)?;
        talk.expect(&Word::Taken, TAKE).map_err(|_| error)
    })
}
