//! `tabane upgrade --background`: starts a process that takes the bundle over, and ends when that has done so.
//!
//! On reload a service manager waits for the command to end, and follows the process that is left.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use tabane_api::Request;

/// How long the whole takeover may take.
const WITHIN: Duration = Duration::from_secs(30);
/// Pause between two requests for the pid that serves the bundle.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Starts another process of this program that takes the bundle `name` over; `file` as in [`crate::daemon::upgrade`].
pub(crate) fn upgrade(name: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(program);
    command.args(["upgrade", name]).args(file.map(std::path::absolute).transpose()?);
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let mut process = command.spawn().context("cannot start the process that takes over")?;
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Some(status) = process.try_wait()? {
            bail!("the process that was to take {name} over ended: {status}");
        }
        // During the handover no process answers.
        let answer = tabane_api::ask(name, &Request::Status).unwrap_or_default();
        if answer["pid"] == process.id() {
            return Ok(());
        }
        std::thread::sleep(ASK_AGAIN_AFTER);
    }
    process.kill()?;
    process.wait()?;
    bail!("{name} was not taken over within {} s", WITHIN.as_secs())
}
