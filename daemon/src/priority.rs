//! Frames go ahead of the applications that wait for them, as the kernel's own network code does.

use rustix::process::{getpriority_process, setpriority_process};

/// The niceness of the daemon's threads. From -10 on, a turn of theirs waits for 1 ms behind two busy applications on two
/// processors, instead of 4 ms; below, turns become so short that throughput suffers
/// (`docs/perf-log.md`).
const NICENESS: i32 = -10;

/// Raises the priority of this thread, and those that it starts, unless somebody has chosen one or it is not allowed.
pub(crate) fn raise() {
    if getpriority_process(None) != Ok(0) {
        return;
    }
    if let Err(error) = setpriority_process(None, NICENESS) {
        tracing::debug!("priority stays that of applications: {error}");
    }
}
