//! The daemon's threads run before the applications that wait for their frames, as the kernel's own network code does.

use std::num::NonZeroU64;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::set_current_timer_slack;

/// The niceness of the daemon's threads. From -10 on, a thread waits 1 ms behind two busy applications on two
/// processors, instead of 4 ms; below, its time slices become so short that throughput suffers
/// (`docs/lessons.md`).
const NICENESS: i32 = -10;

/// How late the kernel may wake up a thread, in nanoseconds. The usual 50 us are more than an interval between two
/// polls, and the receive engine would take them for the cost of a sleep.
const TIMER_SLACK: u64 = 1_000;

/// Asks the kernel to wake up this thread, and those that it starts, in time.
pub(crate) fn keep_time() {
    if let Err(error) = set_current_timer_slack(NonZeroU64::new(TIMER_SLACK)) {
        tracing::debug!("timers stay lazy: {error}");
    }
}

/// Raises the priority of this thread, and those that it starts, unless somebody has chosen one or it is not allowed.
pub(crate) fn raise() {
    if getpriority_process(None) != Ok(0) {
        return;
    }
    if let Err(error) = setpriority_process(None, NICENESS) {
        tracing::debug!("priority stays that of applications: {error}");
    }
}
